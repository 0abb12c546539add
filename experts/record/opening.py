"""Writes: open an ask, and open one again.

Owns the locks and the first rows of an ask. Leaves what a second ask of one key means to `repeating.py`, who gets it to
`who/placing.py`, the episode's side to `episodes.record.ask_steps` in the same transaction, and what happens to an open
ask to `queue.py`.

Lock order is episode, then ask, then assignment, everywhere: an answer, a deadline and an ending episode race for the
same rows and exactly one of them wins.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.nouns.typed import TYPED_FIELDS
from awmclient.schema import AskOpen
from awmenv.blockers import Blocker, matched
from episodes.models import Episode, ExpertMode
from episodes.record import ask_steps, recording
from episodes.record.appending import refuse_other_loop, reopen_or_refuse
from episodes.stored.packs import blockers_of
from experts import events
from experts.errors import (
    AskConflict,
    ExpertOff,
    TooManyAsks,
)
from experts.find.similar import began_with, marks_of
from experts.models import MODEL, Advice, Ask, AskStatus, Assignment, Desk, Draft, Privilege
from experts.record import attaching, closing, repeating, simulating
from experts.record.announcing import tell_or_wake, toward
from experts.record.standing_answers import decided_by_standing
from experts.rules import quorum
from experts.rules.decisions import refuse_unfit_form
from experts.rules.risk import digest_of, digest_of_pictures
from experts.rules.routing import deadline
from experts.who import arriving, cached, placing
from experts.who.arriving import FoundDesk
from people.access import Actor, is_id, may_record, visible_or_404
from people.errors import Invalid, NotFound
from people.rows import ModelRows
from people.slots import FREED, SlotState

OPEN_MAX = 50
"""Open asks of one episode; more would push all others off the queue's page."""
_DESK, _SLOT = ModelRows(Desk), ModelRows(Assignment)
# The lock of the episode serializes its asks, so that a repeated key finds the first one. Behind it those of the asks
# that could share a group or a budget: group members ask at the same moment, and none would see the others' rows. In
# one order (columns are computed from left to right), so that two asks with several names cannot wait for each other.
LOCKED = f"""
WITH held AS MATERIALIZED (
  SELECT {closing.EPISODE.columns()} FROM episodes_episode
   WHERE id = %(episode)s AND project_id = %(project)s FOR UPDATE
)
SELECT held.*, {_DESK.columns("desk")},
       CASE WHEN %(group_key)s <> '' THEN
         pg_advisory_xact_lock(hashtextextended(%(project)s || ' group ' || %(group_key)s, 0)) END,
       CASE WHEN desk.per_hour IS NOT NULL OR desk.per_training_step IS NOT NULL THEN
         pg_advisory_xact_lock(hashtextextended(%(project)s || ' run ' || coalesce(held.run_id, held.id), 0)) END,
       pg_advisory_xact_lock(hashtextextended(%(project)s || ' task ' || CASE
         WHEN held.scenario <> '' AND held.task_idx IS NOT NULL THEN held.scenario || '/' || held.task_idx
         ELSE held.task END, 0))
  FROM held LEFT JOIN experts_desk AS desk ON desk.project_id = held.project_id
"""


def open_ask(actor: Actor, body: AskOpen) -> tuple[Ask, bool]:
    """Open an ask, or return the one with the same key.

    1. Check the right. 2. Return the known ask for the same key and body. 3. Refuse if the episode has no expert or has
    ended, or if this asker cannot get an informed one. 4. Write ask, slot and step; the episode waits. 5. Notify.
    """
    may_record(actor)
    # of everything: a repeated key with another body is a conflict
    # a plain question's has no typed fields, as in versions that had none
    known_fields = body.model_dump(exclude={"kind", *TYPED_FIELDS} if ASK_KINDS[body.kind].is_question else set())
    for name in ("thread", "quorum", "pictures"):
        if known_fields.get(name) is None:
            known_fields.pop(name, None)
    digest = hashlib.sha256(json.dumps(known_fields, sort_keys=True).encode()).hexdigest()
    typed = body.typed()
    if typed:
        refuse_unfit_form(typed)  # an agent wrote schema and value: nothing is locked while they are read
    # The lock of the episode serializes its asks, so that a repeated key finds the first one.
    with transaction.atomic():
        episode, desk_now = _locked_episode(actor, body)
        refuse_other_loop(actor, episode.origin)
        # behind the locks: what others committed while this waited is found
        arrived = arriving.arrival(
            episode,
            now := timezone.now(),
            key=body.key,
            group_key=body.group_key or "",
            tools=[call["name"] for call in typed.get("calls") or []],
            privilege=_privilege_of(episode),
            is_question=not typed,
        )
        keys = arrived.keys
        if body.key in keys:
            earlier = Ask.objects.select_related("accepted").get(pk=keys[body.key])
            if earlier.body_digest != digest:
                raise AskConflict(repeating.difference(earlier, body))
            # a loop that repeats its ask is alive
            recording.hear(actor, episode.pk)
            return earlier, False
        if episode.expert == ExpertMode.OFF:
            raise ExpertOff
        if episode.expert == ExpertMode.INFORMED:  # another token may have started the episode, e.g. our worker
            recording.refuse_help(actor, episode.run, episode.expert)
        if len(keys) >= OPEN_MAX:
            raise TooManyAsks(f"This episode has {OPEN_MAX} open asks, the maximum. Wait until one is closed.")
        # an episode that was failed as lost is reopened by its loop's ask
        reopen_or_refuse(episode, actor)
        return _insert(actor, episode, body, Arrived(now, digest, typed, desk_now, arrived)), True


