"""Writes: open, claim, renew, release, decline, escalate, transfer, prioritize.

Write operations on open asks: queue position and current lease holder. Leaves answers to `advising.py`, the end of an
ask to `closing.py`, the episode's side to `episodes.record.ask_steps` in the same transaction, drafts and presence to
`desk.py`, and the choice of tiers to `routing.py`. People claim through the same functions as models and tokens.

Lock order is episode, then ask, then assignment, everywhere: an answer, a deadline and an ending episode race for the
same rows and exactly one of them wins.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from awmclient.schema import AskOpen
from awmclient.typed import TYPED_FIELDS
from awmenv.blockers import Blocker, matched
from episodes.models import Episode, ExpertMode
from episodes.record import ask_steps, recording
from episodes.record.appending import refuse_other_loop, reopen_or_refuse
from episodes.stored.packs import blockers_of
from experts import attaching, closing, desk, events, notifications, simulating
from experts.errors import (
    AlreadyClaimed,
    AlreadyDeclined,
    AskConflict,
    AtCapacity,
    ExpertOff,
    LeaseLost,
    NotForYou,
    TooLate,
    TooManyAsks,
)
from experts.find import arriving, availability
from experts.find.arriving import FoundDesk
from experts.find.similar import began_with, marks_of
from experts.models import MODEL, Advice, Ask, AskStatus, Assignment, Decline, Desk, Draft, Presence, Privilege, Tier
from experts.rules.decisions import refuse_default
from experts.rules.risk import digest_of
from experts.rules.routing import (
    deadline,
    draft_time,
    draw,
    lease_end,
    next_tier,
    route,
)
from experts.standing_answers import decided_by_standing
from notices import deliveries
from people import leasing
from people.access import Actor, is_id, may_advise, may_record, may_set_desk, visible_or_404
from people.errors import Invalid, NotFound
from people.rows import ModelRows
from people.slots import FREED, SlotState

OPEN_MAX = 50
"""Open asks of one episode; more would push all others off the queue's page."""
PRIORITY_MAX = 100
SLOW_S = 2
"""Seconds that writing an ask can take after its deadlines were computed; smaller differences are no conflict."""
PERSON = "user:"
"""Prefix of the key of a person."""
IMMEDIATE = {"budget", "backpressure", "no_model"}
"""Reasons for which an ask without a model falls back immediately."""
_DESK, _SLOT, _PRESENCE = ModelRows(Desk), ModelRows(Assignment), ModelRows(Presence)
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
WANTED = f"""
SELECT {closing.ASK.columns("ask")}, {_SLOT.columns("slot")}, {_PRESENCE.columns("here")}
  FROM experts_ask AS ask JOIN experts_assignment AS slot ON slot.ask_id = ask.id
  LEFT JOIN experts_presence AS here ON here.project_id = ask.project_id AND here.actor_key = %s
 WHERE ask.id = %s AND ask.project_id = %s FOR UPDATE OF ask
"""


@dataclass(frozen=True)
class AskClaim:
    """A lease on an ask: present `lease_token` with every action on the assignment."""

    ask_id: str
    assignment_id: str
    lease_token: str
    lease_until: datetime


