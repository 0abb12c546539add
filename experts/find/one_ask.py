"""Reads: what the page of one ask shows, as small values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.schema import ASKS_BACK
from episodes.models import Step
from episodes.show import windows
from episodes.show.decisions import Decided, on_timeout_in_words, proposed_lines
from episodes.show.pictures import ShownPicture, shown_pictures
from episodes.visible.lens import Lens
from experts.find import board
from experts.find.attached import question_files, unsent_files
from experts.find.panels import (
    EarlierAsk,
    ModelDraft,
    SameQuestion,
    Way,
    Written,
    failed_call,
    model_draft,
    passed_on,
    same_question_of,
    thread_of,
    typed_for_form,
    ways,
    written_by,
)
from experts.models import Ask, Attachment, Decline, Tier
from experts.rules import decision_fields
from experts.rules.decision_fields import Fields
from experts.rules.file_types import MOST_BYTES
from experts.rules.routing import LEASE_S, next_tier
from experts.who import advisers, counting, declining, eligibility
from people.access import Actor
from people.text.plain_text import clean
from people.text.prose import asking_sentence, is_markdown

LONG = 200
"""Characters from which on a question is set in reading size."""


@dataclass(frozen=True)
class AskedFor:
    """What the agent wants: its question, or its typed ask."""

    text: str
    is_markdown: bool
    asking: str
    """The sentence that asks, above a text in reading size."""
    is_long: bool
    context: str
    kind: str
    typed: dict[str, Any] | None
    calls: list[Decided]
    """The proposed calls, for who looks before a claim."""
    options: list[str]
    on_timeout: str
    budget_s: float
    people: board.PeopleNeeded | None


def asked_for(ask: Ask) -> AskedFor:
    return AskedFor(
        text=clean(ask.question),
        is_markdown=(has_marks := is_markdown(ask.question)),
        asking=asking_sentence(ask.question) if has_marks or len(ask.question) >= LONG else "",
        is_long=len(ask.question) >= LONG,
        context=clean(ask.context or ""),
        kind=ASK_KINDS[ask.kind].word,
        typed=typed_for_form(ask),
        calls=proposed_lines((ask.typed or {}).get("calls") or []),
        options=[clean(option["label"]) for option in (ask.typed or {}).get("options") or []],
        on_timeout=on_timeout_in_words(ask.typed) if ask.typed else "",
        budget_s=board.budget_of(ask),
        people=board.people_needed(ask, counting.decided_on(ask), timezone.now()),
    )


@dataclass(frozen=True)
class Background:
    """What is said around the question: earlier asks of the thread, files, a note of the team, its route."""

    pictures: list[ShownPicture]
    files: Iterable[Attachment]
    thread: list[EarlierAsk]
    team_note: str
    reached: str
    passed_on: list[tuple[str, str, str]]


def background_of(ask: Ask, is_held: bool) -> Background:
    note = clean(ask.episode.policy.get("house_note", "")) if ask.episode.is_builtin else ""
    reached, passed = (board.reached(ask, is_held), passed_on(ask)) if ask.is_open else ("", [])
    return Background(_pictures_of(ask), question_files(ask), thread_of(ask), note, reached, passed)


def _pictures_of(ask: Ask) -> list[ShownPicture]:
    step = Step.objects.filter(episode=ask.episode_id, seq=ask.seq, body__contains='"pictures":').first()
    return shown_pictures(step.wire(), ask.episode_id) if step is not None else []


@dataclass(frozen=True)
class ClaimState:
    """Who has the ask: this person, someone else, or no one, and why this person can't claim it."""

    is_mine: bool
    held_by: str
    barred: str
    until: datetime
    token: str
    has_decided: bool = False
    """Whether this person's decision counts and waits for others."""
    lasts_s: int = LEASE_S


def claim_of(actor: Actor, ask: Ask, now: datetime, ahead: bool) -> ClaimState:
    """Return the claim; `ahead`, as if this person had made it."""
    slot = ask.assignment
    held = slot.is_held(now)
    # the state, not the lease: an expired claim that no one else took can still answer
    mine = (actor.owns(slot.holder) and slot.state == "claimed") or ahead
    return ClaimState(
        is_mine=mine,
        held_by=slot.holder_name if held and not mine else "",
        barred=_barred(actor, ask, now) if ask.is_open and not held else "",
        until=slot.lease_until or now,
        token=slot.lease_token if mine and actor.owns(slot.holder) else "",
        has_decided=ask.quorum_of > 1 and bool(counting.decided_by(actor, Ask.objects.open().filter(pk=ask.pk))),
    )


