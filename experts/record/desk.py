"""Writes around the queue: presence, drafts, routing settings and the log of model calls.

Owns everything that changes at the desk except the state of an ask. Leaves that to `queue.py`, which calls `seen`. A
draft never reaches an agent by itself: only `advising.answer` sends, and the deadline uses what a model prepared.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from awmclient.nouns.fields import too_large
from awmclient.nouns.typed import SPEC_CHARACTERS, SPEC_LEVELS, SPEC_VALUES
from awmclient.schema import ToolCall
from episodes import events as live
from episodes.models import Run
from episodes.record.noting import note_model_fault
from experts import events
from experts.errors import DraftConflict, PolicyRefused, TooLate
from experts.find.panels import changeable_replies, replies_of
from experts.models import MODEL, Ask, Assignment, Desk, Draft, ModelCall, Presence, QueueView, QuickReply
from experts.rules import quorum, risk, second_look
from experts.rules.routing import PRESENT_FOR
from experts.who.advisers import ADVISERS, may_be_present
from experts.who.policies import held_by, why_no_model
from people.access import Actor, is_id, may_advise, may_see_queue, may_set_desk, visible_or_404
from people.errors import Invalid
from people.models import Membership, display_name, long_ago
from people.record.audit import record
from people.record.saved_views import SavedViews
from people.text.plain_text import storable

SEEN_EVERY = timedelta(seconds=15)
"""A newer presence is not written again."""
REPLIES_MAX, REPLY_CHARS = 50, 2000
QUEUE_VIEWS = SavedViews(QueueView.objects.all, may_save=may_see_queue, may_direct=may_set_desk)
LOOKING_S = 25.0
"""Seconds that a person counts as viewing an ask after the last request of their page."""
SHARES = ("audit_share", "low_confidence")
CHOICES = {
    "cache": ("off", "models", "all"),
    "model_first": (True, False),
    "people_while_free": (True, False),
    "answer_links": (True, False),
}
WHOLES = {
    "large_group": (2, 1000),
    "seed": (0, 2_147_483_647),
    "capacity": (1, 100),
    "per_hour": (0, 1_000_000),
    "per_training_step": (0, 1_000_000),
    "wait_limit_s": (1, 86_400),
    "model_tokens_per_hour": (0, 2_000_000_000),
    "undo_s": (0, 10),
}
TEXTS = {"high_risk": risk.problem_of, "quorum": quorum.problem_of, "second_look": second_look.problem_of}
NO_LIMIT = ("per_hour", "per_training_step", "wait_limit_s", "model_tokens_per_hour", "undo_s")
"""Settings that can be empty."""
DRAFT_ALIVE = timedelta(minutes=3)
"""A draft that takes longer than this counts as failed, and another model can start."""


def seen(
    actor: Actor, away: bool | None = None, away_until: datetime | None = None, known: Presence | None = None
) -> None:
    """Record that an expert is online. Notifies the desk when someone arrives, leaves or returns.

    With `away`, set Available or Away, the latter until a time if there is one. `known` is the row as it was just read.
    """
    if not may_be_present(actor.role, actor.scope):
        return
    now = timezone.now()
    before = known or Presence.objects.filter(project=actor.project, actor_key=actor.key).first()
    # set to Away until a time that has passed
    is_over = before is not None and before.away and not before.has_left(now)
    away_now = bool(before and before.has_left(now)) if away is None else away
    if before is not None and away is None and not is_over and before.seen_at > now - SEEN_EVERY:
        return
    row = {"name": actor.name, "skills": _skills(actor), "seen_at": now}
    # a beat of another tab must not undo what was said meanwhile
    choice: dict[str, Any] = {} if away is None else {"away": away, "away_until": away_until if away else None}
    if before is not None and is_over and away is None:
        # conditional: another tab can have set another end meanwhile
        Presence.objects.filter(pk=before.pk, away_until=before.away_until).update(away=False, away_until=None)
    Presence.objects.update_or_create(project=actor.project, actor_key=actor.key, defaults={**row, **choice})
    if before is None or before.away != away_now or before.seen_at < now - PRESENT_FOR:
        _tell_presence(actor, "away" if away_now else "here")


def _skills(actor: Actor) -> list[str]:
    if actor.person is None:
        return []
    return (
        Membership.objects.filter(user=actor.person, project=actor.project).values_list("skills", flat=True).first()
        or []
    )


def _tell_presence(actor: Actor, state: str) -> None:
    frame: live.Frame = {"type": "presence", "who": actor.key, "name": actor.name, "state": state}
    live.publish(live.queue_topic(actor.project.pk), frame)


@transaction.atomic
def set_policy(actor: Actor, **policy: Any) -> Desk:
    """Change how new asks are routed; open asks keep their plan.

    Audited with old and new values. Saves all or nothing: `PolicyRefused` has a message for each invalid value.
    """
    may_set_desk(actor)
    problems = problems_of(actor, policy)
    if problems:
        raise PolicyRefused(problems)
    desk, _ = Desk.objects.select_for_update(of=("self",)).get_or_create(project=actor.project)
    before = {name: getattr(desk, name) for name in policy}
    changed = {name: value for name, value in sorted(policy.items()) if before[name] != value}
    for name, value in changed.items():
        setattr(desk, name, value)
    if changed:
        desk.save()
        parts = [f"{name}: {_in_words(before[name])} to {_in_words(value)}" for name, value in changed.items()]
        record(actor, "desk.changed", ", ".join(changed), "; ".join(parts))
    return desk


def problems_of(actor: Actor, policy: dict[str, Any]) -> dict[str, str]:
    """Return a message for each invalid setting, by name."""
    problems = {name: words for name, value in policy.items() if (words := _problem(name, value))}
    senior = policy.get("senior")
    if senior is not None and (senior.project_id != actor.project.pk or senior.role not in ADVISERS):
        problems["senior"] = "Choose a member of this project who can answer asks."
    return problems


def _problem(name: str, value: Any) -> str:
    if name in SHARES:
        return (
            "" if isinstance(value, int | float) and 0 <= value <= 1 else "Enter a share from 0 to 1, for example 0.05."
        )
    if name in TEXTS:
        return TEXTS[name](value)
    if name == "second_look_model":
        return "" if value in ("", *settings.EXPERT_ENDPOINTS) else "Choose a model that is configured."
    if name in CHOICES:
        return "" if value in CHOICES[name] else "Choose one of the options."
    if name not in WHOLES or (value is None and name in NO_LIMIT):
        return ""
    least, most = WHOLES[name]
    # a bool is an int in Python
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    return (
        ""
        if fits
        else f"Enter a whole number from {least:,} to {most:,}{', or leave it empty' if name in NO_LIMIT else ''}."
    )


def _in_words(value: Any) -> str:
    if isinstance(value, Membership):
        return display_name(value.user)
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


def save_draft(
    actor: Actor,
    ask_id: str,
    text: str,
    tool_calls: list[ToolCall] | None = None,
    version: int = 0,
    *,
    drafted_by: str = "",
    decision: Any = None,
) -> Draft:
    """Save a person's draft.

    `version` is the one they last saw. A save from an older tab or device raises `DraftConflict` with the newer text,
    so that unread text is never overwritten. `drafted_by` names the source of the text (`similar.origins`); it is
    stored so that the mark survives a crash.
    """
    may_advise(actor)
    ask = visible_or_404(Ask.objects.all(), actor, ask_id)
    if len(text) > 100_000:
        raise Invalid("A draft can have at most 100,000 characters.")
    calls = [call.model_dump() for call in tool_calls] if tool_calls else None
    if decision is not None and (why := too_large(decision, SPEC_VALUES, SPEC_LEVELS, SPEC_CHARACTERS)):
        raise Invalid(f"The decision {why}.")
    written: dict[str, Any] = {
        "text": text,
        "tool_calls": calls,
        "decision": decision if ask.typed else None,
        "drafted_by": drafted_by[:160],
    }
    with transaction.atomic():
        mine = Draft.objects.select_for_update().filter(ask=ask, author_key=actor.key).first()
        if mine is None:
            return _first_draft(actor, ask, written)
        # A repeated save has the same text and is no conflict.
        same = (mine.text, mine.tool_calls, mine.decision) == (text, calls, written["decision"])
        if mine.version != version and not same:
            raise DraftConflict(mine.text or "", mine.version)
        written |= {"version": mine.version + 1, "saved_at": timezone.now()}
        for name, value in written.items():
            setattr(mine, name, value)
        mine.save(update_fields=list(written))
        return mine


def keep_refused(actor: Actor, assignment_id: str, text: str, decision: Any) -> None:
    """Keep what was refused because the decision did not fit, as the actor's draft."""
    ask = visible_or_404(Assignment.objects.all(), actor, assignment_id, "ask__project").ask_id
    with suppress(DraftConflict, Invalid):  # a newer draft, or one beyond the limits: the refusal says what is wrong
        keep_text(actor, ask, text, decision)


