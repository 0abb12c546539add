"""What the branches of a fork show: two independent groups of tries from one step, and one sentence.

Boschloo's exact test and the interval of Newcombe 1998. A fork says one sentence, when all of its branches have ended:
before, a look at the counts would be one of many. All forks of a tree share the error, because the best would be
picked. Branches that were lost must not matter: a difference is shown only if it is one whichever way they had ended,
and the interval holds all of these ways, since who erases or cancels branches can have seen how they end.
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
from runs.statistics.paired import SMALLEST_P, Interval, hull, newcombe
from runs.statistics.sentences import WIDENED, p_text, points, span_text

FIRST = 0.8
"""The share of an error that is for all that is asked before anything is read."""
ERROR = 0.05
"""The error of all that is said about one tree: an episode, and the branches below it."""
SCRIPT = "A script makes the same choices in each branch, so an arm is one observation"
REPEATED = "Its model chose the same in every branch of an arm, so an arm is one observation"
NOT_SHOWN = "not shown"
ONE_ANSWER = "Several branches of an arm read one answer, so they are not independent"
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


Arms = tuple[ForkArm, ForkArm]
"""The treated and the control arm of a fork."""


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
    first: Arms | None = None
    """Both arms by the first outcomes, if a repaired verifier corrected some."""
    ways: tuple[Arms, ...] = ()
    """Both arms as they can be counted besides: with lost branches for or against the change, and with branches that
    went on alike as one."""
    once: Arms | None = None
    """Both arms with branches that went on alike as one, and the same by the first outcomes; None where none did."""
    first_once: Arms | None = None

    @property
    def draws(self) -> Arms:
        """Both arms as independent branches."""
        return self.once or (self.treated, self.control)

    @property
    def first_draws(self) -> Arms:
        """The same by the first outcomes."""
        return self.draws if self.first is None else self.first_once or self.first

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
    beside: int = 0,
    share: float = FIRST,
    fixed: bool = False,
) -> ForkFinding:
    """Return what two arms show; `forks` are in the same tree and `beside` are others of its campaign, and this one has
    a `share` of their error. A `fixed` policy makes the same choice each time, so that its branches are one
    observation."""
    both = treated, control
    ended = f"{sum(one.tries - one.live for one in both)} of {sum(one.tries for one in both)}"
    if any(one.live for one in both):
        return ForkFinding(*both, "", f"{ended} branches have ended. What they show is said once, at the end.")
    counts = f"{changed}: {treated.counts} complete; {kept}: {control.counts}"
    if not treated.known or not control.known:
        return ForkFinding(*both, "", f"{counts}. An arm has no outcome, so nothing can be compared.")
    if fixed:
        return without(ForkFinding(*both, "", f"{counts}. "), SCRIPT)
    delta = treated.complete / treated.known - control.complete / control.known
    ways = in_every_way(treated, control)
    spans = [_interval(*way) for way in ((treated, control), *ways)]
    span = min(low for low, _ in spans), max(high for _, high in spans)
    p = _p_at_worst(treated, control, delta, ways)
    verdict = word(delta) if is_shown(p, None, span, ERROR * share) else ""
    numbers = f"{points(delta)} {span_text(span)} (Newcombe, 95%), p = {p_text(p)} (Boschloo)".replace("= <", "<")
    end = verdict or ("one flip proves nothing" if _is_flip(treated, control) else NOT_SHOWN)
    lost = sum(one.lost for one in both)
    more = f"{_sharing(forks, beside, share)}{f' {without_outcome(lost)}' if lost else ''}"
    return ForkFinding(*both, verdict, f"{counts}. {numbers}: {end}.{more}", delta, span, p, ways=ways)


def _sharing(forks: int, beside: int, share: float) -> str:
    """Return with how many others a fork shares an error."""
    others = f"{count(beside, 'fork')} of its campaign in other trees"
    if forks > 1:
        who = f"{count(forks, 'fork')} of this tree{f' and {others}' if beside else ''}"
    elif beside:
        who = f"This fork and {others}"
    else:
        return ""
    return f" {who} share the error of 5%, of which this one has {100 * ERROR * share:.2g}%."


def without_outcome(lost: int, *, has_interval: bool = True) -> str:
    """Return how many branches are lost, and what the interval makes of them, if there is one."""
    branches = f"{lost:,} {'branch is' if lost == 1 else 'branches are'} without an outcome."
    holds = f" The interval holds whichever way {'it' if lost == 1 else 'they'} had ended."
    return f"{branches}{holds if has_interval else ''}"


def in_every_way(treated: ForkArm, control: ForkArm) -> tuple[Arms, ...]:
    """Return both arms had all lost branches ended for the change, and had they ended against it; none if none was
    lost."""

    def had_ended(arm: ForkArm, well: bool) -> ForkArm:
        return replace(arm, known=arm.tries - arm.live, complete=arm.complete + (arm.lost if well else 0))

    ways = tuple((had_ended(treated, up), had_ended(control, not up)) for up in (True, False))
    return ways if treated.lost or control.lost else ()


def _interval(treated: ForkArm, control: ForkArm) -> Interval:
    return newcombe(treated.complete, treated.known, control.complete, control.known)


def widened(shown: ForkFinding, span: Interval, why: str = WIDENED) -> ForkFinding:
    """Return what a fork shows with the interval of two readings, in its sentence as well."""
    before, after = (f"{span_text(each)} (Newcombe" for each in (shown.interval or span, span))
    return replace(shown, interval=span, sentence=f"{shown.sentence.replace(before, after)} {why}")


def with_alike(shown: ForkFinding, once: ForkFinding) -> ForkFinding:
    """Return what a fork shows some of whose branches went on like another one of their arm: only what it also shows
    with these counted `once`. A cache or a model without sampling can have made them, and then they are one draw."""
    span = hull(shown.interval, once.interval)
    alike = shown.treated.known + shown.control.known - once.treated.known - once.control.known
    if span is None or not alike:
        return shown
    why = (
        f"{alike:,} {'branch' if alike == 1 else 'branches'} went on exactly like another one of the same arm. Counted "
        f"once: {once.treated.counts} against {once.control.counts}; the interval holds both."
    )
    counted = once.treated, once.control
    ways, p = (*shown.ways, counted, *once.ways), max(shown.p or 0.0, once.p or 0.0)
    before, after = (f"p = {p_text(each)} (".replace("= <", "<") for each in (shown.p or 0.0, p))
    read = replace(shown, ways=ways, once=counted, p=p, sentence=shown.sentence.replace(before, after, 1))
    if shown.verdict != once.verdict:
        words = read.sentence.replace(f": {shown.verdict}.", f": {NOT_SHOWN}.", 1)
        read = replace(read, verdict="", sentence=words)
    return widened(read, span, why)


def without(shown: ForkFinding, reason: str) -> ForkFinding:
    """Return the counts of a fork alone, and the reason for which they show nothing."""
    counts, _, _ = shown.sentence.partition(". ")
    return ForkFinding(shown.treated, shown.control, "", f"{counts}. {reason}: nothing is shown.")


def _p_at_worst(treated: ForkArm, control: ForkArm, delta: float, ways: Sequence[Arms]) -> float:
    """Return the p of a difference, or the larger one had all lost branches ended against it."""
    p = boschloo(treated.complete, treated.known, control.complete, control.known)
    if not ways:
        return p
    changed, kept = ways[delta > 0]
    still = changed.complete / changed.known - kept.complete / kept.known
    return max(p, boschloo(changed.complete, changed.known, kept.complete, kept.known)) if still * delta > 0 else 1.0


def _is_flip(treated: ForkArm, control: ForkArm) -> bool:
    """Return whether a single branch of each arm ended differently."""
    return treated.known == control.known == 1 and treated.complete != control.complete
