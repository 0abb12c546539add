"""Pages about one ask, and the forms that claim, renew, release, decline and answer. The queue is `pages/queue.py`'s.

Owns HTTP status, redirects and form texts. Every write is a function of `queue.py` or `advising.py`; what is shown is
`board.py`'s.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from pydantic import ValidationError

from awmclient.schema import ASKS_BACK, StandingAnswerBody
from awmclient.typed import CALLS_MAX
from episodes.show import wall, windows
from episodes.show.decisions import KINDS, on_timeout_in_words
from episodes.show.windows import number, numbers
from episodes.visible.lens import Lens, lens_of
from experts import (
    advising,
    closing,
    desk,
    endings,
    queue,
)
from experts.errors import AlreadyClaimed, LeaseLost, TooLate, Used
from experts.find import board, eligibility
from experts.find.attached import question_files, unsent_files
from experts.find.panels import (
    failed_call,
    family_of,
    mine_of,
    model_draft,
    passed_on,
    same_question_of,
    thread_of,
    typed_for_form,
    unsent,
    ways,
    written_by,
)
from experts.find.reading import asks_of
from experts.looking import ReturnedByModel
from experts.models import Advice, Ask, Privilege, Tier
from experts.pages.answer import ask_form, ask_page, checked_body, give_ahead, tags_for, typed_again
from experts.rules import decision_fields
from experts.rules.file_types import MOST_BYTES
from experts.rules.routing import LEASE_S
from people.access import (
    Actor,
    MemberRequest,
    holds,
    may_advise,
    may_annotate,
    visible_or_404,
)
from people.errors import AppError, Invalid
from people.json_text import parse_typed
from people.parts import part_of
from people.plain_text import clean
from people.prose import is_markdown

SWAPPED = "_swapped.html"
"""The frame of an ask that is swapped into an open page."""


@require_GET
@ask_page
def ask(request: MemberRequest, pk: str) -> HttpResponse:
    # any reader of an expired ask closes it
    closing.close_if_due(pk)
    return _ask(request, pk)


def _ask(request: MemberRequest, pk: str, problem: str = "", status: int = 200, **given: Any) -> HttpResponse:
    """Show the page of one ask for this person. `given` has the values of a refused form."""
    actor = request.actor
    one = visible_or_404(asks_of(actor), actor, pk)
    now, slot = timezone.now(), one.assignment
    held = slot.is_held(now)
    # the state, not the lease: an expired claim that no one else took can still answer
    mine = (slot.holder == actor.key and slot.state == "claimed") or bool(given.get("ahead"))
    said, lens = mine_of(actor, one, now), lens_of(actor, one.episode)
    amending = said.may_edit and ("amend" in request.GET or bool(given.get("amend")))
    writes = amending or (one.is_open and mine)
    written = written_by(actor, one) if amending or one.is_open else None
    typed = typed_for_form(one)
    context = {
        **_after(one, actor),
        **(_hands(actor, one, now) if one.is_open and mine else {}),
        "me": actor.name,
        "may_advise": holds(actor, may_advise),
        "barred": board.barred(eligibility.spot_of(actor, pk, now)) if one.is_open and not held else "",
        "may_annotate": holds(actor, may_annotate),
        "tags": tags_for(actor, one),
        "late": board.late_words(one),
        "unsent": None if one.is_open else unsent(actor, one),
        "amending": amending,
        "writes": writes,
        "written": written,
        # a page that is fetched ahead is not being looked at
        "looking": desk.look_at(actor, one.pk) if one.is_open and not given.get("ahead") else [],
        "reached": board.reached(one, held) if one.is_open else "",
        "passed_on": passed_on(one) if one.is_open else [],
        "question_files": question_files(one),
        "asks_back": amending and one.accepted is not None and one.accepted.reason == ASKS_BACK,
        "sent_files": one.accepted.files.listed() if amending and one.accepted else (),
        "my_files": [file.ref().model_dump() for file in unsent_files(actor, one)],
        "most_bytes": MOST_BYTES,
        "before": _before(lens, one),
        "fixed_before": not one.is_open,
        "top_seq": one.seq if one.is_open else None,
        "after": None if one.is_open else windows.around(lens, one.episode, one.seq, first=one.seq),
        "context": clean(one.context or ""),
        "budget_s": board.budget_of(one),
        "mine": mine,
        "held_by": slot.holder_name if held and not mine else "",
        "lease_s": LEASE_S,
        "lease_until": slot.lease_until or now,
        "lease_token": slot.lease_token if mine else "",
        # a second press of Send has the same nonce, and is the same answer
        "nonce": given.get("nonce") or secrets.token_urlsafe(12),
        "tools": wall.tools_of(one.episode),
        "tools_data": [tool for tool in one.episode.tools if isinstance(tool, dict)],
        "thread": thread_of(one),
        "typed": typed,
        **(_plain(typed, given.get("given_decision") or (written and written.decision)) if typed and writes else {}),
        "run": one.episode.run_id or "",
        "kind": KINDS.get(one.kind, ""),
        "on_timeout": on_timeout_in_words(one.typed) if one.typed else "",
        "house_note": clean(one.episode.policy.get("house_note", "")) if one.episode.is_builtin else "",
        "problem": problem,
        **given,
    }
    return render(request, "experts/ask.html", context, status=status)


def _plain(typed: dict[str, Any], draft: Any) -> dict[str, Any]:
    """Return the fields of a decision for pages without scripts, and the verdicts of a call."""
    return {"plain": decision_fields.fields_of(typed, draft), "verdicts": decision_fields.VERDICTS}


@require_GET
@part_of("ask")
@ask_form
def ahead(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the page of the person's next ask as if they had claimed it. Claims nothing."""
    found = board.next_for(request.actor, timezone.now(), after=pk)
    if found is None:
        return HttpResponse(status=204)
    page = _ask(request, found.pk, ahead=True, frame=SWAPPED).content.decode()
    return JsonResponse({"ask": found.pk, "page": page})


