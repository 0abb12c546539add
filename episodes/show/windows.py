"""Reads for a long episode: windows of its steps, and the side panel from bounded queries.

A page never reads a whole episode. The step strip shows which steps wrote, asked or failed, so the newest of a kind are
fetched by number. Leaves HTML to `templatetags/marks.py`. Called by the views of episodes and asks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Max, QuerySet
from django.db.models.functions import Coalesce
from pydantic import BeforeValidator

from episodes.models import Episode, Step
from episodes.show.step_cards import card_of
from episodes.stored.strip import StepMark, code_of, marks_of
from episodes.visible.lens import Lens, steps_through, through
from people.requests.forms import AddressFields, number_in, whole

WINDOW = 60
MOST = 200
BESIDE = 50
MOST_WRITES = 1000
TICKS = 61
NAMED = 14
# letters of `strip.py`: asks in any state, and those that wait for an answer
ASKS = "olafdc"
WAITS = "ol"
VERIFIER = 2


@dataclass(frozen=True)
class ShownStep:
    """One stored step as pages show it: a large one in its cut form, so that nothing of many megabytes is read."""

    episode_id: str
    seq: int
    kind: str
    text: str
    at: datetime
    lens: Lens
    """What it was read through."""

    def wire(self) -> dict[str, Any]:
        step: dict[str, Any] = json.loads(self.text)
        step.setdefault("at", self.at)
        return step


@dataclass(frozen=True)
class Steps:
    """Some steps of an episode in order, and what a list must know of those it does not hold."""

    rows: list[ShownStep]
    first: int
    last: int
    waits: list[int]

    @property
    def since(self) -> int:
        """The number before the first one that is here."""
        return self.rows[0].seq - 1 if self.rows else self.first - 1


@dataclass(frozen=True)
class Tick:
    """One place of the scrubber."""

    seq: int
    mark: StepMark
    name: str = ""


def last_of(lens: Lens, episode: Episode | str) -> int:
    """Return the last number seen through a lens, the verifier's step included, which the episode's own count leaves
    out.
    """
    last = steps_through(lens, episode).aggregate(last=Max("seq"))["last"]
    return int(last or 0)


def after(
    lens: Lens,
    episode: Episode,
    since: int,
    limit: int = WINDOW,
    again: Sequence[int] = (),
    last: int | None = None,
) -> Steps:
    """Return steps above `since`, and once more those of `again` that lie before: asks that were open when last looked
    at.
    """
    end = last_of(lens, episode) if last is None else last
    rows = _above(lens, episode, since, min(limit, MOST)) if limit else []
    before = at(lens, episode, [seq for seq in again if seq <= since])
    return Steps(before + [row for row in rows if row.seq <= end], 1, end, waits(episode))


def around(lens: Lens, episode: Episode, seq: int | None = None, first: int = 1, last: int | None = None) -> Steps:
    """Return the window that a page opens with: the end, or the neighbourhood of one step, between
    `first` and `last`."""
    end = last_of(lens, episode) if last is None else last
    middle = end if seq is None else min(max(seq, first), end)
    # two thirds before the step in view and one third behind it
    since = max(first - 1, min(middle + WINDOW // 3, end) - WINDOW)
    rows = [row for row in _above(lens, episode, since, WINDOW) if row.seq <= end]
    return Steps(rows, first, end, [seq for seq in waits(episode) if first <= seq <= end])


def waits(episode: Episode) -> list[int]:
    """Return numbers of the asks that wait for an answer; the step of such an ask will change."""
    return _places(episode.strip, WAITS)


def asks(lens: Lens, episode: Episode) -> tuple[list[dict[str, Any]], int]:
    """Return the newest asks as wire steps, and how many there are."""
    places = _places(episode.strip, ASKS)
    return [row.wire() for row in at(lens, episode, places[-BESIDE:])], len(places)


def writes(lens: Lens, episode: Episode) -> tuple[list[dict[str, Any]], int]:
    """Return the newest steps that changed the database, and how many there are."""
    places = _places(episode.strip, "w")
    return [row.wire() for row in at(lens, episode, places[-BESIDE:])], len(places)


def unknown_calls(episode: Episode) -> int:
    """Return how many calls did not report their changes."""
    return len(_places(episode.strip, "u"))


def first_writes(lens: Lens, episode: Episode) -> tuple[list[dict[str, Any]], int]:
    """Return the oldest `MOST_WRITES` steps that changed the database, and how many there are."""
    places = _places(episode.strip, "w")
    return [row.wire() for row in at(lens, episode, places[:MOST_WRITES])], len(places)


def _places(codes: str, letters: str) -> list[int]:
    # most strips have none of these letters, and looking for one is faster than walking
    if not any(letter in codes for letter in letters):
        return []
    return [n for n, code in enumerate(codes, 1) if code in letters]


def shown(lens: Lens, rows: QuerySet[Step], limit: int = MOST) -> list[ShownStep]:
    """Return stored steps in order, as pages show them."""
    texts = rows.order_by("seq").annotate(text=Coalesce("cut", "body"))
    stored = texts.values_list("episode_id", "seq", "kind", "text", "at")[:limit]
    return [ShownStep(pk, seq, kind, through(lens, text), at, lens) for pk, seq, kind, text, at in stored]


def _above(lens: Lens, episode: Episode, since: int, limit: int) -> list[ShownStep]:
    return shown(lens, steps_through(lens, episode).filter(seq__gt=since), limit)


def at(lens: Lens, episode: Episode, seqs: list[int]) -> list[ShownStep]:
    """Return the steps with these numbers."""
    return shown(lens, steps_through(lens, episode).filter(seq__in=seqs[:MOST])) if seqs else []


def letters(lens: Lens, episode: Episode, last: int) -> str:
    """Return one letter per step up to `last`; the verifier's steps stand after those that the strip knows."""
    codes = episode.strip[:last]
    beyond = _above(lens, episode, len(codes), VERIFIER) if last > len(codes) else []
    return codes + "".join(code_of(row.wire()) for row in beyond)


def ticks(codes: str, at: int, names: dict[int, str]) -> list[Tick]:
    """Return places of the scrubber around `at`, all of them as long as they fit."""
    start = max(0, min(at - 1 - TICKS // 2, len(codes) - TICKS))
    marks = marks_of(codes[start : start + TICKS])
    return [Tick(seq, mark, names.get(seq, "")) for seq, mark in enumerate(marks, start + 1)]


def replay(lens: Lens, episode: Episode, seq: int, last: int | None = None) -> dict[str, Any]:
    """Return what a replay shows: the steps around `seq`, none after `last`, and its scrubber."""
    steps = around(lens, episode, seq, last=last)
    seen, codes = min(seq, max(steps.last, 1)), letters(lens, episode, steps.last)
    names = {row.seq: card_of(row.wire()).name for row in steps.rows} if steps.last <= NAMED else {}
    return {"steps": steps, "at": seen, "codes": codes, "ticks": ticks(codes, seen, names)}


def _numbers(text: str) -> tuple[int, ...]:
    """Return the step numbers that a page asks for again, separated by commas."""
    return tuple(seq for part in text.split(",")[:MOST] if (seq := number_in(part)))


class StepsAddress(AddressFields):
    """Which steps a page fetches: up to `limit` after `since`, those of `again` before it, and parts beside."""

    since: Annotated[int, whole()] = 0
    limit: Annotated[int, whole()] = WINDOW
    again: Annotated[tuple[int, ...], BeforeValidator(_numbers)] = ()
    parts: str = ""