def keep_text(actor: Actor, ask_id: str, text: str, decision: Any) -> Draft:
    """Save a text as the actor's draft, in place of the one that is there."""
    draft = Draft.objects.filter(ask=ask_id, author_key=actor.key).first()
    if draft is not None and (draft.text, draft.tool_calls, draft.decision) == (text, None, decision):
        return draft
    return save_draft(actor, ask_id, text, version=draft.version if draft else 0, decision=decision)


def _first_draft(actor: Actor, ask: Ask, written: dict[str, Any]) -> Draft:
    try:
        # Two tabs can save a first version at one moment; the unique key lets one of them in.
        # A savepoint, so that the transaction can still read the other text after the failed insert.
        with transaction.atomic():
            return Draft.objects.create(
                ask=ask, author=actor.name, author_key=actor.key, privilege=ask.privilege, **written
            )
    except IntegrityError as conflict:
        other = Draft.objects.get(ask=ask, author_key=actor.key)
        raise DraftConflict(other.text or "", other.version) from conflict


@transaction.atomic
def want_draft(actor: Actor, ask_id: str, hint: str = "") -> None:
    """Request a draft by a model. A failed draft is repeated, and with a hint an existing one is replaced."""
    may_advise(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    ask = Ask.objects.select_for_update().get(pk=ask_id)
    if not ask.is_open:
        raise TooLate
    if ask.typed:
        raise Invalid("Models write no drafts for a decision. Send the ask to the model instead.")
    if why := why_no_model(ask):
        raise Invalid(f"No expert model is available: {why}.")
    prepared = Draft.objects.filter(ask=ask, author_key__startswith=MODEL)
    # with a hint all are replaced, without one only those that failed
    (prepared if hint else prepared.filter(failed=True)).delete()
    ask.draft_at, ask.draft_hint = timezone.now(), hint[:2000]
    ask.save(update_fields=["draft_at", "draft_hint"])
    events.call_models()


def has_room(model: Actor, now: datetime) -> bool:
    """Return whether a model's endpoint can take one more call.

    Holds a lock until the transaction ends, so that the limit holds over all processes.
    """
    # An advisory lock, since no row represents an endpoint, which all projects share.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [model.key])
    begun = Draft.objects.filter(author_key=model.key, text=None, failed=False, saved_at__gt=now - DRAFT_ALIVE)
    # asks that it has claimed and drafts that it is writing
    return held_by(model.key, now) + begun.count() < settings.AWMWEB_EXPERT_LIMIT


@transaction.atomic
def begin_draft(model: Actor) -> Ask | None:
    """Return the next open ask that needs a model's draft. An empty draft row marks it as started."""
    now = timezone.now()
    if not has_room(model, now):
        return None
    due = Ask.objects.open().filter(draft_at__lte=now, deadline_at__gt=now, project=model.project)
    prepared = Draft.objects.filter(author_key__startswith=MODEL)
    # A model that stopped in the middle must not block the others.
    prepared.filter(long_ago("saved_at", now - DRAFT_ALIVE), text=None, failed=False, ask__in=due).delete()
    # Failed drafts of other models do not count: each model gets one attempt.
    taken = prepared.filter(Q(failed=False) | Q(author_key=model.key), ask=OuterRef("pk"))
    # a locked ask is being answered or closed: the next one is as good
    free = due.filter(~Exists(taken)).select_for_update(skip_locked=True, of=("self",))
    ask = free.select_related("episode", "project").order_by("draft_at").first()
    if ask is not None:
        Draft.objects.create(ask=ask, author=model.name, author_key=model.key, privilege=ask.privilege)
    return ask


def keep_model_draft(
    model: Actor,
    ask: Ask,
    text: str | None,
    tool_calls: list[ToolCall] | None = None,
    confidence: float | None = None,
    decision: Any = None,
) -> None:
    """Store a model's draft, or None if the call failed. It is shown only on request."""
    calls = [call.model_dump() for call in tool_calls] if tool_calls else None
    row = {"author": model.name, "text": text, "tool_calls": calls, "confidence": confidence, "failed": text is None}
    row["decision"] = decision
    # the row of the beginning can be removed by then, if the draft took longer than `DRAFT_ALIVE`
    Draft.objects.update_or_create(
        ask=ask, author_key=model.key, defaults={**row, "privilege": ask.privilege, "saved_at": timezone.now()}
    )
    with transaction.atomic():
        events.tell_draft(ask)


def called(
    model: Actor,
    ask: Ask | None,
    purpose: str,
    *,
    tokens: int,
    duration_s: float,
    fault: str = "",
    by_kind: tuple[int, int, int] | None = None,
    run: Run | None = None,
    arm: str = "",
) -> None:
    """Log one model call, also a failed one.

    `by_kind` has the tokens of the prompt, of the completion, and the cached tokens of the prompt. A briefing is paid
    by an arm of a run instead of an ask.
    """
    prompt, completion, cached = by_kind or (None, None, None)
    endpoint = settings.EXPERT_ENDPOINTS[model.model]
    ModelCall.objects.create(
        project=model.project,
        ask=ask,
        run=run,
        arm=arm,
        model_key=model.key,
        model=endpoint.model,
        options=endpoint.without_secrets(dict(endpoint.options)),
        purpose=purpose,
        tokens=tokens,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        duration_s=duration_s,
        fault=storable(fault),
    )
    # a failed second look does not move the ask: its answer is sent
    if ask is not None and fault and purpose != "look":
        note_model_fault(model, ask.episode, fault)


def keep_reply(actor: Actor, text: str, reply_id: str = "", *, shared: bool = False) -> QuickReply:
    """Save or edit a quick reply, `shared` with the project or not. The same text is stored once."""
    may_advise(actor)
    if not text.strip() or len(text) > REPLY_CHARS:
        raise Invalid(f"A quick reply must have 1 to {REPLY_CHARS:,} characters.")
    mine = replies_of(actor)
    if not reply_id:
        if mine.count() >= REPLIES_MAX:
            raise Invalid(f"You have {REPLIES_MAX} quick replies (the maximum). Remove one first.")
        fields = {"author": actor.name, "shared": shared}
        return QuickReply.objects.update_or_create(
            project=actor.project, author_key=actor.key, text=text, defaults=fields
        )[0]
    reply = visible_or_404(changeable_replies(actor), actor, reply_id)
    reply.text, reply.shared = text, shared
    try:
        with transaction.atomic():
            reply.save(update_fields=["text", "shared"])
    except IntegrityError as conflict:
        raise Invalid("You already have this quick reply.") from conflict
    return reply


def drop_reply(actor: Actor, reply_id: str) -> None:
    may_advise(actor)
    changeable_replies(actor).filter(pk=reply_id if is_id(reply_id) else "").delete()


def look_at(actor: Actor, ask_id: str) -> list[str]:
    """Record that this person has the ask open and return who else has.

    Stored in Valkey only: after a loss the list is incomplete until the next beat.
    """
    now = timezone.now().timestamp()
    try:
        with _looking().pipeline() as pipe:
            key = f"awmweb:looking:{ask_id}"
            pipe.zadd(key, {f"{actor.key} {actor.name}": now})
            # anyone who closed the page sends no further request, and drops out by age
            pipe.zremrangebyscore(key, 0, now - LOOKING_S)
            # the whole list ends by itself after the last of them
            pipe.expire(key, int(LOOKING_S))
            pipe.zrange(key, 0, 20)
            here = pipe.execute()[-1]
    # The list is only a hint: without Valkey the page works without it.
    except redis.RedisError:
        return []
    # a key contains no space, a name can
    others = (one.decode("utf-8", "replace").partition(" ") for one in here)
    return [name for key, _, name in others if not actor.owns(key)]


@functools.cache
def _looking() -> redis.Redis:
    # Short timeouts: every page of an ask waits for this.
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=0.3, socket_connect_timeout=0.3)
