"""Help by draw: within an arm, each try is offered the expert or not by a seeded draw with a known chance, and what the
offer changed is estimated from that draw alone.

The datum of a try is its score (z - p) / (p (1 - p)) * (y - g): z offered, p its chance, y complete or not, g what
earlier tries lead one to expect (rounded to tenths, so that scores take few values). Its mean estimates the change by
the offer, whatever g is, because only z is random. Three statements: an interval of the mean (cluster jackknife), a
test that draws all offers again (exact), and while the run goes on the e-process of `anytime.py` on the scores, scaled
into [-1, 1]. Who asks among those offered was not drawn: `Group`s only describe. Pure. Called by `comparison.py`.
"""

from __future__ import annotations

import cmath
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from people.in_words import count
from runs.statistics import deciding
from runs.statistics.anytime import Unit, Wave, first_crossing, interval
from runs.statistics.compare import GAP, Try, uncounted
from runs.statistics.paired import Interval, cluster_interval, holm
from runs.statistics.prices import Price, price
from runs.statistics.sentences import not_shown, p_text, points, signed, span_text

FEWEST = 60
"""Counted tries from which on the interval of a mean of scores may be read."""
TENTHS = 10
METHOD = "randomization test, AIPW scores"
WITHHELD = "Withheld: the two sides lost different shares of their episodes."
CHANCES = (0.1, 0.9)
"""Chances outside would let single tries decide: a score can be as large as 1 / p."""


@dataclass(frozen=True)
class Group:
    """Counted tries that have something in common. Nobody drew who asks, so only offered and withheld compare."""

    name: str
    counted: int
    complete: int

    @property
    def rate(self) -> float | None:
        return self.complete / self.counted if self.counted else None


@dataclass(frozen=True)
class Lost:
    """Tries that count in no rate though their task is fit, and what they could change at the most."""

    offered: dict[str, int]
    withheld: dict[str, int]
    bars: bool
    """One side lost clearly more, so that no effect may be read."""
    bounds: Interval


@dataclass(frozen=True)
class Anytime:
    """What may be said at any time. `read` of `planned` tries are in the complete prefix."""

    read: int
    planned: int
    interval: Interval
    verdict: str
    since: int | None
    sentence: str


@dataclass(frozen=True)
class Effect:
    """What offering help changed in one arm. The interval and p are None where they may not be read."""

    arm: str
    chance: float
    offered: Group
    withheld: Group
    asked: Group
    """Of the offered: those that asked. Descriptive, like the next."""
    silent: Group
    planned: int
    state: str
    """running, final, stopped (ended before the planned size) or extended (seeds were added)."""
    delta: float | None
    interval: Interval | None
    p: float | None
    verdict: str
    """better, worse, none (not shown), few or withheld."""
    running: Anytime
    lost: Lost
    price: Price | None = None
    method: str = METHOD
    p_holm: float | None = None
    sentence: str = ""

    @property
    def drawn(self) -> tuple[Group, Group]:
        return self.offered, self.withheld

    @property
    def described(self) -> tuple[Group, Group]:
        return self.asked, self.silent


@dataclass(frozen=True)
class _Scored:
    """One counted try: its score, the tenths of y - g that the draw gave a sign, and its score in human minutes."""

    of: Try
    score: float
    tenths: int
    minutes: float


def is_offered(plan: str, arm: str, task: str, seed: int, chance: float) -> bool:
    """Draw whether a try is offered help: the same for the same plan, arm, task and seed."""
    return _drawn(f"{plan}\n{arm}\n{task}\n{seed}", chance)


def is_for_people(plan: str, arm: str, task: str, seed: int, share: float) -> bool:
    """Draw whether people or models answer a try's asks: independent of the draw of its offer."""
    return _drawn(f"{plan}\n{arm}\n{task}\n{seed}\npeople", share)


def _drawn(words: str, chance: float) -> bool:
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8]) < chance * 2**64


def effects(tries: Sequence[Try], *, stopped: bool = False) -> list[Effect]:
    """Return what the offer changed in each arm that draws it; several arms share their error by Holm, and while the
    run goes on by equal parts. `tries` are in the planned order. `stopped`: a person ended the run early."""
    by_arm: dict[str, list[Try]] = defaultdict(list)
    # a try that a retry opens again goes behind those read before, so that what they showed stays
    for each in sorted(uncounted(tries) if stopped else tries, key=lambda one: (one.wave, one.retried_at)):
        if each.chance is not None:
            by_arm[each.arm].append(each)
    drafts = [_effect(arm, mine, stopped, 0.05 / len(by_arm)) for arm, mine in by_arm.items()]
    several = len(drafts) > 1
    adjusted = holm([1.0 if one.p is None else one.p for one, _ in drafts])
    found = []
    for (one, scored), p in zip(drafts, adjusted, strict=True):
        told = replace(one, p_holm=p) if several and one.p is not None else one
        told = replace(told, verdict=_verdict(told), price=_price(told, scored))
        found.append(replace(told, sentence=_sentence(told)))
    return found


