"""Pages about one ask, and the forms that claim, renew, release, pass and answer. The queue is `desk_pages.py`'s.

Owns HTTP status, redirects and form words. Every write is a function of `queue.py`; what is shown is `board.py`'s.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from pydantic import TypeAdapter, ValidationError

from awmclient.schema import AnswerBody, ToolCall
from episodes import wall, windows
from episodes.cards import clean
from episodes.windows import number, numbers
from experts import board, queue
from experts.errors import AlreadyClaimed, TooLate
from experts.fitting import refuse_unfit
from experts.models import Ask
from experts.reading import asks_of
from people.access import Actor, MemberRequest, holds, may_advise, may_see_queue, member_required, visible_or_404
from people.errors import AppError, Invalid

CALLS = TypeAdapter(list[ToolCall])


ask_page = member_required(may_see_queue, rows=Ask.objects.all)
ask_form = member_required(may_advise, rows=Ask.objects.all)


@require_GET
@ask_page
def ask(request: MemberRequest, pk: str) -> HttpResponse:
    queue.settle(pk)
    return _ask(request, pk)


def _ask(request: MemberRequest, pk: str, problem: str = "", status: int = 200, **given: Any) -> HttpResponse:
    """The page of one ask, as it stands for this person; `given` carries what they had written."""
    actor = request.actor
    one = visible_or_404(asks_of(actor), actor, pk)
    now, slot = timezone.now(), one.assignment
    held = slot.is_held(now)
    mine = slot.holder == actor.key and slot.state == "claimed"
    context = {
        **_after(one),
        "before": _before(one),
        "fixed_before": not one.is_open,
        "top_seq": one.seq if one.is_open else None,
        "after": None if one.is_open else windows.around(one.episode, one.seq, first=one.seq),
        "question": clean(one.question),
        "context": clean(one.context or ""),
        "budget_s": board.budget_of(one),
        "mine": mine,
        "held_by": slot.holder_name if held and not mine else "",
        "lease_until": slot.lease_until,
        "lease_token": slot.lease_token if mine else "",
        "nonce": given.get("nonce") or secrets.token_urlsafe(12),
        "tools": wall.tools_of(one.episode),
        "tools_data": [tool for tool in one.episode.tools if isinstance(tool, dict)],
        "house_note": clean(one.episode.policy.get("house_note", "")) if one.episode.is_ours else "",
        "problem": problem,
        "may_advise": holds(actor, may_advise),
        **given,
    }
    return render(request, "experts/ask.html", context, status=status)


def _before(one: Ask) -> windows.Steps:
    """Steps before the question, which stands on top of the page; what goes on beside an open one comes after them."""
    return windows.around(one.episode, last=_shown_to(one) if one.is_open else one.seq - 1)


def _shown_to(one: Ask) -> int:
    """The last number beside an ask; an open question that nothing follows stands on top of the page already."""
    last = windows.last_of(one.episode)
    return last - 1 if one.is_open and last == one.seq else last


def _after(one: Ask) -> dict[str, Any]:
    """What happened from the ask on."""
    headline, line = board.aftermath(one)
    return {
        "ask": one,
        "episode": one.episode,
        "ended": not one.episode.is_live,
        "budget": one.episode.max_steps if one.episode.is_live else None,
        "late": board.late_advice(one),
        "outcome": board.outcome_of(one),
        "after_headline": headline,
        "after_line": line,
    }


@require_GET
@ask_page
def ask_fragments(request: MemberRequest, pk: str) -> HttpResponse:
    """As for an episode's page, with the words about this ask beside the steps."""
    one = visible_or_404(asks_of(request.actor), request.actor, pk)
    since, limit = number(request.GET.get("since")) or 0, number(request.GET.get("limit"))
    again = numbers(request.GET.get("again", ""))
    steps = windows.after(one.episode, since, windows.WINDOW if limit is None else limit, again, _shown_to(one))
    context = {**_after(one), "steps": steps, "parts": request.GET.get("parts") != "0"}
    return render(request, "experts/_fragments.html", context)


