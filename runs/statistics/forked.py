"""What the branches of a fork show: two independent groups of tries from one step, and one sentence.

Boschloo's exact test and the interval of Newcombe 1998. A fork says one sentence, when all of its branches have ended:
before, a look at the counts would be one of many. All forks of a tree share the error, because the best would be
picked. Branches that were lost must not matter: a difference is shown only if it is one whichever way they had ended.
Pure. Called by `runs.show.forks`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import product
from typing import Any

from people.text.in_words import count
from runs.statistics.deciding import is_shown, word
from runs.statistics.paired import SMALLEST_P, Interval, newcombe
from runs.statistics.sentences import WIDENED, p_text, points, span_text

FIRST = 0.8
"""The share of an error that is for all that is asked before anything is read."""
ERROR = 0.05
"""The error of all that is said about one tree: an episode, and the branches below it."""
EQUAL, RATES = 1e-9, 200
"""Two chances that differ by less of themselves are equal; and the steps of the rates that are tried."""


@dataclass(frozen=True)
class ForkArm:
    """The branches of an arm: how many there are, how many have an outcome, how many of these are complete, and how
    many have not ended. The others were lost or erased."""

    tries: int
    known: int
    complete: int
    live: int = 0

    @property
    def lost(self) -> int:
        return self.tries - self.known - self.live

    @property
    def counts(self) -> str:
        return f"{self.complete} of {self.known}"


@dataclass(frozen=True)
class ForkFinding:
    """What a fork shows. `verdict` is *better*, *worse*, or empty for nothing shown; the difference and `p` are unknown
    until all branches have ended."""

    treated: ForkArm
    control: ForkArm
    verdict: str
    sentence: str
    difference: float | None = None
    interval: Interval | None = None
    p: float | None = None
    first: tuple[ForkArm, ForkArm] | None = None
    """Both arms by the first outcomes, if a repaired verifier corrected some."""

    @property
    def measured(self) -> str:
        """The difference with its interval; empty while it is unknown."""
        if self.difference is None or self.interval is None:
            return ""
        return f"{points(self.difference)} {span_text(self.interval)}"


def shares(times: Sequence[tuple[datetime, datetime | None]]) -> list[float]:
    """Return which share of an error each question has, in the order in which they were asked, from when each was asked
    and could be read.

    Questions that are asked before one of them could be read share equally: most of the error if they are the first,
    and half of what is left if others were read before. So all shares together are at most 1, however many questions
    follow, and none of a question changes once it was read."""
    batches: list[int] = []
    read_at: datetime | None = None
    for asked_at, end in times:
        if not batches or (read_at is not None and read_at <= asked_at):
            batches, read_at = [*batches, 0], None
        batches[-1] += 1
        read_at = min((at for at in (read_at, end) if at is not None), default=None)
    parts: list[float] = []
    left = 1.0
    for number, size in enumerate(batches):
        part = FIRST if number == 0 else left / 2
        left -= part
        parts += [part / size] * size
    return parts


def arm_of(tries: int, branches: Collection[str], types: Mapping[str, str], ended: Collection[str]) -> ForkArm:
    """Return an arm that was made with this many tries, from its branches, their reward types and which have ended.
    Erased branches stay tries without an outcome."""
    ends = [types[pk] for pk in branches if pk in types]
    live = sum(pk not in ended for pk in branches)
    return ForkArm(max(tries, len(branches)), len(ends), ends.count("complete"), live)


@lru_cache(maxsize=16384)
def fisher(complete: int, of: int, other: int, others: int) -> float:
    """Return the exact two-sided p of two rates: the chance of a table that is no likelier than this one."""
    total = complete + other
    ways = {
        wins: math.comb(of, wins) * math.comb(others, total - wins)
        for wins in range(max(0, total - others), min(of, total) + 1)
    }
    tail = sum(way for way in ways.values() if way <= ways[complete])
    return max(SMALLEST_P, min(1.0, tail / sum(ways.values())))


@lru_cache(maxsize=4096)
def boschloo(complete: int, of: int, other: int, others: int) -> float:
    """Return the exact two-sided p of two independent rates (Boschloo 1970): the largest chance, over all rates that
    both can have, of a table whose p of Fisher is no larger than this one's. It errs no more often than Fisher's test,
    and finds more."""
    edge = fisher(complete, of, other, others) * (1 + EQUAL)
    by_total: Counter[int] = Counter()
    for wins, more in product(range(of + 1), range(others + 1)):
        if fisher(wins, of, more, others) <= edge:
            by_total[wins + more] += math.comb(of, wins) * math.comb(others, more)
    size = of + others

    def chance(rate: float) -> float:
        return sum(ways * rate**total * (1 - rate) ** (size - total) for total, ways in by_total.items())

    place = max(range(1, RATES), key=lambda step: chance(step / RATES)) / RATES
    # around the best of the grid, where the chance is smooth
    near = (place + step / (20 * RATES) for step in range(-20, 21))
    return max(SMALLEST_P, min(1.0, max(chance(rate) for rate in near if 0 <= rate <= 1)))


def least_shown(tries: int, share: float = FIRST) -> int | None:
    """Return the most complete tries of one arm against which all of the other's are shown by a fork with this share of
    the error of its tree; None if nothing is."""
    shown = (
        other
        for other in range(tries, -1, -1)
        if is_shown(boschloo(tries, tries, other, tries), None, newcombe(tries, tries, other, tries), ERROR * share)
    )
    return next(shown, None)


def labels(change: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of both arms of a change, as a sentence begins with them."""
    if "call" in change:
        return "Changed call", "recorded call"
    if "advice" in change:
        return "Other advice", "recorded advice"
    if "ask" in change:
        return "Asked here", "recorded choice"
    if "policy" in change:
        return "Other model", "own model"
    if "erased" in change:
        return "Erased change", "recorded choice"
    return ("With the words", "without the words") if "words" in change else ("Chosen again", "recorded choice")


