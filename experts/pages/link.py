"""The page of an answer link: one ask, without a session, a menu, steps or tables.

Owns HTTP status and form texts. Every write is a function of `links.py`. A link that is no longer in force shows no
names and no calls.
"""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from episodes.show.decisions import decided_lines
from experts import endings
from experts.find import one_ask
from experts.find.answer_links import AnswerLink, link_of
from experts.find.pictured import pictures_line
from experts.looking import ReturnedByModel
from experts.models import QuorumDecision
from experts.pages.answer import SentAnswer, decision_of, typed_again
from experts.record import closing, links
from experts.rules import decision_fields
from experts.rules.decisions import refusal_words
from experts.who import counting
from people.errors import AppError, Invalid
from people.requests import addresses
from people.requests.forms import is_named, read

TEXT_MAX = 20_000


@require_http_methods(["GET", "HEAD", "POST"])
def answer_link(request: HttpRequest, token: str) -> HttpResponse:
    """Show the ask of a link and take its one answer; then say who answered and when. Opening it changes nothing."""
    link = link_of(token, timezone.now())
    if link is None:
        return _page(request, {}, 410)
    if request.method != "POST":
        return _show(request, link)
    form = read(request.POST, SentAnswer)
    try:
        if is_named(request.POST, "withdraw"):
            links.withdraw(link)
        else:
            if len(form.text) > TEXT_MAX:
                raise Invalid(f"Enter at most {TEXT_MAX:,} characters.")
            decision = decision_of(request, link.ask, begun=_begun(counting.edit_of(link.ask)))
            links.answer(link, form.text, decision, anyway=form.anyway, seen=form.seen)
    except AppError as refused:
        return _show(request, link, refused, form)
    return redirect(request.path)


def _begun(edited: QuorumDecision | None) -> dict[str, Any] | None:
    """Return the decision that a form begins with: a colleague's edit, which this person is asked to approve."""
    return {"calls": counting.calls_of_edit(edited)} if edited is not None else None


def _show(
    request: HttpRequest, link: AnswerLink, refused: AppError | None = None, form: SentAnswer | None = None
) -> HttpResponse:
    # read again: a refusal can mean that someone else was first
    closing.close_if_due(link.ask.pk)
    # before the ask: of an answer that is sent between both reads, the ask alone would look withdrawn
    own_advice = link.said
    current = link_of(link.token, timezone.now())
    if current is None:
        return _page(request, {}, 410)
    ask = current.ask
    mine = current.gave(ask.accepted)
    # its answer was withdrawn: a link works once
    counted = own_advice is not None and ask.decisions.filter(advice=own_advice, counts=True).exists()
    if own_advice is not None and not own_advice.late and not mine and not counted and ask.is_open:
        return _page(request, {}, 410)
    advice = ask.accepted if not ask.is_open else None
    asked, form, edited = one_ask.asked_for(ask), form or SentAnswer(), counting.edit_of(ask) if ask.is_open else None
    begun, seen = _begun(edited), edited.calls_digest if edited is not None else ""
    # what was decided on a form without this edit is not decided on this one
    typed = form.decision if seen == form.seen else ""
    again = typed_again(request, ask, begun) if seen == form.seen else None
    context = {
        "link": current,
        "ask": ask,
        "asked": asked,
        "pictures_line": pictures_line(ask),
        "plain": decision_fields.fields_of(asked.typed, again or begun) if asked.typed else None,
        "edited": edited,
        "edited_lines": decided_lines(ask.typed, edited.advice.decision) if edited is not None else [],
        "seen": seen,
        "mine": mine,
        "counted": counted and ask.is_open,
        "headline": "" if ask.is_open else endings.headline(ask),
        "said": advice,
        "lines": decided_lines(ask.typed, advice.decision) if advice is not None else [],
        "may_withdraw": mine and ask.consumed_at is None and ask.episode.is_live,
        "problem": refusal_words(refused) if refused is not None else "",
        "may_overrule": isinstance(refused, ReturnedByModel),
        "text": form.text,
        "decision": typed or (json.dumps(begun) if begun is not None else ""),
        "ask_path": addresses.in_project(ask.project.slug, f"/asks/{ask.pk}/"),
    }
    return _page(request, context, refused.status if refused is not None else 200)


def _page(request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
    # without the menu, also for someone who is signed in: the answer is recorded under the name of the link
    page = render(request, "experts/ask/answer_link.html", {"shell": None, **context}, status=status)
    # The address is the right to answer, so no other site and no index may learn it. Not `no-referrer`: browsers
    # then send forms without an origin, and they are refused.
    page["Referrer-Policy"] = "same-origin"
    page["X-Robots-Tag"] = "noindex"
    return page