def open_ask(actor: Actor, wanted: AskOpen) -> tuple[Ask, bool]:
    """Open an ask, or return the one with the same key.

    1. Check the right. 2. Return the known ask for the same key and body. 3. Refuse if the episode has no expert or has
    ended, or if this asker cannot get an informed one. 4. Write ask, slot and step; the episode waits. 5. Notify.
    """
    may_record(actor)
    # of everything: a repeated key with another body is a conflict
    # a plain question's has no typed fields, as in versions that had none
    known_fields = wanted.model_dump(exclude={"kind", *TYPED_FIELDS} if wanted.kind == "question" else set())
    if wanted.thread is None:
        known_fields.pop("thread")
    digest = hashlib.sha256(json.dumps(known_fields, sort_keys=True).encode()).hexdigest()
    typed = wanted.typed()
    if typed:
        refuse_default(typed)  # an agent wrote schema and value: nothing is locked while they are compared
    # The lock of the episode serializes its asks, so that a repeated key finds the first one.
    with transaction.atomic():
        episode, desk_now = _locked_episode(actor, wanted)
        refuse_other_loop(actor, episode.origin)
        # behind the locks: what others committed while this waited is found
        found = arriving.arrival(
            episode,
            now := timezone.now(),
            key=wanted.key,
            group_key=wanted.group_key or "",
            tools=[call["name"] for call in typed.get("calls") or []],
            privilege=_privilege_of(episode),
            is_question=not typed,
        )
        keys = found.keys
        if wanted.key in keys:
            known = Ask.objects.select_related("accepted").get(pk=keys[wanted.key])
            if known.body_digest != digest:
                raise AskConflict(_conflict(known, wanted))
            # a loop that repeats its ask is alive
            recording.hear(actor, episode.pk)
            return known, False
        if episode.expert == ExpertMode.OFF:
            raise ExpertOff
        if episode.expert == ExpertMode.INFORMED:  # another token may have started the episode, e.g. our worker
            recording.refuse_help(actor, episode.run, episode.expert)
        if len(keys) >= OPEN_MAX:
            raise TooManyAsks(f"This episode has {OPEN_MAX} open asks, the maximum. Wait until one is closed.")
        # an episode that was failed as lost is reopened by its loop's ask
        reopen_or_refuse(episode, actor)
        return _insert(actor, episode, wanted, Arrived(now, digest, typed, desk_now, found)), True


def _privilege_of(episode: Episode) -> str:
    return Privilege.SEES_VERIFIER if episode.expert == ExpertMode.INFORMED else Privilege.BLIND


def _locked_episode(actor: Actor, wanted: AskOpen) -> tuple[Episode, Desk]:
    """Return the episode of a new ask and the desk's settings.

    Waits until the asks that could share this one's group or budget are committed, and blocks later ones until this
    transaction ends.
    """
    if not is_id(wanted.episode):
        raise NotFound
    with connection.cursor() as cursor:
        given = {"episode": wanted.episode, "project": actor.project.pk, "group_key": wanted.group_key or ""}
        cursor.execute(LOCKED, given)
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
        _tell_or_wake(ask)
    return ask


def _continue_late_texts(ask: Ask) -> None:
    """Make drafts of what people sent after the ask closed, unless they have a newer one."""
    for late in Advice.objects.filter(ask=ask, late=True, source="human").order_by("-created_at"):
        said = {"author": late.author, "text": late.text, "tool_calls": late.tool_calls, "privilege": late.privilege}
        said["drafted_by"] = began_with(late)
        Draft.objects.get_or_create(ask=ask, author_key=late.author_key, defaults=said)


def _conflict(known: Ask, wanted: AskOpen) -> str | None:
    """Return the message for a known key with another body, naming the fields that differ; None if none is found."""
    said = wanted.model_dump(include={"seq", "question", "context", "skills", "group_key"})
    if not known.events.filter(verb="priority").exists():  # otherwise a person changed it
        said["priority"] = wanted.priority
    others = recording.differing(known, said)
    step = ask_steps.body_of(known.episode_id, known.seq)
    others += [name for name in ("turn", "call_id") if step.get(name) != getattr(wanted, name)]
    apart = {
        "deadline_s": _apart(known, known.deadline_at, wanted.deadline_s),
        "human_deadline_s": _apart(known, known.human_deadline_at, wanted.human_deadline_s),
    }
    others += [name for name, seconds in apart.items() if seconds >= SLOW_S]
    # half a second apart counts only if nothing else explains the conflict
    others = others or [name for name, seconds in apart.items() if seconds >= 0.5]
    typed = {"kind": "question"} | (known.typed or {})
    asked = {"kind": wanted.kind} | wanted.typed()
    others += [name for name in ("kind", *TYPED_FIELDS) if typed.get(name) != asked.get(name)]
    others += ["thread"] if (known.thread_id or None) != wanted.thread else []
    others.sort(key=list(AskOpen.model_fields).index)
    return recording.other_values(f"The key {known.key!r} was already used for an ask", others) if others else None


