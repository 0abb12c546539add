"""The JSON API of repaired verifiers: judge stored episodes again, and read the errata that follow."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import Router, Schema, Status

from awmclient.nouns.fields import Count, Line, Shape
from episodes.models import Rejudging
from episodes.stored import repairs
from people.access import Actor
from people.http import REFUSALS, actor_of, answer_of, refuse_unknown
from runs.play import reverifying
from runs.show import errata

router = Router(tags=["runs"])


class ReverifyBody(Shape):
    """Judge the stored episodes of a task again: with `verifier` by this code, which becomes the task's next version
    and takes effect if it fails on no episode; else by the verifier in force. `reason` says what was wrong."""

    scenario: Line
    task_idx: Count
    verifier: str = ""
    reason: str = ""


class NumberView(Schema):
    """A number or sentence that an erratum corrects."""

    what: str
    before: str
    after: str


class ErratumView(Schema):
    """What a repaired verifier changed in the numbers of a `run` or `campaign`, or in the rows of an `export`."""

    at: datetime
    task: str
    verifier: str
    author: str
    why: str
    run: str | None
    export: str | None
    campaign: str | None = None
    changes: list[NumberView]


class RejudgingView(Schema):
    """A pass over the stored episodes of a task. `version` is 1 for the pack's own verifier, which changes no outcome.
    `state` is *running*, *ended*, or *refused* with a `problem`: then nothing was changed."""

    id: str
    scenario: str
    task_idx: int
    version: int
    verifier_sha256: str | None
    state: str
    kept: int
    changed: int
    not_restorable: int
    failed: int
    problem: str | None
    errata: list[ErratumView]


@router.post("/verifiers/reverify", response={202: RejudgingView, **REFUSALS})
def reverify(request: HttpRequest, payload: ReverifyBody) -> Status[RejudgingView]:
    """Judge the stored episodes of a task again, from their recorded worlds. Not for agent tokens."""
    fields = (payload.scenario, payload.task_idx, payload.verifier, payload.reason)
    actor = actor_of(request)
    return Status(202, _pass(actor, reverifying.request(actor, *fields)))


@router.get("/verifiers/reverify/{rejudging_id}", response={200: RejudgingView, **REFUSALS})
def get_reverify(request: HttpRequest, rejudging_id: str) -> RejudgingView:
    """Read a pass: its counts and the errata that followed. Not for agent tokens."""
    actor = actor_of(request)
    refuse_unknown(request)
    return _pass(actor, reverifying.visible_pass(actor, rejudging_id))


def _pass(actor: Actor, judging: Rejudging) -> RejudgingView:
    counts = repairs.counts_of([judging])[judging.pk]
    return answer_of(
        RejudgingView,
        judging,
        version=judging.version.number if judging.version else 1,
        verifier_sha256=judging.version.sha256 if judging.version else None,
        state="running" if judging.ended_at is None else "refused" if judging.problem else "ended",
        not_restorable=counts.pop("lost"),
        problem=judging.problem or None,
        errata=[erratum_view(erratum) for erratum in errata.of_pass(actor, judging)],
        **counts,
    )


def erratum_view(erratum: errata.ReadableErratum) -> ErratumView:
    return answer_of(
        ErratumView,
        erratum,
        run=erratum.run.pk if erratum.run else None,
        export=erratum.export or None,
        campaign=erratum.campaign.pk if erratum.campaign else None,
    )
