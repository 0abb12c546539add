"""Reads for the answer page: everything beside the question and the form.

Owns where a claimed ask can be transferred, asks with the same question, the state of a model's draft, and a person's
unsent text. Leaves texts about closed asks to `board.py`. Called by views and by `desk.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from awmclient.asking.gates import WRITES, is_gated
from awmclient.nouns.sources import SOURCES
from awmclient.schema import ASKS_BACK
from episodes.models import Episode
from episodes.show import tables, windows
from episodes.show.decisions import Decided, decided_lines, decision_in_words
from episodes.show.step_cards import call_in_words
from episodes.stored.strip import actions_in
from episodes.visible import trajectory
from episodes.visible.lens import lens_of
from experts.find.reading import NOT_LISTED, asks_of
from experts.find.similar import began_with, origins
from experts.models import (
    MODEL,
    Advice,
    Ask,
    AskEvent,
    AskStatus,
    Decline,
    Draft,
    ModelCall,
    QuickReply,
    Tier,
)
from experts.rules.call_fit import breaks_in, marked, schema_of, schemas_of
from experts.rules.decision_fields import drafted
from experts.rules.risk import is_high, only_call
from experts.who import advisers, policies
from experts.who.counting import calls_of_edit, edit_of
from people.access import Actor, holds, may_set_desk, scoped
from people.errors import BadJson, NotFound
from people.models import Membership, display_name
from people.text.in_words import model_in_words
from people.text.json_text import parse_json
from people.text.plain_text import clean
from reviews.models import Annotation

SAME_SHOWN = 50
SYSTEM_NAME = "awmweb"
"""The actor in the history of automatic changes."""


@dataclass(frozen=True)
class Way:
    """A possible transfer of a claimed ask, or the reason why it is not possible."""

    to: str
    words: str
    why_not: str = ""


def ways(actor: Actor, ask: Ask) -> list[Way]:
    """Return the transfers to the senior, to people and to a model; those that make no sense here are left out."""
    transfers = [_to_senior(actor, ask), *_to_colleagues(actor, ask), _to_model(ask)]
    # an ask that is open to all people already is there, so that transfer is left out
    everyone = ask.tier == Tier.PEOPLE and not ask.handed_to
    return transfers if everyone else [transfers[0], Way(Tier.PEOPLE, "people"), *transfers[1:]]


def _to_colleagues(actor: Actor, ask: Ask) -> list[Way]:
    """Return those who can answer this ask, by name, without the actor and those who declined it."""
    passed = advisers.out_of(ask) | {actor.key}
    # an ask without skills fits each of them: the empty set is a part of every set
    fit = [one for one in advisers.colleagues(ask.project, timezone.now()) if set(ask.skills) <= one.skills]
    return [Way(one.key, f"{one.name}, {one.state}") for one in fit if one.key not in passed]


def ways_of_project(actor: Actor, now: datetime) -> list[Way]:
    """Return the transfers that this project has, for an ask that is not known yet; the actor may hold it."""
    senior = advisers.senior_name(actor.project)
    others = [one for one in advisers.colleagues(actor.project, now) if not actor.owns(one.key)]
    return [
        *(Way(one.key, f"{one.name}, {one.state}") for one in others),
        *([Way(Tier.SENIOR, f"the senior expert, {senior}")] if senior else []),
        Way(Tier.PEOPLE, "people"),
        *([Way(Tier.LLM, "the model")] if settings.EXPERT_ENDPOINTS else []),
    ]


def _to_senior(actor: Actor, ask: Ask) -> Way:
    senior = Membership.objects.select_related("user").filter(senior_of__project=ask.project_id).first()
    if senior is None:
        return Way(Tier.SENIOR, "the senior expert", "this project has no senior expert")
    if senior.user_id == getattr(actor.person, "pk", None):
        return Way(Tier.SENIOR, "the senior expert", "you are the senior expert")
    name = display_name(senior.user)
    return Way(Tier.SENIOR, name, f"{name} already has it" if ask.tier == Tier.SENIOR else "")


def _to_model(ask: Ask) -> Way:
    if ask.quorum_of > 1:
        return Way(Tier.LLM, "the model", "only people count")
    if why := policies.why_no_model(ask):
        return Way(Tier.LLM, "the model", why)
    passed = set(Decline.objects.filter(ask=ask).values_list("author_key", flat=True))
    left = [name for name in settings.EXPERT_ENDPOINTS if f"{MODEL}{name}" not in passed]
    return Way(Tier.LLM, left[0], "") if left else Way(Tier.LLM, "the model", "the model declined it")


def failed_call(actor: Actor, ask: Ask) -> dict[str, Any] | None:
    """Return the last call before the question that failed, which an answer can suggest again. None without one, or
    if the agent no longer has the tool."""
    # the strip has a letter for each step, and `e` is a failed call
    failed = ask.episode.strip[: ask.seq - 1].rfind("e") + 1
    if not failed:
        return None
    try:
        step = parse_json(trajectory.step_text(lens_of(actor, ask.episode), ask.episode, failed).encode())
    except (BadJson, NotFound, UnicodeEncodeError):
        return None
    name, arguments = step.get("name"), step.get("arguments")
    tools = [tool.get("name") for tool in ask.episode.tools if isinstance(tool, dict)]
    if not isinstance(arguments, dict) or name not in tools:
        return None
    return {"name": name, "arguments": arguments, "seq": failed}


@dataclass(frozen=True)
class SameQuestion:
    """Another ask with the same question."""

    ask: Ask
    question: str
    acted: int
    why_not: str = ""
    is_near: bool = True
    """Whether it is of the same task: the same words elsewhere can need another answer. No decision is near."""


def same_question_of(actor: Actor, ask: Ask, now: datetime) -> list[SameQuestion]:
    """Return open asks that one answer can also serve: of the group, with the same words in another task, or approvals
    of the same low-risk call. Never asks with a different verifier access."""
    shared = _shared_with(actor, ask)
    if shared is None:
        return []
    same = asks_of(actor).filter(shared, privilege=ask.privilege, kind=ask.kind, status=AskStatus.OPEN, held=None)
    rows = same.filter(deadline_at__gt=now).exclude(pk=ask.pk).defer("context", *NOT_LISTED).in_turn()[:SAME_SHOWN]
    passed = set(Decline.objects.filter(ask__in=rows, author_key=actor.key).values_list("ask_id", flat=True))
    return [_same_question(actor, ask, one, now, one.pk in passed) for one in rows]


def _shared_with(actor: Actor, ask: Ask) -> Q | None:
    """Return what asks have in common that one answer serves; None if this one is answered by itself."""
    if not ask.typed:
        in_group = Q(group=ask.group) if ask.group else Q(pk__in=[])
        return (in_group | Q(question=ask.question)) & Q(pictures_digest=ask.pictures_digest)
    tool = only_call(ask.typed)
    if not tool or not ask.calls_digest or is_high(policies.desk_of(actor.project).high_risk, tool):
        return None
    return Q(calls_digest=ask.calls_digest)


def _same_question(actor: Actor, first: Ask, ask: Ask, now: datetime, passed: bool) -> SameQuestion:
    held = ask.assignment.is_held(now) and not actor.owns(ask.assignment.holder)
    why = f"claimed by {ask.assignment.holder_name}" if held else "you declined it" if passed else ""
    is_near = not first.typed and bool(first.group) and first.group == ask.group
    return SameQuestion(ask, clean(ask.question), actions_in(ask.episode.strip[: ask.seq]), why, is_near)


@dataclass(frozen=True)
class Mine:
    """An ask that the person answered, and what they can still do about it."""

    ask: Ask
    may_edit: bool
    may_withdraw: bool
    acted: int


def mine_of(actor: Actor, ask: Ask, now: datetime) -> Mine:
    """Return what can be done with the person's answer: edit until the agent has read it, withdraw in time."""
    advice = ask.accepted
    own = advice is not None and actor.owns(advice.author_key) and not SOURCES[advice.source].is_reused
    unread = ask.status == AskStatus.ANSWERED and own and not ask.is_final
    acted = actions_in(ask.episode.strip[: ask.seq])
    return Mine(ask, unread and ask.quorum_of < 2, unread and ask.deadline_at > now and ask.episode.is_live, acted)


