"""Pages of the desk: the queue, actions on its rows, the next ask, and bulk actions.

Owns HTTP status, redirects and form texts. Every write is a function of `queue.py`; what is shown is `board.py`'s.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Annotated, Any

from django.contrib import messages
from django.http import HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST
from pydantic import Field

from awmclient.nouns.typed import REASON_MAX
from episodes.show.decisions import value_in_words
from experts.errors import TooLate
from experts.find import board, filters, held_answers, my_answers
from experts.find.panels import ways_of_project
from experts.find.reading import active_standing, asks_of
from experts.models import Ask, StandingAnswer
from experts.pages.answer import LeaseForm, declined_words, give_ahead, transferred
from experts.record import batch, closing, desk, queue, standing_answers
from experts.who import declining, eligibility, online, policies
from people.access import (
    Actor,
    MemberRequest,
    holds,
    is_id,
    may_advise,
    may_see_queue,
    may_set_desk,
    member_required,
    visible_or_404,
)
from people.errors import AppError, Invalid, NotFound
from people.requests.addresses import is_visit
from people.requests.forms import DIGITS_MAX, FormFields, cut, ids_of, number_in, read, text_of
from people.requests.parts import part_of
from people.requests.selections import keep, take
from people.slots import SlotState
from people.text.in_words import count as counted
from people.text.plain_text import clean
from people.text.zones import midnight, zone_of

BULK_MAX = 500
PAGE_NAME = "queue"
VALUE_CHARS = 80
"""Of an argument that a standing answer names, in its row."""
AWAY_MINUTES = ("15", "30", "60", "120", "240", "480")
"""How long a person can set themselves to Away; the menu offers them."""


@require_GET
@member_required(may_see_queue)
def queue_page(request: MemberRequest) -> HttpResponse:
    """Show the open asks, nearest deadline first, with the query string's facet, filters, sort, search and page.

    `parts=rows` leaves out everything that can load a moment later, so that a new ask appears sooner; `parts=day` is
    the rest.
    """
    actor, now, parts = request.actor, timezone.now(), text_of(request.GET, "parts")
    wish = filters.QueueQuery.read(request.GET)
    if parts == "day" and not is_visit(request):
        day = {"wish": wish, "may_advise": holds(actor, may_advise), **_day(actor, wish, now, zone_of(request))}
        return render(request, "experts/queue/_day.html", day)
    seen = board.board_of(actor, now, wish)
    context = {
        "frame": "experts/desk/_parts.html" if request.htmx else "base.html",  # type: ignore[attr-defined]
        "wish": wish,
        "board": seen,
        "rows": seen.rows,
        "outside": len(seen.found) - seen.matching,
        "filtered": wish.narrows,
        "facets": filters.facets(seen.found, wish),
        "choices": filters.choices(seen.found, wish),
        "sorts": [(name, order.label) for name, order in filters.SORTS.items()],
        "headline": _headline(seen, wish, now),
        "reasons": board.reasons(seen.found, now, policies.desk_of(actor.project).capacity),
        "before": wish.query(page=wish.page - 1) if wish.page > 1 else "",
        "after": wish.query(page=wish.page + 1) if wish.page < seen.pages else "",
        "here": wish.query(page=wish.page),
        "may_advise": holds(actor, may_advise),
        "may_direct": holds(actor, may_set_desk),
        "nonce": secrets.token_urlsafe(12),
        "kept_selection": take(request, PAGE_NAME) if is_visit(request) else "",
        "ways": ways_of_project(actor, now) if holds(actor, may_advise) else [],
        **({} if parts == "rows" else _day(actor, wish, now, zone_of(request))),
    }
    return render(request, "experts/queue/queue.html", context)


def _headline(seen: board.Board, wish: filters.QueueQuery, now: datetime) -> tuple[str, datetime | None]:
    if seen.rows or not wish.q:
        return board.headline(seen.found, now)
    return f"No open asks match “{wish.q}”.", None


def _day(actor: Actor, wish: filters.QueueQuery, now: datetime, zone: tzinfo) -> dict[str, Any]:
    """Return who is online, today's results, and the asks that closed last."""
    outlook = online.outlook(actor.project, now)
    today, standing = board.closed_today(actor, midnight(now, zone)), active_standing(actor)
    return {
        "desk": outlook,
        "underline": board.underline(outlook),
        "today": today,
        "bar": board.burn_down(today),
        "closed": board.closed_rows(actor, wish.q),
        "standing": [(row, _same_values(row), _other_values(row)) for row in standing],
        "standing_used": sum(row.used for row in standing),
    }


