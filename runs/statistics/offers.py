"""Help by draw: within an arm, each try is offered the expert or not by a seeded draw with a known chance, and the
effect of the offer is estimated from that draw alone.

The datum of a try is its score (z - p) / (p (1 - p)) * (y - g): z offered, p its chance, y complete or not, g the
expectation from earlier tries (rounded to tenths, so that scores take few values). Its mean estimates the effect of the
offer for any g, because only z is random. Three statements: an interval of the mean (cluster jackknife), a test that
draws all offers again (exact), and while the run continues the e-process of `anytime.py` on the scores, scaled into
[-1, 1]. Which of the offered tries ask was not drawn: `Group`s only describe. Pure. Called by `comparison.py`.
"""

from __future__ import annotations

import cmath
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from people.text.in_words import count
from runs.statistics import deciding
from runs.statistics.anytime import Unit, Wave, first_crossing, interval
from runs.statistics.compare import CANCELLED, GAP, LOST_CLEARLY, Try, as_if, uncounted
from runs.statistics.deciding import Statement
from runs.statistics.paired import Interval, cluster_interval, holm, newcombe
from runs.statistics.prices import Price, price
from runs.statistics.sentences import WIDENED, hangs_on, holds_for, not_shown, p_text, points, signed, span_text, void
from runs.statistics.unanswered import never_answered, no_help

FEWEST, FEWEST_OF_A_SIDE = 60, 30
"""The fewest counted tries, and the fewest offered and not offered ones, with a valid interval of the mean score. With
fewer on the smaller side it covers 65% at a chance of .1 and 84% at .2."""
RARE = 10
"""With fewer complete or fewer other episodes on a side the interval of the mean score is too short: it covers 51%
where 2% complete with an offer. It is then at least as wide as that of the two rates (Newcombe 1998)."""
SMALLEST_P = 1e-12
"""The test errs by less than this; a smaller p is as good as this one."""
TENTHS = 10
METHOD = "randomization test, AIPW scores"
WITHHELD = "Withheld: the two sides lost different shares of their episodes."
CHANCES = (0.1, 0.9)
"""With chances outside these bounds single tries would decide: a score can be as large as 1 / p."""


@dataclass(frozen=True)
class Group:
    """Counted tries with a common property. Asking was not drawn, so only offered and withheld tries are comparable."""

    name: str
    counted: int
    complete: int

    @property
    def rate(self) -> float | None:
        return self.complete / self.counted if self.counted else None


@dataclass(frozen=True)
class Lost:
    """Tries that count in no rate though their task is fit, and the most they could change."""

    offered: dict[str, int]
    withheld: dict[str, int]
    bars: bool
    """One side lost clearly more, so that no effect is stated."""
    bounds: Interval


@dataclass(frozen=True)
class Anytime:
    """The statement that is valid at any time. `read` of `planned` tries are in the complete prefix."""

    read: int
    planned: int
    interval: Interval
    verdict: str
    since: int | None
    sentence: str


@dataclass(frozen=True)
class Effect:
    """The effect of offering help in one arm. The interval and p are None if they are not valid."""

    arm: str
    chance: float
    offered: Group
    withheld: Group
    asked: Group
    """The offered tries that asked. Descriptive, like the next."""
    silent: Group
    planned: int
    state: str
    """running, final or stopped (ended before the planned size); seeds that were added do not change it."""
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
    level: float = deciding.PLANNED
    """The error of the test, which all draws of the plan share."""
    hangs: bool = False
    """The counted tries alone would show a change: whether there is one hangs on the unknown ones."""
    void: str = ""
    """Why nothing may be said, whatever the outcomes are."""
    unanswered: dict[str, int] = field(default_factory=dict)
    """How many asks of the arm fell back, where not one was answered: the offered help was never there."""

    @property
    def unknown(self) -> int:
        """How many planned tries were lost, replaced or cancelled."""
        return sum(sum(side.values()) for side in (self.lost.offered, self.lost.withheld))

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
    # the first 64 bits of the hash, as a share of 2**64
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8]) < chance * 2**64


