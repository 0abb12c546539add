"""Writes: claim, renew, release, decline, escalate, transfer, prioritize.

Write operations on open asks: queue position and current lease holder. Leaves new asks to `opening.py`, answers to
`advising.py`, the end of an ask to `closing.py`, drafts and presence to `desk.py`, and the choice of tiers to
`routing.py`. People claim through the same functions as models and tokens.

Lock order is episode, then ask, then assignment, everywhere: an answer, a deadline and an ending episode race for the
same rows and exactly one of them wins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from experts import events, notifications
from experts.errors import (
    AlreadyClaimed,
    AlreadyDeclined,
    AtCapacity,
    LeaseLost,
    NotForYou,
    TooLate,
)
from experts.models import (
    BEFORE_PEOPLE,
    MODEL,
    Ask,
    AskStatus,
    Assignment,
    Decline,
    Presence,
    QuorumDecision,
    Tier,
)
from experts.record import closing, desk
from experts.record.announcing import tell_or_wake, toward
from experts.rules.quorum import LateRule, has_role, late_rule_of
from experts.rules.routing import lease_end, next_tier
from experts.who import advisers, counting, declining, policies
from notices.record import deliveries
from people.access import Actor, is_id, may_advise, may_set_desk, visible_or_404
from people.errors import Invalid, NotFound
from people.record import leasing
from people.rows import ModelRows
from people.slots import SlotState
from people.text.in_words import count
from people.text.plain_text import storable

PRIORITY_MAX = 100
PERSON = "user:"
"""Prefix of the key of a person."""
_SLOT, _PRESENCE = ModelRows(Assignment), ModelRows(Presence)
WANTED = f"""
SELECT {closing.ASK.columns("ask")}, {_SLOT.columns("slot")}, {_PRESENCE.columns("here")}
  FROM experts_ask AS ask JOIN experts_assignment AS slot ON slot.ask_id = ask.id
  LEFT JOIN experts_presence AS here ON here.project_id = ask.project_id AND here.actor_key = %s
 WHERE ask.id = %s AND ask.project_id = %s FOR UPDATE OF ask