def family_of(actor: Actor, ask: Ask) -> list[Mine]:
    """Return the other asks that the same answer served, including withdrawn ones."""
    nonces = Advice.objects.filter(ask=ask, author_key=actor.key, late=False).exclude(nonce="")
    # the part before the slash is the same for all asks of a group, see `advising.nonce_of`
    roots = {nonce.partition("/")[0] for nonce in nonces.values_list("nonce", flat=True)}
    if not roots:
        return []
    nonce_filter = Q()
    for root in roots:
        nonce_filter |= Q(nonce=root) | Q(nonce__startswith=f"{root}/")
    also = Advice.objects.filter(nonce_filter, author_key=actor.key, late=False, ask__project=ask.project).values("ask")
    rows = asks_of(actor).filter(pk__in=also).exclude(pk=ask.pk).defer("context", *NOT_LISTED)
    return [mine_of(actor, one, timezone.now()) for one in rows.order_by("created_at")]


@dataclass(frozen=True)
class ModelDraft:
    """The state of a model's draft: none, idle, writing, ready or failed. The text is shown on request only."""

    state: str
    why: str = ""
    key: str = ""
    author: str = ""
    asked: str = ""
    """The model's name and options."""
    since: datetime | None = None
    confidence: int | None = None
    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def calls_in_words(self) -> list[str]:
        return [call_in_words(call) for call in self.calls]