def _effect(arm: str, tries: Sequence[Try], stopped: bool, alpha: float) -> tuple[Effect, list[_Scored]]:
    is_open = any(one.is_open for one in tries)
    state = "running" if is_open else "extended" if len({one.wave for one in tries}) > 1 else "final"
    if is_open and stopped:
        state = "stopped"
    prefix = _prefix(tries)
    scored = scores(prefix)  # all, once none is open
    lost = _lost(tries)
    may_read = state == "final" and bool(scored) and not lost.bars
    delta, span = _mean(scored) if may_read and len(scored) >= FEWEST else (None, None)
    p = redrawn([(one.tenths, _chance(one.of)) for one in scored], _offers(scored)) if may_read else None
    counted = [one.of for one in scored]
    helped = [one for one in counted if one.offered]
    running = _running(tries, prefix, state, alpha)
    if lost.bars:
        running = replace(running, interval=lost.bounds, verdict="withheld", since=None, sentence=WITHHELD)
    effect = Effect(
        arm=arm,
        chance=_chance(tries[0]),
        offered=_group("offered", helped),
        withheld=_group("withheld", [one for one in counted if not one.offered]),
        asked=_group("offered and asked", [one for one in helped if one.asked]),
        silent=_group("offered and did not ask", [one for one in helped if not one.asked]),
        planned=len(tries),
        state=state,
        delta=delta,
        interval=span,
        p=p,
        verdict="none",
        running=running,
        lost=lost,
    )
    return effect, scored


def _mean(scored: Sequence[_Scored]) -> tuple[float, Interval | None]:
    """Return the mean score and its interval; a difference of shares is at most 1, which single scores are not."""
    mean, span = cluster_interval([one.score for one in scored], [1] * len(scored))
    return max(-1.0, min(1.0, mean)), span


def _price(one: Effect, scored: Sequence[_Scored]) -> Price | None:
    if one.interval is None:
        return None
    return price([each.minutes for each in scored], [each.score for each in scored], is_shown=_is_fixed(one))


def _chance(one: Try) -> float:
    assert one.chance is not None
    return one.chance


def _offers(scored: Iterable[_Scored]) -> list[bool]:
    return [bool(one.of.offered) for one in scored]


def _group(name: str, tries: Sequence[Try]) -> Group:
    return Group(name, len(tries), sum(one.complete is True for one in tries))


def scores(tries: Iterable[Try]) -> list[_Scored]:
    """Score the counted tries in their order. What is expected of a try comes from tries before it alone: those of its
    task, drawn toward the mean of all. Minutes are expected as the mean of those offered before."""
    of_task: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    before, found = (0, 0), []
    spent, helped = 0.0, 0
    for one in tries:
        if one.complete is None:
            continue
        p, z = _chance(one), bool(one.offered)
        tenths = round(TENTHS * expected(*of_task[one.task], *before))
        residual = TENTHS * one.complete - tenths
        cost = one.human_s / 60
        usual = (1 - p) * spent / helped if helped else 0.0
        weight = weight_of(z, p)
        found.append(_Scored(one, weight * residual / TENTHS, residual, weight * (cost - usual)))
        solved, counted = of_task[one.task]
        of_task[one.task] = solved + one.complete, counted + 1
        before = before[0] + one.complete, before[1] + 1
        if z:
            spent, helped = spent + cost, helped + 1
    return found


def expected(solved: int, of_task: int, complete: int, before: int) -> float:
    """Return the share that earlier tries lead one to expect: 1/2 to begin with, then mostly that of the task.

    `solved` of `of_task` tries of this task were complete, `complete` of `before` of all.
    """
    overall = (complete + 1) / (before + 2)
    return (solved + 2 * overall) / (of_task + 2)


def weight_of(offered: bool, chance: float) -> float:
    """Return (z - p) / (p (1 - p)): 1 / p where it was offered, else -1 / (1 - p)."""
    return 1 / chance if offered else -1 / (1 - chance)


