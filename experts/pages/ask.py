"""Pages about one ask, and the forms that claim, renew, release, decline and answer. The queue is `pages/queue.py`'s.

Owns HTTP status, redirects and form texts. Every write is a function of `queue.py` or `advising.py`; what is shown is
`board.py`'s.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from pydantic import ValidationError

from awmclient.nouns.typed import CALLS_MAX
from awmclient.schema import StandingAnswerBody
from episodes.show import wall, windows
from episodes.show.decisions import decided_lines
from episodes.visible.lens import lens_of
from experts import endings
from experts.errors import AlreadyClaimed, LeaseLost, TooLate, Used
from experts.find import board, held_answers, one_ask
from experts.find.one_ask import RefusedForm
from experts.find.panels import Mine, calls_of, family_of, mine_of, same_question_of, unsent, written_by
from experts.find.reading import asks_of
from experts.looking import ReturnedByModel
from experts.models import Advice, Ask, ModelCall, Privilege
from experts.pages.answer import (
    LeaseForm,
    SentAnswer,
    ask_form,
    ask_page,
    checked_body,
    declined_words,
    give_ahead,
    tags_for,
    typed_again,
)
from experts.record import advising, batch, closing, desk, queue
from experts.rules.decisions import Misfit, refusal_words
from experts.rules.suggested_calls import UnfitCalls
from experts.who import declining, policies
from people.access import (
    Actor,
    MemberRequest,
    holds,
    may_advise,
    may_annotate,
    visible_or_404,
)
from people.errors import AppError, Invalid
from people.requests.forms import is_named, read, text_of
from people.requests.parts import part_of
from people.requests.selections import take
from people.text.json_text import parse_typed
from people.text.plain_text import clean

NOT_REFUSED = RefusedForm()
SWAPPED = "_swapped.html"
"""The frame of an ask that is swapped into an open page."""


@require_GET
@ask_page
def ask(request: MemberRequest, pk: str) -> HttpResponse:
    # any reader of an expired ask closes it
    closing.close_if_due(pk)
    return _ask(request, pk)


def _ask(
    request: MemberRequest,
    pk: str,
    refused: RefusedForm = NOT_REFUSED,
    *,
    amend: bool = False,
    ahead: bool = False,
    looks: bool = False,
    frame: str = "",
) -> HttpResponse:
    """Show the page of one ask for this person; `ahead`, as if they had claimed it, and so if one only `looks` at one
    that they can claim."""
    actor, now = request.actor, timezone.now()
    row = visible_or_404(asks_of(actor), actor, pk)
    looks = looks and one_ask.is_free(actor, row, now)
    asked, claim = one_ask.asked_for(row), one_ask.claim_of(actor, row, now, ahead or looks)
    result, lens = _result(row, actor), lens_of(actor, row.episode)
    is_edit = result.own.may_edit and (amend or is_named(request.GET, "amend"))
    holds_it = row.is_open and claim.is_mine
    nonce = secrets.token_urlsafe(12)
    undone = "" if ahead else take(request, pk)
    holds_own = row.held is not None and actor.owns(row.held.author_key)
    context = {
        **_beside(row),
        "frame": frame,
        "ahead": ahead,
        "looks": looks,
        "me": actor.name,
        "may_advise": holds(actor, may_advise),
        "may_annotate": holds(actor, may_annotate),
        "holds_own": holds_own,
        "held_lines": decided_lines(row.typed, row.held.decision) if holds_own and row.held is not None else [],
        "asked": asked,
        "background": one_ask.background_of(row, row.assignment.is_held(now)),
        "claim": claim,
        "form": one_ask.form_of(actor, row, asked, is_edit, refused, nonce, for_scripts=bool(frame))
        if is_edit or holds_it
        else None,
        "help": one_ask.help_for(actor, row, now) if holds_it else None,
        "undone": undone.split(),
        "around": one_ask.steps_around(lens, row),
        "result": result,
        "late": board.late_words(row),
        "unsent": None if row.is_open else unsent(actor, row),
        # a page that is fetched ahead is not being looked at
        "looking": desk.look_at(actor, row.pk) if row.is_open and not ahead else [],
        "tags": tags_for(actor, row),
        "tools": wall.tools_of(row.episode),
        "problem": refused.problem,
    }
    return render(request, "experts/ask/ask.html", context, status=refused.status)


@require_GET
@part_of("ask")
@ask_page
def look(request: MemberRequest, pk: str) -> HttpResponse:
    """Show an ask beside the queue, with its form if this person can claim it. Claims nothing."""
    closing.close_if_due(pk)
    return _ask(request, pk, looks=True, frame=SWAPPED)


@require_GET
@part_of("ask")
@ask_form
def ahead(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the page of the person's next ask as if they had claimed it. Claims nothing."""
    upcoming = board.next_for(request.actor, timezone.now(), after=pk)
    if upcoming is None:
        return HttpResponse(status=204)
    page = _ask(request, upcoming.pk, ahead=True, frame=SWAPPED).content.decode()
    return JsonResponse({"ask": upcoming.pk, "page": page})