def _apart(known: Ask, at: datetime | None, wanted_s: int | None) -> float:
    """Return the difference between a stored and a requested deadline in seconds."""
    if at is None or wanted_s is None:
        return 0 if at is None and wanted_s is None else math.inf
    return abs((at - known.created_at).total_seconds() - wanted_s)


@dataclass(frozen=True)
class Arrived:
    """What is known about a new ask once its locks are held."""

    now: datetime
    digest: str
    typed: dict[str, Any]
    desk: Desk
    found: FoundDesk


def _insert(actor: Actor, episode: Episode, wanted: AskOpen, about: Arrived) -> Ask:
    """Write a new ask.

    1. Build the ask and its plan. 2. Write the step, the ask and its slot. 3. Close it immediately with a fallback or a
    cached answer if there is one.
    """
    now, typed, privilege = about.now, about.typed, _privilege_of(episode)
    blocker = None if typed else _blocker_of(episode, wanted.question)
    simulated = not typed and simulating.is_simulated(episode)
    ask = Ask(
        project=actor.project,
        episode=episode,
        key=wanted.key,
        body_digest=about.digest,
        seq=wanted.seq,
        question=wanted.question,
        context=wanted.context,
        priority=wanted.priority,
        skills=wanted.skills or [],
        group_key=wanted.group_key or "",
        privilege=privilege,
        # a decision belongs to its own calls, options or form, and a registry to its task: no example for another ask
        marks=[] if typed or simulated else marks_of(wanted.question, episode.scenario, episode.task_idx, episode.task),
        kind=wanted.kind,
        blocker=blocker.id if blocker is not None else "",
        typed=typed or None,
        calls_digest=digest_of(typed, privilege),
        thread=_earlier(episode, wanted.thread) if wanted.thread else None,
        created_at=now,
        deadline_at=deadline(now, wanted.deadline_s),
        human_deadline_at=deadline(now, wanted.human_deadline_s) if wanted.human_deadline_s else None,
    )
    ends_now = _place(ask, about, simulated)
    said = wanted.model_dump(include={"seq", "question", "context", "turn", "call_id", "thread"}, exclude_none=True)
    if typed:
        said["typed"] = typed
    # the step first: it raises if its number is taken
    ask_steps.open_ask_step(actor, episode, {"kind": "ask", "ask": ask.pk, **said})
    _store(ask, ("opened", actor, ""), (_toward(ask), None, ask.tier_reason))
    if ends_now:
        closing.close(ask, AskStatus.FELL_BACK, ends_now, None)
    elif simulated:
        closing.close(ask, AskStatus.ANSWERED, simulating.REGISTRY, None, simulating.answer(ask, blocker))
    elif about.found.has_standing and (standing := decided_by_standing(ask, about.desk)) is not None:
        closing.close(ask, AskStatus.ANSWERED, "standing", None, standing)
    elif not typed and (known := availability.known_answer(ask, about.desk.cache)) is not None:
        closing.close(ask, AskStatus.ANSWERED, "", None, _again(ask, known))
    else:
        _tell_or_wake(ask, about.found.is_listened)
    return ask


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


def _place(ask: Ask, about: Arrived, simulated: bool) -> str:
    """Set the ask's group and plan. Return the reason if it must fall back immediately."""
    if simulated:
        simulating.place(ask)
        return ""
    now, policy = about.now, availability.policy_of(about.desk, ask.episode)
    same = availability.same_question(ask, about.found.alike)
    ask.group = same.group if same is not None else ask.pk
    # the ID is known before the row exists, so the draw follows from it
    load = availability.load_for(ask, policy, now, about.desk, about.found)
    way = route(policy, load, draw(policy.seed, ask.pk))
    ask.tiers, ask.tier_reason, ask.chance = list(way.tiers), way.reason, way.chance
    ask.tier = way.tiers[0] if way.tiers else Tier.PEOPLE
    ask.expected_wait_s = way.expected_wait_s
    # of a typed ask no draft is prepared: at the deadline silence means what its asker said
    if Tier.LLM in way.tiers and not ask.typed:
        ask.draft_at = draft_time(now, min(ask.deadline_at, ask.human_deadline_at or ask.deadline_at))
    return way.reason if not way.tiers and way.reason in IMMEDIATE else ""