def _same_values(standing: StandingAnswer) -> list[tuple[str, str]]:
    """Return the arguments that must be equal, as people read JSON, each short enough for a row."""
    pairs = ((clean(name), value_in_words(value)) for name, value in standing.arguments.items())
    return [
        (name[:VALUE_CHARS], f"{value[:VALUE_CHARS]}…" if len(value) > VALUE_CHARS else value) for name, value in pairs
    ]


def _other_values(standing: StandingAnswer) -> str:
    """Return which arguments a covered call can have beside those that must be equal, in words."""
    others = standing.any_value
    if others is None:
        return "and any other arguments" if standing.arguments else "any arguments"
    if not others:
        return "and no other arguments" if standing.arguments else "no arguments"
    names = ", ".join(clean(name)[:VALUE_CHARS] for name in others)
    return f"{names} with any value, no other arguments"


@require_POST
@member_required(may_advise)
def end_standing(request: MemberRequest, pk: str) -> HttpResponse:
    """End a standing answer and show the queue."""
    ended = standing_answers.end(request.actor, pk)
    messages.success(request, f"Ended. It approved {counted(ended.used, 'call')}.")
    return redirect("queue")


class BulkForm(FormFields):
    """A command on the chosen asks, and the query string of the queue that it came from."""

    asks: Annotated[list[str], Field(alias="ask")] = []
    back: str = ""
    do: str = ""
    to: str = ""
    priority: str = ""
    verdict: str = ""
    reason: Annotated[str, cut(REASON_MAX)] = ""
    nonce: str = ""

    @property
    def chosen(self) -> list[str]:
        return [*filter(is_id, self.asks)][:BULK_MAX]

    @property
    def page(self) -> str:
        return f"{reverse('queue')}{_query(self.back)}"


@require_POST
@member_required(may_advise)
def decide_together(request: MemberRequest) -> HttpResponse:
    """Approve or reject the chosen approvals; refusals are shown with their reasons and stay selected.

    With the verdict `ahead` they are approved, and calls like them by a standing answer.
    """
    form = read(request.POST, BulkForm)
    chosen, verdict, ahead = form.chosen, form.verdict, None
    try:
        if verdict == "ahead":
            verdict, alike = "approve", batch.alike(request.actor, chosen)
            # read before anything is approved, so that a wrong one refuses the whole
            ahead = batch.ahead_of(alike, read(request.POST, batch.AheadForm))
        hold_s = policies.undo_s_of(request.actor.project)
        outcomes = batch.decide(request.actor, chosen, verdict, form.reason, form.nonce, hold_s)
    except AppError as refused:
        messages.warning(request, refused.message)
        keep(request, PAGE_NAME, chosen)
        return redirect(form.page)
    done = sum(not why for why in outcomes.values())
    if done:
        word = "Approved" if verdict == "approve" else "Rejected"
        held = held_answers.of(request.actor, timezone.now())
        now_held = [pk for pk in held.asks if outcomes.get(pk) == ""] if held is not None else []
        past = done - len(now_held)
        # the toast says what is held
        if not now_held:
            messages.success(
                request, f"{word} {counted(done, 'call')}. You can withdraw each until its agent reads it."
            )
        elif past > 0:
            messages.success(request, f"{word} {counted(past, 'call')} without time to undo: the deadline is near.")
        if ahead is not None:
            press = f"ahead {form.nonce or secrets.token_urlsafe(12)}"
            give_ahead(request, ahead, press, "The calls are approved. Calls like them are not")
    keep(request, PAGE_NAME, [pk for pk, why in outcomes.items() if why])
    for why, count in Counter(why for why in outcomes.values() if why).items():
        messages.warning(request, f"{count} not decided: {why}")
    return redirect(form.page)


