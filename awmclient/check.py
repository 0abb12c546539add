"""`python -m awmclient.check REPORT.json [ROWS.jsonl]`: recompute what a run says from the raw counts in its report.

Reads `report.json`, which `manage.py report` writes, and rows of an export. Needs Python alone: nothing of awmweb is
imported, and the tests and intervals are written here a second time, by other ways where there is one. Prints what
differs, one line each. Exits with 0 if nothing does, with 1 if something does, and with 2 for a file that is none.

Example:
    python -m awmclient.check report/report.json rows.jsonl
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from awmclient.checking import corrected, numbers
from awmclient.checking.numbers import Interval

__all__ = ["differences", "main"]

FORMAT = "awmweb.report/1"
NEAR = 1e-6
ROUNDED = 5.1e-5
"""By how much a number of a row can differ, which has four digits."""
PLANNED = 0.045
"""The error of all that a run says at its planned size: contrasts, and arms that draw their offers."""
SHOWN = ("better", "worse")


@dataclass(frozen=True)
class Result:
    """What a test and an interval show of one arm at the planned size."""

    units: int
    interval: Interval | None
    p: float | None
    hangs: bool = False

    @property
    def is_untested(self) -> bool:
        """Whether the test would take too long."""
        return self.p is None and self.interval is not None

    def is_shown(self, level: float, p: float | None) -> bool:
        return (
            p is not None and p < level and self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]
        )


def differences(report: dict[str, Any], rows: Iterable[dict[str, Any]] = ()) -> list[str]:
    """Return what differs between a report and what follows from its raw counts, one line each; empty if nothing does.

    Example:
        for line in differences(json.load(open("report.json"))):
            print(line)
    """
    return _checked(report, rows)[0]


def _checked(report: dict[str, Any], rows: Iterable[dict[str, Any]]) -> tuple[list[str], int]:
    """Return what differs, and of how many findings the test would take too long."""
    tested = [contrast for contrast in report["contrasts"] if contrast["on_tasks"] is not None]
    now, first = ([_result(report["tries"], contrast, reading) for contrast in tested] for reading in ("now", "first"))
    both = list(zip(now, first, strict=True))
    lines = [*_of_arms(report), *_of_contrasts(report, tested, now, first), *_of_sentences(report)]
    lines += _of_corrected(report)
    lines += _of_rows(report, rows)
    return [" ".join(line.split()) for line in lines], sum(any(one.is_untested for one in pair) for pair in both)


def _of_arms(report: dict[str, Any]) -> Iterator[str]:
    for arm in report["arms"]:
        mine = [each["complete"] for each in report["tries"] if each["arm"] == arm["arm"]]
        counts = {"planned": len(mine), "complete": mine.count(True), "others": mine.count(False)}
        for name, number in counts.items():
            yield from _differs(f"arm {arm['arm']}: {name}", arm[name], number)


def _of_contrasts(
    report: dict[str, Any], tested: Sequence[dict[str, Any]], now: Sequence[Result], first: Sequence[Result]
) -> Iterator[str]:
    for contrast in report["contrasts"]:
        if contrast["state"] == "final":
            yield from _of_counts(report["tries"], contrast)
    # a contrast that cannot be tested counts in their number all the same
    many, spare = len(report["contrasts"]), len(report["contrasts"]) - len(tested)
    holms = [numbers.holm([*_ps(results), *[1.0] * spare]) if many > 1 else _ps(results) for results in (now, first)]
    # one p that is not known leaves open what Holm makes of the others
    is_known = not any(result.is_untested for result in (*now, *first))
    # arms that draw their offers have their part of the error, and the report does not say how many do
    levels = [PLANNED * many / (many + drawing) for drawing in range(len(report["arms"]) + 1)]
    for place, contrast in enumerate(tested):
        pair = [(results[place], ps[place]) for results, ps in zip((now, first), holms, strict=True)]
        yield from _of_scope(contrast, pair, is_holm=many > 1, is_known=is_known)
        if not any(math.isclose(contrast["on_tasks"]["level"], level) for level in levels):
            yield f"{_name(contrast)}: level is {contrast['on_tasks']['level']}, and no part of {PLANNED}"


def _of_sentences(report: dict[str, Any]) -> Iterator[str]:
    """Compare what leads with what follows from tasks. Statements while running can lead, and are not recomputed."""
    for contrast in report["contrasts"]:
        yield from _of_finding(contrast)
    findings = [f"{_name(contrast)}: {contrast['sentence']}" for contrast in report["contrasts"]]
    if len(findings) == 1:
        findings.append(report["contrasts"][0]["sentence"])
    if findings and report["sentence"] not in findings:
        yield f"the sentence of the report is of no contrast: {report['sentence']}"


def _of_finding(contrast: dict[str, Any]) -> Iterator[str]:
    scope, sentence = contrast["on_tasks"], contrast["sentence"]
    shown = scope["verdict"] if scope is not None and scope["verdict"] in SHOWN else ""
    while_running = "Shown while running" in sentence and not shown
    if scope is not None and not sentence.endswith(scope["sentence"]) and not while_running:
        yield f"{_name(contrast)}: the sentence is not that of its tasks: {sentence}"
    if scope is None and any(f"{word.capitalize()} on " in sentence for word in SHOWN):
        yield f"{_name(contrast)}: the sentence has a word that no test on tasks shows: {sentence}"
    # of too few tasks, the statement while running can still be the verdict
    may_run = while_running or (contrast["state"] != "final" if scope is None else scope["verdict"] == "few")
    if contrast["verdict"] != shown and (shown or contrast["verdict"] in SHOWN and not may_run):
        yield f"{_name(contrast)}: verdict is {contrast['verdict']}, on its tasks {shown or 'nothing'} is shown"


def _name(contrast: dict[str, Any]) -> str:
    return f"{contrast['arm']} against {contrast['control']}"


def _ps(results: Sequence[Result]) -> list[float]:
    return [1.0 if one.p is None else one.p for one in results]


def _of_counts(tries: Sequence[dict[str, Any]], contrast: dict[str, Any]) -> Iterator[str]:
    name = _name(contrast)
    paired = _paired([_reading_of(each, "now") for each in tries if each["wave"] == 0], contrast)
    deltas = [task.delta for task in paired]
    counts = {"tasks": len(deltas), "won": sum(d > 0 for d in deltas), "lost": sum(d < 0 for d in deltas)}
    for key, number in counts.items():
        yield from _differs(f"{name}: {key}", contrast[key], number)
    means = {"delta": deltas, "treated_rate": [t.treated for t in paired], "control_rate": [t.control for t in paired]}
    for key, values in means.items():
        yield from _differs(f"{name}: {key}", contrast[key], float(sum(values) / len(values)) if values else None)


def _of_scope(
    contrast: dict[str, Any], readings: Sequence[tuple[Result, float]], *, is_holm: bool, is_known: bool
) -> Iterator[str]:
    """Compare what is shown on tasks. The readings are of corrected and first outcomes: a word needs both."""
    name, scope = _name(contrast), contrast["on_tasks"]
    (now, p), (first, _) = readings
    words = [_verdict(result, scope["level"], holm) for result, holm in readings]
    verdict = "withheld" if words[0] in SHOWN and words[0] != words[1] else words[0]
    span = now.interval
    if span is not None and first.interval is not None:
        span = min(span[0], first.interval[0]), max(span[1], first.interval[1])
    yield from _differs(f"{name}: units", scope["units"], now.units)
    if now.p is not None or now.interval is None:
        # a sign-flip test of very many seeds would take too long
        yield from _differs(f"{name}: p", scope["p"], now.p)
    if is_holm and is_known and now.p is not None:
        yield from _differs(f"{name}: p after Holm", scope["p_holm"], p)
    for place, end in enumerate(("lower", "upper")):
        ends = [each[place] if each is not None else None for each in (scope["interval"], span)]
        yield from _differs(f"{name}: {end} end of the interval", *ends)
    if is_known:
        yield from _differs(f"{name}: verdict on tasks", scope["verdict"], verdict)
        yield from _of_words(name, contrast, verdict)


def _of_words(name: str, contrast: dict[str, Any], verdict: str) -> Iterator[str]:
    """Compare the sentence: it begins with the word that is shown, and has its points."""
    sentence = contrast["on_tasks"]["sentence"]
    begins = [word for word in SHOWN if sentence.startswith(word.capitalize())]
    if begins != ([verdict] if verdict in SHOWN else []):
        yield f"{name}: the sentence says {' '.join(begins) or 'no word'}, recomputed {verdict}: {sentence}"
    if verdict in SHOWN and f"{100 * contrast['delta']:+.0f} point" not in sentence:
        yield f"{name}: the sentence does not say {100 * contrast['delta']:+.0f} points: {sentence}"


def _of_corrected(report: dict[str, Any]) -> Iterator[str]:
    """Compare the lines without the verifier's own errors. They are of first outcomes: a repair can follow from the
    sample."""
    if not any("corrected" in each for each in report["arms"]) and not any(
        "accepted" in each for each in report["tries"]
    ):
        return  # a report from before there were counts for them
    planned = [each for each in report["tries"] if each["wave"] == 0]
    for arm in (each["arm"] for each in report["arms"]):
        mine = [each for each in planned if each["arm"] == arm]
        is_open = any(each["complete"] is None and not each["excluded"] for each in mine)
        ways = _ways(mine, [[_reading_of(each, "first") for each in mine]], arm)
        printed = next(each for each in report["arms"] if each["arm"] == arm).get("corrected")
        estimate = None if is_open else corrected.rate(ways, arm)
        yield from _of_line(f"arm {arm}", printed, estimate, _seen(mine, (arm,)))
    for contrast in report["contrasts"]:
        arms, printed = (contrast["arm"], contrast["control"]), contrast.get("corrected")
        if printed is None and (contrast["state"] != "final" or contrast["verdict"] == "withheld"):
            continue
        both = [each for each in planned if each["arm"] in arms]
        views = list(_views([_reading_of(each, "first") for each in both], contrast["arm"]))
        estimate = corrected.difference(_ways(both, views, contrast["arm"]), arms)
        yield from _of_line(_name(contrast), printed, estimate, _seen(both, arms))


def _ways(rows: Sequence[dict[str, Any]], views: Sequence[Sequence[_Try]], arm: str) -> Iterator[corrected.Way]:
    """Yield each way to count tries: what is unknown, and what people have not judged."""
    for view in views:
        triples = zip(rows, view, views[0], strict=True)
        yield from corrected.ways_of([(row, each.complete, each is not first) for row, each, first in triples], arm)


def _seen(rows: Sequence[dict[str, Any]], arms: Sequence[str]) -> dict[str, Any]:
    return corrected.counted([(row, _reading_of(row, "first").complete) for row in rows], arms)


def _of_line(
    name: str, printed: dict[str, Any] | None, estimate: corrected.Estimate | None, seen: dict[str, Any]
) -> Iterator[str]:
    if printed is None or estimate is None:
        shown = [each and each[0] for each in (printed and [printed["value"]], estimate)]
        yield from _differs(f"{name}: corrected value", *shown)
        return
    value, (low, high) = estimate
    yield from _differs(f"{name}: corrected value", printed["value"], value)
    for end, number, recomputed in zip(("lower", "upper"), printed["interval"], (low, high), strict=True):
        yield from _differs(f"{name}: {end} end of the corrected interval", number, recomputed)
    for key, number in seen.items():
        yield from _differs(f"{name}: corrected, {key}", printed[key], number)
    words = [f"{100 * number:.0f}" for number in (printed["value"], *printed["interval"])]
    in_words = re.search(r"([+-]?\d+)(?:%| points?) \[([+-]?\d+), ([+-]?\d+)\]", printed["sentence"])
    if in_words is None or [int(each) for each in in_words.groups()] != [int(each) for each in words]:
        yield f"{name}: the corrected sentence does not say {' '.join(words)}: {printed['sentence']}"


def _of_rows(report: dict[str, Any], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Compare rows of an export with the report: the outcomes of its episodes, and what pairs say of themselves."""
    ends = {each["episode"]: each["complete"] for each in report["tries"] if each["complete"] is not None}
    seen: set[str] = set()
    for number, row in enumerate(rows, 1):
        where, episode = f"row {number}", row.get("episode_id", "")
        if episode in ends and row.get("reward_type"):
            yield from _differs(
                f"{where}: episode {episode} is complete", row["reward_type"] == "complete", ends[episode]
            )
        if (digest := row.get("content_sha256", "")) in seen:
            yield f"{where}: the same content as an earlier row"
        seen |= {digest} if digest else set()
        if "chosen_wins" in row:
            yield from _of_pair(where, row)