def _earlier(episode: Episode, thread: str) -> Ask:
    """Return the ask that a new one continues. Raises if it is not one of this episode's."""
    found = Ask.objects.filter(episode=episode, pk=thread).first() if is_id(thread) else None
    if found is None:
        raise Invalid(f"thread: {thread[:100]} is no earlier ask of this episode.")
    return found


def _toward(ask: Ask) -> str:
    """Return the log's verb for the ask's current tier. The human budget counts `to_people`."""
    return "to_people" if ask.tier in availability.BEFORE_PEOPLE and ask.tiers else f"to_{ask.tier}"


def _again(ask: Ask, known: Advice) -> Advice:
    """Return a copy of an earlier answer to the same question, marked as cached."""
    advice = Advice.objects.create(
        ask=ask,
        text=known.text,
        tool_calls=known.tool_calls,
        source="cache",
        author=known.author,
        author_key=known.author_key,
        privilege=known.privilege,
        reason="cache",
    )
    attaching.copy_files(known, advice)
    return advice


def _tell_or_wake(ask: Ask, is_listened: bool = True) -> None:
    events.tell(ask)
    if is_listened and ask.tier in availability.BEFORE_PEOPLE:
        deliveries.queue_for(notifications.AskSubject(ask))
    if ask.tier == Tier.LLM:
        events.call_models()


@transaction.atomic
def claim(actor: Actor, ask_id: str) -> AskClaim:
    """Claim by one conditional update: open, not past its deadline, and unclaimed, expired or the caller's own.

    If the update returns a row, the caller has the lease.
    """
    may_advise(actor)
    if not is_id(ask_id):
        raise NotFound
    # the lock says who waits; the conditional update below says who wins
    with connection.cursor() as cursor:
        cursor.execute(WANTED, [actor.key, ask_id, actor.project.pk])
        row = cursor.fetchone()
    if row is None:
        raise NotFound
    ask, row = closing.ASK.made(row), row[closing.ASK.width :]
    slot, row = _SLOT.made(row), row[_SLOT.width :]
    ask.project, slot.ask = actor.project, ask
    desk.seen(actor, known=_PRESENCE.made(row) if row[0] is not None else None)
    return claim_locked(actor, ask, timezone.now())


def claim_locked(actor: Actor, ask: Ask, now: datetime) -> AskClaim:
    """Claim an ask whose lock the caller holds."""
    slot = ask.assignment
    # two processes can share a token: the second must not take the first one's lease
    own = actor.token is None
    if not own and slot.holder == actor.key and slot.is_held(now):
        raise _why_not(ask, now)
    # one's own claim, to claim again, needs no second check
    if slot.holder != actor.key or slot.state != SlotState.CLAIMED:
        _refuse_unfit(actor, ask, now)
    until = lease_end(now, ask.deadline_at)
    # a deadline never changes, so the update need not look at it
    # the slot above was read before the lock: only the update knows who holds it now
    rows = Assignment.objects.filter(ask=ask)
    taken = leasing.claim(rows, actor, now, until, own=own) if ask.deadline_at > now else None
    if taken is None:
        slot.refresh_from_db()
        raise _why_not(ask, now)
    for name, value in taken.items():
        setattr(slot, name, value)
    closing.log(ask, "claimed", actor)
    events.tell(ask)
    return AskClaim(ask.pk, slot.pk, slot.lease_token, until)


def _refuse_unfit(actor: Actor, ask: Ask, now: datetime) -> None:
    """Raise if the actor declined the ask, lacks a skill or is at capacity, or if only models may claim it."""
    if actor.user is None and actor.token is None:
        return  # models and the system claim only what was assigned to them
    if ask.is_open and not {*ask.tiers} & {*availability.BEFORE_PEOPLE}:
        raise NotForYou("Only models can answer this ask: its arm or its run's budget excludes people.")
    if Decline.objects.filter(ask=ask, author_key=actor.key).exists():
        raise AlreadyDeclined
    if actor.user is not None:
        rules = availability.desk_of(actor.project)
        if not availability.fits(actor, ask, rules):
            raise NotForYou
        if availability.held_by(actor.key, now) >= rules.capacity:
            raise AtCapacity