def _hands(actor: Actor, one: Ask, now: datetime) -> dict[str, Any]:
    """Return what is shown beside the form to the holder of the ask."""
    found = ways(actor, one)
    return {
        "draft": model_draft(one, now),
        "same_question": same_question_of(actor, one, now),
        "up": [way for way in found if way.to != Tier.LLM and not way.why_not],
        "failed_call": failed_call(actor, one),
        "model": next((way for way in found if way.to == Tier.LLM and not way.why_not), None),
    }


def _before(lens: Lens, one: Ask) -> windows.Steps:
    """Return steps before the question, which is at the top of the page; what goes on beside an open one comes after
    them.
    """
    return windows.around(lens, one.episode, last=_shown_in(lens, one) if one.is_open else one.seq - 1)


def _shown_in(lens: Lens, one: Ask) -> int:
    """Return the last number beside an ask; an open question that nothing follows is at the top of the page."""
    last = windows.last_of(lens, one.episode)
    return last - 1 if one.is_open and last == one.seq else last


def _after(one: Ask, actor: Actor) -> dict[str, Any]:
    """Return what happened since the ask, and what this person can still do about it."""
    return {
        "said": mine_of(actor, one, timezone.now()),
        "family": [] if one.is_open else family_of(actor, one),
        "question": clean(one.question),
        "question_is_markdown": is_markdown(one.question),
        "ask": one,
        "episode": one.episode,
        "ended": not one.episode.is_live,
        "budget": one.episode.max_steps if one.episode.is_live else None,
        "outcome": board.outcome_of(actor, one),
        "after_headline": endings.headline(one, actor),
        "after_line": endings.line(one),
    }


@require_GET
@part_of("ask")
@ask_page
def ask_fragments(request: MemberRequest, pk: str) -> HttpResponse:
    """Return steps as for an episode's page, with the texts about this ask."""
    one = visible_or_404(asks_of(request.actor), request.actor, pk)
    since, limit = number(request.GET.get("since")) or 0, number(request.GET.get("limit"))
    again = numbers(request.GET.get("again", ""))
    lens = lens_of(request.actor, one.episode)
    count, last = windows.WINDOW if limit is None else limit, _shown_in(lens, one)
    steps = windows.after(lens, one.episode, since, count, again, last)
    context = {"ask": one, "ended": not one.episode.is_live, "steps": steps}
    beside = _beside(request.actor, one) if request.GET.get("parts") != "0" else {}
    return render(request, "experts/_fragments.html", {**context, **beside})


def _beside(actor: Actor, one: Ask) -> dict[str, Any]:
    mine = one.is_open and one.assignment.holder == actor.key
    same = same_question_of(actor, one, timezone.now()) if mine else None
    return {"parts": True, "looking": desk.look_at(actor, one.pk), "same_question": same, **_after(one, actor)}