def _of_pair(where: str, row: dict[str, Any]) -> Iterator[str]:
    sides = [(row[f"{side}_wins"], row[f"{side}_tries"]) for side in ("chosen", "rejected")]
    if any(not 0 <= wins <= tries for wins, tries in sides):
        yield f"{where}: more wins than tries"
    if row["worth"] is None:
        return
    (wins, tries), (other, others) = sides
    if not tries or not others:
        yield f"{where}: a worth without tries"
    elif wins * others <= other * tries:
        yield f"{where}: the chosen side won {wins} of {tries}, the rejected one {other} of {others}"
    elif (
        not row["worth_low"] <= row["worth"] <= row["worth_high"]
        or row["worth"] > wins / tries - other / others + ROUNDED
    ):
        yield f"{where}: worth {row['worth']} is outside its interval, or more than its counts show"


def _differs(what: str, printed: object, recomputed: object) -> Iterator[str]:
    both = [each for each in (printed, recomputed) if isinstance(each, int | float) and not isinstance(each, bool)]
    if printed == recomputed or (len(both) == 2 and math.isclose(*both, rel_tol=NEAR, abs_tol=NEAR)):
        return
    yield f"{what} is {_shown(printed)}, recomputed {_shown(recomputed)}"


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class _Try:
    """One try in one reading. `unknown` says why its first episode has no outcome of its own: lost or cancelled."""

    task: str
    arm: str
    complete: bool | None
    unknown: str
    shared: tuple[int, ...]


