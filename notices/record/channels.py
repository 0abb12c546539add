"""Writes: a project's Slack channels: which asks each shows, and one message a subject, drawn again when it changes.

Owns channels and their posts. A post says what is so when it is drawn, so no state is queued: a call that is lost or
refused costs time, and the newest state is drawn next. One process draws a post at a time, outside of any transaction.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from notices import subjects
from notices.models import SlackChannel, SlackPost
from notices.record import slack
from notices.subjects import SharedView, Subject
from people.access import Actor, may_set_desk, scoped
from people.errors import Invalid, NotFound
from people.record import jobs
from people.record.audit import record
from people.record.members import SKILL_CHARS, SKILLS_MAX
from people.requests import addresses

log = logging.getLogger(__name__)
CHANNELS_MAX = 10
"""Slack channels of one project."""
TARGET = re.compile(r"[CG][A-Z0-9]{2,20}", re.ASCII)
TAKEN_FOR = timedelta(seconds=60)
"""Far above the time limits of one call and its repeat by Slack's client."""
PAUSE_S, PAUSE_MAX_S = 5, 600
KEPT = timedelta(days=31)
"""A post is drawn and kept for this time: a deadline is at most 30 days away."""
LOOKED_AT = 200
"""Posts that one sweep compares."""
HEARD = 500
"""Replies of a post of which the names are kept."""
CUT = "… Cut here: open it in awmweb."
THREAD = "Replies in the thread are comments for people. The agent gets answers only."
BROKEN = {
    **dict.fromkeys(["is_archived"], "It is archived in Slack."),
    **dict.fromkeys(["channel_not_found"], "Slack does not know it, or the app is not in this private channel."),
    **dict.fromkeys(["not_in_channel"], "The app is not in it. Invite the app there."),
    **dict.fromkeys(["token_revoked", "token_expired", "invalid_auth", "not_authed", "account_inactive"],
                    "Slack no longer accepts the app's token. The operator sets a new AWMWEB_SLACK_TOKEN."),
    **dict.fromkeys(["missing_scope", "restricted_action", "ekm_access_denied", "team_access_not_granted"],
                    "The app is not allowed to post in it."),
}  # fmt: skip
"""Why a channel is given up, by Slack's code."""


@transaction.atomic
def add(actor: Actor, target: str, skills: str = "", only_high_risk: bool = False) -> SlackChannel:
    """Add a channel, or set which asks an existing one shows and try it again."""
    may_set_desk(actor)
    target, named = target.strip(), _skills(skills)
    if not slack.is_set():
        raise Invalid("Slack is not set. The operator sets AWMWEB_SLACK_TOKEN and AWMWEB_SLACK_SECRET.")
    if not TARGET.fullmatch(target):
        raise Invalid("Enter a channel ID, such as C024BE91L: the channel's name, About, at the bottom.")
    mine = SlackChannel.objects.select_for_update().filter(project=actor.project, ended_at=None)
    if target not in (targets := [one.target for one in mine]) and len(targets) >= CHANNELS_MAX:
        raise Invalid(f"This project has {CHANNELS_MAX} Slack channels (the maximum). Remove one first.")
    rules = {"skills": named, "only_high_risk": only_high_risk, "broken": ""}
    channel, _ = SlackChannel.objects.update_or_create(
        project=actor.project, target=target, ended_at=None, defaults=rules
    )
    record(actor, "set a Slack channel", target)
    jobs.call_after_commit("notices.tasks.redraw_missed")
    return channel


def _skills(text: str) -> list[str]:
    names = list(dict.fromkeys(" ".join(one.split()) for one in text.split(",") if one.split()))
    if len(names) > SKILLS_MAX or any(len(one) > SKILL_CHARS for one in names):
        raise Invalid(f"At most {SKILLS_MAX} skills of at most {SKILL_CHARS} characters each.")
    return names


@transaction.atomic
def remove(actor: Actor, pk: str) -> None:
    """End a channel. Its messages stay in Slack as they are; presses on them are refused."""
    channel = _mine(actor, pk)
    channel.ended_at = timezone.now()
    channel.save(update_fields=["ended_at"])
    record(actor, "removed a Slack channel", channel.target)