@require_POST
@ask_form
def claim(request: MemberRequest, pk: str) -> HttpResponse:
    """Claim an ask and open it. A person who is too late sees who claimed it."""
    try:
        queue.claim(request.actor, pk)
    except AlreadyClaimed:
        messages.warning(request, "Someone else claimed this ask first.")
    except AppError as refused:
        messages.warning(request, refused.message)
    return redirect("ask", pk)


@require_POST
@ask_form
def renew(request: MemberRequest, pk: str) -> HttpResponse:
    try:
        until = queue.renew(*_lease(request, pk))
    except AppError as refused:
        return _refusal(refused, request.actor, pk)
    return JsonResponse({"lease_until": until.isoformat()})


@require_POST
@ask_form
def release(request: MemberRequest, pk: str) -> HttpResponse:
    try:
        queue.release(*_lease(request, pk))
        messages.success(request, "Released. Anyone can claim it; your text is saved.")
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
    messages.success(request, "Declined. Others can still answer.")
    return redirect("queue")


def _lease(request: MemberRequest, pk: str) -> tuple[Actor, str, str]:
    actor = request.actor
    slot = visible_or_404(asks_of(actor), actor, pk).assignment
    return actor, slot.pk, request.POST.get("lease_token", "")


def _refusal(refused: AppError, actor: Actor, pk: str) -> JsonResponse:
    """Return a refusal for scripts. That of a lost lease names who has the ask now."""
    error = {"code": refused.code, "message": _words(refused, actor, pk)}
    if isinstance(refused, LeaseLost):
        error["held_by"] = _holder(actor, pk)
    return JsonResponse({"error": error}, status=refused.status)


def _holder(actor: Actor, pk: str) -> str:
    """Return who else has the ask now; "" if no one."""
    slot = visible_or_404(asks_of(actor), actor, pk).assignment
    return slot.holder_name if slot.is_held(timezone.now()) and slot.holder != actor.key else ""


def _words(refused: AppError, actor: Actor, pk: str) -> str:
    """Return the words of a refusal; those of a lost lease name who claimed the ask."""
    holder = _holder(actor, pk) if isinstance(refused, LeaseLost) else ""
    return f"{clean(holder)} claimed this ask. Your text is saved with it." if holder else refused.message


@require_POST
@ask_form
def answer(request: MemberRequest, pk: str) -> HttpResponse:
    """Send once: with the nonce a repeated press is the same answer. Scripts get JSON, plain forms a page."""
    wants_json = request.headers.get("Accept") == "application/json"
    try:
        sent = _send(request, pk)
    except AppError as refused:
        if wants_json:
            return _refusal(refused, request.actor, pk)
        late = isinstance(refused, TooLate)
        # a late text is stored beside the ask; any other is shown in the form again
        given = {} if late else _given_again(request, pk, refused)
        return _ask(request, pk, _words(refused, request.actor, pk), refused.status, **given)
    following, lease = (None, None) if _watches(request) else _claim_next(request)
    shown = pk if _watches(request) else following
    where = reverse("ask", args=[shown]) if shown else reverse("queue")
    if not wants_json:
        return redirect(where)
    reply: dict[str, Any] = {"next": where, "ask": pk, "sent_at": sent.created_at.isoformat()}
    if following and (fetched := request.headers.get("X-Swap")):
        # messages belong on the page that shows next, and the fetched one was made without them
        if lease is not None and fetched == following and not len(messages.get_messages(request)):
            reply["lease"] = {"token": lease.lease_token, "until": lease.lease_until.isoformat()}
        else:  # a second request for the page would double the wait
            reply["page"] = _ask(request, following, frame=SWAPPED).content.decode()
    return JsonResponse(reply)


def _given_again(request: MemberRequest, pk: str, refused: AppError) -> dict[str, Any]:
    """Return what a refused form said, for the page that shows it again."""
    said = {"given_text": request.POST.get("text", ""), "nonce": request.POST.get("nonce", "")}
    typed = typed_again(request, asks_of(request.actor).get(pk=pk))
    return {**said, "given_decision": typed, "may_overrule": isinstance(refused, ReturnedByModel)}