@dataclass(frozen=True)
class _PairedTask:
    """A task with an outcome in both arms. `is_single`: one try in each."""

    treated: Fraction
    control: Fraction
    shared: frozenset[int]
    is_single: bool

    @property
    def delta(self) -> Fraction:
        return self.treated - self.control


def _reading_of(each: dict[str, Any], reading: str) -> _Try:
    complete = each["first"] if reading == "first" and "first" in each else each["complete"]
    return _Try(each["task"], each["arm"], complete, each["unknown"], tuple(each["shared"]))


def _result(tries: Sequence[dict[str, Any]], contrast: dict[str, Any], reading: str) -> Result:
    """Return what holds however unknown tries are counted, and whether or not tasks that share an answer are joined."""
    sides = (contrast["arm"], contrast["control"])
    planned = [_reading_of(each, reading) for each in tries if each["wave"] == 0 and each["arm"] in sides]
    results = [_joined_or_not(_paired(view, contrast)) for view in _views(planned, contrast["arm"])]
    widest, level = _widest(results), contrast["on_tasks"]["level"]
    if widest.interval is None or len(results) == 1:
        return widest
    return replace(widest, hangs=results[0].is_shown(level, results[0].p))


def _views(tries: Sequence[_Try], arm: str) -> Iterator[list[_Try]]:
    """Yield the tries as they count, then with lost ones as failures or successes, and cancelled ones against either
    arm: nothing may hang on what is unknown."""
    corners = [None, False, True] if any(each.unknown == "cancelled" for each in tries) else [None]
    losses = [None, False, True] if any(each.unknown == "lost" for each in tries) else [None]
    for corner in corners:
        for loss in losses:
            yield [_assumed(each, arm, corner, loss) for each in tries]