@transaction.atomic
def claim_for_model(model: Actor) -> tuple[Ask, AskClaim] | None:
    """Return the next ask for this model, if its endpoint has room.

    Serialized per model over all processes, so that the limit holds. Asks that are locked are skipped, not waited for.
    """
    now = timezone.now()
    if not desk.has_room(model, now):
        return None
    free = Q(assignment__state=SlotState.QUEUED) | Q(assignment__lease_until__lte=now)
    asks = Ask.objects.open().filter(free, project=model.project, tier=Tier.LLM, deadline_at__gt=now)
    asks = asks.exclude(pk__in=Decline.objects.filter(author_key=model.key).values("ask"))
    ask = asks.select_for_update(skip_locked=True, of=("self",)).order_by("-priority", "created_at").first()
    if ask is None:
        return None
    try:
        return ask, claim_locked(model, ask, now)
    except AlreadyClaimed:
        return None  # someone else claimed it between the query and the lock


def _why_not(ask: Ask, now: datetime) -> AlreadyClaimed | TooLate:
    held = ask.assignment.is_held(now)
    if ask.is_open and ask.deadline_at > now and held:
        left = math.ceil((ask.assignment.lease_until - now).total_seconds()) if ask.assignment.lease_until else 0
        return AlreadyClaimed(f"{ask.assignment.holder_name} has claimed this ask for up to {left} s more.")
    return TooLate("This ask is closed.") if not ask.is_open or ask.deadline_at <= now else AlreadyClaimed()


@transaction.atomic
def renew(actor: Actor, assignment_id: str, lease_token: str) -> datetime:
    """Extend the lease. An expired lease that no one else took can be renewed."""
    may_advise(actor)
    slot, now = _slot(actor, assignment_id), timezone.now()
    if not slot.ask.is_open or slot.ask.deadline_at <= now:
        raise TooLate
    before, until = slot.lease_until, lease_end(now, slot.ask.deadline_at)
    if not leasing.renew(Assignment.objects.filter(pk=slot.pk), lease_token, until):
        raise LeaseLost
    slot.lease_until = until
    if before is None or before <= now:
        events.tell(slot.ask)  # it had expired: other pages showed it as free
    else:
        events.tell_renewed(slot.ask, before, until)
    return until


@transaction.atomic
def release(actor: Actor, assignment_id: str, lease_token: str) -> None:
    may_advise(actor)
    slot = _slot(actor, assignment_id)
    _release_slot(slot, lease_token)
    closing.log(slot.ask, "released", actor)
    events.tell(slot.ask)


@transaction.atomic
def decline(actor: Actor, assignment_id: str, lease_token: str, reason: str = "") -> None:
    """Decline a claimed ask: release it and exclude this expert. Escalate if no expert is left."""
    may_advise(actor)
    slot = visible_or_404(Assignment.objects.all(), actor, assignment_id, "ask__project")
    ask = slot.ask = closing.locked(slot.ask_id)
    _release_slot(slot, lease_token)
    # a second decline of the same expert changes nothing
    Decline.objects.get_or_create(ask=ask, author_key=actor.key, defaults={"author": actor.name, "reason": reason})
    closing.log(ask, "declined", actor, reason)
    _end_handover(ask, actor)
    if actor.model:
        _after_model(ask, reason.partition(":")[0])
    else:
        _after_person(ask)


