"""The answer page's smaller forms: drafts, similar answers, the verifier's text, tables, tags and quick replies.

Owns HTTP status and form texts of these. Leaves the page itself, claiming and sending to `pages/ask.py`. Every write is
a function of `queue.py`, `advising.py`, `desk.py` or `tagging.py`; what is shown is `panels.py`'s.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from ninja import Status
from pydantic import Field

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.schema import AnswerBody, StandingAnswerBody
from episodes.stored import packs, repairs
from experts.errors import DraftConflict
from experts.find.earlier_decisions import earlier_decisions
from experts.find.panels import (
    changeable_replies,
    model_draft,
    replies_of,
    shared_replies,
    tables_of,
    tags_of,
    typed_for_form,
    words_of_decision,
    written_by,
)
from experts.find.reading import asks_of
from experts.find.similar import earlier
from experts.models import Advice, Ask, Privilege, StandingAnswer
from experts.record import advising, desk, queue, standing_answers, tagging
from experts.rules import decision_fields
from experts.rules.suggested_calls import calls_of, refuse_unfit
from experts.who import advisers, declining
from people.access import (
    Actor,
    MemberRequest,
    is_id,
    may_advise,
    may_annotate,
    may_see_queue,
    member_required,
    visible_or_404,
)
from people.errors import AppError, Forbidden
from people.record import keyed_writes
from people.requests.forms import FormFields, Named, OptionalNumber, all_of, cut, is_named, read, text_of
from people.requests.parts import part_of
from people.requests.selections import keep
from people.text.in_words import count
from people.text.json_text import parse_typed
from people.text.plain_text import clean
from people.text.prose import prose

QUEUE = "queue"
UNDO_MAX = 200
"""Answers of one press: those of a batch, or of a question that many asks share."""
ask_page = member_required(may_see_queue, rows=Ask.objects.all)
ask_form = member_required(may_advise, rows=Ask.objects.all)
TRANSFERRED = {
    "llm": "Sent to the model.",
    "people": "Transferred to people.",
    "senior": "Escalated to the senior expert.",
}


def transferred(actor: Actor, to: str) -> str:
    """Return what a transfer did."""
    return TRANSFERRED.get(to) or f"Transferred to {advisers.name_of(actor.project, to)}."


def declined_words(actor: Actor, pk: str) -> str:
    """Return what a decline led to."""
    return f"Declined. {declining.after(asks_of(actor).get(pk=pk), timezone.now())}"


TAG_WORDS = {"question_needed": "needed", "answerable": "answerable", "asked_too_late": "too late"}
TAG_STATES = {"yes": "yes", "no": "no", "": "not set"}


class LeaseForm(FormFields):
    """A command under a lease: why, and to whom an ask goes."""

    lease_token: str = ""
    to: str = ""
    reason: Annotated[str, cut(1000)] = ""


class SentAnswer(FormFields):
    """An answer or its draft, as the page sends it: `tool_calls`, `decision` and `standing` are JSON of its script."""

    text: str = ""
    nonce: str = ""
    asks_back: Named = False
    anyway: Named = False
    tool_calls: str = ""
    decision: str = ""
    standing: str = ""
    seen: str = ""
    drafted_by: str = ""
    version: OptionalNumber = None
    same_question: Annotated[list[str], Field(alias="with")] = []
    then: str = ""
    watch: str = ""


def checked_body(request: MemberRequest, ask: Ask, token: str) -> AnswerBody:
    """Return a form's answer. Raises if it exceeds the limits or has calls that the agent's tools refuse."""
    form = read(request.POST, SentAnswer)
    calls, plain = calls_of(form.tool_calls), form.model_dump(include={"text", "nonce", "asks_back", "anyway"})
    decided = decision_of(request, ask, begun=written_by(request.actor, ask).decision)
    checked = read(plain, AnswerBody, lease_token=token, tool_calls=calls, decision=decided)
    refuse_unfit(calls, ask.episode.tools)
    return checked


def decision_of(request: HttpRequest, ask: Ask, begun: Any = None) -> Any:
    """Return the decision of a form: from the JSON of its script, or from plain fields without one, which began with
    a draft or an earlier decision; else None."""
    if (written := _written(request)) is not None:
        return written
    typed = typed_for_form(ask)
    return decision_fields.decision_of(typed, all_of(request.POST), begun) if typed and _is_plain(request) else None


def typed_again(request: HttpRequest, ask: Ask, begun: Any = None) -> dict[str, Any] | None:
    """Return what was typed into the plain fields of a refused form, to show it again."""
    typed = typed_for_form(ask)
    return decision_fields.draft_of(typed, all_of(request.POST), begun) if typed and _is_plain(request) else None


def _written(request: HttpRequest) -> Any:
    """Return the decision as a script wrote it; None without one."""
    text = text_of(request.POST, "decision")
    return parse_typed(text, "The decision") if text else None


def _is_plain(request: HttpRequest) -> bool:
    return is_named(request.POST, decision_fields.MARK)


def give_ahead(request: MemberRequest, body: StandingAnswerBody, press: str, refused_words: str) -> None:
    """Give a standing answer after what it came with, which stays sent if this one is refused. It is given once for a
    `press`, which names one of a form: the same press can come again, also at the same time."""
    try:
        made = keyed_writes.once(
            request.actor, press, f"ahead {body.tool}", lambda: standing_answers.give(request.actor, body)[1]
        )
        answered = made.value if isinstance(made, Status) else made
    except AppError as refused:
        messages.warning(request, f"{refused_words}: {refused.message}")
        return
    if answered:
        messages.success(request, f"The standing answer approved {count(answered, 'open ask')}.")


def _ask(request: MemberRequest, pk: str) -> Ask:
    return visible_or_404(asks_of(request.actor), request.actor, pk)


def _fragment(template: str, context: dict[str, Any]) -> HttpResponse:
    """Return a part of the page, without the context of the top bar."""
    return HttpResponse(render_to_string(template, context))


@require_POST
@ask_form
def save_draft(request: MemberRequest, pk: str) -> JsonResponse:
    """Save a draft. On a conflict with another device, return both texts to choose from."""
    form = read(request.POST, SentAnswer)
    try:
        calls, decision = calls_of(form.tool_calls), _written(request)
        more = {"drafted_by": form.drafted_by, "decision": decision}
        kept = desk.save_draft(request.actor, pk, form.text, calls, form.version or 0, **more)
    except DraftConflict as conflict:
        ask = _ask(request, pk)
        other = written_by(request.actor, ask)
        error = {"code": conflict.code, "message": conflict.message}
        newer = {"text": other.text, "calls": other.calls, "version": other.version, "drafted_by": other.drafted_by}
        if other.decision is not None:
            # what this device decided otherwise, for a text that has both
            mine = words_of_decision(ask, decision)
            also = mine if mine != words_of_decision(ask, other.decision) else []
            newer |= {"decision": other.decision, "other": also}
        return JsonResponse({"error": error, "draft": newer}, status=conflict.status)
    return JsonResponse({"version": kept.version, "saved_at": kept.saved_at.isoformat()})


@require_POST
@member_required(may_advise)
def preview(request: MemberRequest) -> HttpResponse:
    """Show a text as every page shows an answer."""
    return HttpResponse(prose(text_of(request.POST, "text", 100_000), css="voice"))


@require_http_methods(["GET", "POST"])
@part_of("ask")
@ask_form
def draft_of_model(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the state of a model's draft, and its text on request. A POST requests one, with a hint a new one."""
    if request.method == "POST":
        desk.want_draft(request.actor, pk, text_of(request.POST, "hint").strip())
    ask = _ask(request, pk)
    draft = model_draft(ask, timezone.now())
    return _fragment("experts/ask/_draft.html", {"ask": ask, "draft": draft, "shown": is_named(request.GET, "show")})


