"""Agreement of judgments: percent, kappa (Cohen, Fleiss), Krippendorff's alpha, and the accuracy on gold items. Pure.

A table has one row per item: judge -> value. The unit of alpha's interval is the task: its items are alike. Undefined
figures are None, for example alpha if all labels are the same. Called by `reports.py`.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from people.rates import effective, student_quantile, wilson

Item = Mapping[str, str]
BOOTSTRAPS = 2_000
FEWEST = 20
"""The fewest items with an interval: the bootstrap is unreliable with fewer."""
RARE = 10
"""The fewest uses of the second commonest label with an interval: with fewer, a bootstrap covers 50 to 76%."""
FEW_TASKS = 6
"""The fewest tasks of equal size with an interval: with fewer, and with one that has most items, they decide it."""
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
    twice, and `alone` those of a single judge. `tasks` is the number of tasks of equal size with the same weight."""

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
    alone: int = 0
    tasks: float = 0.0

    @property
    def why_no_interval(self) -> str:
        """Why alpha has no interval, with the counts; empty if it has one."""
        if self.alpha is None or self.alpha_low is not None:
            return ""
        if self.items < FEWEST:
            return f"too few items ({self.items} of {FEWEST})"
        if self.second < RARE:
            return f"too few uses of the second label ({self.second} of {RARE})"
        if self.tasks < FEW_TASKS:
            return f"too few tasks, or most items in a few of them (as {self.tasks:.1f} of {FEW_TASKS})"
        return "the second label is in too few tasks"


def share(part: int, of: int) -> Share:
    """Return a rate with its interval, of the cases that these were drawn from."""
    return Share(part, of, *wilson(part, of)) if of else Share(part, of)


def share_of_tasks(flags: Sequence[tuple[bool, str]]) -> Share:
    """Return a rate of cases, each with its task. Those of one are alike, so tasks of equal size are the units."""
    part, of = sum(flag for flag, _ in flags), len(flags)
    units = effective([*Counter(task for _, task in flags).values()])
    return Share(part, of, *(wilson(part * units / of, units) if units > 1 else ()))


def agreement(items: Sequence[Item], tasks: Sequence[str] | None = None) -> Agreement:
    """Return every figure for these items; items with one judgment are left out, because they show no agreement.
    `tasks` has the task of each item; without them each item is one of its own."""
    tasks = [f"{place}" for place in range(len(items))] if tasks is None else tasks
    kept = [(one, task) for one, task in zip(items, tasks, strict=True) if len(one) > 1]
    twice, of_twice = [one for one, _ in kept], [task for _, task in kept]
    judges = sorted({judge for one in twice for judge in one})
    pairs = [(a, b) for one in twice for a, b in combinations(one.values(), 2)]
    low, high = interval(twice, of_twice)
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
        alone=sum(len(one) == 1 for one in items),
        tasks=effective(list(Counter(of_twice).values())),
    )


def alpha(items: Sequence[Item]) -> float | None:
    """Return Krippendorff's alpha for unordered labels, from coincidence counts (Krippendorff 2011, section C).

    Items with one judgment are left out; None if all labels are the same or no item was judged twice.
    """
    observed, expected = disagreements(items)
    return 1 - observed / expected if expected else None


def disagreements(items: Sequence[Item]) -> tuple[float, float]:
    """Return the observed disagreement, as a share of judgments, and the one that chance alone would make."""
    return _disagreements(_tally(items, _labels(items)))


Tally = Sequence[float]
"""Of some items: how much their judgments differ, and how often each label was given."""


def _labels(items: Sequence[Item]) -> list[str]:
    return sorted({value for one in items for value in one.values()})


def _tally(items: Sequence[Item], labels: Sequence[str]) -> list[float]:
    totals: Counter[str] = Counter()
    observed = 0.0
    for judgments in items:
        values = list(judgments.values())
        # one judgment pairs with none
        if len(values) < 2:
            continue
        totals.update(values)
        # each unordered pair once; the coincidence matrix counts both orders, hence the 2 below
        unlike = sum(a != b for a, b in combinations(values, 2))
        # weighted by 1 / (m - 1), so that each judgment counts once however many judged the item
        observed += 2 * unlike / (len(values) - 1)
    return [observed, *(totals[label] for label in labels)]