@transaction.atomic
def decline_unclaimed(actor: Actor, ask_id: str, reason: str = "") -> None:
    """Decline an ask without claiming it. Another holder keeps it; the caller's own claim is released."""
    may_advise(actor)
    ask = _open_or_refuse(actor, ask_id)
    said = {"author": actor.name, "reason": reason}
    # A repeated press changes nothing.
    if not Decline.objects.get_or_create(ask=ask, author_key=actor.key, defaults=said)[1]:
        return
    slot = Assignment.objects.get(ask=ask)
    if slot.holder == actor.key and slot.state == SlotState.CLAIMED:
        _release_slot(slot, slot.lease_token)
    closing.log(ask, "declined", actor, reason)
    _end_handover(ask, actor)
    # someone else's claim stays: only an unclaimed ask moves on
    if ask.tier in availability.BEFORE_PEOPLE and not slot.is_held(timezone.now()):
        _after_person(ask)
    else:
        events.tell(ask)


def _end_handover(ask: Ask, actor: Actor) -> None:
    """Leave an ask that its colleague declined to everyone else."""
    if ask.handed_to == actor.key:
        ask.handed_to = ask.handed_to_name = ""
        ask.save(update_fields=["handed_to", "handed_to_name"])


def _after_model(ask: Ask, why: str) -> None:
    if _models_left(ask):
        _tell_or_wake(ask)
    else:
        _move_on(ask, why, "expert_fault" if why == "fault" else "declined")


def _models_left(ask: Ask) -> bool:
    """Return whether a model can still claim this ask."""
    passed = Decline.objects.filter(ask=ask).values_list("author_key", flat=True)
    return any(f"{MODEL}{name}" not in passed for name in settings.EXPERT_ENDPOINTS)


def _after_person(ask: Ask) -> None:
    candidates, present = availability.pool(ask, timezone.now())
    # With no one online it moves on if a tier follows; otherwise it waits, as someone can still come.
    if not candidates or (not present and next_tier(ask.tiers, ask.tier)):
        _move_on(ask, "human_passed", "declined")
    else:
        events.tell(ask)


def _move_on(ask: Ask, why: str, at_the_end: str) -> None:
    """Escalate to the next tier, or fall back after the last. The caller must hold the episode and ask locks."""
    following = next_tier(ask.tiers, ask.tier)
    if following is None:
        closing.close(ask, AskStatus.FELL_BACK, at_the_end, None)
    else:
        _set_tier(ask, following, why, None)


def _set_tier(ask: Ask, tier: str, why: str, actor: Actor | None, named: str = "") -> None:
    ask.tier, ask.tier_reason = tier, why if len(why) <= 40 else why[:39] + "…"  # the history keeps all of it
    ask.handed_to, ask.handed_to_name = named, availability.name_of(ask.project, named) if named else ""
    ask.save(update_fields=["tier", "tier_reason", "handed_to", "handed_to_name"])
    closing.log(ask, _toward(ask), actor, why)
    _tell_or_wake(ask)


@transaction.atomic
def escalate(actor: Actor, assignment_id: str, lease_token: str, to: str, reason: str) -> None:
    """Transfer a claimed ask to the senior expert, people, a colleague by key or a model, and release it."""
    may_advise(actor)
    slot = visible_or_404(Assignment.objects.all(), actor, assignment_id, "ask__project")
    ask = slot.ask = closing.locked(slot.ask_id)
    _refuse_target(ask, to)
    _release_slot(slot, lease_token)
    _transfer_to(ask, to, reason, actor)


def _refuse_target(ask: Ask, to: str) -> None:
    """Raise unless that colleague, or someone of that tier, can still claim the ask."""
    if to.startswith(PERSON):
        return _refuse_colleague(ask, to)
    if to not in (Tier.LLM, Tier.PEOPLE, Tier.SENIOR):
        raise Invalid("An ask can be transferred to people, a colleague, the senior expert or the model.")
    if to == Tier.LLM and not availability.models_may_help(ask):
        raise Invalid("No expert model is available: none is configured, or this arm uses people only.")
    if to == Tier.LLM and not _models_left(ask):
        raise Invalid("The model already declined this ask.")
    if to == Tier.SENIOR and availability.desk_of(ask.project).senior_id is None:
        raise Invalid("This project has no senior expert. Set one on the Routing page.")