@require_GET
@part_of("ask", "What the verifier checks")
@ask_form
def verifier(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the verifier's text to experts who answer with access to it. It is only read here, never run."""
    ask = _ask(request, pk)
    if ask.privilege != Privilege.SEES_VERIFIER:
        raise Forbidden("This ask is blind: experts cannot see the verifier.")
    episode = ask.episode
    task = (episode.scenario, episode.task_idx, episode.scenario_digest)
    text, blockers = repairs.text_in_force(episode.project, *task), packs.blockers_of(*task)
    return _fragment("experts/ask/_verifier.html", {"text": clean(text), "blockers": blockers})


@require_GET
@part_of("ask")
@ask_form
def similar(request: MemberRequest, pk: str) -> HttpResponse:
    """Show earlier answers to similar asks, to read and to start from; for an approval earlier decisions."""
    ask = _ask(request, pk)
    if ASK_KINDS[ask.kind].is_approval:
        decisions, total = earlier_decisions(request.actor, ask, timezone.now())
        return _fragment("experts/ask/_earlier_decisions.html", {"ask": ask, "found": decisions, "total": total})
    return _fragment("experts/ask/_similar.html", {"ask": ask, "found": earlier(request.actor, ask)})


@require_GET
@part_of("ask", "Changed rows")
@ask_page
def tables(request: MemberRequest, pk: str) -> HttpResponse:
    changes, older = tables_of(request.actor, _ask(request, pk).episode)
    return _fragment("experts/ask/_tables.html", {"tables": changes, "older": older})


def tags_for(actor: Actor, ask: Ask) -> dict[str, dict[str, str]]:
    """Return each tag with this person's value and the value that the next press sets: yes, no, not set."""
    chosen, yes_no = tags_of(actor, ask), tagging.TAG_VALUES
    # yes, no, not set, and around again
    order = dict(zip(yes_no, (*yes_no[1:], yes_no[0]), strict=True))
    tags = {}
    for label, words in TAG_WORDS.items():
        value = chosen.get(label, "")
        tags[label] = {"value": value, "next": order[value], "words": words, "state": TAG_STATES[value]}
    return tags


@require_POST
@member_required(may_annotate, rows=Ask.objects.all)
def tag(request: MemberRequest, pk: str) -> HttpResponse:
    """Set one tag of the question. A script gets the row of tags, a plain form the page."""
    ask = _ask(request, pk)
    label, _, value = text_of(request.POST, "tag").partition(":")
    tagging.tag(request.actor, ask, label, value)
    if request.headers.get("HX-Request"):
        return _fragment("experts/ask/_tags.html", {"ask": ask, "tags": tags_for(request.actor, ask)})
    return redirect("ask", pk)


@require_POST
@ask_form
def keep_unsent(request: MemberRequest, pk: str) -> HttpResponse:
    tagging.keep_unsent(request.actor, _ask(request, pk))
    return redirect("ask", pk)


@require_POST
@ask_form
def withdraw(request: MemberRequest, pk: str) -> HttpResponse:
    """Withdraw the person's answer and reopen the ask under their claim. One that is held is undone.

    For an answer of a group, redirect to the page that the request came from.
    """
    try:
        advising.withdraw(request.actor, pk)
        messages.success(request, "Answer withdrawn. The ask is open again and claimed by you.")
    except AppError as refused:
        messages.warning(request, refused.message)
    back = text_of(request.POST, "back")
    # the value comes from the form: only an ask of this project is a way back
    return redirect("ask", back if asks_of(request.actor).filter(pk=back).exists() else pk)


class UndoForm(FormFields):
    """The asks whose held answers are undone, and the one of them that they were written on."""

    asks: Annotated[list[str], Field(alias="ask")] = []
    own: str = ""
    beside: str | None = None
    """The query of the queue that the ask was answered beside."""


@require_POST
@member_required(may_advise)
def undo(request: MemberRequest) -> HttpResponse:
    """Undo held answers of one press. The ask that it was written on is the person's again, text and all; the others
    are open in the queue, and selected."""
    form, actor = read(request.POST, UndoForm), request.actor
    chosen = [*filter(is_id, form.asks)][:UNDO_MAX]
    outcomes = {pk: _undone(actor, pk, keep_claim=pk == form.own) for pk in chosen}
    back = [pk for pk, why in outcomes.items() if not why]
    if back:
        own = " The ask is yours again, with what you sent." if form.own in back else ""
        others = len(back) - bool(own)
        opened = f" {count(others, 'ask')} {'is' if others == 1 else 'are'} open again." if others else ""
        messages.success(request, f"Undone before it was read.{own}{opened}{_still_ahead(actor, back)}")
    for why, times in Counter(why for why in outcomes.values() if why).items():
        messages.warning(request, f"{count(times, 'answer')} not undone: {why}")
    if form.own in back:
        # the page of the ask selects what it was sent to, and the queue beside it keeps its own selection
        keep(request, form.own, back)
    if form.own in back and form.beside is None:
        return redirect("ask", form.own)
    query = QueryDict((form.beside or "").removeprefix("?"), mutable=True)
    if form.own in back:
        query["ask"] = form.own
    else:
        keep(request, QUEUE, back)
    return redirect(f"{reverse('queue')}?{query.urlencode()}".removesuffix("?"))


def _undone(actor: Actor, pk: str, keep_claim: bool) -> str:
    """Undo one answer; return an empty text or why it stays sent."""
    try:
        lease = advising.withdraw(actor, pk)
        if not keep_claim:
            queue.release(actor, lease.assignment_id, lease.lease_token)
    except AppError as refused:
        return refused.message
    return ""


def _still_ahead(actor: Actor, asks: list[str]) -> str:
    """Return that standing answers which were given with undone ones stay, if there are any."""
    undone = Advice.objects.filter(ask__in=asks, author_key=actor.key).order_by("-created_at").first()
    now = timezone.now()
    since = undone.created_at if undone is not None and undone.decision else now
    rows = StandingAnswer.objects.active(now).filter(project=actor.project, author_key=actor.key, created_at__gte=since)
    return " The standing answer that you gave with it is active: end it in the queue." if rows.exists() else ""


@require_POST
@ask_form
def transfer(request: MemberRequest, pk: str) -> HttpResponse:
    """Transfer to the senior, to people or to a model. The text is kept as a draft."""
    slot, form = _ask(request, pk).assignment, read(request.POST, LeaseForm)
    try:
        queue.escalate(request.actor, slot.pk, form.lease_token, form.to, form.reason)
    except AppError as refused:
        messages.warning(request, refused.message)
        return redirect("ask", pk)
    messages.success(request, transferred(request.actor, form.to))
    return redirect("queue")


@require_http_methods(["GET", "POST"])
@part_of("queue")
@member_required(may_advise)
def replies(request: MemberRequest) -> HttpResponse:
    """Serve the quick replies of the person and of their team: list them, add one, edit one."""
    if request.method == "POST":
        text, pk = text_of(request.POST, "text"), text_of(request.POST, "id")
        desk.keep_reply(request.actor, text, pk, shared=is_named(request.POST, "shared"))
    return _replies(request)


@require_POST
@member_required(may_advise)
def drop_reply(request: MemberRequest, pk: str) -> HttpResponse:
    desk.drop_reply(request.actor, pk)
    return _replies(request)


def _replies(request: MemberRequest) -> HttpResponse:
    actor = request.actor
    mine = set(changeable_replies(actor).values_list("pk", flat=True))
    kept = [
        {"pk": row.pk, "text": clean(row.text), "shared": row.shared, "by": clean(row.author), "mine": row.pk in mine}
        for row in (*replies_of(actor), *shared_replies(actor))
    ]
    return render(request, "experts/ask/_replies.html", {"replies": kept})