@dataclass(frozen=True)
class AskResult:
    """What happened since the ask, and what this person can still do about it."""

    headline: str
    line: str
    outcome: str
    own: Mine
    family: list[Mine]
    calls: list[tuple[ModelCall, str]]


def _result(row: Ask, actor: Actor) -> AskResult:
    return AskResult(
        headline=endings.headline(row, actor),
        line=endings.line(row),
        outcome=board.outcome_of(actor, row),
        own=mine_of(actor, row, timezone.now()),
        family=[] if row.is_open else family_of(actor, row),
        calls=[] if row.is_open else calls_of(row),
    )


def _beside(row: Ask) -> dict[str, Any]:
    """Return what steps and the head are drawn from."""
    return {
        "ask": row,
        "episode": row.episode,
        "ended": not row.episode.is_live,
        "budget": row.episode.max_steps if row.episode.is_live else None,
    }


@require_GET
@part_of("ask")
@ask_page
def ask_fragments(request: MemberRequest, pk: str) -> HttpResponse:
    """Return steps as for an episode's page, with the texts about this ask."""
    row = visible_or_404(asks_of(request.actor), request.actor, pk)
    wish, lens = read(request.GET, windows.StepsAddress), lens_of(request.actor, row.episode)
    steps = windows.after(lens, row.episode, wish.since, wish.limit, wish.again, one_ask.last_beside(lens, row))
    parts = _parts(request.actor, row) if wish.parts != "0" else {}
    return render(request, "experts/ask/_fragments.html", {**_beside(row), "steps": steps, **parts})


def _parts(actor: Actor, row: Ask) -> dict[str, Any]:
    mine = row.is_open and row.held_id is None and actor.owns(row.assignment.holder)
    return {
        "parts": True,
        "looking": desk.look_at(actor, row.pk),
        "asked": one_ask.asked_for(row),
        "same_question": same_question_of(actor, row, timezone.now()) if mine else None,
        "result": _result(row, actor),
    }


@require_POST
@ask_form
def claim(request: MemberRequest, pk: str) -> HttpResponse:
    """Claim an ask and open it. A person who is too late sees who claimed it. Scripts get the lease."""
    if request.headers.get("Accept") == "application/json":
        return _claim_here(request, pk)
    try:
        queue.claim(request.actor, pk)
    except AlreadyClaimed:
        messages.warning(request, "Someone else claimed this ask first.")
    except AppError as refused:
        messages.warning(request, refused.message)
    return redirect("ask", pk)


def _claim_here(request: MemberRequest, pk: str) -> JsonResponse:
    try:
        lease = queue.claim(request.actor, pk)
    except AppError as refused:
        return _refusal(refused, request.actor, pk)
    return JsonResponse({"token": lease.lease_token, "until": lease.lease_until.isoformat()})


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
        ask = asks_of(request.actor).get(pk=pk)
        who = declining.released(ask, request.actor.key, timezone.now())
        kept = " Your text is saved." if unsent(request.actor, ask) else ""
        messages.success(request, f"Released. {who}.{kept}")
    except AppError as refused:
        messages.warning(request, refused.message)
    return redirect("queue")


@require_POST
@ask_form
def pass_on(request: MemberRequest, pk: str) -> HttpResponse:
    try:
        queue.decline(*_lease(request, pk), read(request.POST, LeaseForm).reason)
    except AppError as refused:
        messages.warning(request, refused.message)
        return redirect("ask", pk)
    messages.success(request, declined_words(request.actor, pk))
    return redirect("queue")


def _lease(request: MemberRequest, pk: str) -> tuple[Actor, str, str]:
    actor = request.actor
    slot = visible_or_404(asks_of(actor), actor, pk).assignment
    return actor, slot.pk, text_of(request.POST, "lease_token")


def _refusal(refused: AppError, actor: Actor, pk: str) -> JsonResponse:
    """Return a refusal for scripts. That of a lost lease names who has the ask now, and that of a
    value its field."""
    error: dict[str, Any] = {"code": refused.code, "message": _words(refused, actor, pk)}
    if isinstance(refused, LeaseLost):
        error["held_by"] = _holder(actor, pk)
    if isinstance(refused, Misfit | UnfitCalls):
        error["fields"] = refused.fields()
    return JsonResponse({"error": error}, status=refused.status)