def _privilege_of(episode: Episode) -> str:
    return Privilege.SEES_VERIFIER if episode.expert == ExpertMode.INFORMED else Privilege.BLIND


def _locked_episode(actor: Actor, body: AskOpen) -> tuple[Episode, Desk]:
    """Return the episode of a new ask and the desk's settings.

    Waits until the asks that could share this one's group or budget are committed, and blocks later ones until this
    transaction ends.
    """
    if not is_id(body.episode):
        raise NotFound
    with connection.cursor() as cursor:
        params = {"episode": body.episode, "project": actor.project.pk, "group_key": body.group_key or ""}
        cursor.execute(LOCKED, params)
        row = cursor.fetchone()
    if row is None:
        raise NotFound
    episode, rest = closing.EPISODE.made(row), row[closing.EPISODE.width :]
    episode.project = actor.project
    return episode, _DESK.made(rest) if rest[0] is not None else Desk(project=actor.project)


@transaction.atomic
def reopen(actor: Actor, ask_id: str) -> Ask:
    """Open a cancelled ask again that its agent asks again, with the claim and the texts that it had. Idempotent."""
    may_record(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    ask, now = closing.locked(ask_id), timezone.now()
    refuse_other_loop(actor, ask.episode.origin)
    if ask.status != AskStatus.CANCELLED or ask.deadline_at <= now or not ask.episode.is_live:
        return ask
    ask.status, ask.reason, ask.closed_at = AskStatus.OPEN, "", None
    ask.save(update_fields=["status", "reason", "closed_at"])
    slots = Assignment.objects.filter(ask=ask)
    still_held = slots.exclude(holder="").exclude(holder__startswith=MODEL).filter(lease_until__gt=now)
    is_held = still_held.update(state=SlotState.CLAIMED) == 1
    if not is_held:
        slots.update(**FREED)
    _continue_late_texts(ask)
    ask_steps.reword_ask_step(ask.episode, ask.seq, None)
    closing.log(ask, "reopened", actor)
    ask = Ask.objects.select_related("assignment", "accepted").get(pk=ask.pk)
    if is_held:
        events.tell(ask)
    else:
        tell_or_wake(ask)
    return ask


def _continue_late_texts(ask: Ask) -> None:
    """Make drafts of what people sent after the ask closed, unless they have a newer one."""
    for late in Advice.objects.filter(ask=ask, late=True, source="human").order_by("-created_at"):
        fields = {"author": late.author, "text": late.text, "tool_calls": late.tool_calls, "privilege": late.privilege}
        fields["decision"] = late.decision
        fields["drafted_by"] = began_with(late)
        Draft.objects.get_or_create(ask=ask, author_key=late.author_key, defaults=fields)


@dataclass(frozen=True)
class Arrived:
    """What is known about a new ask once its locks are held."""

    now: datetime
    digest: str
    typed: dict[str, Any]
    desk: Desk
    found: FoundDesk


def _insert(actor: Actor, episode: Episode, body: AskOpen, about: Arrived) -> Ask:
    """Write a new ask.

    1. Build the ask and its plan. 2. Write the step, the ask and its slot. 3. Close it immediately with a fallback or a
    cached answer if there is one.
    """
    now, typed, privilege = about.now, _with_quorum(about.typed, about.desk), _privilege_of(episode)
    blocker = None if typed else _blocker_of(episode, body.question)
    pictures = digest_of_pictures(body.pictures)
    simulated = not typed and simulating.is_simulated(episode)
    ask = Ask(
        project=actor.project,
        episode=episode,
        key=body.key,
        body_digest=about.digest,
        seq=body.seq,
        question=body.question,
        context=body.context,
        priority=body.priority,
        skills=body.skills or [],
        group_key=body.group_key or "",
        privilege=privilege,
        # a decision belongs to its own calls, options or form, and a registry to its task: no example for another ask
        marks=[] if typed or simulated else marks_of(body.question, episode.scenario, episode.task_idx, episode.task),
        kind=body.kind,
        blocker=blocker.id if blocker is not None else "",
        typed=typed or None,
        calls_digest=digest_of(typed, privilege, pictures),
        pictures_digest=pictures,
        quorum_of=typed.get("quorum", {}).get("of", 1),
        quorum_role=typed.get("quorum", {}).get("role", ""),
        thread=_earlier(episode, body.thread) if body.thread else None,
        created_at=now,
        deadline_at=deadline(now, body.deadline_s),
        human_deadline_at=deadline(now, body.human_deadline_s) if body.human_deadline_s else None,
    )
    ends_now = simulating.place(ask) if simulated else placing.place(ask, about.desk, about.found, now)
    names = {"seq", "question", "pictures", "context", "turn", "call_id", "thread"}
    fields = body.model_dump(include=names, exclude_none=True)
    if typed:
        fields["typed"] = typed
    # the step first: it raises if its number is taken
    ask_steps.open_ask_step(actor, episode, {"kind": "ask", "ask": ask.pk, **fields})
    _store(ask, ("opened", actor, ""), (toward(ask), None, ask.tier_reason))
    if ends_now:
        closing.close(ask, AskStatus.FELL_BACK, ends_now, None)
    elif simulated:
        closing.close(ask, AskStatus.ANSWERED, simulating.REGISTRY, None, simulating.answer(ask, blocker))
    elif about.found.has_standing and (standing := decided_by_standing(ask, about.desk)) is not None:
        closing.close(ask, AskStatus.ANSWERED, "standing", None, standing)
    elif not typed and (earlier := cached.known_answer(ask, about.desk.cache)) is not None:
        closing.close(ask, AskStatus.ANSWERED, "", None, _again(ask, earlier))
    else:
        tell_or_wake(ask, about.found.is_listened)
    return ask


def _with_quorum(typed: dict[str, Any], desk: Desk) -> dict[str, Any]:
    """Return a typed ask with the people that it needs by the project's rules and its agent."""
    tools = [call["name"] for call in typed.get("calls") or []]
    people = quorum.needed(desk.quorum, desk.high_risk, tools, typed.get("quorum")) if tools else {}
    return {**typed, "quorum": people} if people else typed


def _store(ask: Ask, *entries: tuple[str, Actor | None, str]) -> None:
    """Write a new ask with its slot and its first log entries, in one statement."""
    parts = [closing.ASK.stored([ask]), _SLOT.stored([Assignment(ask=ask)])]
    parts.append(closing.EVENTS.stored(closing.events_of(ask, *entries)))
    statement = "WITH asked AS ({}), slot AS ({}) {}".format(*(text for text, _ in parts))
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for _, values in parts for value in values])


def _blocker_of(episode: Episode, question: str) -> Blocker | None:
    """Return the blocker that a question of this episode asks for, or None. It counts for every answer."""
    return matched(question, blockers_of(episode.scenario, episode.task_idx, episode.scenario_digest))


def _earlier(episode: Episode, thread: str) -> Ask:
    """Return the ask that a new one continues. Raises if it is not one of this episode's."""
    ask = Ask.objects.filter(episode=episode, pk=thread).first() if is_id(thread) else None
    if ask is None:
        raise Invalid(f"thread: {thread[:100]} is no earlier ask of this episode.")
    return ask


def _again(ask: Ask, earlier: Advice) -> Advice:
    """Return a copy of an earlier answer to the same question, marked as cached."""
    advice = Advice.objects.create(
        ask=ask,
        text=earlier.text,
        tool_calls=earlier.tool_calls,
        source="cache",
        author=earlier.author,
        author_key=earlier.author_key,
        privilege=earlier.privilege,
        reason="cache",
        taken_from=earlier,
    )
    attaching.copy_files(earlier, advice)
    return advice
