"""Texts for the end of an ask: who answered or why no one did, and what the agent got.

Sentences about one closed ask. Leaves the end itself to `closing.py`. Called by the page of an ask and by the
frames that report its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import DurationField, F, FloatField, QuerySet, Sum
from django.db.models.functions import Cast, Coalesce, Extract, Least, Now
from django.utils import timezone

from awmclient.nouns.sources import SOURCES
from awmclient.schema import ASKS_BACK
from episodes.find.sorting import Beside
from episodes.models import EpisodeState
from episodes.show.decisions import on_timeout_in_words
from episodes.show.legend import why_no_answer
from experts.models import BEFORE_PEOPLE, MODEL, TOKEN, Advice, Ask, AskStatus
from people.access import Actor
from people.text.in_words import ago, clock, duration
from people.text.plain_text import clean

NOT_FETCHED = "Not delivered yet."
ENDED: dict[str, str] = {
    EpisodeState.FINISHED: "The episode ended",
    EpisodeState.FAILED: "The episode failed",
    EpisodeState.CANCELLED: "The episode was stopped",
}
CANCELLED = {
    "asker": "The agent withdrew its question.",
    "desk": "Someone cancelled this ask on the queue page.",
}


WAITED = Sum(Coalesce(F("closed_at"), Least(F("deadline_at"), Now())) - F("created_at"), output_field=DurationField())
"""How long asks waited together; open ones until now."""


def waited(ask: Ask) -> float:
    return ((ask.closed_at or ask.deadline_at) - ask.created_at).total_seconds()


def waited_in(_actor: Actor, episodes: Sequence[str]) -> dict[str, str]:
    """Return how long these episodes waited for people, in words: their asks at people's tiers, open ones to now."""
    rows = _waits().filter(episode__in=episodes).values_list("episode").annotate(waited=WAITED)
    return {pk: duration(waited.total_seconds()) for pk, waited in rows}


def by_wait(_actor: Actor) -> Beside:
    """Return how long episodes waited for people, to sort by."""
    return Beside(_waits(), Cast(Extract(WAITED, "epoch"), FloatField()))


def _waits() -> QuerySet[Ask]:
    return Ask.objects.filter(tier__in=BEFORE_PEOPLE).order_by()


def headline(ask: Ask, reader: Actor | None = None) -> str:
    """Return how an ask ended, in one sentence for its reader; empty while it is open."""
    if ask.status == AskStatus.CANCELLED:
        ended = ENDED.get(ask.episode.state, "The episode ended")
        return CANCELLED.get(ask.reason, f"{ended} before an answer.")
    if ask.status == AskStatus.FELL_BACK:
        return f"{why_no_answer(ask.reason)}{f' {ask.progress}.' if ask.quorum_of > 1 else ''}"
    return _answered(ask, ask.accepted, reader) if ask.accepted is not None else ""


def _answered(ask: Ask, advice: Advice, reader: Actor | None) -> str:
    author = clean(advice.author) or "Someone"
    is_reader = reader is not None and advice.author_key == reader.key
    if SOURCES[advice.source].is_reused:
        return f"{'Your earlier answer' if is_reader else f'An earlier answer by {author}'} was reused."
    if is_reader:
        author = "You"
    elif advice.is_by_script:
        is_of_project = advice.author_key.startswith(TOKEN)
        author = f"The script {author.removeprefix('token ')}" if is_of_project else f"A script of {author}"
    elif advice.author_key.startswith(MODEL):
        author = f"The model {author}"
    took = waited(ask)
    did = "asked back" if advice.reason == ASKS_BACK else "answered"
    return f"{author} {did} in {clock(took) if took >= 1 else 'under 1 s'}."


def line(ask: Ask) -> str:
    """Return what the agent got, and whether it was delivered and read."""
    if ask.status == AskStatus.CANCELLED:
        return "Nothing was sent to the agent."
    if ask.status == AskStatus.FELL_BACK:
        return _fallback(ask)
    return f"{_began(ask)}{_delivery(ask)}"


def _fallback(ask: Ask) -> str:
    draft = ask.accepted
    if draft is not None and SOURCES[draft.source].is_answer:
        return f"The agent {'got' if ask.delivered_at else 'gets'} the draft by {clean(draft.author)}. {_delivery(ask)}"
    failed = model_fault(ask)
    why = f" The model failed: {failed}." if failed else ""
    default = on_timeout_in_words(ask.typed) if draft is not None and draft.decision and ask.typed else ""
    if ask.delivered_at is not None:
        return f"The agent {f'got its default: {default}' if default else 'continued without advice'}.{why}"
    ended = ENDED.get(ask.episode.state)
    if ended:
        return f"{ended} before the agent was told.{why}"
    now = f"gets its default: {default}" if default else "continues without advice"
    return f"The agent {now}. Not delivered yet.{why}"


def model_fault(ask: Ask) -> str:
    """Return why the last call of an expert model for this ask gave no advice; "" if none failed."""
    last = ask.model_calls.exclude(fault="").order_by("-pk").values_list("fault", flat=True).first()
    return clean(str(last))[:300].rstrip(".") if last else ""


def _began(ask: Ask) -> str:
    """Return the draft or earlier answer that the text started from, and how much of it was kept."""
    advice = ask.accepted
    if advice is None:
        return ""
    draft = f"Started from a draft by {advice.drafted_by}{_kept(advice.draft_kept)}. " if advice.drafted_by else ""
    if advice.taken_from is None:
        return draft
    age = ago(advice.taken_from.created_at, timezone.now())
    source = f"{clean(advice.taken_from.author)}'s answer, given {age}"
    return f"{draft}Reused {source}{_kept(advice.taken_kept)}. "


def _kept(kept: float | None) -> str:
    return f" ({kept:.0%} kept)" if kept is not None else ""


def _delivery(ask: Ask) -> str:
    ended = ENDED.get(ask.episode.state)
    if ask.delivered_at is None or ask.closed_at is None:
        return f"{ended} before delivery. The answer was not used." if ended else NOT_FETCHED
    took = max(0.0, (ask.delivered_at - ask.closed_at).total_seconds())
    after = f"{took:.1f} s" if took >= 0.05 else "under 0.1 s"
    read = " Read by the agent." if ask.consumed_at else ""
    return f"Delivered in {after}.{read}{f' {ended}.' if ended else ''}"