@transaction.atomic
def try_again(actor: Actor, pk: str) -> None:
    """Draw the messages of a channel again that was given up."""
    channel = _mine(actor, pk)
    channel.broken, channel.paused_until = "", None
    channel.save(update_fields=["broken", "paused_until"])
    record(actor, "tried a Slack channel again", channel.target)
    jobs.call_after_commit("notices.tasks.redraw_missed")


def _mine(actor: Actor, pk: str) -> SlackChannel:
    may_set_desk(actor)
    rows = scoped(SlackChannel.objects.select_for_update().filter(ended_at=None), actor.project)
    if (channel := rows.filter(pk=pk).first()) is None:
        raise NotFound
    return channel


def queue_for(subject: Subject) -> None:
    """Note one message for each channel that shows a subject, in the transaction that makes it claimable."""
    now = timezone.now()
    channels = list(SlackChannel.objects.filter(project=subject.project_id, ended_at=None))
    view = subject.shared(now) if channels else None
    if view is None:
        return
    posts = [SlackPost(channel=one, kind=subject.kind, subject_id=subject.id) for one in channels if _shows(one, view)]
    # there already, where people get a subject again
    SlackPost.objects.bulk_create(posts, ignore_conflicts=True)


def _shows(channel: SlackChannel, view: SharedView) -> bool:
    if channel.only_high_risk and not view.is_high_risk:
        return False
    return not channel.skills or not set(channel.skills).isdisjoint(view.skills)


def draw(kind: str, subject_id: str) -> None:
    """Bring the messages about a subject up to date."""
    for pk in SlackPost.objects.filter(kind=kind, subject_id=subject_id).values_list("pk", flat=True):
        _draw_until_true(pk)


def draw_missed() -> None:
    """Draw what changed without a call, which can be lost, and what Slack did not take."""
    now = timezone.now()
    waiting = SlackPost.objects.filter(is_over=False, channel__ended_at=None, channel__broken="")
    waiting = waiting.filter(Q(channel__paused_until=None) | Q(channel__paused_until__lte=now))
    # a lease that ends changes no row, so each is compared in its turn
    turn = list(waiting.order_by("looked_at").values_list("pk", flat=True)[:LOOKED_AT])
    SlackPost.objects.filter(pk__in=turn).update(looked_at=now)
    for pk in turn:
        _draw_until_true(pk)


def _draw_until_true(pk: str) -> None:
    while _draw_once(pk):
        """It was drawn, and a process that came meanwhile has left a change to this one."""


def _draw_once(pk: str) -> bool:
    """Draw a post if it does not say what is so. Return whether Slack took it.

    1. Compare what it says. 2. Claim it. 3. Compare again, since another process can have drawn it. 4. Call Slack.
    5. Give it back with the result.
    """
    now = timezone.now()
    if _to_draw(pk) is None:
        return False
    until = now + TAKEN_FOR
    free = Q(taken_until=None) | Q(taken_until__lte=now)
    if not SlackPost.objects.filter(free, pk=pk).update(taken_until=until):
        return False
    fields: dict[str, Any] = {}
    try:
        if (work := _to_draw(pk)) is not None:
            fields = _drawn(*work)
    finally:
        # unless it took too long, and another process has it
        SlackPost.objects.filter(pk=pk, taken_until=until).update(**{"taken_until": None, **fields})
    return "shown" in fields


def _to_draw(pk: str) -> tuple[SlackPost, SharedView, dict[str, Any]] | None:
    """Return a post, its subject and its message; None if nothing is to be drawn now."""
    now = timezone.now()
    post = SlackPost.objects.select_related("channel__project").filter(pk=pk, channel__ended_at=None).first()
    if post is None or post.channel.broken or (post.channel.paused_until or now) > now:
        return None
    subject = subjects.read({(post.kind, post.subject_id)}).get((post.kind, post.subject_id))
    view = subject.shared(now) if subject is not None else None
    if view is None:
        return None
    message = _message(post, view)
    # nothing is said of what ended before it was said
    if _digest(message) != post.shown and (post.ts or not view.is_over):
        return post, view, message
    if view.is_settled and not post.is_over:
        SlackPost.objects.filter(pk=pk, shown=post.shown).update(is_over=True)
    return None


