"""Writes: the action that the agent should have taken at a step, checked against the schema of the tool.

One correction per reviewer and step counts, the newest, until a row that supersedes it withdraws it. None is verified
here, which would need a branch that executes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from awmclient.schema import ToolCall
from episodes.models import Episode, Step
from episodes.tool_schemas import Checker
from people.access import Actor, may_annotate, visible_or_404
from people.errors import Invalid
from people.text.plain_text import clean
from reviews.errors import NotYourAnnotation
from reviews.models import Correction, CorrectionKind
from reviews.record import annotating

TEXT_MAX = 20_000
UNVERIFIED = "unverified"
"""The state of every correction that no branch has verified."""


@dataclass(frozen=True)
class Better:
    """A correction as it was sent."""

    kind: str
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    why: str = ""


def correct(actor: Actor, episode: Episode, seq: int, better: Better) -> Correction:
    """Record the action that the agent should have taken; a later correction of the same reviewer supersedes this
    one."""
    may_annotate(actor)
    with transaction.atomic():
        visible_or_404(Episode.every.select_for_update(no_key=True), actor, episode.pk)
        step = Step.objects.filter(episode=episode, seq=seq).exclude(kind="verification").first()
        if step is None:
            raise Invalid(f"This episode has no step {seq}.")
        _refuse_misfit(episode, step, better)
        rows = Correction.objects.filter(episode=episode, seq=seq, author_key=actor.key)
        before = rows.order_by("-created_at", "-pk").first()
        fields = {name: getattr(better, name) for name in ("kind", "name", "arguments", "text", "why")}
        # a form sent twice is one correction
        if (
            before is not None
            and not before.withdrawn
            and all(getattr(before, name) == value for name, value in fields.items())
        ):
            return before
        by = annotating.author(actor, episode)
        return Correction.objects.create(episode=episode, seq=seq, supersedes=before, **fields, **by)


def withdraw(actor: Actor, correction_id: str) -> Correction:
    """Withdraw one's own correction by a row that supersedes it; it stays readable in the history."""
    may_annotate(actor)
    with transaction.atomic():
        row = visible_or_404(Correction.objects.select_related("episode"), actor, correction_id, "episode__project")
        Episode.every.select_for_update(no_key=True).get(pk=row.episode_id)
        if not actor.owns(row.author_key):
            raise NotYourAnnotation
        later = Correction.objects.filter(supersedes=row).first()
        if later is not None or row.withdrawn:
            return later or row
        # the words are left out: a withdrawal says only what it is about
        fields = {name: getattr(row, name) for name in ("episode", "seq", "kind", "name")}
        by = annotating.author(actor, row.episode, row.privilege)
        return Correction.objects.create(supersedes=row, withdrawn=True, **fields, **by)


def _refuse_misfit(episode: Episode, step: Step, better: Better) -> None:
    """Raise unless a correction has one kind and all its fields, and its call fits the schema of one of the agent's
    tools."""
    if better.kind not in CorrectionKind.values:
        raise Invalid(f"Unknown kind of correction. Use one of {', '.join(CorrectionKind.values)}.")
    if len(better.text) > TEXT_MAX or len(better.why) > TEXT_MAX:
        raise Invalid("A correction can have at most 20,000 characters.")
    if better.kind == CorrectionKind.NO_ASK and step.kind != "ask":
        raise Invalid(f"Step {step.seq} is not an ask.")
    if better.kind in (CorrectionKind.MESSAGE, CorrectionKind.ASK) and not better.text.strip():
        raise Invalid("Write what the agent should have said.")
    if better.kind == CorrectionKind.CALL and (problem := misfit(episode, better.name, better.arguments)):
        raise Invalid(problem)


def misfit(episode: Episode, name: str, arguments: Any) -> str:
    """Return why a call does not fit; empty if it fits."""
    if not isinstance(arguments, dict):
        return "Arguments are a JSON object."
    tools = episode.tools if isinstance(episode.tools, list) else []
    schemas = {tool.get("name"): tool.get("input_schema") for tool in tools if isinstance(tool, dict)}
    if name not in schemas:
        # an episode without recorded tools fits any call, because nothing says what the agent could do
        return f"The agent has no tool {clean(name)[:100]}." if schemas else ""
    call = ToolCall(name=name, arguments=arguments)
    problem = Checker().misfit(call.arguments, schemas[name])
    return f"{clean(name)}: {clean(problem[:300])}." if problem else ""


def current(episode: Episode) -> list[Correction]:
    """Return the corrections that count, by step."""
    rows = Correction.objects.filter(episode=episode, superseded_by__isnull=True, withdrawn=False)
    return list(rows.order_by("seq", "created_at"))