def _assumed(each: _Try, arm: str, corner: bool | None, loss: bool | None) -> _Try:
    if each.unknown == "cancelled":
        return each if corner is None else replace(each, complete=corner is (each.arm == arm))
    return each if not each.unknown or loss is None else replace(each, complete=loss)


def _paired(tries: Sequence[_Try], contrast: dict[str, Any]) -> list[_PairedTask]:
    by_task: dict[str, dict[str, list[_Try]]] = {}
    for each in tries:
        if each.arm in (contrast["arm"], contrast["control"]):
            by_task.setdefault(each.task, {contrast["arm"]: [], contrast["control"]: []})[each.arm].append(each)
    tasks = []
    for arms in by_task.values():
        treated, control = (_mean(arms[arm]) for arm in (contrast["arm"], contrast["control"]))
        if treated is not None and control is not None:
            shared = frozenset(key for arm in arms.values() for each in arm for key in each.shared)
            tasks.append(_PairedTask(treated, control, shared, all(len(arm) == 1 for arm in arms.values())))
    return tasks


def _mean(tries: Sequence[_Try]) -> Fraction | None:
    ends = [each.complete for each in tries if each.complete is not None]
    return Fraction(sum(ends), len(ends)) if ends else None


def _joined_or_not(paired: Sequence[_PairedTask]) -> Result:
    joined = _of_units(paired, _units(paired))
    if not any(task.shared for task in paired):
        return joined
    return _widest([joined, _of_units(paired, [[place] for place in range(len(paired))])])