def _digest(message: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()


def _message(post: SlackPost, view: SharedView) -> dict[str, Any]:
    url = addresses.public_url(post.channel.project.slug, subjects.path(post.kind, post.subject_id))
    texts = [view.title, view.text, "\n".join(view.details)]
    state = slack.plain(view.state) if view.state else slack.deadline(view.expires_at)
    buttons = slack.presses(post.pk, is_free=view.is_free) if view.is_answerable else []
    blocks = [
        *({"type": "section", "text": slack.plain(_cut(text))} for text in texts if text.strip()),
        {"type": "context", "elements": [state, *([slack.plain(THREAD)] if view.is_answerable else [])]},
        slack.actions([*buttons, slack.link(url)]),
    ]
    return {"text": slack.escaped(f"{view.title}: {view.text[:160]}"), "blocks": blocks}


def _cut(text: str) -> str:
    return text if len(text) <= slack.TEXT_CHARS else f"{text[: slack.TEXT_CHARS - len(CUT)]}{CUT}"


def _drawn(post: SlackPost, view: SharedView, message: dict[str, Any]) -> dict[str, Any]:
    """Send or change a message. Return the fields of its post after that."""
    try:
        made = _call(post, view, message)
    except slack.SlackRefusal as refused:
        return _refused(post, refused, {"shown": _digest(message), "is_over": view.is_settled})
    except slack.SlackAway as silent:
        log.warning("Slack could not be reached: %s", silent)
        return _later(post)
    return {"shown": _digest(message), "is_over": view.is_settled, "attempts": 0, **made}


def _call(post: SlackPost, view: SharedView, message: dict[str, Any]) -> dict[str, str]:
    target = post.channel.target
    if post.ts:
        slack.call("chat_update", channel=target, ts=post.ts, **message)
        return {}
    earlier = SlackPost.objects.filter(channel=post.channel_id, kind=post.kind, subject_id=view.earlier).first()
    thread = (earlier.thread_ts or earlier.ts) if earlier is not None else ""
    # a reply that the channel shows, too: it is what waits now
    where: dict[str, Any] = {"thread_ts": thread, "reply_broadcast": True} if thread else {}
    about: dict[str, Any] = {"channel": target, "unfurl_links": False, "unfurl_media": False}
    made = slack.call("chat_postMessage", **about, **where, **message)
    return {"ts": str(made["ts"]), "thread_ts": thread}


def _refused(post: SlackPost, refused: slack.SlackRefusal, taken: dict[str, Any]) -> dict[str, Any]:
    code, pause_s = refused.code, refused.pause_s
    channel = SlackChannel.objects.filter(pk=post.channel_id)
    if why := BROKEN.get(code):
        channel.update(broken=f"{why} Slack responded {code}.")
        return {}
    if pause_s:
        # of the whole channel: each further call would be refused, too
        channel.update(paused_until=timezone.now() + timedelta(seconds=pause_s))
        jobs.call_worker("notices.tasks.redraw_missed", delay_s=pause_s)
        return {}
    if code in slack.AGAIN:
        return _later(post)
    # a message that was deleted in Slack, say: its next state is tried all the same
    log.warning("Slack refused the message of %s %s: %s", post.kind, post.subject_id, code)
    return taken


def _later(post: SlackPost) -> dict[str, Any]:
    pause_s = min(PAUSE_S * 3 ** min(post.attempts, 10), PAUSE_MAX_S)
    return {"taken_until": timezone.now() + timedelta(seconds=pause_s), "attempts": post.attempts + 1}


def hears(post_id: str, ts: str) -> bool:
    """Return whether a reply is new, and note it. Called in the transaction that stores the reply."""
    post = SlackPost.objects.select_for_update(no_key=True).filter(pk=post_id).first()
    if post is None or ts in post.heard:
        return False
    post.heard = [*post.heard, ts][-HEARD:]
    post.save(update_fields=["heard"])
    return True


def forget_old() -> None:
    SlackPost.objects.filter(created_at__lt=timezone.now() - KEPT).delete()


def of_project(actor: Actor) -> Sequence[SlackChannel]:
    """Return the project's channels, oldest first."""
    return list(scoped(SlackChannel.objects.filter(ended_at=None), actor.project).order_by("created_at"))
