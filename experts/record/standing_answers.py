"""Writes: standing answers, which approve calls ahead, and end.

Owns which calls an answer covers and how often. Leaves the close of an ask to `closing.py`. `opening.open_ask` applies
them to a new approval; a new one is applied to the approvals that are open. They decide an ask only if they cover every
call of it: a person sees all others whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.nouns.fields import too_large
from awmclient.nouns.typed import SPEC_CHARACTERS, SPEC_LEVELS, SPEC_VALUES
from awmclient.schema import StandingAnswerBody
from episodes.find.selection import run_named
from episodes.models import ExpertMode
from experts.models import Advice, Ask, AskStatus, Desk, Privilege, StandingAnswer, is_program
from experts.record import closing
from experts.rules.call_fit import breaks_in
from experts.rules.risk import is_high
from experts.who.authority import authors_of, could_answer
from experts.who.policies import desk_of
from people.access import Actor, may_advise, visible_or_404
from people.errors import Invalid
from people.record.audit import record
from people.text.plain_text import clean

LONGEST = timedelta(days=30)
ACTIVE_MAX = 500
"""Active ones of a project: each approval of a tool looks through those of this tool."""
OPEN_LOOKED_AT = 200
"""Open approvals that a new standing answer is applied to; later ones meet it when they open."""


def give(actor: Actor, body: StandingAnswerBody) -> tuple[StandingAnswer, int]:
    """Approve calls of a tool ahead. Return the answer and how many open asks it answered."""
    may_advise(actor)
    now = timezone.now()
    if is_high(desk_of(actor.project).high_risk, body.tool):
        raise Invalid("tool: this tool is of high risk. Its calls are approved one by one.")
    if body.until <= now:
        raise Invalid("until: this time has passed.")
    if body.until > now + LONGEST:
        raise Invalid("until: a standing answer lasts at most 30 days.")
    for name in ("arguments", "any_value"):
        if why := too_large(getattr(body, name), SPEC_VALUES, SPEC_LEVELS, SPEC_CHARACTERS):
            raise Invalid(f"{name}: this {why}.")
    if StandingAnswer.objects.active(now).filter(project=actor.project).count() >= ACTIVE_MAX:
        raise Invalid(f"{ACTIVE_MAX} standing answers of this project are active. End some of them first.")
    run = run_named(actor.project, body.run) if body.run else None
    if run is not None and run.episodes.exists() and not run.episodes.live().exists():
        raise Invalid("run: all episodes of this run have ended.")
    informed = run is not None and run.expert == ExpertMode.INFORMED
    with transaction.atomic():
        made = StandingAnswer.objects.create(
            project=actor.project,
            run=run,
            tool=body.tool,
            arguments=body.arguments,
            any_value=body.any_value,
            until=body.until,
            at_most=body.at_most,
            author=actor.name,
            author_key=actor.key,
            token=actor.token,
            privilege=Privilege.SEES_VERIFIER if informed else Privilege.BLIND,
        )
        where = f"run {run.pk}" if run else "project"
        record(actor, "standing_answer.given", made.pk, f"{clean(made.tool)}, {where}, at most {made.at_most}")
    return made, sum(_answer_open(pk) for pk in _open_approvals(made))


@transaction.atomic
def end(actor: Actor, standing_id: str) -> StandingAnswer:
    """End a standing answer. Idempotent; what it has decided stays."""
    may_advise(actor)
    visible_or_404(StandingAnswer.objects.all(), actor, standing_id)
    row = StandingAnswer.objects.select_for_update().get(pk=standing_id)
    if row.ended_at is None:
        row.ended_at, row.ended_by = timezone.now(), actor.name
        row.save(update_fields=["ended_at", "ended_by"])
        record(actor, "standing_answer.ended", row.pk, f"{clean(row.tool)}, used {row.used} of {row.at_most}")
    return row


def covers(standing: StandingAnswer, call: Mapping[str, Any]) -> bool:
    """Return whether an answer covers a call: its tool, equal JSON values for the arguments that must be equal, and no
    further arguments, unless it leaves them open."""
    names = None if standing.any_value is None else {*standing.arguments, *standing.any_value}
    return (names is None or names >= (call.get("arguments") or {}).keys()) and has_its_values(standing, call)


def has_its_values(standing: StandingAnswer, call: Mapping[str, Any]) -> bool:
    """Return whether a call is of the answer's tool and has its values, whatever else it has."""
    arguments = call.get("arguments") or {}
    same = all(same_value(arguments, name, value) for name, value in standing.arguments.items())
    return bool(standing.tool == call["name"] and same)