"""


GROUPED = "to_group"
"""The verb of an ask that went to a group because it lacked people."""


@dataclass(frozen=True)
class AskClaim:
    """A lease on an ask: present `lease_token` with every action on the assignment."""

    ask_id: str
    assignment_id: str
    lease_token: str
    lease_until: datetime


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
    if not own and actor.owns(slot.holder) and slot.is_held(now):
        raise _why_not(ask, now)
    # one's own claim, to claim again, needs no second check
    if not actor.owns(slot.holder) or slot.state != SlotState.CLAIMED:
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
    if actor.person is None and actor.token is None:
        return  # models and the system claim only what was assigned to them
    if ask.is_open and not {*ask.tiers} & {*BEFORE_PEOPLE}:
        raise NotForYou("Only models can answer this ask: its arm or its run's budget excludes people.")
    if Decline.objects.filter(ask=ask, author_key=actor.key).exists():
        raise AlreadyDeclined
    counting.refuse_uncounted(actor, ask)
    if actor.person is not None:
        rules = policies.desk_of(actor.project)
        if not advisers.fits(actor, ask, rules):
            raise NotForYou
        if (claims := policies.held_by(actor.key, now)) >= rules.capacity:
            raise AtCapacity(
                f"You hold {count(claims, 'ask')} in all your projects, and the limit is {rules.capacity:,}. Answer or "
                "release one of them first: its queue marks it Claimed by you."
            )


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
    if ask.held_id is not None:
        return TooLate(f"{ask.assignment.holder_name} has answered this ask.")
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
    slot, reason = visible_or_404(Assignment.objects.all(), actor, assignment_id, "ask__project"), storable(reason)
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
    fields = {"author": actor.name, "reason": reason}
    # A repeated press changes nothing.
    if not Decline.objects.get_or_create(ask=ask, author_key=actor.key, defaults=fields)[1]:
        return
    slot = Assignment.objects.get(ask=ask)
    if actor.owns(slot.holder) and slot.state == SlotState.CLAIMED:
        _release_slot(slot, slot.lease_token)
    closing.log(ask, "declined", actor, reason)
    _end_handover(ask, actor)
    # someone else's claim stays: only an unclaimed ask moves on
    if ask.tier in BEFORE_PEOPLE and not slot.is_held(timezone.now()):
        _after_person(ask)
    else:
        events.tell(ask)


def _end_handover(ask: Ask, actor: Actor) -> None:
    """Leave an ask that its colleague declined to everyone else."""
    if actor.owns(ask.handed_to):
        ask.handed_to = ask.handed_to_name = ""
        ask.save(update_fields=["handed_to", "handed_to_name"])


def _after_model(ask: Ask, why: str) -> None:
    if _models_left(ask):
        tell_or_wake(ask)
    else:
        _move_on(ask, why, "expert_fault" if why == "fault" else "declined")


def _models_left(ask: Ask) -> bool:
    """Return whether a model can still claim this ask."""
    passed = Decline.objects.filter(ask=ask).values_list("author_key", flat=True)
    return any(f"{MODEL}{name}" not in passed for name in settings.EXPERT_ENDPOINTS)


def _after_person(ask: Ask) -> None:
    if declining.goes_to(ask, *advisers.pool(ask, timezone.now())) in declining.STAYS:
        events.tell(ask)
    else:
        _move_on(ask, declining.HUMAN_PASSED, "declined")


def _move_on(ask: Ask, why: str, at_the_end: str) -> None:
    """Escalate to the next tier, or fall back after the last. The caller must hold the episode and ask locks."""
    following = next_tier(ask.tiers, ask.tier)
    if following is None:
        closing.close(ask, AskStatus.FELL_BACK, at_the_end, None)
    else:
        _set_tier(ask, following, why, None)


def _set_tier(ask: Ask, tier: str, why: str, actor: Actor | None, named: str = "") -> None:
    ask.tier, ask.tier_reason = tier, why if len(why) <= 40 else why[:39] + "…"  # the history keeps all of it
    ask.handed_to, ask.handed_to_name = named, advisers.name_of(ask.project, named) if named else ""
    ask.save(update_fields=["tier", "tier_reason", "handed_to", "handed_to_name"])
    closing.log(ask, toward(ask), actor, why)
    tell_or_wake(ask)


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
    if to == Tier.LLM and not policies.models_may_decide(ask):
        raise Invalid("No expert model is available: none is configured, or only people can answer this ask.")
    if to == Tier.LLM and not _models_left(ask):
        raise Invalid("The model already declined this ask.")
    if to == Tier.SENIOR:
        if (senior := policies.desk_of(ask.project).senior) is None:
            raise Invalid("This project has no senior expert. Set one on the Routing page.")
        if ask.quorum_of > 1:
            _refuse_colleague(ask, f"{PERSON}{senior.user_id}")


def _refuse_colleague(ask: Ask, key: str) -> None:
    colleagues = {one.key: one for one in advisers.members_of(ask.project, timezone.now())}
    if key not in colleagues:
        raise Invalid("This person can't answer asks in this project.")
    if lacks := colleagues[key].lacks(ask.skills):
        raise Invalid(f"This person lacks a skill that the ask requires: {', '.join(lacks)}.")
    if Decline.objects.filter(ask=ask, author_key=key).exists():
        raise Invalid("This person declined this ask.")
    if not has_role(colleagues[key].role, ask.quorum_role):
        raise Invalid(f"This person does not have the role {ask.quorum_role}, which the ask requires.")
    if QuorumDecision.objects.filter(ask=ask, author_key=key, counts=True).exists():
        raise Invalid("This person decided this ask. It needs another person.")


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


def find_more_people(now: datetime | None = None) -> int:
    """Hand approvals that some people have decided, and that lack others late, to the group that their project names.
    Once each; return how many. Called by the periodic sweep."""
    now = now or timezone.now()
    waiting = Ask.objects.open().filter(decisions__counts=True, held=None, deadline_at__gt=now)
    asks = waiting.exclude(events__verb=GROUPED).distinct().select_related("project__desk").order_by("deadline_at")
    # most are not late: they are locked only after that
    late = [(ask, rule) for ask in asks if (rule := _late_rule(ask)) is not None and rule.is_late(ask, now)]
    return sum(_hand_to_group(ask.pk, rule, now) for ask, rule in late[:500])


def _late_rule(ask: Ask) -> LateRule | None:
    return late_rule_of(policies.desk_read_with(ask.project).quorum)


@transaction.atomic
def _hand_to_group(ask_id: str, rule: LateRule, now: datetime) -> bool:
    try:
        ask = closing.locked(ask_id)
    except Ask.DoesNotExist:
        return False  # erased since
    is_waiting = ask.is_open and ask.held_id is None and ask.decisions.filter(counts=True).exists()
    if not is_waiting or not rule.is_late(ask, now) or ask.events.filter(verb=GROUPED).exists():
        return False
    ask.handed_to, ask.handed_to_name = f"{advisers.GROUP}{rule.group}", f"people with {rule.group}"
    ask.tier_reason = ask.progress_in_numbers(ask.decisions.filter(counts=True).count())
    ask.save(update_fields=["handed_to", "handed_to_name", "tier_reason"])
    closing.log(ask, GROUPED, None, f"{rule.group}: {ask.progress}")
    tell_or_wake(ask)
    return True


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
    if not ask.is_open or ask.held_id is not None or ask.deadline_at <= timezone.now():
        raise TooLate("This ask is closed." if ask.held_id is None else "This ask is answered.")
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