@require_GET
@part_of("queue", "Approve calls like these")
@member_required(may_advise)
def ahead_together(request: MemberRequest) -> HttpResponse:
    """Show the form that approves the chosen approvals and calls like them, or why they cannot be."""
    chosen = ids_of(request.GET, "ask")[:BULK_MAX]
    context: dict[str, Any] = {"nonce": secrets.token_urlsafe(12), "back": _query(text_of(request.GET, "back"))}
    try:
        context["alike"] = batch.alike(request.actor, chosen)
    except AppError as refused:
        context["problem"] = refused.message
    return render(request, "experts/queue/_ahead.html", context)


@require_POST
@member_required(may_advise)
def next_ask(request: MemberRequest) -> HttpResponse:
    """Open the ask this person holds, or claim the next one; retry if someone else claims it first.

    With `view`, the query string of a queue, the next one is the first of that list.
    """
    actor, view = request.actor, text_of(request.POST, "view")
    wish = filters.QueueQuery.read(QueryDict(view[1:2000])) if view.startswith("?") else None
    # bounded: at a busy desk others can be faster again and again
    for _ in range(5):
        ask = board.next_for(actor, timezone.now(), wish=wish)
        if ask is None:
            break
        try:
            queue.claim(actor, ask.pk)
        except AppError:
            continue  # claimed or closed between the query and the claim; retry
        return redirect("ask", ask.pk)
    messages.info(request, f"No ask to claim right now{_why_none(actor)}.")
    return redirect("queue")


def _why_none(actor: Actor) -> str:
    """Return why this person can claim none of the open asks, as the end of a sentence."""
    now = timezone.now()
    reasons = board.reasons(eligibility.spots(actor, now), now, policies.desk_of(actor.project).capacity)
    return "".join((": ", ", ".join(one.words for one in reasons))) if reasons else ""


@require_GET
@member_required(may_see_queue)
def newest_ask(request: MemberRequest) -> HttpResponse:
    """Show the newest ask that this person can act on, without claiming it."""
    spot = eligibility.newest_of(eligibility.spots(request.actor, timezone.now()))
    if spot is not None:
        return redirect("ask", spot.pk)
    messages.info(request, f"No ask to open right now{_why_none(request.actor)}.")
    return redirect("queue")


@require_GET
@member_required(may_advise)
def my_answers_page(request: MemberRequest) -> HttpResponse:
    """Show the person's own answers, or with `standing=ID` what that one decided, and what became of them."""
    if standing_id := text_of(request.GET, "standing"):
        return _decided_page(request, standing_id)
    answers = my_answers.my_answers(request.actor)
    read = sum(one.ask.consumed_at is not None and one.became != "Withdrawn." for one in answers)
    shown = f"Your last {len(answers)} answers" if len(answers) == my_answers.SHOWN else f"{len(answers)} answers"
    headline = f"{shown}, {read} read by agents." if len(answers) != 1 else f"1 answer, {read} read by its agent."
    return render(request, "experts/queue/my_answers.html", {"answers": answers, "headline": headline})


def _decided_page(request: MemberRequest, standing_id: str) -> HttpResponse:
    visible_or_404(StandingAnswer.objects.all(), request.actor, standing_id)
    standing = StandingAnswer.objects.get(pk=standing_id)
    answers = my_answers.decided_by(request.actor, standing)
    headline = f"The standing answer for {clean(standing.tool)} approved {counted(standing.used, 'call')}."
    context = {"answers": answers, "headline": headline, "standing": standing, "shown": my_answers.SHOWN}
    return render(request, "experts/queue/my_answers.html", context)


@require_POST
@member_required(may_advise, rows=Ask.objects.all)
def row_action(request: MemberRequest, pk: str, action: str) -> HttpResponse:
    """Claim, release, decline or transfer an ask and stay in the queue. Return JSON for scripts, else redirect."""
    actions = {"claim": _claim, "release": _release, "pass": _decline, "hand": _transfer}
    if action not in actions:
        raise NotFound
    wants_json = request.headers.get("Accept") == "application/json"
    try:
        words = actions[action](request, pk)
    except AppError as refused:
        if wants_json:
            error = {"code": refused.code, "message": refused.message}
            return JsonResponse({"error": error}, status=refused.status)
        messages.warning(request, refused.message)
        return redirect("queue")
    if wants_json:
        return JsonResponse({"said": words})
    messages.success(request, words)
    return redirect("queue")