def _refuse_colleague(ask: Ask, key: str) -> None:
    found = {one.key: one for one in availability.members_of(ask.project, timezone.now())}
    if key not in found:
        raise Invalid("This person can't answer asks in this project.")
    if lacks := found[key].lacks(ask.skills):
        raise Invalid(f"This person lacks a skill that the ask requires: {', '.join(lacks)}.")
    if Decline.objects.filter(ask=ask, author_key=key).exists():
        raise Invalid("This person declined this ask.")


def _transfer_to(ask: Ask, to: str, reason: str, actor: Actor) -> None:
    named = to if to.startswith(PERSON) else ""
    tier = str(Tier.PEOPLE) if named else to
    if tier not in ask.tiers:
        # behind the plan: after a tier that was added by hand the ask falls back
        ask.tiers = [*ask.tiers, tier]
        ask.save(update_fields=["tiers"])
    _set_tier(ask, tier, reason, actor, named)


@transaction.atomic
def transfer(actor: Actor, ask_id: str, to: str, reason: str = "") -> None:
    """Transfer an ask from the queue. Raises if a person holds it; a model loses it, and its late answer is saved as an
    alternative."""
    may_set_desk(actor)
    ask = _open_or_refuse(actor, ask_id)
    _refuse_target(ask, to)
    slot = Assignment.objects.get(ask=ask)
    if slot.is_held(timezone.now()) and not slot.holder.startswith(MODEL):
        raise AlreadyClaimed(f"{slot.holder_name} has claimed this ask.")
    # it is there already
    if to in (ask.handed_to or ask.tier,):
        return
    if slot.state == SlotState.CLAIMED:
        _release_slot(slot, slot.lease_token)
    _transfer_to(ask, to, reason or "handed", actor)


@transaction.atomic
def set_priority(actor: Actor, ask_id: str, priority: int) -> None:
    """Set the priority of an open ask; within a run, one point equals a minute of waiting."""
    may_set_desk(actor)
    if not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        raise Invalid(f"Enter a priority as a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}.")
    ask = _open_or_refuse(actor, ask_id)
    if ask.priority != priority:
        closing.log(ask, "priority", actor, f"{ask.priority} to {priority}")
        ask.priority = priority
        ask.save(update_fields=["priority"])
        events.tell(ask)


def _open_or_refuse(actor: Actor, ask_id: str) -> Ask:
    """Lock and return an open ask of this project. Raises `TooLate` for a closed one."""
    visible_or_404(Ask.objects.all(), actor, ask_id)
    ask = closing.locked(ask_id)
    if not ask.is_open or ask.deadline_at <= timezone.now():
        raise TooLate("This ask is closed.")
    return ask


def release_all_of(leaving: Actor) -> None:
    """Release what a removed person holds. Registered with `members.on_leave`."""
    # in one order, like every lock of several asks
    held = Ask.objects.open().filter(project=leaving.project, assignment__holder=leaving.key).order_by("pk")
    for ask in held.select_for_update(of=["self"]):
        if ask.assignment.state == SlotState.CLAIMED:
            _release_slot(ask.assignment, ask.assignment.lease_token)
            closing.log(ask, "released", None, f"{leaving.name} was removed")
            events.tell(ask)


def _slot(actor: Actor, assignment_id: str) -> Assignment:
    """Return the slot after locking its ask.

    The ask comes first because every event row takes a share of the ask's lock, and an answer holds that lock while it
    updates the slot.
    """
    slot = visible_or_404(Assignment.objects.all(), actor, assignment_id, "ask__project")
    slot.ask = Ask.objects.select_for_update().get(pk=slot.ask_id)
    return slot


def _release_slot(slot: Assignment, lease_token: str) -> None:
    if not leasing.release(Assignment.objects.filter(pk=slot.pk), lease_token):
        raise TooLate if not slot.ask.is_open else LeaseLost
    # The conditional update has bypassed this object.
    slot.refresh_from_db(fields=["state", "holder", "holder_name", "lease_token", "lease_until"])
    # notifications that were put off by the claim are checked again
    deliveries.reconsider(notifications.KIND, slot.ask_id)