def effects(
    tries: Sequence[Try], statements: Sequence[Statement], *, stopped: bool = False, void: str = ""
) -> list[Effect]:
    """Evaluate the effects of offers that were fixed at the launch, in each arm that draws them. Several arms share
    their error by Holm. `tries` are in the planned order. `stopped`: a person ended the run early; `void` says why
    nothing may be said at all."""
    by_arm: dict[str, list[Try]] = defaultdict(list)
    # a try that a retry opens again is ordered after those read before, so that their statement stays
    for each in sorted(uncounted(tries) if stopped else tries, key=lambda attempt: (attempt.wave, attempt.retried_at)):
        if each.chance is not None:
            by_arm[each.arm].append(each)
    drawing = [one for one in statements if not one.is_contrast and by_arm[one.arm]]
    drafts = [_effect(one, by_arm[one.arm], stopped, void) for one in drawing]
    several = len(drafts) > 1
    adjusted = holm([1.0 if one.p is None else one.p for one, _ in drafts])
    decided = []
    for (draft, scored), p in zip(drafts, adjusted, strict=True):
        stated = replace(draft, p_holm=p) if several and draft.p is not None else draft
        stated = replace(stated, verdict=_verdict(stated), price=_price(stated, scored))
        decided.append(replace(stated, sentence=no_help(stated.unanswered) + _sentence(stated)))
    return decided


def _effect(statement: Statement, tries: Sequence[Try], stopped: bool, void_why: str) -> tuple[Effect, list[_Scored]]:
    planned = [one for one in tries if one.wave == 0]
    is_open = any(one.is_open for one in planned)
    state = ("stopped" if stopped else "running") if is_open else "final"
    scored = scores(_complete_prefix(planned))  # all of them, once none is open
    lost = _lost(planned)
    may_read = state == "final" and bool(scored) and not lost.bars and not void_why
    measured = [_measured(scores(view)) for view in _views(planned)] if may_read else []
    delta, span, p, hangs = _whatever(measured, statement.planned)
    counted = [one.of for one in scored]
    helped = [one for one in counted if one.offered]
    running = _running(uncounted(tries), state, statement.running)
    if void_why or lost.bars or _lost(uncounted(tries)).bars:
        running = replace(
            running,
            interval=lost.bounds,
            verdict="withheld",
            since=None,
            sentence=void(void_why) if void_why else WITHHELD,
        )
    effect = Effect(
        arm=statement.arm,
        chance=_chance(tries[0]),
        offered=_group("offered", helped),
        withheld=_group("withheld", [one for one in counted if not one.offered]),
        asked=_group("offered and asked", [one for one in helped if one.asked]),
        silent=_group("offered and did not ask", [one for one in helped if not one.asked]),
        planned=len(planned),
        state=state,
        delta=delta,
        interval=span,
        p=p,
        verdict="none",
        running=running,
        lost=lost,
        level=statement.planned,
        hangs=hangs,
        void=void_why,
        unanswered=never_answered(tries, statement.arm),
    )
    return effect, scored


def _views(tries: Sequence[Try]) -> list[Sequence[Try]]:
    """Return the tries as they count, and then in every other way in which unknown ones must not change a statement
    (`compare.views_of`)."""
    losses: list[bool | None] = [None]
    if any(one.lost and one.excluded != CANCELLED for one in tries):
        losses += [False, True]
    corners: list[bool | None] = [None]
    if any(one.excluded == CANCELLED for one in tries):
        corners += [False, True]
    return [_view(tries, corner, loss) for corner in corners for loss in losses]


def _view(tries: Sequence[Try], corner: bool | None, loss: bool | None) -> Sequence[Try]:
    return as_if(tries, lambda attempt: None if corner is None else corner is bool(attempt.offered), lambda _: loss)


def _measured(scored: Sequence[_Scored]) -> tuple[float | None, Interval | None, float]:
    """Return the mean score and its interval, from as many tries of both sides as it needs, and the p of the test."""
    sides = Counter(_offers(scored))
    # few on one side make the interval of the mean too short, whatever the number of all
    enough = len(scored) >= FEWEST and min(sides[True], sides[False]) >= FEWEST_OF_A_SIDE
    delta, span = _mean(scored) if enough else (None, None)
    span = span and _wide_enough(scored, span)
    return delta, span, redrawn([(one.tenths, _chance(one.of)) for one in scored], _offers(scored))