def _disagreements(tally: Tally) -> tuple[float, float]:
    observed, *totals = tally
    n = sum(totals)
    # all pairs of judgments minus those with equal labels
    expected = n * n - sum(count * count for count in totals)
    # `n - 1`, because expected pairs are drawn without replacement
    return (observed / n, expected / (n * (n - 1))) if n else (0.0, 0.0)


def _alpha(tallies: Sequence[Tally]) -> float | None:
    """Return alpha of several tallies together."""
    observed, expected = _disagreements([sum(column) for column in zip(*tallies, strict=True)])
    return 1 - observed / expected if expected else None


def _counts(items: Sequence[Item]) -> list[list[int]]:
    """Count, by item, how often each label was given."""
    labels = _labels(items)
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


def interval(items: Sequence[Item], tasks: Sequence[str]) -> tuple[float | None, float | None]:
    """Return the 95% interval of alpha, over the task of each item; None below `FEWEST` items, `RARE` uses of the
    second commonest label or `FEW_TASKS` tasks, or if alpha is undefined without a task, or in most draws.

    It holds three. Resampled whole tasks are too sure where tasks are few, so that they are also left out in turn. It
    is at least as wide as Wilson's interval of the observed disagreement makes it: items that differ are few, and a
    draw of 20 items often has none, so that resampling alone covered 84%."""
    of_task: dict[str, list[Item]] = defaultdict(list)
    for judgments, task in zip(items, tasks, strict=True):
        of_task[task].append(judgments)
    weight = effective([len(mine) for mine in of_task.values()])
    if len(items) < FEWEST or second_uses(items) < RARE or round(weight, 6) < FEW_TASKS:
        return None, None
    labels = _labels(items)
    tallies = [_tally(mine, labels) for mine in of_task.values()]
    spans = [_resampled(tallies), _left_out(tallies, weight), _by_disagreement(tallies, len(items))]
    whole = [span for span in spans if span is not None]
    if len(whole) < len(spans):
        return None, None
    return min(low for low, _ in whole), max(high for _, high in whole)


def _resampled(tallies: Sequence[Tally]) -> tuple[float, float] | None:
    """Return the middle 95% of alpha, of as many tasks as there are, drawn with replacement."""
    # not the module's generator, which other code shares
    lots = random.Random(SEED)
    drawn = ([tallies[lots.randrange(len(tallies))] for _ in tallies] for _ in range(BOOTSTRAPS))
    alphas = sorted(value for each in drawn if (value := _alpha(each)) is not None)
    # an interval of the few defined draws would leave out those in which all agree
    if len(alphas) < BOOTSTRAPS // 2:
        return None
    return alphas[int(0.025 * len(alphas))], alphas[min(int(0.975 * len(alphas)), len(alphas) - 1)]


def _left_out(tallies: Sequence[Tally], weight: float) -> tuple[float, float] | None:
    """Return the interval by how far alpha moves without each task (jackknife, t of their effective number)."""
    whole, middle = [sum(column) for column in zip(*tallies, strict=True)], _alpha(tallies)
    alphas = [_alpha([[all_ - part for all_, part in zip(whole, mine, strict=True)]]) for mine in tallies]
    moves = [value - middle for value in alphas if value is not None and middle is not None]
    if middle is None or len(moves) < len(tallies):
        return None
    error = ((len(moves) - 1) / len(moves) * sum(move * move for move in moves)) ** 0.5
    reach = student_quantile(0.975, weight - 1) * error
    return middle - reach, middle + reach


def _by_disagreement(tallies: Sequence[Tally], items: int) -> tuple[float, float]:
    """Return the interval that Wilson's of the observed disagreement makes, of as many items as would vary as much if
    each were of a task of its own."""
    differ, *uses = [sum(column) for column in zip(*tallies, strict=True)]
    observed, expected = _disagreements([differ, *uses])
    of_tasks = [(mine[0], sum(mine[1:])) for mine in tallies]
    moves = [(mine - observed * judged) / (sum(uses) - judged) for mine, judged in of_tasks]
    varies = (len(moves) - 1) / len(moves) * sum(move * move for move in moves)
    alone = observed * (1 - observed) / (items - 1)
    # where nothing differs, no one knows whether the items of a task do so together
    as_many = min(items, max(len(tallies), items * alone / varies)) if varies and alone > 0 else len(tallies)
    least, most = wilson(observed * as_many, as_many)
    return 1 - most / expected, 1 - least / expected
