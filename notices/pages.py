"""The page Notifications: a person's own channels in a project, and the service worker for push.

Owns HTTP status, redirects and form texts. Every write is a function of `subscriptions.py`; sending is the worker's.
"""

from __future__ import annotations

import functools
from datetime import time
from typing import Annotated, Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from notices import subjects
from notices.models import Channel, Delivery, DeliveryState, QuietHours, Subscription
from notices.record import channels as slack_channels
from notices.record import slack, subscriptions
from people.access import MemberRequest, holds, may_annotate, may_see_notices, may_set_desk, member_required
from people.errors import AppError, Invalid, NotFound
from people.http import refusal
from people.requests.forms import FormFields, Ticked, read, text_of, whole
from people.requests.parts import part_of

LOG_ROWS = 50


@require_GET
@member_required(may_see_notices)
@never_cache
def page(request: MemberRequest) -> HttpResponse:
    return _page(request)


def _page(request: MemberRequest, status: int = 200, **more: Any) -> HttpResponse:
    channels = list(_channels(request).order_by("created_at"))
    context = {
        **_log(request),
        "channels": channels,
        "headline": _headline(channels),
        "has_browser": any(one.kind == Channel.BROWSER for one in channels),
        "has_mail": settings.MAIL_SERVER is not None,
        "has_slack": slack.is_set(),
        "slack_channels": slack_channels.of_project(request.actor),
        "may_set_channels": holds(request.actor, may_set_desk),
        "may_private": settings.AWMWEB_NOTICES_PRIVATE,
        "quiet": QuietHours.objects.filter(user=request.actor.person).first(),
        "push_key": _push_key(settings.VAPID_KEY),
        "given": {},
        **more,
    }
    return render(request, "notices/page.html", context, status=status)


@functools.cache
def _push_key(scalar: str) -> str:
    from notices.webpush import application_key

    return application_key(scalar)


def _channels(request: MemberRequest) -> Any:
    return Subscription.objects.current().filter(project=request.project, user=request.actor.person)


def _headline(channels: list[Subscription]) -> str:
    at_work = [one for one in channels if one.is_confirmed and not one.broken]
    if not at_work:
        return "Notifications are off."
    kinds = list(dict.fromkeys(Channel(one.kind).words for one in at_work))
    return f"You're notified by {', '.join(kinds[:-1])}{' and ' if kinds[:-1] else ''}{kinds[-1]}."


def _log(request: MemberRequest) -> dict[str, Any]:
    """Return the newest deliveries, and whether one that the page waits for is still open."""
    rows = Delivery.objects.filter(subscription__project=request.project, subscription__user=request.actor.person)
    rows = rows.select_related("subscription").order_by("-created_at")
    own = rows.filter(kind__in=subjects.OWN)
    return {
        "log": rows[:LOG_ROWS],
        "newest_own": own.first(),
        "under_way": own.filter(state=DeliveryState.WAITING).exists(),
    }


@require_GET
@part_of("notices")
@member_required(may_see_notices)
@never_cache
def log(request: MemberRequest) -> HttpResponse:
    return render(request, "notices/_log.html", _log(request))


class ChannelForm(FormFields):
    """A new channel; a browser's push has two keys."""

    kind: str = ""
    target: str = ""
    name: str = ""
    p256dh: str = ""
    auth: str = ""


@require_POST
@member_required(may_annotate)
def switch_on(request: MemberRequest) -> HttpResponse:
    """Add a channel. Scripts get JSON; a webhook's secret is shown only now."""
    form = read(request.POST, ChannelForm)
    kind, target, keys = form.kind, form.target, form.model_dump(include={"p256dh", "auth"})
    wants_json = request.headers.get("Accept") == "application/json"
    try:
        way = subscriptions.subscribe(request.actor, kind, target, keys, form.name)
    except AppError as refused:
        if wants_json:
            return refusal(refused)
        return _page(request, refused.status, problem=refused.message, given={kind: target})
    if wants_json:
        return JsonResponse({"id": way.pk})
    if kind == Channel.WEBHOOK:
        return _page(request, fresh=way)
    messages.success(request, Channel(kind).code_sent or "Turned on.")
    return redirect("notices")