def _whatever(
    measured: Sequence[tuple[float | None, Interval | None, float]], level: float
) -> tuple[float | None, Interval | None, float | None, bool]:
    """Return what holds however unknown tries are counted: the difference of those that count, the widest interval, the
    largest p, and whether more would be shown without the unknown ones."""
    if not measured:
        return None, None, None, False
    (delta, first, p), ps = measured[0], [p for _, _, p in measured]
    spans = [span for _, span, _ in measured if span is not None]
    if len(spans) < len(measured):
        return None, None, max(ps), False
    whole = min(low for low, _ in spans), max(high for _, high in spans)
    return delta, whole, max(ps), len(measured) > 1 and deciding.is_shown(p, None, first, level)


def _mean(scored: Sequence[_Scored]) -> tuple[float, Interval | None]:
    """Return the mean score and its interval; a difference of shares is at most 1, which single scores are not."""
    mean, span = cluster_interval([one.score for one in scored], [1] * len(scored))
    return max(-1.0, min(1.0, mean)), span


def _wide_enough(scored: Sequence[_Scored], span: Interval) -> Interval:
    """Return the interval, at least as wide as that of the two rates where one of them is of few episodes."""
    sides = [[one.of for one in scored if bool(one.of.offered) is offered] for offered in (True, False)]
    (part, of), (other, others) = ((sum(one.complete is True for one in side), len(side)) for side in sides)
    if min(part, of - part, other, others - other) >= RARE:
        return span
    low, high = newcombe(part, of, other, others)
    return min(span[0], low), max(span[1], high)


def _price(effect: Effect, scored: Sequence[_Scored]) -> Price | None:
    """Price an offer at the planned size, by the scores of tries."""
    if effect.interval is None:
        return None
    return price([each.minutes for each in scored], [each.score for each in scored], is_shown=_is_fixed(effect))


def _chance(attempt: Try) -> float:
    assert attempt.chance is not None
    return attempt.chance


def _offers(scored: Iterable[_Scored]) -> list[bool]:
    return [bool(one.of.offered) for one in scored]


def _group(name: str, tries: Sequence[Try]) -> Group:
    return Group(name, len(tries), sum(one.complete is True for one in tries))


def scores(tries: Iterable[Try]) -> list[_Scored]:
    """Score the counted tries in their order. The expectation of a try uses earlier tries only: those of its task,
    drawn toward the mean of all. Expected minutes are the mean of the earlier offered tries."""
    of_task: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    before, scored = (0, 0), []
    spent, helped = 0.0, 0
    for attempt in tries:
        if attempt.complete is None:
            continue
        p, z = _chance(attempt), bool(attempt.offered)
        # tenths: scores with few values make the test exact and the e-process cheap
        tenths = round(TENTHS * expected(*of_task[attempt.task], *before))
        residual = TENTHS * attempt.complete - tenths
        cost = attempt.human_s / 60
        # the other side takes no minutes, so its part of the expectation is 0
        usual = (1 - p) * spent / helped if helped else 0.0
        weight = weight_of(z, p)
        scored.append(_Scored(attempt, weight * residual / TENTHS, residual, weight * (cost - usual)))
        solved, counted = of_task[attempt.task]
        of_task[attempt.task] = solved + attempt.complete, counted + 1
        before = before[0] + attempt.complete, before[1] + 1
        if z:
            spent, helped = spent + cost, helped + 1
    return scored


def expected(solved: int, of_task: int, complete: int, before: int) -> float:
    """Return the expected share from earlier tries: 1/2 at the beginning, later mostly that of the task.

    `solved` of `of_task` tries of this task were complete, `complete` of `before` of all.

    """
    overall = (complete + 1) / (before + 2)
    # as if two more tries of the task had come out like all
    return (solved + 2 * overall) / (of_task + 2)