def _holder(actor: Actor, pk: str) -> str:
    """Return who else has the ask now; "" if no one."""
    slot = visible_or_404(asks_of(actor), actor, pk).assignment
    return slot.holder_name if slot.is_held(timezone.now()) and not actor.owns(slot.holder) else ""


def _words(refused: AppError, actor: Actor, pk: str) -> str:
    """Return the words of a refusal; those of a lost lease name who claimed the ask."""
    holder = _holder(actor, pk) if isinstance(refused, LeaseLost) else ""
    if holder:
        return f"{clean(holder)} claimed this ask. Your text is saved with it."
    return refusal_words(refused)


@require_POST
@ask_form
def check(request: MemberRequest, pk: str) -> HttpResponse:
    """Name all that a form's answer breaks and send nothing: scripts check only a part of it."""
    ask = visible_or_404(asks_of(request.actor), request.actor, pk)
    try:
        body = checked_body(request, ask, "unsent")
        advising.check(ask, body.text, body.tool_calls, body.decision, read(request.POST, SentAnswer).seen)
    except AppError as refused:
        return _refusal(refused, request.actor, pk)
    return JsonResponse({})


@require_POST
@ask_form
def answer(request: MemberRequest, pk: str) -> HttpResponse:
    """Send once: with the nonce a repeated press is the same answer. Scripts get JSON, plain forms a page."""
    wants_json = request.headers.get("Accept") == "application/json"
    try:
        sent, served = _send(request, pk)
    except AppError as refused:
        if wants_json:
            return _refusal(refused, request.actor, pk)
        late = isinstance(refused, TooLate)
        # a late text is stored beside the ask; any other is shown in the form again
        return _ask(request, pk, _refused(request, pk, refused, with_form=not late))
    is_held = sent.ask.held_id == sent.pk
    following, lease = (None, None) if _watches(request) else _claim_next(request, "" if is_held else "Sent. ")
    shown = pk if _watches(request) else following
    where = reverse("ask", args=[shown]) if shown else reverse("queue")
    if not wants_json:
        return redirect(where)
    # delivery counts from the end of the hold
    leaves_at = sent.ask.held_until if is_held and sent.ask.held_until is not None else sent.created_at
    reply: dict[str, Any] = {"next": where, "ask": pk, "sent_at": leaves_at.isoformat(), "served": served}
    if (held := held_answers.of(request.actor, timezone.now())) is not None:
        reply["held"] = render_to_string("experts/_held.html", {"held": held}, request)
    if following and (fetched := request.headers.get("X-Swap")):
        # messages belong on the page that shows next, and the fetched one was made without them
        if lease is not None and fetched == following and not len(messages.get_messages(request)):
            reply["lease"] = {"token": lease.lease_token, "until": lease.lease_until.isoformat()}
        else:  # a second request for the page would double the wait
            reply["page"] = _ask(request, following, frame=SWAPPED).content.decode()
    return JsonResponse(reply)


def _refused(request: MemberRequest, pk: str, refused: AppError, with_form: bool = True) -> RefusedForm:
    """Return why a form was refused and what it said, for the page that shows it again."""
    why = RefusedForm(_words(refused, request.actor, pk), refused.status)
    if not with_form:
        return why
    ask = asks_of(request.actor).get(pk=pk)
    return replace(
        why,
        **read(request.POST, SentAnswer).model_dump(include={"text", "nonce"}),
        decision=typed_again(request, ask, begun=written_by(request.actor, ask).decision),
        may_overrule=isinstance(refused, ReturnedByModel),
    )


@require_POST
@ask_form
def edit(request: MemberRequest, pk: str) -> HttpResponse:
    """Edit the person's answer, until the agent has read it."""
    wants_json = request.headers.get("Accept") == "application/json"
    try:
        row = asks_of(request.actor).get(pk=pk)
        body = checked_body(request, row, "mine")
        advising.edit(
            request.actor,
            pk,
            body.text,
            body.tool_calls,
            body.nonce,
            drafted_by=text_of(request.POST, "drafted_by"),
            decision=body.decision,
            anyway=body.anyway,
            asks_back=body.asks_back,
        )
    except AppError as refused:
        if wants_json:
            return _refusal(refused, request.actor, pk)
        if isinstance(refused, Used):
            # the page of a closed ask has no form: it offers to save this text as an annotation
            desk.keep_refused(request.actor, row.assignment.pk, text_of(request.POST, "text"), None)
        return _ask(request, pk, _refused(request, pk, refused), amend=True)
    return JsonResponse({"next": reverse("ask", args=[pk])}) if wants_json else redirect("ask", pk)


def _watches(request: MemberRequest) -> bool:
    form = read(request.POST, SentAnswer)
    return "watch" in (form.then, form.watch)


