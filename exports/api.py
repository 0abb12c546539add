"""The JSON edge of exports: ask for one, look how far it is, fetch its files."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from ninja import Body, Router, Schema, Status

from awmclient.schema import Done
from exports import downloads, requesting
from exports.models import Export
from exports.recipe import Recipe
from people.access import may_export, visible_or_404
from people.http import REFUSALS, actor_of

router = Router(tags=["exports"])


class ExportView(Schema):
    """Where an export stands. `counts` and `manifest` are there once it is done."""

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


class ExportList(Schema):
    exports: list[ExportView]


def _view(export: Export) -> ExportView:
    manifest = export.manifest if isinstance(export.manifest, dict) else None
    counted = ("episodes", "episodes_used", "rows", "left_out", "rows_left_out", "redacted")
    return ExportView(
        id=export.pk,
        url=settings.AWMWEB_PUBLIC_URL + export.get_absolute_url(),
        format=export.format,
        state=export.state,
        dataset=export.dataset or None,
        episodes=export.episodes,
        episodes_done=export.episodes_done,
        rows=export.rows,
        problem=export.problem or None,
        created_at=export.created_at,
        counts={name: manifest[name] for name in counted} if manifest else None,
        manifest=manifest,
    )


def _found(request: HttpRequest, export_id: str) -> Export:
    actor = actor_of(request)
    may_export(actor)
    return visible_or_404(Export.objects.select_related("project"), actor, export_id)


@router.post("/exports", response={202: ExportView, **REFUSALS})
def start_export(request: HttpRequest, payload: Body[dict[str, Any]]) -> Status[ExportView]:
    """The body is a recipe: `format`, `filter` and options as `manage.py export --recipe` reads them."""
    return Status(202, _view(requesting.request(actor_of(request), Recipe.read(payload))))


@router.get("/exports", response={200: ExportList, **REFUSALS})
def list_exports(request: HttpRequest) -> ExportList:
    return ExportList(exports=[_view(export) for export in requesting.exports_of(actor_of(request))[:100]])


@router.get("/exports/{export_id}", response={200: ExportView, **REFUSALS})
def get_export(request: HttpRequest, export_id: str) -> ExportView:
    return _view(_found(request, export_id))


@router.post("/exports/{export_id}/cancel", response={200: Done, **REFUSALS})
def cancel_export(request: HttpRequest, export_id: str) -> Done:
    requesting.cancel(actor_of(request), export_id)
    return Done()


@router.get("/exports/{export_id}/download", response={200: None, **REFUSALS})
def download(request: HttpRequest, export_id: str, path: str = "") -> HttpResponseBase:
    """The data file, or with `path` another file of the dataset. Takes a `Range`."""
    return downloads.serve(request, _found(request, export_id), path)
