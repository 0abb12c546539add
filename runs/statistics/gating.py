"""Fits a gate, the learned rule of when help is offered, and estimates its value from offers that were drawn by turn.

A row is one decision: its features before the ask, whether help was offered then, the chance of that draw, and whether
the episode came to be complete. Chances of completion with and without the offer are logistic regressions on the
features, fitted on other scenarios than those that they are judged on (cross-fitting). Each decision's score is that of
`offers.py`, (z - p) / (p (1 - p)) * (y - g), with g from these regressions: its mean over any decisions estimates what
one more offer there adds, because only z is drawn. The gate's claim is against offers at random at its own rate: only
*when* it asks can win that. Pure, apart from scikit-learn, which is an extra. Called by the command `asking`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from awmclient.asking.rules import FEATURES, AskGate, Row, Side, chance_of
from people.text.in_words import count
from runs.errors import NotFitted
from runs.statistics.offers import FEWEST, FEWEST_OF_A_SIDE, RARE, weight_of
from runs.statistics.paired import Interval, cluster_interval

FOLDS, FEWEST_SCENARIOS = 5, 6
PRICE = 0.15
"""What an offer must add to the chance of a complete episode, where no one names a price."""
STRENGTH = 1.0
"""scikit-learn's C: the usual shrinkage of the weights, which are for features from 0 to 1."""


@dataclass(frozen=True)
class DrawnDecision:
    """One decision of a drawing rule: what was known before it, the draw with its chance, and the episode's end.

    `joined` is the same for all scenarios in which one answer was read; empty if the scenario shares none.
    """

    episode: str
    scenario: str
    row: Row
    offered: bool
    chance: float
    complete: bool
    asked: bool = False
    joined: str = ""

    @property
    def unit(self) -> str:
        """What is independent of other decisions."""
        return self.joined or self.scenario


@dataclass(frozen=True)
class Value:
    """What one estimate says: the mean per episode, and its 95% interval over scenarios, joined by common answers."""

    mean: float
    interval: Interval | None

    @property
    def is_above_zero(self) -> bool:
        return self.interval is not None and self.interval[0] > 0


@dataclass(frozen=True)
class Fitted:
    """A gate with its estimated value. `gain` is against no offers, `timing` against random ones at `rate`, the share
    of decisions that offer. `claims` says that both intervals are above 0."""

    gate: AskGate
    rate: float
    gain: Value
    timing: Value

    @property
    def claims(self) -> bool:
        return self.gain.is_above_zero and self.timing.is_above_zero


def lacking(decisions: Sequence[DrawnDecision]) -> str:
    """Return what a fit still needs, in words; "" if it has all."""
    ends = {one.episode: one.complete for one in decisions}
    sides = Counter(one.offered for one in decisions)
    ended = Counter(ends.values())
    units = len({one.unit for one in decisions})
    wants = [
        (len(ends), FEWEST, "counted episode"),
        (
            units,
            FEWEST_SCENARIOS,
            "scenario that shares no answer" if any(one.joined for one in decisions) else "scenario",
        ),
        (sides[True], FEWEST_OF_A_SIDE, "decision that offered"),
        (sides[False], FEWEST_OF_A_SIDE, "decision that declined"),
        (ended[True], RARE, "complete episode"),
        (ended[False], RARE, "other episode"),
    ]
    return "; ".join(f"{_plural(has, what)} of {needs} needed" for has, needs, what in wants if has < needs)


def _plural(number: int, what: str) -> str:
    """Return `2 decisions that offered`: the plural belongs to the first word of some."""
    head, _, rest = what.partition(" that ")
    return f"{count(number, head)}{f' that {rest}' if rest else ''}"


def fit(decisions: Sequence[DrawnDecision], price: float = PRICE, card: dict[str, Any] | None = None) -> Fitted:
    """Fit a gate on all decisions, and estimate its value by gates that were fitted without the scenarios that judge
    them. Raises `NotFitted`, which says what is missing."""
    if missing := lacking(decisions):
        raise NotFitted(f"Too little was drawn to fit a gate: {missing}.")
    judged: list[tuple[DrawnDecision, bool, float]] = []
    for inside, outside in _folds(decisions):
        gate = _gate(inside, price, {})
        judged += [(one, gate.offers(one.row), _score(gate, one)) for one in outside]
    rate = sum(offers for _, offers, _ in judged) / len(judged)
    gain = _value((one, score * offers) for one, offers, score in judged)
    timing = _value((one, score * (offers - rate)) for one, offers, score in judged)
    full_card = {**(card or {}), **_numbers(decisions), "rate": round(rate, 4), "price": price}
    full_card |= {"gain": _stored(gain), "timing": _stored(timing)}
    return Fitted(_gate(decisions, price, full_card), rate, gain, timing)