@require_POST
@ask_form
def edit(request: MemberRequest, pk: str) -> HttpResponse:
    """Edit the person's answer, until the agent has read it."""
    wants_json = request.headers.get("Accept") == "application/json"
    try:
        one = asks_of(request.actor).get(pk=pk)
        body = checked_body(request, one, "mine")
        advising.edit(
            request.actor,
            pk,
            body.text,
            body.tool_calls,
            body.nonce,
            drafted_by=request.POST.get("drafted_by", ""),
            decision=body.decision,
            anyway="anyway" in request.POST,
            asks_back=body.asks_back,
        )
    except AppError as refused:
        if wants_json:
            raise
        if isinstance(refused, Used):
            # the page of a closed ask has no form: it offers to save this text as an annotation
            desk.keep_refused(request.actor, one.assignment.pk, request.POST.get("text", ""), None)
        given = _given_again(request, pk, refused)
        return _ask(request, pk, _words(refused, request.actor, pk), refused.status, amend=True, **given)
    return JsonResponse({"next": reverse("ask", args=[pk])}) if wants_json else redirect("ask", pk)


def _watches(request: MemberRequest) -> bool:
    return "watch" in (request.POST.get("then"), request.POST.get("watch"))


def _send(request: MemberRequest, pk: str) -> Advice:
    """Return the answer to this ask, sent also to the chosen asks with the same question.

    Refusals are shown on the next page.
    """
    actor, slot, token = _lease(request, pk)
    one = asks_of(actor).get(pk=pk)
    checked = checked_body(request, one, token)
    given, drafted_by = (checked.text, checked.nonce, checked.tool_calls), request.POST.get("drafted_by", "")
    # read before the answer is sent, so that a wrong one refuses the whole
    ahead = _standing(request, one)
    # the same press again, whose first response was lost, gives none twice
    repeated = Advice.objects.filter(ask=pk, author_key=actor.key, nonce=checked.nonce, late=False).exists()
    sent = advising.answer(
        actor,
        slot,
        token,
        *given,
        drafted_by=drafted_by,
        decision=checked.decision,
        anyway="anyway" in request.POST,
        asks_back=checked.asks_back,
    )
    for wanted in [] if repeated else ahead:
        give_ahead(request, wanted, "The answer is sent. Calls like it are not approved")
    # a question to one agent is none to the others
    if (chosen := request.POST.getlist("with")) and not checked.asks_back:
        text, nonce, calls = given
        one = Ask.objects.get(pk=pk)
        # a form can list any number of asks
        more = {"drafted_by": drafted_by, "overruled": sent.overruled}
        said = advising.answer_group(actor, one, text, calls, nonce, chosen[:200], **more)
        _tell_family(request, said)
    return sent


def _standing(request: MemberRequest, ask: Ask) -> list[StandingAnswerBody]:
    """Return the standing answers of the form: each for an approved call, for some hours.

    With verifier access they hold in the ask's run only: elsewhere they would decide blind asks.
    """
    text = request.POST.get("standing", "")
    given = parse_typed(text, "The standing answers") if text else []
    try:
        wanted = [
            StandingAnswerBody.model_validate(
                {name: value for name, value in one.items() if name != "hours"}
                | {"until": timezone.now() + timedelta(hours=one["hours"])}
            )
            for one in given[:CALLS_MAX]
        ]
    except (ValidationError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Invalid("The standing answer is not readable. Uncheck it and check it again.") from error
    own = ask.episode.run_id
    if ask.privilege != Privilege.BLIND and any(not one.run or one.run != own for one in wanted):
        raise Invalid("With verifier access, calls are approved ahead in the ask's run only.")
    return wanted


def _tell_family(request: MemberRequest, said: dict[str, str]) -> None:
    served = sum(not why for why in said.values())
    if served:
        messages.success(request, f"Sent to {served + 1} asks.")
    names = {one.pk: str(one.episode) for one in asks_of(request.actor).filter(pk__in=said)}
    for pk, why in said.items():
        if why:
            messages.warning(request, f"Not sent to {names[pk]}: {why}")


def _claim_next(request: MemberRequest) -> tuple[str | None, queue.AskClaim | None]:
    """Claim this person's next ask. Return its ID, if there is one, and the lease unless someone else claimed it."""
    actor = request.actor
    fetched = request.headers.get("X-Swap", "")
    if fetched not in ("", "page"):  # the page's next ask, which it drops as soon as another ask opens
        with suppress(AppError):
            return fetched, queue.claim(actor, fetched)
    found = board.next_for(actor, timezone.now())
    if found is None:
        messages.success(request, "Sent. No other asks to claim.")
        return None, None
    try:
        return found.pk, queue.claim(actor, found.pk)
    except AppError:
        messages.warning(request, "Sent. Someone else claimed the next ask first.")
    return found.pk, None
