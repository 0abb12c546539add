"""What a campaign shows: the same change in many episodes, paired by root, at one place of each or at several.

Each root gives a difference: the share of its treated branches that are complete minus that of its control branches.
If the change does nothing, each difference has either sign with the same chance, which a sign-flip test counts exactly.
All that a campaign says is false in at most 5% of campaigns whose change does nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

from people.text.in_words import count, percent
from runs.statistics.deciding import is_shown, word
from runs.statistics.forked import FIRST, SCRIPT, ForkArm, without_outcome
from runs.statistics.paired import Interval, bounded_interval, cluster_interval, holm, sign_flip
from runs.statistics.sentences import p_text, points, span_text
from runs.statistics.units import units_of

ERROR = 0.05
"""The error of all that a campaign says."""
WORDS = {"help": "better", "harm": "worse"}
ALL = ""
"""The kind that holds all tasks."""
Difference = Callable[["RootPair"], Fraction]


@dataclass(frozen=True)
class RootPair:
    """Both arms of one root at one place of it: `at` is that place in percent, `kind` that of its task. `shared` names
    the answers that its branches read: roots with one in common are one unit. Places in one turn share a `fork`."""

    root: str
    kind: str
    at: int
    treated: ForkArm
    control: ForkArm
    shared: frozenset[str] = frozenset()
    fork: str = ""

    @property
    def scenario(self) -> str:
        return self.kind

    @property
    def lost(self) -> int:
        return self.treated.lost + self.control.lost

    @property
    def is_known(self) -> bool:
        return bool(self.treated.known and self.control.known)


@dataclass(frozen=True)
class CampaignCell:
    """What the roots of a kind show at one place. `roots` are those with an outcome in both arms, `unknown` the others;
    `units` counts roots that share an answer once. `lost` branches have no outcome: intervals and `p` hold whichever
    way they had ended. `together` is the interval that a sentence can quote: all those of the places and kinds that
    share an error hold at 95%, so that the one that was picked does, too. `p` is after Holm over them. `withheld` is a
    verdict that only the outcomes of a repaired verifier show."""

    kind: str
    at: int
    roots: int
    unknown: int = 0
    lost: int = 0
    units: int = 0
    treated: float | None = None
    control: float | None = None
    difference: float | None = None
    interval: Interval | None = None
    together: Interval | None = None
    p: float | None = None
    verdict: str = ""
    withheld: str = ""

    @property
    def words(self) -> str:
        """The numbers of this place, for a line of a list."""
        if self.difference is None:
            return "no episode has an outcome in both arms."
        span = f" {span_text(self.interval)}" if self.interval else ""
        p = f", p = {p_text(1.0 if self.p is None else self.p)} after Holm".replace("= <", "<")
        lost = f" {without_outcome(self.lost, has_interval=self.interval is not None)}"
        return (
            f"{count(self.roots, 'episode')}, {percent(self.treated)} complete with the change, "
            f"{percent(self.control)} without. {points(self.difference)}{span}{p}: {self._word}."
            f"{lost if self.lost else ''}"
        )

    @property
    def _word(self) -> str:
        return self.verdict or ("withheld after an erratum" if self.withheld else "not shown")


@dataclass(frozen=True)
class CampaignFinding:
    """All places of all kinds, and one sentence for each kind, the first for all tasks."""

    cells: list[CampaignCell]
    sentences: list[str]
    least: int
    is_fixed: bool = False
    lost: int = 0
    """Branches without an outcome; places that share a fork have theirs once."""

    def of(self, kind: str) -> list[CampaignCell]:
        return [one for one in self.cells if one.kind == kind]


def kinds_of(names: Sequence[str]) -> list[str]:
    """Return the kinds of which something is said: all tasks, and each kind of them where there are several."""
    kinds = sorted(set(names))
    return [ALL, *kinds] if len(kinds) > 1 else [ALL]


def least_roots(places: int, kinds: int = 1, share: float = FIRST) -> int:
    """Return the fewest roots of which anything can be shown, if all of them differ in the same direction."""
    level, roots = _level(kinds, share), 1
    while 2.0 ** (1 - roots) * places >= level:
        roots += 1
    return roots


def _level(kinds: int, share: float) -> float:
    # all tasks together have a half of the error, their kinds the other
    return ERROR * share / (2 if kinds > 1 else 1)


def finding(pairs: Sequence[RootPair], *, share: float = FIRST, fixed: bool = False) -> CampaignFinding:
    """Return what these pairs show once all their branches have ended. `share` is that of the error of all
    campaigns of one question. A `fixed` policy makes the same choice each time, so its branches show nothing."""
    kinds, places = kinds_of([one.kind for one in pairs]), sorted({one.at for one in pairs})
    level = _level(len(kinds), share)
    cells: list[CampaignCell] = []
    for family in (kinds[:1], kinds[1:]):
        cells += _family([_of(pairs, kind, at) for kind in family for at in places], level, fixed)
    forks = {pair.fork or f"{pair.root}/{pair.at}": pair.lost for pair in pairs}
    return of_cells(cells, least_roots(len(places), len(kinds), share), fixed=fixed, lost=sum(forks.values()))


def of_cells(cells: Sequence[CampaignCell], least: int, *, fixed: bool, lost: int) -> CampaignFinding:
    """Return these cells with a sentence for each of their kinds; fewer than `least` roots can show nothing. `lost`
    branches have no outcome."""
    kinds, places = list(dict.fromkeys(one.kind for one in cells)), len({one.at for one in cells})
    texts = [_sentence(kind, [one for one in cells if one.kind == kind], places) for kind in kinds]
    first = _with_limits(texts[0], cells, least, fixed, lost)
    return CampaignFinding(list(cells), [first, *texts[1:]], least, fixed, lost)


def _of(pairs: Sequence[RootPair], kind: str, at: int) -> tuple[str, int, list[RootPair]]:
    return kind, at, [one for one in pairs if one.at == at and kind in (ALL, one.kind)]


def _family(asked: Sequence[tuple[str, int, list[RootPair]]], level: float, fixed: bool) -> list[CampaignCell]:
    """Return the cells that share an error. A difference is shown if it also holds whichever way lost branches had
    ended, and intervals hold all of these ways: who erases branches can have seen how they ended."""
    # the level of one of as many intervals as there are places
    z = NormalDist().inv_cdf(1 - ERROR / 2 / max(1, len(asked)))
    measured = [_at_worst(pairs, z) if any(pair.lost for pair in pairs) else _known_of(pairs, z) for *_, pairs in asked]
    cells = []
    for (kind, at, pairs), actual, p in zip(asked, measured, holm([one.p for one in measured]), strict=True):
        shown = not fixed and is_shown(p, None, actual.interval, level)
        cells.append(_cell(kind, at, pairs, actual, p, word(actual.delta) if shown else ""))
    return cells


@dataclass(frozen=True)
class _Measured:
    delta: float = 0.0
    interval: Interval | None = None
    together: Interval | None = None
    p: float = 1.0


def _known_of(pairs: Sequence[RootPair], z: float) -> _Measured:
    """Return mean, intervals and p of the roots with outcomes in both arms; an empty cell keeps its place in Holm's
    order with a p of 1."""
    counted = [pair for pair in pairs if pair.is_known]
    if not counted:
        return _Measured()
    totals, sizes = _by_unit(counted, _known)
    delta, interval = cluster_interval([float(total) for total in totals], sizes)
    return _Measured(
        delta, interval, cluster_interval([float(total) for total in totals], sizes, z)[1], sign_flip(totals)
    )


def _at_worst(pairs: Sequence[RootPair], z: float) -> _Measured:
    """Return the same, whichever way lost branches had ended (Horowitz and Manski 2000). The p is that had all ended
    against the difference, which no other way exceeds: it rises when any difference falls."""
    now = _known_of(pairs, z)
    (lows, sizes), (highs, _) = (_by_unit(pairs, _against(up)) for up in (True, False))
    ends = [float(low) for low in lows], [float(high) for high in highs], sizes
    against = lows if now.delta > 0 else highs
    is_same = now.delta * float(sum(against)) > 0
    return replace(
        now,
        interval=bounded_interval(*ends),
        together=bounded_interval(*ends, z),
        p=max(now.p, sign_flip(against)) if is_same else 1.0,
    )


def _by_unit(pairs: Sequence[RootPair], difference: Difference) -> tuple[list[Fraction], list[int]]:
    """Return the sum of the differences of each unit, and how many roots it has."""
    units = units_of(pairs)
    return [sum((difference(pairs[place]) for place in unit), Fraction()) for unit in units], [
        len(unit) for unit in units
    ]


def _known(pair: RootPair) -> Fraction:
    return _share(pair.treated) - _share(pair.control)


def _share(arm: ForkArm) -> Fraction:
    return Fraction(arm.complete, arm.known)


def _against(up: bool) -> Difference:
    """Return the difference of a pair had all its lost branches ended against a difference in this direction. Both arms
    then have all their tries, so that the sign of a change that does nothing is a fair coin again."""

    def difference(pair: RootPair) -> Fraction:
        treated = pair.treated.complete + (0 if up else pair.treated.lost)
        other = pair.control.complete + (pair.control.lost if up else 0)
        return Fraction(treated, pair.treated.tries) - Fraction(other, pair.control.tries)

    return difference


def _cell(kind: str, at: int, pairs: Sequence[RootPair], measured: _Measured, p: float, verdict: str) -> CampaignCell:
    judged_pairs = [pair for pair in pairs if pair.is_known]
    cell = CampaignCell(
        kind=kind,
        at=at,
        roots=len(judged_pairs),
        unknown=len(pairs) - len(judged_pairs),
        lost=sum(pair.lost for pair in pairs),
        units=len(units_of(judged_pairs)),
    )
    if not judged_pairs:
        return cell
    treated, control = (
        float(sum(_share(arm) for arm in arms) / len(judged_pairs))
        for arms in ([pair.treated for pair in judged_pairs], [pair.control for pair in judged_pairs])
    )
    return replace(
        cell,
        treated=treated,
        control=control,
        difference=measured.delta,
        interval=measured.interval,
        together=measured.together,
        p=p,
        verdict=verdict,
    )


def _sentence(kind: str, cells: Sequence[CampaignCell], places: int) -> str:
    """Return what a kind of tasks shows, and no more: the latest place at which the change is shown to help."""
    hidden = [one for one in cells if one.withheld]
    roots = max((one.roots for one in cells), default=0)
    on = "on this episode" if roots == 1 else f"on these {count(roots, 'episode')}"
    shown = {word: [one for one in cells if one.verdict == verdict] for word, verdict in WORDS.items()}
    parts = [f"shown to {word}{_places(found, places)} {on}" for word, found in shown.items() if found]
    numbers = [f" {_numbers(_picked(found), places)}" for found in shown.values() if found]
    if not parts:
        parts = [f"{'at no time of an episode' if places > 1 else 'not'} shown to help or harm {on}"]
        numbers = [f" {_numbers(one, places)}" for one in cells if places == 1 and one.difference is not None]
        end = " That does not prove that it does nothing."
    else:
        rest = [one for one in cells if not one.verdict and not one.withheld]
        end = f" Not shown{_places(rest, places)}, which does not prove that it is too late." if rest else ""
        end += f" Withheld after an erratum{_places(hidden, places)}." if hidden else ""
    text = " and ".join(parts)
    return f"{f'{kind}: {text}' if kind else text[:1].upper() + text[1:]}.{''.join(numbers)}{end}"


def _places(cells: Sequence[CampaignCell], places: int) -> str:
    if places == 1:
        return ""
    names = [f"{one.at}" for one in cells]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f" at {listed}% of an episode"


def _picked(shown: Sequence[CampaignCell]) -> CampaignCell:
    """Return the latest place whose interval for all places together leaves out 0, else the latest."""
    return next((one for one in reversed(shown) if not _has_zero(one.together)), shown[-1])


def _has_zero(interval: Interval | None) -> bool:
    return interval is None or interval[0] <= 0 <= interval[1]


def _numbers(cell: CampaignCell, places: int) -> str:
    where = f"At {cell.at}%: " if places > 1 else ""
    p = f"p = {p_text(1.0 if cell.p is None else cell.p)}".replace("= <", "<")
    all_of = "" if places == 1 else f" (95% for all {places} times together)"
    span = f" {span_text(cell.together)}{all_of}" if cell.together else ""
    if cell.verdict and cell.interval is not None and _has_zero(cell.together):
        # Holm shows more than intervals of one width for all can
        span = f" {span_text(cell.interval)} (95%, this one alone)"
    return f"{where}{points(cell.difference or 0.0)}{span}, {p} (sign flips, Holm)."


def _with_limits(sentence: str, cells: Sequence[CampaignCell], least: int, fixed: bool, lost: int) -> str:
    """Return the sentence of all tasks with why nothing could be shown."""
    if fixed:
        return f"{SCRIPT}: nothing is shown."
    of_all = [one for one in cells if one.kind == ALL]
    if lost:
        sentence += f" {without_outcome(lost, has_interval='[' in sentence)}"
    if fewest := min((one.units for one in of_all if one.units < one.roots), default=0):
        sentence += f" Episodes that share an answer count as one, so {fewest:,} {'is' if fewest == 1 else 'are'} left."
    if max((one.units for one in of_all), default=0) >= least:
        return sentence
    return f"{sentence} Fewer than {least:,} episodes can show nothing."