def _send(request: MemberRequest, pk: str) -> tuple[Advice, list[str]]:
    """Return the answer to this ask, and to which of the chosen asks with the same question it went, too.

    Refusals are shown on the next page.
    """
    actor, slot, token = _lease(request, pk)
    row = asks_of(actor).get(pk=pk)
    checked = checked_body(request, row, token)
    hold_s = policies.undo_s_of(actor.project)
    answered, form = (checked.text, checked.nonce, checked.tool_calls), read(request.POST, SentAnswer)
    # read before the answer is sent, so that a wrong one refuses the whole
    ahead = _standing(request, row)
    sent = advising.answer(
        actor,
        slot,
        token,
        *answered,
        drafted_by=form.drafted_by,
        decision=checked.decision,
        anyway=checked.anyway,
        asks_back=checked.asks_back,
        hold_s=hold_s,
        seen=form.seen,
    )
    press = f"ahead {pk} {checked.nonce or secrets.token_urlsafe(12)}"
    for place, standing in enumerate(ahead):
        give_ahead(request, standing, f"{press} {place}", "The answer is sent. Calls like it are not approved")
    outcomes: dict[str, str] = {}
    # a question to one agent is none to the others
    if form.same_question and not checked.asks_back:
        outcomes = _serve_others(actor, pk, answered, sent, form, hold_s)
        _tell_family(request, pk, outcomes)
    return sent, [other for other, why in outcomes.items() if not why]


def _serve_others(
    actor: Actor, pk: str, answered: tuple[str, str, Any], sent: Advice, form: SentAnswer, hold_s: float
) -> dict[str, str]:
    """Send an answer to the other chosen asks that it serves. Return an empty text or why it was refused, by ask."""
    text, nonce, calls = answered
    # a form can list any number of asks
    row, chosen = Ask.objects.get(pk=pk), form.same_question[:200]
    if row.typed:
        return batch.decide_equal(actor, row, chosen, sent.decision, nonce, hold_s) if row.calls_digest else {}
    more = {"drafted_by": form.drafted_by, "overruled": sent.overruled}
    return advising.answer_group(actor, row, text, calls, nonce, chosen, hold_s=hold_s, **more)


def _standing(request: MemberRequest, ask: Ask) -> list[StandingAnswerBody]:
    """Return the standing answers of the form: each for an approved call, for some hours.

    With verifier access they hold in the ask's run only: elsewhere they would decide blind asks.
    """
    text = text_of(request.POST, "standing")
    rows = parse_typed(text, "The standing answers") if text else []
    try:
        bodies = [
            StandingAnswerBody.model_validate(
                {name: value for name, value in row.items() if name != "hours"}
                | {"until": timezone.now() + timedelta(hours=row["hours"])}
            )
            for row in rows[:CALLS_MAX]
        ]
    except (ValidationError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Invalid("The standing answer is not readable. Uncheck it and check it again.") from error
    own = ask.episode.run_id
    if ask.privilege != Privilege.BLIND and any(not one.run or one.run != own for one in bodies):
        raise Invalid("With verifier access, calls are approved ahead in the ask's run only.")
    return bodies


def _tell_family(request: MemberRequest, first: str, outcomes: dict[str, str]) -> None:
    served = [first, *(pk for pk, why in outcomes.items() if not why)]
    # of held ones the toast says it
    sent = len(served) - Ask.objects.filter(pk__in=served, held__isnull=False).count()
    if sent and len(served) > 1:
        messages.success(request, f"Sent to {sent} ask{'s' if sent > 1 else ''}.")
    names = {one.pk: str(one.episode) for one in asks_of(request.actor).filter(pk__in=outcomes)}
    for pk, why in outcomes.items():
        if why:
            messages.warning(request, f"Not sent to {names[pk]}: {why}")


def _claim_next(request: MemberRequest, done: str) -> tuple[str | None, queue.AskClaim | None]:
    """Claim this person's next ask; `done` are the words about the answer.

    Return its ID, if there is one, and the lease unless someone else claimed it.
    """
    actor = request.actor
    fetched = request.headers.get("X-Swap", "")
    if fetched not in ("", "page"):  # the page's next ask, which it drops as soon as another ask opens
        with suppress(AppError):
            return fetched, queue.claim(actor, fetched)
    upcoming = board.next_for(actor, timezone.now())
    if upcoming is None:
        messages.success(request, f"{done}No other asks to claim.")
        return None, None
    try:
        return upcoming.pk, queue.claim(actor, upcoming.pk)
    except AppError:
        messages.warning(request, f"{done}Someone else claimed the next ask first.")
    return upcoming.pk, None