def finding(
    treated: ForkArm,
    control: ForkArm,
    changed: str,
    kept: str,
    *,
    forks: int = 1,
    share: float = FIRST,
    fixed: bool = False,
) -> ForkFinding:
    """Return what two arms show; `forks` are in the same tree, and this one has a `share` of their error. A `fixed`
    policy makes the same choice each time, so that its branches are one observation."""
    both = treated, control
    ended = f"{sum(one.tries - one.live for one in both)} of {sum(one.tries for one in both)}"
    if any(one.live for one in both):
        return ForkFinding(*both, "", f"{ended} branches have ended. What they show is said once, at the end.")
    counts = f"{changed}: {treated.counts} complete; {kept}: {control.counts}"
    if not treated.known or not control.known:
        return ForkFinding(*both, "", f"{counts}. An arm has no outcome, so nothing can be compared.")
    if fixed:
        reason = "A script makes the same choices in each branch, so an arm is one observation: nothing is shown."
        return ForkFinding(*both, "", f"{counts}. {reason}")
    delta = treated.complete / treated.known - control.complete / control.known
    span = newcombe(treated.complete, treated.known, control.complete, control.known)
    p = boschloo(treated.complete, treated.known, control.complete, control.known)
    level = ERROR * share
    verdict = word(delta) if is_shown(p, None, span, level) and _is_robust(treated, control, delta, level) else ""
    numbers = f"{points(delta)} {span_text(span)} (Newcombe, 95%), p = {p_text(p)} (Boschloo)".replace("= <", "<")
    end = f"{verdict}" if verdict else "one flip proves nothing" if _is_flip(treated, control) else "not shown"
    part = f"{100 * ERROR * share:.2g}%"
    whole = f" {count(forks, 'fork')} of this tree share the error of 5%, of which this one has {part}."
    shared = whole if forks > 1 else ""
    lost = sum(one.lost for one in both)
    without = f" {lost:,} {'branch is' if lost == 1 else 'branches are'} without an outcome." if lost else ""
    return ForkFinding(*both, verdict, f"{counts}. {numbers}: {end}.{shared}{without}", delta, span, p)


def widened(shown: ForkFinding, span: Interval) -> ForkFinding:
    """Return what a fork shows with the interval of two readings, in its sentence as well."""
    before, after = (f"{span_text(each)} (Newcombe" for each in (shown.interval or span, span))
    return replace(shown, interval=span, sentence=f"{shown.sentence.replace(before, after)} {WIDENED}")


def repeated(shown: ForkFinding) -> ForkFinding:
    """Return what a fork shows whose model repeats itself."""
    counts, _, _ = shown.sentence.partition(". ")
    reason = "Its model chose the same in every branch of an arm, so an arm is one observation: nothing is shown."
    return ForkFinding(shown.treated, shown.control, "", f"{counts}. {reason}")


def _is_robust(treated: ForkArm, control: ForkArm, delta: float, level: float) -> bool:
    """Return whether a difference is shown although all lost branches had ended against it."""
    up = delta > 0
    wins = treated.complete + (0 if up else treated.lost)
    other = control.complete + (control.lost if up else 0)
    p = boschloo(wins, treated.tries, other, control.tries)
    return is_shown(p, None, newcombe(wins, treated.tries, other, control.tries), level)


def _is_flip(treated: ForkArm, control: ForkArm) -> bool:
    """Return whether a single branch of each arm ended differently."""
    return treated.known == control.known == 1 and treated.complete != control.complete