@require_POST
@ask_form
def claim(request: MemberRequest, pk: str) -> HttpResponse:
    """Claim and open. Who comes second sees who holds it."""
    try:
        queue.claim(request.actor, pk)
    except AlreadyClaimed:
        messages.warning(request, "Somebody was faster.")
    except AppError as refused:
        messages.warning(request, refused.message)
    return redirect("ask", pk)


@require_POST
@ask_form
def renew(request: MemberRequest, pk: str) -> HttpResponse:
    try:
        until = queue.renew(*_lease(request, pk))
    except AppError as refused:
        return _refusal(refused)
    return JsonResponse({"lease_until": until.isoformat()})


@require_POST
@ask_form
def release(request: MemberRequest, pk: str) -> HttpResponse:
    try:
        queue.release(*_lease(request, pk))
    except AppError as refused:
        messages.warning(request, refused.message)
    return redirect("queue")


@require_POST
@ask_form
def pass_on(request: MemberRequest, pk: str) -> HttpResponse:
    try:
        queue.decline(*_lease(request, pk), request.POST.get("reason", "")[:1000])
    except AppError as refused:
        messages.warning(request, refused.message)
        return redirect("ask", pk)
    messages.success(request, "You passed; the others still see it.")
    return redirect("queue")


def _lease(request: MemberRequest, pk: str) -> tuple[Actor, str, str]:
    actor = request.actor
    slot = visible_or_404(asks_of(actor), actor, pk).assignment
    return actor, slot.pk, request.POST.get("lease_token", "")


def _refusal(refused: AppError) -> JsonResponse:
    return JsonResponse({"error": {"code": refused.code, "message": refused.message}}, status=refused.status)


@require_POST
@ask_form
def answer(request: MemberRequest, pk: str) -> HttpResponse:
    """Send once: the nonce makes a repeated press the same answer. Scripts get JSON, plain forms a page."""
    wants_json = request.headers.get("Accept") == "application/json"
    try:
        _send(request, pk)
    except AppError as refused:
        if wants_json:
            return _refusal(refused)
        late = isinstance(refused, TooLate)
        given = {} if late else {"given_text": request.POST.get("text", ""), "nonce": request.POST.get("nonce", "")}
        return _ask(request, pk, refused.message, refused.status, **given)
    where = reverse("ask", args=[pk]) if _watches(request) else _next_url(request)
    return JsonResponse({"next": where}) if wants_json else redirect(where)


def _watches(request: MemberRequest) -> bool:
    return "watch" in (request.POST.get("then"), request.POST.get("watch"))


def _send(request: MemberRequest, pk: str) -> None:
    actor, slot, token = _lease(request, pk)
    calls = _calls(request.POST.get("tool_calls", ""))
    body = {"lease_token": token, "text": request.POST.get("text", ""), "nonce": request.POST.get("nonce", "")}
    try:
        checked = AnswerBody.model_validate({**body, "tool_calls": calls})
    except ValidationError as error:
        raise Invalid(_first(error)) from error
    refuse_unfit(calls, asks_of(actor).get(pk=pk).episode.tools)
    queue.answer(actor, slot, token, checked.text, checked.nonce, checked.tool_calls)


def _first(error: ValidationError) -> str:
    one = error.errors()[0]
    return f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}"


def _calls(text: str) -> list[ToolCall] | None:
    if not text or text == "[]":
        return None
    try:
        return CALLS.validate_python(json.loads(text))
    except ValueError as error:
        raise Invalid("The suggested calls are not readable; remove them and add them again.") from error


def _next_url(request: MemberRequest) -> str:
    """Send and next: claim the next one, or back to the queue if none is free."""
    actor = request.actor
    found = board.next_for(actor, timezone.now())
    if found is None:
        messages.success(request, "Sent. No other ask is free.")
        return reverse("queue")
    try:
        queue.claim(actor, found.pk)
    except AppError:
        messages.warning(request, "Sent. Somebody was faster with the next one.")
    return reverse("ask", args=[found.pk])