def same_value(arguments: Mapping[str, Any], name: str, value: Any) -> bool:
    """Return whether these arguments have this JSON value under this name."""
    return name in arguments and _json(arguments[name]) == _json(value)


def _json(value: Any) -> str:
    # as texts: in Python 1 equals true
    return json.dumps(value, sort_keys=True)


def decided_by_standing(ask: Ask, desk: Desk | None = None) -> Advice | None:
    """Return the advice of standing answers that cover every call of an approval, counted; None otherwise, and for
    calls that break their tool's schema.

    The caller must hold the locks of episode and ask, or insert the ask now. `desk` has the settings, if they
    are read already.
    """
    # several people decide for themselves
    if not ASK_KINDS[ask.kind].is_approval or not ask.typed or ask.quorum_of > 1:
        return None
    names = {call["name"] for call in ask.typed["calls"]}
    desk = desk or desk_of(ask.project)
    if any(is_high(desk.high_risk, name) for name in names):
        return None
    rows = StandingAnswer.objects.active(timezone.now()).filter(project=ask.project, tool__in=names)
    fit = rows.filter(privilege=ask.privilege).order_by("created_at", "pk")
    # locked, so that a count holds over all processes
    ahead = [one for one in fit.select_for_update() if one.run_id in (None, ask.episode.run_id)]
    active = _of_authors_who_could(ask, ahead, desk)
    taken: dict[str, StandingAnswer] = {}
    for call in ask.typed["calls"]:
        match = next((one for one in active if one.used < one.at_most and covers(one, call)), None)
        if match is None:
            return None
        match.used += 1
        taken[match.pk] = match
    if any(breaks_in(ask.typed["calls"], ask.episode.tools)):
        return None
    for standing in taken.values():
        standing.save(update_fields=["used"])
    # one that a program gave makes the whole decision a program's
    first = min(taken.values(), key=lambda row: not is_program(row.author_key, _behind(row)))
    calls = [{"id": call["id"], "verdict": "approve", "arguments": call["arguments"]} for call in ask.typed["calls"]]
    return Advice.objects.create(
        ask=ask,
        text="",
        decision={"calls": calls},
        by="standing",
        standing=first,
        # an answer that was given before: no time of people, and no one edits it
        source="cache",
        author=first.author,
        author_key=first.author_key,
        behind=_behind(first),
        privilege=ask.privilege,
    )


def _behind(standing: StandingAnswer) -> str:
    return standing.token.behind if standing.token else ""


def _of_authors_who_could(ask: Ask, ahead: list[StandingAnswer], desk: Desk) -> list[StandingAnswer]:
    """Return the standing answers whose authors could answer this ask now."""
    authors = authors_of(ahead, timezone.now())
    return [one for one in ahead if one.pk in authors and could_answer(authors[one.pk], ask, desk)]


def _open_approvals(standing: StandingAnswer) -> list[str]:
    asks = Ask.objects.to_take(timezone.now()).filter(project=standing.project, kind="approval")
    if standing.run_id:
        asks = asks.filter(episode__run=standing.run_id)
    return list(asks.order_by("created_at").values_list("pk", flat=True)[:OPEN_LOOKED_AT])


@transaction.atomic
def _answer_open(ask_id: str) -> bool:
    """Answer an open approval without a claim, if standing answers cover it."""
    ask, now = closing.locked(ask_id), timezone.now()
    if not ask.is_open or ask.deadline_at <= now or ask.taken_by(now):
        return False
    advice = decided_by_standing(ask)
    if advice is not None:
        closing.close(ask, AskStatus.ANSWERED, "standing", None, advice)
    return advice is not None