def _widest(results: Sequence[Result]) -> Result:
    spans = [one.interval for one in results if one.interval is not None]
    if len(spans) < len(results):
        return replace(results[0], interval=None, p=None)
    whole = min(low for low, _ in spans), max(high for _, high in spans)
    ps = [one.p for one in results if one.p is not None]
    # one that is not known can be the largest
    return replace(results[0], interval=whole, p=max(ps) if len(ps) == len(results) else None)


def _units(paired: Sequence[_PairedTask]) -> list[list[int]]:
    """Return the places of tasks that share answers with one another, by spreading from each task."""
    holders: dict[int, list[int]] = {}
    for place, task in enumerate(paired):
        for key in task.shared:
            holders.setdefault(key, []).append(place)
    units, placed = [], set[int]()
    for start in range(len(paired)):
        waiting, unit = [start], []
        while waiting:
            place = waiting.pop()
            if place not in placed:
                placed.add(place)
                unit.append(place)
                waiting += [other for key in paired[place].shared for other in holders[key]]
        units += [unit] if unit else []
    return units


def _of_units(paired: Sequence[_PairedTask], units: Sequence[Sequence[int]]) -> Result:
    deltas = [task.delta for task in paired]
    if len(units) == len(paired) and all(task.is_single for task in paired):
        won, lost = sum(d > 0 for d in deltas), sum(d < 0 for d in deltas)
        return Result(len(paired), numbers.tango(won, lost, len(paired)), numbers.mcnemar(won, lost))
    sums = [sum((deltas[place] for place in unit), Fraction()) for unit in units]
    return Result(
        len(units),
        numbers.jackknife([float(one) for one in sums], [len(unit) for unit in units]),
        numbers.sign_flip(sums),
    )


def _verdict(result: Result, level: float, p: float) -> str:
    if result.interval is None:
        return "few"
    if result.is_shown(level, p):
        return "better" if sum(result.interval) > 0 else "worse"
    return "withheld" if result.hangs else "none"


def main(arguments: Sequence[str]) -> int:
    """Check the files of a command line, print what differs, and return the status to exit with."""
    if not 1 <= len(arguments) <= 2:
        print(__doc__.partition("\n")[0], file=sys.stderr)
        return 2
    try:
        report = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        lines = Path(arguments[1]).read_text(encoding="utf-8").split("\n") if len(arguments) > 1 else []
        if report.get("format") != FORMAT:
            raise ValueError(f"the format of {arguments[0]} is not {FORMAT}")
        # strings of JSON can have other ends of lines
        rows = [json.loads(line) for line in lines if line.strip()]
        wrong, untested = _checked(report, rows)
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        print(f"Not checked: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    for line in wrong:
        print(line)
    tested = sum(contrast["on_tasks"] is not None for contrast in report["contrasts"])
    counts = f"{len(report['tries']):,} tries, {tested} findings on tasks, {len(rows):,} rows"
    print(f"{counts}: {len(wrong)} differ.")
    print("Not recomputed: statements while running, on scenarios, of offers, prices, and whether too many were lost.")
    if untested:
        print(f"Not recomputed: p, verdict and sentence of {untested} findings, whose test would take too long.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