def weight_of(offered: bool, chance: float) -> float:
    """Return (z - p) / (p (1 - p)): 1 / p if it was offered, else -1 / (1 - p)."""
    return 1 / chance if offered else -1 / (1 - chance)


def redrawn(residuals: Sequence[tuple[int, float]], offers: Sequence[bool]) -> float:
    """Return the two-sided p of the offered residuals' sum, if all offers were drawn again and changed nothing.

    `residuals` are whole numbers with the chance of each. Exact: the distribution of the sum is that of independent
    draws, and its tail is read off its characteristic function, of which a sum of whole numbers needs finitely many
    values.
    """
    # a residual of 0 adds nothing, whatever is drawn
    alike = Counter(one for one in residuals if one[0])
    if not alike:
        return 1.0
    # the sum takes the `size` whole values from `low` on
    low = sum(value * times for (value, _), times in alike.items() if value < 0)
    size = sum(abs(value) * times for (value, _), times in alike.items()) + 1
    mean = sum(value * p * times for (value, p), times in alike.items())
    away = abs(sum(value for (value, _), offered in zip(residuals, offers, strict=True) if offered) - mean)
    # sums from `first` to `last` are closer to the mean than the drawn one
    # 1e-9: a sum exactly as far away as the drawn one must not count as nearer by rounding
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
        # the geometric sum of exp(-i angle k) for k from `first` to `last`
        inside = cmath.exp(-0.5j * angle * (first + last)) * (
            math.sin(angle * (last - first + 1) / 2) / math.sin(angle / 2)
        )
        # the last point of an even number is its own conjugate
        nearer += (term * inside).real * (1 if 2 * step == size else 2)
    return min(1.0, max(SMALLEST_P, 1 - nearer / size))


def _lost(tries: Sequence[Try]) -> Lost:
    """Count the losses of both sides; one that a retry replaced stays a loss."""
    tries = [one for one in tries if not one.unfit]
    lost = {z: Counter(one.lost for one in tries if one.lost and bool(one.offered) is z) for z in (True, False)}
    planned = Counter(bool(one.offered) for one in tries)
    shares = [lost[z].total() / max(planned[z], 1) for z in (True, False)]
    p = 1.0
    if lost[True] or lost[False]:
        p = redrawn([(int(bool(one.lost)), _chance(one)) for one in tries], [bool(one.offered) for one in tries])
    # by the draw's own test, and by the plain gap of the shares
    bars = p < LOST_CLEARLY or abs(shares[0] - shares[1]) > GAP
    return Lost(dict(lost[True]), dict(lost[False]), bars, (_filled(tries, False), _filled(tries, True)))


def _filled(tries: Sequence[Try], offered: bool) -> float:
    """Return the effect if every lost try with this value of `offered` were complete, and no other lost one."""

    def value(attempt: Try) -> bool:
        return offered is bool(attempt.offered)

    values = [one.score for one in scores(as_if((one for one in tries if not one.is_open), value, value))]
    return max(-1.0, min(1.0, sum(values) / len(values))) if values else 0.0


def _prefix(tries: Iterable[Try]) -> list[Try]:
    """Return the tries before the first open one, of each round of seeds."""
    return [one for _, wave in groupby(tries, key=lambda attempt: attempt.wave) for one in _complete_prefix(list(wave))]


def _running(tries: Sequence[Try], state: str, alpha: float) -> Anytime:
    """Return what may be said at any time: what holds however unknown tries are counted."""
    least = min(min(_chance(one), 1 - _chance(one)) for one in tries)
    looks = [_Look(_prefix(sorted(view, key=_turn)), least) for view in _views(tries)]
    read, planned = len(looks[0].prefix), len(tries)
    spans = [interval(one.waves, alpha) for one in looks]
    # back from the scaled scores, which are at most 1
    span = max(-1.0, min(low for low, _ in spans) / least), min(1.0, max(high for _, high in spans) / least)
    crossings = [(crossed, one) for one in looks if (crossed := first_crossing(one.waves, alpha))]
    if len(crossings) < len(looks) or len({direction for (_, direction, _), _ in crossings}) > 1:
        words = not_shown(state, read, planned, noun="episode", what="No change by offering help shown")
        return Anytime(read, planned, span, "none", None, words)
    (number, direction, e), look = max(crossings, key=lambda pair: pair[0][0])
    # excluded tries are between the counted ones, so name the place in the planned order
    counted = [place for place, one in enumerate(look.prefix, 1) if one.complete is not None]
    since, verdict = counted[number - 1], deciding.word(direction)
    words = f"Shown while running, at episode {since} of {planned}: completion is {verdict} where help is offered "
    words += f"(E {e:.3g}, may be read at any time). Interval so far {span_text(span)}."
    return Anytime(read, planned, span, verdict, since, words)