@require_POST
@member_required(may_annotate)
def command(request: MemberRequest, pk: str, command: str) -> HttpResponse:
    """Test, confirm, edit or remove one channel."""
    commands = {"off": _off, "test": _test, "rules": _rules, "confirm": _confirm}
    if command not in commands:
        raise NotFound
    try:
        words = commands[command](request, pk)
    except AppError as refused:
        return _page(request, refused.status, problem=refused.message)
    if words:
        messages.success(request, words)
    return redirect("notices")


def _off(request: MemberRequest, pk: str) -> str:
    subscriptions.unsubscribe(request.actor, pk)
    return "Channel removed."


def _test(request: MemberRequest, pk: str) -> str:
    subscriptions.test(request.actor, pk)
    return ""


Seconds = Annotated[int, whole("Enter seconds as a whole number.")]


class RulesForm(FormFields):
    """When a channel notifies: after how long, and how often at most."""

    delay_s: Seconds
    every_s: Seconds


def _rules(request: MemberRequest, pk: str) -> str:
    form = read(request.POST, RulesForm)
    subscriptions.set_rules(request.actor, pk, form.delay_s, form.every_s)
    return "Saved."


def _confirm(request: MemberRequest, pk: str) -> str:
    subscriptions.confirm(request.actor, pk, text_of(request.POST, "code", 40))
    return "Email confirmed."


class SlackChannelForm(FormFields):
    """A channel of Slack, and which asks it shows."""

    target: str = ""
    skills: str = ""
    only_high_risk: Ticked = False


@require_POST
@member_required(may_set_desk)
def add_slack_channel(request: MemberRequest) -> HttpResponse:
    form = read(request.POST, SlackChannelForm)
    try:
        slack_channels.add(request.actor, form.target, form.skills, form.only_high_risk)
    except AppError as refused:
        return _page(request, refused.status, channel_problem=refused.message, channel_form=form)
    messages.success(request, "Slack channel saved.")
    return redirect("notices")


@require_POST
@member_required(may_set_desk)
def slack_channel(request: MemberRequest, pk: str, command: str) -> HttpResponse:
    """Remove a channel of Slack, or try it again."""
    commands = {"off": (slack_channels.remove, "Slack channel removed."), "again": (slack_channels.try_again, "")}
    if command not in commands:
        raise NotFound
    write, words = commands[command]
    write(request.actor, pk)
    messages.success(request, words or "Slack channel is tried again.")
    return redirect("notices")


@require_POST
@member_required(may_annotate)
def quiet(request: MemberRequest) -> HttpResponse:
    names, zone = ("starts", "ends"), text_of(request.POST, "zone", 60).strip() or "UTC"
    is_off = text_of(request.POST, "do") == "off"
    try:
        starts, ends = (None if is_off else _time(text_of(request.POST, name)) for name in names)
        subscriptions.set_quiet_hours(request.actor, starts, ends, zone)
    except AppError as refused:
        return _page(request, refused.status, problem=refused.message)
    messages.success(request, "Quiet hours turned off." if starts is None else "Quiet hours saved.")
    return redirect("notices")


def _time(text: str) -> time | None:
    try:
        return time.fromisoformat(text) if text else None
    except ValueError as error:
        raise Invalid("Enter a time such as 22:00.") from error


@require_GET
def service_worker(request: HttpRequest) -> HttpResponse:
    """Serve the worker at the root, because its scope is its own folder and below."""
    text = (settings.STATICFILES_DIRS[0] / "sw.js").read_text(encoding="utf-8")
    answer = HttpResponse(text, content_type="text/javascript; charset=utf-8")
    answer["Service-Worker-Allowed"], answer["Cache-Control"] = "/", "no-cache"
    return answer