def model_draft(ask: Ask, now: datetime) -> ModelDraft:
    drafts = list(Draft.objects.filter(ask=ask, author_key__startswith=MODEL).order_by("saved_at"))
    ready = next((one for one in drafts if one.is_ready), None)
    if ready is not None:
        return _ready(ready, ask)
    if why := policies.why_no_model(ask):
        return ModelDraft("none", why)
    failed = [one for one in drafts if one.failed]
    # each model gets one attempt
    if ask.draft_at is not None and ask.draft_at <= now and len(failed) < len(settings.EXPERT_ENDPOINTS):
        return ModelDraft("writing", since=ask.draft_at)
    if failed:
        calls = ModelCall.objects.filter(ask=ask, purpose="draft").exclude(fault="").order_by("-at")
        return ModelDraft("failed", clean(calls.values_list("fault", flat=True).first() or "")[:200])
    return ModelDraft("idle")


def _ready(draft: Draft, ask: Ask) -> ModelDraft:
    sure = round(draft.confidence * 100) if draft.confidence is not None else None
    calls = draft.tool_calls if isinstance(draft.tool_calls, list) else []
    asked = model_in_words(*ask.asked_with(draft.author_key))
    about = ("", draft.author_key, draft.author, asked, draft.saved_at)
    return ModelDraft("ready", *about, sure, clean(draft.text or ""), calls)


def calls_of(ask: Ask) -> list[tuple[ModelCall, str]]:
    """Return the newest calls of expert models for an ask, oldest first, each with its model and options."""
    calls = reversed(ModelCall.objects.filter(ask=ask).exclude(model="").order_by("-pk")[:CALLS_SHOWN])
    return [(call, model_in_words(call.model, call.options)) for call in calls]


@dataclass(frozen=True)
class Written:
    """A person's unsent text, or an answer that they withdrew."""

    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    version: int = 0
    saved_at: datetime | None = None
    drafted_by: str = ""
    note: str = ""
    decision: Any = None

    @property
    def with_draft(self) -> bool:
        return bool(origins(self.drafted_by)[0])

    @property
    def with_earlier(self) -> bool:
        return bool(origins(self.drafted_by)[1])


def written_by(actor: Actor, ask: Ask) -> Written:
    """Return the draft, else the edit that other people are asked to approve, else the person's last answer, so that a
    withdrawn answer need not be typed again."""
    draft = Draft.objects.filter(ask=ask, author_key=actor.key).first()
    if draft is not None and _has_words(draft):
        mark = {"drafted_by": draft.drafted_by, "decision": draft.decision}
        return Written(draft.text or "", draft.tool_calls or [], draft.version, draft.saved_at, **mark)
    version = draft.version if draft is not None else 0
    edited = edit_of(ask)
    if edited is not None and ask.is_open:
        decision = {"calls": calls_of_edit(edited)}
        return Written(version=version, note=f"{clean(edited.author)}'s edit", decision=decision)
    last = Advice.objects.filter(ask=ask, author_key=actor.key, late=False).order_by("-created_at").first()
    if last is None:
        return Written(version=version)
    note = "" if ask.accepted_id == last.pk else "your withdrawn answer"
    calls, began = last.tool_calls or [], began_with(last)
    return Written(last.text, calls, version, drafted_by=began, note=note, decision=last.decision)


def _has_words(draft: Draft) -> bool:
    return bool((draft.text or "").strip() or draft.tool_calls or draft.decision)


THREAD_SHOWN = 20
CALLS_SHOWN = 20


@dataclass(frozen=True)
class EarlierAsk:
    """An earlier ask of the thread, with its answer as it went to the agent."""

    ask: Ask
    question: str
    said: Advice | None
    decided: list[Decided]

    @property
    def asks_back(self) -> bool:
        return self.said is not None and self.said.reason == ASKS_BACK