def redrawn(residuals: Sequence[tuple[int, float]], offers: Sequence[bool]) -> float:
    """Return the two-sided p of the offered residuals' sum, if all offers were drawn again and changed nothing.

    `residuals` are whole numbers with the chance of each. Exact: the distribution of the sum is that of independent
    draws, and its tail is read off its characteristic function, of which a sum of whole numbers needs finitely many
    values.
    """
    alike = Counter(one for one in residuals if one[0])
    if not alike:
        return 1.0
    low = sum(value * times for (value, _), times in alike.items() if value < 0)
    size = sum(abs(value) * times for (value, _), times in alike.items()) + 1
    mean = sum(value * p * times for (value, p), times in alike.items())
    away = abs(sum(value for (value, _), offered in zip(residuals, offers, strict=True) if offered) - mean)
    # sums from `first` to `last` are nearer to the mean than the one that was drawn
    first, last = math.floor(mean - away + 1e-9) + 1, math.ceil(mean + away - 1e-9) - 1
    first, last = max(first, low), min(last, low + size - 1)
    if first > last:
        return 1.0
    nearer = float(last - first + 1)  # the value at 0, then each pair of conjugates
    for step in range(1, size // 2 + 1):
        angle = 2 * math.pi * step / size
        term = complex(1.0)
        for (value, p), times in alike.items():
            term *= (1 - p + p * cmath.exp(1j * angle * value)) ** times
        inside = cmath.exp(-0.5j * angle * (first + last)) * (
            math.sin(angle * (last - first + 1) / 2) / math.sin(angle / 2)
        )
        nearer += (term * inside).real * (1 if 2 * step == size else 2)
    return min(1.0, max(0.0, 1 - nearer / size))


def _lost(tries: Sequence[Try]) -> Lost:
    tries = [one for one in tries if not one.unfit]
    gone = {z: Counter(one.excluded for one in tries if one.excluded and bool(one.offered) is z) for z in (True, False)}
    planned = Counter(bool(one.offered) for one in tries)
    shares = [gone[z].total() / max(planned[z], 1) for z in (True, False)]
    p = 1.0
    if gone[True] or gone[False]:
        p = redrawn([(int(bool(one.excluded)), _chance(one)) for one in tries], [bool(one.offered) for one in tries])
    bounds = _filled(tries, False), _filled(tries, True)
    return Lost(dict(gone[True]), dict(gone[False]), p < 0.05 or abs(shares[0] - shares[1]) > GAP, bounds)


def _filled(tries: Sequence[Try], offered: bool) -> float:
    """Return the change if every excluded try that was offered had ended so, and every withheld one the other way."""
    told = [
        replace(one, excluded="", complete=offered is bool(one.offered)) if one.excluded else one
        for one in tries
        if not one.is_open
    ]
    values = [one.score for one in scores(told)]
    return max(-1.0, min(1.0, sum(values) / len(values))) if values else 0.0


def _prefix(tries: Iterable[Try]) -> list[Try]:
    """Return the tries before the first open one, of each round of seeds."""
    return [one for _, wave in groupby(tries, key=lambda one: one.wave) for one in _complete_prefix(list(wave))]


def _running(tries: Sequence[Try], prefix: Sequence[Try], state: str, alpha: float) -> Anytime:
    least = min(min(_chance(one), 1 - _chance(one)) for one in tries)
    by_wave = groupby(scores(prefix), key=lambda one: one.of.wave)
    waves = [Wave(tuple(Unit(one.score * least) for one in scored)) for _, scored in by_wave]
    read, planned = len(prefix), len(tries)
    crossed = first_crossing(waves, alpha)
    low, high = interval(waves, alpha)
    span = max(-1.0, low / least), min(1.0, high / least)
    verdict, since = "none", None
    if crossed:
        # excluded tries stand between the counted ones: name the place in the planned order
        counted = [place for place, one in enumerate(prefix, 1) if one.complete is not None]
        since, verdict = counted[crossed[0] - 1], deciding.word(crossed[1])
        said = f"Shown while running, at episode {since} of {planned}: completion is {verdict} where help is offered "
        said += f"(E {crossed[2]:.3g}, may be read at any time). Interval so far {span_text(span)}."
    else:
        said = not_shown(state, f"{read} of {planned}", span, "No change by offering help shown")
    return Anytime(read, planned, span, verdict, since, said)


def _complete_prefix(tries: Sequence[Try]) -> Sequence[Try]:
    return tries[: next((place for place, one in enumerate(tries) if one.is_open), len(tries))]


def _is_fixed(one: Effect) -> bool:
    """Return whether the test and the interval at the planned size show a change."""
    return deciding.is_shown(one.p, one.p_holm, one.interval)


def _verdict(one: Effect) -> str:
    if one.lost.bars:
        return "withheld"
    if one.interval is not None and _is_fixed(one):
        return deciding.word(sum(one.interval))
    if one.p is not None and one.interval is None and one.running.since is None:
        return "few"
    return one.running.verdict


def _sentence(one: Effect) -> str:
    lost, counted = one.lost, one.offered.counted + one.withheld.counted
    if lost.bars:
        low, high = map(signed, lost.bounds)
        return (
            f"Not comparable: {count(sum(lost.offered.values()), 'episode')} with help offered and "
            f"{sum(lost.withheld.values())} without were lost. The change is between {low} and {high} points whatever "
            f"they were."
        )
    if not counted and one.state in ("final", "extended"):
        return "Nothing to compare: no episode counts."
    if one.p is None or (one.running.since is not None and not _is_fixed(one)):
        return one.running.sentence
    if one.interval is None or one.delta is None:
        verb = "is" if counted == 1 else "are"
        few = f"{count(counted, 'episode')} {verb} too few for a result of offering help"
        return f"{few}; {FEWEST} are needed."
    test = f"p {p_text(one.p)} (randomization test)"
    if one.p_holm is not None:
        test += f", {p_text(one.p_holm)} after Holm"
    shown = "Offering help changed completion" if _is_fixed(one) else "No change by offering help shown"
    return f"{shown} on these {count(counted, 'episode')}: {points(one.delta)} {span_text(one.interval)}, {test}."