def widened(effect: Effect, span: Interval | None, running: Interval) -> Effect:
    """Return an effect with the intervals of two readings, in its sentence as well."""
    now = effect.running
    before, after = (f"Interval so far {span_text(each)}." for each in (now.interval, running))
    look = replace(now, interval=running, sentence=now.sentence.replace(before, after))
    wide = replace(effect, interval=span, running=look)
    return replace(wide, sentence=f"{_sentence(wide)} {WIDENED}")


def _turn(attempt: Try) -> tuple[int, float, int, int]:
    """Return the place of a try in the reading order; one that counts as lost keeps its first place."""
    return attempt.wave, attempt.retried_at, attempt.position, attempt.seed


class _Look:
    """The complete prefix of a view, and the bets on its scores, which are at most 1 / `least`."""

    def __init__(self, prefix: Sequence[Try], least: float) -> None:
        self.prefix = prefix
        by_wave = groupby(scores(prefix), key=lambda row: row.of.wave)
        # into [-1, 1], which the bets need
        self.waves = [Wave(tuple(Unit(one.score * least) for one in scored)) for _, scored in by_wave]


def _complete_prefix(tries: Sequence[Try]) -> Sequence[Try]:
    return tries[: next((place for place, one in enumerate(tries) if one.is_open), len(tries))]


def _is_fixed(effect: Effect) -> bool:
    """Return whether the test and the interval at the planned size show a change."""
    return deciding.is_shown(effect.p, effect.p_holm, effect.interval, effect.level)


def _verdict(effect: Effect) -> str:
    if effect.lost.bars or effect.void:
        return "withheld"
    if effect.interval is not None and _is_fixed(effect):
        return deciding.word(sum(effect.interval))
    # the counted tries alone would show a change: it is neither shown nor denied
    if effect.running.since is None and effect.hangs:
        return "withheld"
    if effect.p is not None and effect.interval is None and effect.running.since is None:
        return "few"
    return effect.running.verdict


def _sentence(effect: Effect) -> str:
    lost, counted = effect.lost, effect.offered.counted + effect.withheld.counted
    if effect.void:
        return void(effect.void)
    if lost.bars:
        low, high = map(signed, lost.bounds)
        return (
            f"Not comparable: {count(sum(lost.offered.values()), 'episode')} with help offered and "
            f"{sum(lost.withheld.values())} without were lost. The change is between {low} and {high} points whatever "
            f"they were."
        )
    if not counted and effect.state == "final":
        return "Nothing to compare: no episode counts."
    if effect.p is None or (effect.running.since is not None and not _is_fixed(effect)):
        return effect.running.sentence
    if effect.interval is None or effect.delta is None:
        verb = "is" if counted == 1 else "are"
        few = f"{count(counted, 'episode')} {verb} too few for a result of offering help"
        return f"{few}; {FEWEST} are needed, with {FEWEST_OF_A_SIDE} on each side."
    on = f"on these {count(counted, 'episode')}: {points(effect.delta)} {span_text(effect.interval)}"
    if effect.verdict == "withheld":
        return f"Withheld {on}. {hangs_on(effect.unknown)}"
    test = f"p {p_text(effect.p)} (randomization test)"
    if effect.p_holm is not None:
        test += f", {p_text(effect.p_holm)} after Holm"
    shown = "Offering help changed completion" if _is_fixed(effect) else "No change by offering help shown"
    holds = f" {holds_for(effect.unknown)}" if effect.unknown and _is_fixed(effect) else ""
    return f"{shown} {on}, {test}.{holds}"