def thread_of(ask: Ask) -> list[EarlierAsk]:
    """Return the asks of this episode that an ask continues, the oldest first."""
    earlier: list[EarlierAsk] = []
    seen, rows = {ask.pk}, Ask.objects.select_related("accepted")
    place = ask.thread_id
    # each continues an earlier one; a loop could only come from a changed database
    while place is not None and place not in seen and len(earlier) < THREAD_SHOWN:
        seen.add(place)
        parent = rows.get(pk=place)
        advice = parent.accepted if parent.accepted is not None and SOURCES[parent.accepted.source].is_answer else None
        earlier.append(
            EarlierAsk(
                parent, clean(parent.question), advice, decided_lines(parent.typed, advice.decision if advice else None)
            )
        )
        place = parent.thread_id
    return earlier[::-1]


def typed_for_form(ask: Ask) -> dict[str, Any] | None:
    """Return what a typed ask wants, each call with its schema (its own, or that of the episode's tool), its risk and
    where its arguments break that schema."""
    if not ask.typed:
        return None
    proposed, schemas = ask.typed.get("calls") or [], schemas_of(ask.episode.tools)
    high_risk = policies.desk_of(ask.project).high_risk
    calls = [
        {
            **marked(call, breaks),
            "schema": schema_of(call, schemas),
            "writes": is_gated(call["name"], [WRITES]),
            "high_risk": is_high(high_risk, call["name"]),
        }
        for call, breaks in zip(proposed, breaks_in(proposed, ask.episode.tools), strict=True)
    ]
    return {**ask.typed, **({"calls": calls} if calls else {})}


def passed_on(ask: Ask) -> list[tuple[str, str, str]]:
    """Return what people did to an open ask and why, as (who, what, why), oldest first."""
    did = {
        "declined": "declined",
        "to_senior": "transferred it",
        "to_people": "transferred it",
        "to_llm": "sent it to the model",
    }
    others = [SYSTEM_NAME, *settings.EXPERT_ENDPOINTS]
    events = AskEvent.objects.filter(ask=ask, verb__in=did).exclude(actor__in=others).order_by("pk")
    shown = events.values_list("actor", "verb", "reason")[:SAME_SHOWN]
    return [(clean(who), did[verb], clean(why)) for who, verb, why in shown]


def unsent(actor: Actor, ask: Ask) -> Written | None:
    """Return the text that was not sent before the ask closed, unless it was stored or sent unchanged."""
    draft = Draft.objects.filter(ask=ask, author_key=actor.key).first()
    if draft is None or not _has_words(draft):
        return None
    words = words_of_draft(ask, draft)
    sent = Advice.objects.filter(ask=ask, author_key=actor.key)
    return None if words in [words_of_draft(ask, one) for one in sent] else Written(words, version=draft.version)


def words_of_draft(ask: Ask, draft: Draft | Advice) -> str:
    """Return an answer as one text, whether it was sent or not."""
    return words_of(draft.text or "", draft.tool_calls or [], words_of_decision(ask, draft.decision))


def words_of_decision(ask: Ask, decision: Mapping[str, Any] | None) -> list[str]:
    """Return a decision of a draft in words, right or not."""
    return decision_in_words(ask.typed, drafted(ask.typed, decision)) if ask.typed else []


def words_of(text: str, calls: Iterable[Mapping[str, Any]], decided: Iterable[str] = ()) -> str:
    """Return an answer as one text, its calls or its decision below its text."""
    lines = [*(call_in_words(call) for call in calls), *decided]
    return "\n".join([text, *lines] if text else lines)


def tags_of(actor: Actor, ask: Ask) -> dict[str, str]:
    """Return this person's newest value of each tag of this ask."""
    rows = Annotation.objects.filter(ask_id=ask.pk, author_key=actor.key).order_by("created_at", "pk")
    return dict(rows.values_list("label", "text"))


def replies_of(actor: Actor) -> QuerySet[QuickReply]:
    """Return this person's quick replies in this project."""
    return scoped(QuickReply.objects.filter(author_key=actor.key), actor.project).order_by("created_at", "pk")


def shared_replies(actor: Actor) -> QuerySet[QuickReply]:
    """Return the quick replies that others share with the project."""
    shared = scoped(QuickReply.objects.filter(shared=True), actor.project)
    return shared.exclude(author_key=actor.key).order_by("created_at", "pk")


def changeable_replies(actor: Actor) -> QuerySet[QuickReply]:
    """Return the quick replies that this person can change: their own, and for managers the shared ones."""
    return replies_of(actor) | shared_replies(actor) if holds(actor, may_set_desk) else replies_of(actor)


def tables_of(actor: Actor, episode: Episode) -> tuple[list[tables.TouchedTable], int]:
    """Return tables that the newest writes touched, and how many older writes are not in them."""
    steps, count = windows.writes(lens_of(actor, episode), episode)
    return tables.touched(steps), count - len(steps)
