"""Agreement of judgments: percent, kappa (Cohen, Fleiss), Krippendorff's alpha, and the accuracy on gold items. Pure.

A table has one row per item: judge -> value. The unit of every interval is the item. Undefined figures are None, for
example alpha if all labels are the same. Called by `reports.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from people.rates import wilson

Item = Mapping[str, str]
BOOTSTRAPS = 2_000
FEWEST = 20
"""The fewest items with an interval: the bootstrap is unreliable with fewer."""
RARE = 10
"""The fewest uses of the second commonest label with an interval: with fewer, a bootstrap covers 50 to 76%."""
# fixed, so that the same verdicts have the same interval
SEED = 20_261_123


@dataclass(frozen=True)
class Share:
    """A rate with its 95% Wilson interval; None without cases."""

    part: int
    of: int
    low: float | None = None
    high: float | None = None

    @property
    def rate(self) -> float | None:
        return self.part / self.of if self.of else None


@dataclass(frozen=True)
class Agreement:
    """The agreement of judges on the same items. `pairs` counts pairs of judgments, `items` those judged at least
    twice."""

    items: int
    pairs: int
    percent: float | None
    alpha: float | None
    alpha_low: float | None
    alpha_high: float | None
    kappa: float | None
    judges: int
    fleiss: float | None = None
    second: int = 0
    """How often the second commonest label was given."""

    @property
    def why_no_interval(self) -> str:
        """Why alpha has no interval, with the counts; empty if it has one."""
        if self.alpha is None or self.alpha_low is not None:
            return ""
        if self.items < FEWEST:
            return f"too few items ({self.items} of {FEWEST})"
        return f"too few uses of the second label ({self.second} of {RARE})"


def share(part: int, of: int) -> Share:
    """Return a rate with its interval."""
    return Share(part, of, *wilson(part, of)) if of else Share(part, of)


def agreement(items: Sequence[Item]) -> Agreement:
    """Return every figure for these items; items with one judgment are left out, because they show no agreement."""
    twice = [one for one in items if len(one) > 1]
    judges = sorted({judge for one in twice for judge in one})
    pairs = [(a, b) for one in twice for a, b in combinations(one.values(), 2)]
    low, high = interval(twice)
    return Agreement(
        items=len(twice),
        pairs=len(pairs),
        percent=sum(a == b for a, b in pairs) / len(pairs) if pairs else None,
        alpha=alpha(twice),
        alpha_low=low,
        alpha_high=high,
        # Cohen's kappa is for two judges; with more, Fleiss' is shown
        kappa=kappa([(one[judges[0]], one[judges[1]]) for one in twice]) if len(judges) == 2 else None,
        judges=len(judges),
        fleiss=fleiss(twice) if len(judges) > 2 else None,
        second=second_uses(twice),
    )


def alpha(items: Sequence[Item]) -> float | None:
    """Return Krippendorff's alpha for unordered labels, from coincidence counts (Krippendorff 2011, section C).

    Items with one judgment are left out; None if all labels are the same or no item was judged twice.
    """
    observed, expected = disagreements(items)
    return 1 - observed / expected if expected else None


def disagreements(items: Sequence[Item]) -> tuple[float, float]:
    """Return the observed disagreement, as a share of judgments, and the one that chance alone would make."""
    totals: dict[str, int] = {}
    observed = 0.0
    for judgments in items:
        values = list(judgments.values())
        # one judgment pairs with none
        if len(values) < 2:
            continue
        for value in values:
            totals[value] = totals.get(value, 0) + 1
        # each unordered pair once; the coincidence matrix counts both orders, hence the 2 below
        unlike = sum(a != b for a, b in combinations(values, 2))
        # weighted by 1 / (m - 1), so that each judgment counts once however many judged the item
        observed += 2 * unlike / (len(values) - 1)
    n = sum(totals.values())
    # all pairs of judgments minus those with equal labels
    expected = n * n - sum(count * count for count in totals.values())
    # `n - 1`, because expected pairs are drawn without replacement
    return (observed / n, expected / (n * (n - 1))) if n else (0.0, 0.0)


def _counts(items: Sequence[Item]) -> list[list[int]]:
    """Count, by item, how often each label was given."""
    labels = sorted({value for one in items for value in one.values()})
    return [[list(one.values()).count(label) for label in labels] for one in items]


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of two judges; None if chance alone would make them agree."""
    if not pairs:
        return None
    labels = {label for pair in pairs for label in pair}
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n
    # the chance of equal labels if both judges drew from their own shares independently
    chance = sum(sum(a == label for a, _ in pairs) / n * (sum(b == label for _, b in pairs) / n) for label in labels)
    # both gave one and the same label throughout
    return (observed - chance) / (1 - chance) if chance < 1 else None


def fleiss(items: Sequence[Item]) -> float | None:
    """Return Fleiss' kappa of any number of judges, which can differ by item; None if chance alone would make them
    agree.

    Items have equal weight, however many judged them: those that needed one more judgment are the disputed ones.

    """
    counts = [row for row in _counts(items) if sum(row) > 1]
    if not counts:
        return None
    sizes = [sum(row) for row in counts]
    # the share of pairs of judgments on this item that agree
    same = [sum(k * (k - 1) for k in row) / (n * (n - 1)) for row, n in zip(counts, sizes, strict=True)]
    # the mean over items, not over judgments, because items have equal weight
    shares = [
        sum(row[at] / n for row, n in zip(counts, sizes, strict=True)) / len(counts) for at in range(len(counts[0]))
    ]
    observed, chance = sum(same) / len(counts), sum(one * one for one in shares)
    # compared by labels instead of `chance == 1`, which rounding can miss
    only_one = sum(one > 0 for one in shares) < 2
    return None if only_one else (observed - chance) / (1 - chance)


def second_uses(items: Sequence[Item]) -> int:
    """Return how often the second commonest label was given; 0 if there is only one."""
    return sorted([0, 0, *Counter(value for item in items for value in item.values()).values()])[-2]


def interval(items: Sequence[Item]) -> tuple[float | None, float | None]:
    """Return the 95% interval of alpha, by resampling items; None below `FEWEST` items, below `RARE` uses of the second
    commonest label, or if alpha is undefined.

    It is at least as wide as Wilson's interval of the observed disagreement makes it: items that differ are few, and a
    draw of 20 items often has none, so that resampling alone covered 84%."""
    if len(items) < FEWEST or second_uses(items) < RARE:
        return None, None
    # not the module's generator, which other code shares
    lots = random.Random(SEED)
    alphas = sorted(
        value
        for _ in range(BOOTSTRAPS)
        # as many items as there are, drawn with replacement
        if (value := alpha([items[lots.randrange(len(items))] for _ in items])) is not None
    )
    # an interval of the few defined draws would leave out those in which all agree
    if len(alphas) < BOOTSTRAPS // 2:
        return None, None
    observed, expected = disagreements(items)
    least, most = wilson(observed * len(items), len(items))
    return (
        min(alphas[int(0.025 * len(alphas))], 1 - most / expected),
        max(alphas[min(int(0.975 * len(alphas)), len(alphas) - 1)], 1 - least / expected),
    )