def _folds(decisions: Sequence[DrawnDecision]) -> list[tuple[list[DrawnDecision], list[DrawnDecision]]]:
    """Return (fitted on, judged) of each fold: a scenario is on one side only, with those that share its answers. Large
    ones are dealt out first."""
    sizes = Counter(one.unit for one in decisions)
    order = sorted(sizes, key=lambda name: (-sizes[name], name))
    fold = {name: place % FOLDS for place, name in enumerate(order)}
    return [
        (
            [one for one in decisions if fold[one.unit] != number],
            [one for one in decisions if fold[one.unit] == number],
        )
        for number in range(FOLDS)
    ]


def _gate(decisions: Sequence[DrawnDecision], price: float, card: dict[str, Any]) -> AskGate:
    """Fit one logistic regression on features, the offer, and their products."""
    model = _regression()
    rows = [[*one.row, float(one.offered), *(value * one.offered for value in one.row)] for one in decisions]
    # one episode has one end, however many decisions it had: each weighs the same
    of_episode = Counter(one.episode for one in decisions)
    weights = [1 / of_episode[one.episode] for one in decisions]
    scale = len(decisions) / sum(weights)
    model.fit(rows, [one.complete for one in decisions], sample_weight=[scale * one for one in weights])
    # PostgreSQL keeps no negative zero, and the digest of a gate would not be its own
    coefficients = [round(float(one), 6) + 0.0 for one in model.coef_[0]]
    names = list(FEATURES)
    alone = dict(zip(names, coefficients, strict=False))
    added = dict(zip(names, coefficients[len(names) + 1 :], strict=True))
    return AskGate(
        alone=Side(intercept=round(float(model.intercept_[0]), 6) + 0.0, weights=alone),
        offered=Side(intercept=coefficients[len(names)], weights=added),
        threshold=price,
        card=card,
    )


def _regression() -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as missing:
        raise NotFitted(
            "Fitting a gate needs scikit-learn: pip install --no-deps --require-hashes -r requirements-asking.lock."
        ) from missing
    return LogisticRegression(C=STRENGTH, max_iter=1000)


def _score(gate: AskGate, decision: DrawnDecision) -> float:
    """Return the AIPW score of a decision: what an offer there adds, for any regressions."""
    alone = gate.alone.of(decision.row)
    without, with_offer = chance_of(alone), chance_of(alone + gate.offered.of(decision.row))
    # the expectation that makes `weight_of` times the residual the doubly robust score
    expected = (1 - decision.chance) * with_offer + decision.chance * without
    return weight_of(decision.offered, decision.chance) * (decision.complete - expected)


def _value(scores: Iterable[tuple[DrawnDecision, float]]) -> Value:
    """Return the mean sum of an episode, with the jackknife over scenarios."""
    sums: dict[str, float] = defaultdict(float)
    episodes: dict[str, set[str]] = defaultdict(set)
    for decision, score in scores:
        sums[decision.unit] += score
        episodes[decision.unit].add(decision.episode)
    sizes = [len(episodes[name]) for name in sums]
    # the interval is of means between -1 and 1; sums over an episode's turns are scaled to that, and back
    scale = max([1.0, *(abs(total) / size for total, size in zip(sums.values(), sizes, strict=True))])
    mean, span = cluster_interval([total / scale for total in sums.values()], sizes)
    return Value(mean * scale, (span[0] * scale, span[1] * scale) if span else None)


def _numbers(decisions: Sequence[DrawnDecision]) -> dict[str, Any]:
    ends = {one.episode: one.complete for one in decisions}
    return {
        "scenarios": sorted({one.scenario for one in decisions}),
        "episodes": len(ends),
        "complete": sum(ends.values()),
        "decisions": len(decisions),
        "offered": sum(one.offered for one in decisions),
        "asked": sum(one.asked for one in decisions),
        "chances": sorted({one.chance for one in decisions}),
        "method": f"logistic regression (scikit-learn, C {STRENGTH:g}), cross-fitted over {FOLDS} folds of scenarios; "
        "value by AIPW scores, 95% jackknife over scenarios",
    }


def _stored(value: Value) -> dict[str, Any]:
    interval = value.interval and [round(one, 4) + 0.0 for one in value.interval]
    return {"mean": round(value.mean, 4) + 0.0, "interval": interval}
