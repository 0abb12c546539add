"""Times of the desk: by when half of all were reached, with an interval, and how many independent cases they are.

Pure, without Django. Leaves what is timed to `metrics/statistics.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby, pairwise

from people.rates import Z, effective, student_quantile
from people.text.in_words import duration

P90_FROM = 10
"""With fewer values a 90th percentile is nearly the maximum."""
EXACT_TO = 100
NOT_REACHED = "not reached"
TINY = 1e-9
"""Shares that differ by less are equal."""
PAUSE_S = 6 * 3600.0
"""What comes after such a pause is of another day, with other people there. Outages of servers are seldom longer."""
DAY_S = 24 * 3600.0
FEWEST_DAYS = 3
"""Of fewer days, intervals are of these days alone: two do not show how days differ."""
BATCHES = 6
"""With fewer, batches do not show how alike they are."""


class TimeEnd(Enum):
    """What is known of how long something takes: `LONGER` than the time until which it was seen, or that it will
    `NEVER` be reached, as of an ask that fell back."""

    REACHED = 1
    LONGER = 2
    NEVER = 3


@dataclass(frozen=True)
class Middle:
    """Times at which half and 90 % of all were reached; None where they were not. `n` were. Of the `censored` ones some
    never are, and count for good; others are only known to take longer than was seen (Aalen and Johansen 1978).

    The interval is the median's (Brookmeyer and Crowley 1982), from order statistics of the effective number of units;
    its upper end is None where it was not reached."""

    n: int = 0
    median: float | None = None
    low: float | None = None
    high: float | None = None
    p90: float | None = None
    censored: int = 0

    @property
    def words(self) -> str:
        if not self.n:
            return "none yet"
        return NOT_REACHED if self.median is None else duration(self.median)

    @classmethod
    def among(cls, values: Iterable[tuple[float | None, str, float]]) -> Middle:
        """Return the middle of values, each with its unit, which is alike, and with when it was: seconds."""
        kept = [(value, name, at_s) for value, name, at_s in values if value is not None]
        sizes = Counter(name for _, name, _ in kept).values()
        times = [(value, TimeEnd.REACHED) for value, _, _ in kept]
        return cls.of_times(times, effective([*sizes]), [at_s for *_, at_s in kept])

    @classmethod
    def of_times(
        cls, times: Iterable[tuple[float, TimeEnd]], units: float, when_s: Iterable[float] | None = None
    ) -> Middle:
        """Return the middle of times, each with how it ended, that come from this effective number of units, or from
        fewer if those that happened near each other, `when_s`, are alike."""
        all_times = list(times)
        some = sorted(all_times, key=lambda pair: pair[0])
        total, ended = len(some), sum(end is TimeEnd.REACHED for _, end in some)
        if not ended:
            return cls(censored=total)
        curve = reached_by_time(some)

        def time_at(share: float, *, beyond: bool = False) -> float | None:
            edge = share + TINY if beyond else share - TINY
            return next((time for time, reached, _ in curve if reached >= edge), None)

        here, after = time_at(0.5), time_at(0.5, beyond=True)
        # where exactly half are reached, the next one decides, and it may never be
        middle = None if here is None or after is None else (here + after) / 2
        if when_s is not None:
            by_then = [end is TimeEnd.REACHED and (middle is None or time <= middle) for time, end in all_times]
            when_s = list(when_s)
            units = min(units, independent(zip(when_s, by_then, strict=True)))
            # ranks need six units: shown only where few days look alike, intervals would hold too seldom
            if FEWEST_DAYS <= (days := len(_days(sorted(when_s)))) < BATCHES:
                units = min(units, days)
        alone = math.floor(min(units, total) + TINY)
        below = ranks_below(alone)
        low: float | None = None
        high: float | None = None
        if below:
            # how much wider than if all were seen to their end
            wider = next((wide for time, _, wide in curve if time == here), curve[-1][2])
            reach = (0.5 - below / alone) * max(1.0, wider * math.sqrt(total))
            low, high = time_at(max(0.0, 0.5 - reach)), time_at(0.5 + reach, beyond=True)
        p90 = time_at(0.9) if ended >= P90_FROM else None
        return cls(ended, middle, low, high, p90, total - ended)


def reached_by_time(times: Sequence[tuple[float, TimeEnd]]) -> list[tuple[float, float, float]]:
    """Return, at each time at which something was reached, the share of all that was (Aalen and Johansen), and the
    standard error of that, as a part of what it is for one value that is seen to its end."""
    curve: list[tuple[float, float, float]] = []
    at_risk, left, share = len(times), 1.0, 0.0
    # sums of the variance, in powers of the share at its end
    plain, once, twice = 0.0, 0.0, 0.0
    for time, same in groupby(times, key=lambda pair: pair[0]):
        ends = Counter(end for _, end in same)
        got, over = ends[TimeEnd.REACHED], ends[TimeEnd.REACHED] + ends[TimeEnd.NEVER]
        step = left * got / at_risk
        share += step
        spread = over / (at_risk * (at_risk - over)) if at_risk > over else 0.0
        plain += spread * share**2 + step * left * (at_risk - got) / at_risk**2 + 2 * share * step / at_risk
        once -= 2 * spread * share + 2 * step / at_risk
        twice += spread
        if got:
            variance, alone = plain + once * share + twice * share**2, share * (1 - share)
            curve.append((time, share, math.sqrt(max(0.0, variance) / alone) if alone > TINY else 0.0))
        left *= 1 - over / at_risk
        at_risk -= ends.total()
    return curve


def ranks_below(n: int) -> int:
    """Return the rank from either end at which a 95 % interval of the median ends; 0 below six values.

    Exact for few values, by the normal approximation for many.
    """
    if n > EXACT_TO:
        return math.floor((n - Z * math.sqrt(n)) / 2)
    rank, tail = 0, 0
    # at most 2.5% of tosses of n fair coins fall below the rank
    while (tail := tail + math.comb(n, rank)) <= 0.025 * 2**n:
        rank += 1
    return rank


def stretches(spans: Iterable[tuple[float, float]], pause_s: float = 0.0, joined: Collection[float] = ()) -> float:
    """Return the effective number of stretches of spans, each from a time on and so long: those with less than the
    pause between them are one, and those that begin at a time of `joined` belong to the one before."""
    sizes: list[int] = []
    until = -math.inf
    for begin, took in sorted(spans):
        if not sizes or (begin >= until + pause_s and begin not in joined):
            sizes.append(0)
        sizes[-1] += 1
        until = max(until, begin + took)
    return effective(sizes)


def independent(values: Iterable[tuple[float, float]]) -> float:
    """Return how many independent values have a mean as uncertain as that of these, each after its time in seconds.

    Values near each other can be alike. How much shows in the sums of batches of them, of 2, 4, 8 ... in order of time,
    and of days. The fewest count.
    """
    rows = sorted(values, key=lambda pair: pair[0])
    mean = sum(value for _, value in rows) / max(1, len(rows))
    sums, sizes = [value - mean for _, value in rows], [1.0] * len(rows)
    spread = sum(rest * rest for rest in sums)
    if spread < TINY:
        return float(len(rows))
    days, fewest = _days([at_s for at_s, _ in rows]), float(len(rows))
    if len(days) >= FEWEST_DAYS:
        fewest = _worth([sum(sums[day]) for day in days], [day.stop - day.start for day in days], spread)
    while len(sums) >= 2 * BATCHES:
        sums, sizes = _by_two(sums), _by_two(sizes)
        fewest = min(fewest, _worth(sums, sizes, spread))
    return fewest


def _days(times_s: Sequence[float]) -> list[slice]:
    """Return the places of the sorted times of each day: those without a `PAUSE_S` between them. A stretch of more than
    a day, at a desk that never closes, ends at each midnight (UTC)."""
    begins = [place for place, at_s in enumerate(times_s) if not place or at_s >= times_s[place - 1] + PAUSE_S]
    days = []
    for begin, end in pairwise([*begins, len(times_s)]):
        cuts = range(begin + 1, end) if times_s[end - 1] >= times_s[begin] + DAY_S else ()
        midnights = [place for place in cuts if times_s[place] // DAY_S > times_s[place - 1] // DAY_S]
        days += [slice(*both) for both in pairwise([begin, *midnights, end])]
    return days


def _by_two(numbers: Sequence[float]) -> list[float]:
    return [sum(numbers[place : place + 2]) for place in range(0, len(numbers), 2)]


def _worth(sums: Sequence[float], sizes: Sequence[float], spread: float) -> float:
    """Return how many independent values groups are worth whose residuals have these sums (Korn and Graubard 1998).

    Student's t, because their error is estimated; not fewer than if all of a group is one value.
    """
    cases, groups, equal = sum(sizes), len(sums), effective(sizes)
    wider = groups / (groups - 1) * sum(rest * rest for rest in sums) / spread
    t = student_quantile(0.975, max(1.0, equal - 1)) if groups <= EXACT_TO else Z
    return max(equal, min(cases, cases / max(1.0, wider) * (Z / t) ** 2))