def _claim(request: MemberRequest, pk: str) -> str:
    queue.claim(request.actor, pk)
    return "Claimed. Press Enter to open it."


def _release(request: MemberRequest, pk: str) -> str:
    slot = visible_or_404(asks_of(request.actor), request.actor, pk).assignment
    queue.release(request.actor, slot.pk, text_of(request.POST, "lease_token"))
    return f"Released. {declining.released(slot.ask, request.actor.key, timezone.now())}."


def _decline(request: MemberRequest, pk: str) -> str:
    queue.decline_unclaimed(request.actor, pk, read(request.POST, LeaseForm).reason)
    return declined_words(request.actor, pk)


def _transfer(request: MemberRequest, pk: str) -> str:
    """Transfer an ask: one's own with the lease, others with a manager role."""
    actor, form = request.actor, read(request.POST, LeaseForm)
    slot = visible_or_404(asks_of(actor), actor, pk).assignment
    if actor.owns(slot.holder) and slot.state == SlotState.CLAIMED:
        queue.escalate(actor, slot.pk, slot.lease_token, form.to, form.reason)
    else:
        queue.transfer(actor, pk, form.to, form.reason)
    return transferred(actor, form.to)


@require_POST
@member_required()
def presence(request: MemberRequest) -> HttpResponse:
    """Record presence; with `away`, set Available or Away, for some `minutes` or without an end. Sent by every visible
    page."""
    choice, minutes, now = text_of(request.POST, "away"), text_of(request.POST, "minutes"), timezone.now()
    until = now + timedelta(minutes=int(minutes)) if minutes in AWAY_MINUTES else None
    desk.seen(request.actor, {"1": True, "0": False}.get(choice), until)
    away = online.away_of(request.actor, now)
    if request.headers.get("Accept") == "application/json":
        end = away.away_until.isoformat() if away is not None and away.away_until else ""
        return JsonResponse({"away": away is not None, "until": end})
    back = request.headers.get("Referer", "")
    # a Referer can name any site
    return redirect(back if url_has_allowed_host_and_scheme(back, {request.get_host()}) else "queue")


@require_POST
@member_required(may_set_desk)
def bulk(request: MemberRequest) -> HttpResponse:
    """Do the same for every chosen ask: set priority, transfer or cancel.

    Each is its own transaction; refusals are shown with their reasons.
    """
    form = read(request.POST, BulkForm)
    try:
        act, words = _bulk_act(request.actor, form)
    except AppError as refused:
        messages.warning(request, refused.message)
        keep(request, PAGE_NAME, form.chosen)
        return redirect(form.page)
    done, refusals, left = 0, Counter[str](), list[str]()
    for pk in form.chosen:
        try:
            act(pk)
            done += 1
        except AppError as refused:
            refusals[refused.message] += 1
            left.append(pk)
    if left:
        keep(request, PAGE_NAME, left)
    if done:
        messages.success(request, f"{done} {'ask' if done == 1 else 'asks'} {words}.")
    for why, count in refusals.items():
        messages.warning(request, f"{count} not changed: {why}")
    return redirect(form.page)


def _query(back: str) -> str:
    return back[:2000] if back.startswith("?") and len(back) > 1 else ""


def _bulk_act(actor: Actor, form: BulkForm) -> tuple[Callable[[str], Any], str]:
    """Return the action for each ask, and its past participle for the message."""
    if not form.asks:
        raise Invalid("Select asks first (x or the checkbox).")
    if form.do == "priority":
        priority = number_in(form.priority.strip(), DIGITS_MAX, -DIGITS_MAX)
        if priority is None:
            raise Invalid("Enter a priority as a whole number, for example 5 or -2.")
        return partial(queue.set_priority, actor, priority=priority), f"set to priority {priority}"
    if form.do == "cancel":
        return partial(_cancel, actor), "cancelled"
    if form.do == "transfer":
        words = transferred(actor, form.to)[:-1]
        return partial(queue.transfer, actor, to=form.to), words[:1].lower() + words[1:]
    raise Invalid("Choose an action: priority, transfer or cancel.")


def _cancel(actor: Actor, pk: str) -> None:
    if not visible_or_404(Ask.objects.all(), actor, pk).is_open:
        raise TooLate("This ask is closed.")
    closing.cancel(actor, pk, "desk")
