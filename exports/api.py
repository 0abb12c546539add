"""The JSON API of exports: request one, read its progress, download its files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from ninja import Body, Router, Schema, Status

from awmclient.schema import Done
from exports.explain import comparing, errata, explaining
from exports.explain.preview import preview
from exports.jobs import requesting
from exports.models import Export
from exports.pages import downloads
from exports.recipe import Recipe
from exports.select.selecting import may_open
from people.access import visible_or_404
from people.http import REFUSALS, actor_of, answer_of, refuse_unknown

router = Router(tags=["exports"])


class ExportErratumView(Schema):
    """What a repaired verifier changed in the rows of an export, by key: rows that a rebuilt dataset loses, gains, or
    holds with another outcome."""

    at: datetime
    task: str
    verifier: str
    author: str
    why: str
    removed: list[str]
    added: list[str]
    changed: list[str]


class ExportView(Schema):
    """One export and its state. `counts` and `manifest` are set once it is done, `errata` after the repair of a
    verifier."""

    id: str
    url: str
    format: str
    state: str
    dataset: str | None
    episodes: int
    episodes_done: int
    rows: int
    problem: str | None
    created_at: datetime
    counts: dict[str, Any] | None = None
    manifest: dict[str, Any] | None = None
    errata: list[ExportErratumView] = []


class ExportList(Schema):
    exports: list[ExportView]


class AnsweredView(Schema):
    """One ask of the row's episode, with the answer that its agent got. `ask` is the ask's ID."""

    seq: int
    ask: str
    question: str
    text: str
    author: str
    source: str
    privilege: str


class RowView(Schema):
    """The origin of a row. `seq` is the last step of a row that is one turn. `outcome` is the outcome that counted.
    `rejected` is the episode of the rejected side of a pair. `exists` is false for a deleted episode."""

    number: int
    key: str
    episode: str
    sha256: str
    outcome: str
    seq: int | None
    last_seq: int | None
    rejected: str
    task: str
    exists: bool
    answers: list[AnsweredView]


class FateView(Schema):
    """Whether an episode is in the dataset: `state` is `in`, `left_out`, `not_selected` or `unknown`, and `why` is a
    sentence. `reason` is the rule or the filter, and `opt_in` is what a recipe includes to keep such episodes."""

    episode: str
    state: str
    why: str
    reason: str
    opt_in: str
    rows: int
    first_row: int | None


class ChangedRow(Schema):
    key: str
    number: int
    episode: str
    why: str


class ChangeView(Schema):
    """`why` counts all rows by sentence; `rows` holds the first hundred."""

    count: int
    why: dict[str, int]
    rows: list[ChangedRow]


class DatasetComparisonView(Schema):
    """The differences from the older dataset to this one. `recipe` holds [field, old, new] where the recipes differ."""

    old: str
    new: str
    recipe: list[tuple[str, str, str]]
    same: int
    added: ChangeView
    removed: ChangeView
    changed: ChangeView


class ExportPlan(Schema):
    """What a recipe would export, without a build. `rows` and `left_out` are of the newest `looked_at` of `usable`
    episodes; where these are equal, a build now gives just these rows. `recipe` has every field with its value."""

    recipe: dict[str, Any]
    digest: str
    matching: int
    usable: int
    looked_at: int
    used: int
    rows: int
    left_out: dict[str, int]
    rows_left_out: dict[str, int]


def _view(export: Export, export_errata: Sequence[errata.ExportErratum] = ()) -> ExportView:
    manifest = export.manifest if isinstance(export.manifest, dict) else None
    counted = ("episodes", "episodes_used", "rows", "left_out", "rows_left_out", "redacted")
    return answer_of(
        ExportView,
        export,
        url=settings.AWMWEB_PUBLIC_URL + export.get_absolute_url(),
        dataset=export.dataset or None,
        problem=export.problem or None,
        counts={name: manifest[name] for name in counted} if manifest else None,
        manifest=manifest,
        errata=list(export_errata),
    )


def _export_or_404(request: HttpRequest, export_id: str) -> Export:
    actor = actor_of(request)
    # an export reveals outcomes, so one who judges blind opens none
    may_open(actor)
    return visible_or_404(Export.objects.select_related("project"), actor, export_id)


@router.post("/exports", response={202: ExportView, **REFUSALS})
def start_export(request: HttpRequest, payload: Body[dict[str, Any]]) -> Status[ExportView]:
    """Build an export. The body is a recipe: `format`, `filter` and options as for `manage.py export --recipe`."""
    return Status(202, _view(requesting.request(actor_of(request), Recipe.read(payload))))


@router.post("/exports/preview", response={200: ExportPlan, **REFUSALS})
def plan_export(request: HttpRequest, payload: Body[dict[str, Any]]) -> ExportPlan:
    """Return what a recipe would export, and what it leaves out and why. Nothing is built."""
    actor, recipe = actor_of(request), Recipe.read(payload)
    may_open(actor)  # counts by outcome are outcomes, too
    sample = preview(actor, recipe)
    return answer_of(
        ExportPlan,
        sample,
        recipe=recipe.model_dump(mode="json"),
        digest=recipe.digest,
        left_out=dict(sample.left_out),
        rows_left_out=dict(sample.rows_left_out),
    )


@router.get("/exports", response={200: ExportList, **REFUSALS})
def list_exports(request: HttpRequest) -> ExportList:
    actor = actor_of(request)
    refuse_unknown(request)
    may_open(actor)
    rows = list(requesting.exports_of(actor)[:100])
    by_export = errata.of_exports([export.pk for export in rows])
    return ExportList(exports=[_view(export, by_export[export.pk]) for export in rows])


@router.get("/exports/{export_id}", response={200: ExportView, **REFUSALS})
def get_export(request: HttpRequest, export_id: str) -> ExportView:
    export = _export_or_404(request, export_id)
    return _view(export, errata.of_exports([export.pk])[export.pk])


@router.post("/exports/{export_id}/cancel", response={200: Done, **REFUSALS})
def cancel_export(request: HttpRequest, export_id: str) -> Done:
    requesting.cancel(actor_of(request), export_id)
    return Done()


@router.get("/exports/{export_id}/download", response={200: None, **REFUSALS})
def download(request: HttpRequest, export_id: str, path: str = "") -> HttpResponseBase:
    """Return the data file, or with `path` another file of the dataset. Takes a `Range`."""
    return downloads.serve(request, actor_of(request), _export_or_404(request, export_id), path)


@router.get("/exports/{export_id}/row", response={200: RowView, **REFUSALS})
def explain_row(request: HttpRequest, export_id: str, row: str) -> Any:
    """Return the origin of a row. `row` is its number from 1, or its key as in `rows.jsonl`."""
    return explaining.row_origin(explaining.of_export(_export_or_404(request, export_id)), row)


@router.get("/exports/{export_id}/episode", response={200: FateView, **REFUSALS})
def explain_episode(request: HttpRequest, export_id: str, episode: str) -> Any:
    """Return whether an episode is in the dataset, and which rule or filter left it out if it is not."""
    return explaining.fate_of(explaining.of_export(_export_or_404(request, export_id)), episode)


@router.get("/exports/{export_id}/compare", response={200: DatasetComparisonView, **REFUSALS})
def compare_exports(request: HttpRequest, export_id: str, older: str) -> Any:
    """Return rows that were added, removed or changed since the export `older`, and why."""
    old, new = (explaining.of_export(_export_or_404(request, one)) for one in (older, export_id))
    return comparing.compare(old, new)