def is_free(actor: Actor, ask: Ask, now: datetime) -> bool:
    """Return whether this person could claim an ask that no one has."""
    spot = eligibility.spot_of(actor, ask.pk, now) if ask.is_open else None
    return spot is not None and spot.place == eligibility.FREE


def _barred(actor: Actor, ask: Ask, now: datetime) -> str:
    # also while a model has it, where the place says only that
    if Decline.objects.filter(ask=ask, author_key=actor.key).exists():
        return f"You declined. {declining.after(ask, now)}"
    why = board.barred(eligibility.spot_of(actor, ask.pk, now))
    no_one = why and advisers.reach_of(ask.project, now).missing(ask.skills)
    what = "all of that" if no_one and len(no_one) > 1 else "that"
    return f"{why} No member has {what}: an admin can set it on Members." if no_one else why


@dataclass(frozen=True)
class RefusedForm:
    """What a refused form said, and why it was refused."""

    problem: str = ""
    status: int = 200
    text: str | None = None
    nonce: str = ""
    decision: Any = None
    may_overrule: bool = False


@dataclass(frozen=True)
class AnswerForm:
    """The form of an answer, or of the change of one (`is_edit`)."""

    is_edit: bool
    written: Written
    refused: RefusedForm
    nonce: str
    """A second press of Send has the same nonce, and is the same answer."""
    plain: Fields | None
    """The fields of a decision for pages without scripts; none in a page that a script fetched."""
    asks_back: bool
    sent_files: list[Any]
    my_files: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    seen: str
    """The digest of a colleague's edit that this form shows; empty without one."""
    most_bytes: int = MOST_BYTES


def form_of(
    actor: Actor,
    ask: Ask,
    asked: AskedFor,
    is_edit: bool,
    refused: RefusedForm,
    nonce: str,
    *,
    for_scripts: bool = False,
) -> AnswerForm:
    written = written_by(actor, ask)
    draft, edited = refused.decision or written.decision, counting.edit_of(ask)
    return AnswerForm(
        is_edit=is_edit,
        written=written,
        refused=refused,
        nonce=refused.nonce or nonce,
        plain=decision_fields.fields_of(asked.typed, draft) if asked.typed and not for_scripts else None,
        asks_back=is_edit and ask.accepted is not None and ask.accepted.reason == ASKS_BACK,
        sent_files=list(ask.accepted.files.listed()) if is_edit and ask.accepted else [],
        my_files=[file.ref().model_dump() for file in unsent_files(actor, ask)],
        tools=[tool for tool in ask.episode.tools if isinstance(tool, dict)],
        seen=edited.calls_digest if edited is not None else "",
    )


@dataclass(frozen=True)
class DeskHelp:
    """What helps the holder of an ask beside the form."""

    draft: ModelDraft
    same_question: list[SameQuestion]
    failed_call: dict[str, Any] | None
    up: list[Way]
    model: Way | None
    after_model: str
    """The tier behind the model; empty if the agent goes on without advice then."""
    if_declined: str


def help_for(actor: Actor, ask: Ask, now: datetime) -> DeskHelp:
    open_ways = [way for way in ways(actor, ask) if not way.why_not]
    return DeskHelp(
        draft=model_draft(ask, now),
        same_question=same_question_of(actor, ask, now),
        failed_call=failed_call(actor, ask),
        up=[way for way in open_ways if way.to != Tier.LLM],
        model=next((way for way in open_ways if way.to == Tier.LLM), None),
        after_model=next_tier(ask.tiers, Tier.LLM) or "" if Tier.LLM in ask.tiers else "",
        if_declined=declining.before_of(ask, actor.key, now),
    )


@dataclass(frozen=True)
class StepsAround:
    """Steps before the question, which is at the top of the page, and those after a closed one."""

    before: windows.Steps
    after: windows.Steps | None
    top: int | None
    """The number of an open question."""


def steps_around(lens: Lens, ask: Ask) -> StepsAround:
    """Return the steps around an ask; what goes on beside an open one comes after those before it."""
    before = windows.around(lens, ask.episode, last=last_beside(lens, ask) if ask.is_open else ask.seq - 1)
    if ask.is_open:
        return StepsAround(before, None, ask.seq)
    return StepsAround(before, windows.around(lens, ask.episode, ask.seq, first=ask.seq), None)


def last_beside(lens: Lens, ask: Ask) -> int:
    """Return the last number beside an ask; an open question that nothing follows is at the top of the page."""
    last = windows.last_of(lens, ask.episode)
    return last - 1 if ask.is_open and last == ask.seq else last
