"""A comparison in words: a sentence for each scope and for a run that goes on, and the headline. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from people.text.in_words import count
from runs.statistics import deciding
from runs.statistics.contrast import Contrast, UnitResult
from runs.statistics.paired import Interval
from runs.statistics.unanswered import no_help

WITHHELD = "Withheld: the arms lost different shares of their episodes."
EXPLORATORY = "exploratory, not part of the plan"
"""Of everything that a run shows beside the statements fixed at its launch."""


def void(why: str) -> str:
    return f"Withheld: {why}"


def headline(contrast: Contrast) -> str:
    """Return the finding. Where an arm had an expert who never answered, that comes first."""
    return no_help(contrast.unanswered) + _finding(contrast)


def _finding(contrast: Contrast) -> str:
    lost = contrast.exclusions
    if contrast.void:
        return void(contrast.void)
    if lost.withheld:
        a, b = (sum(arm.values()) for arm in (lost.treated, lost.control))
        low, high = map(signed, lost.bounds)
        return (
            f"Not comparable: {a} of {count(lost.treated_planned, 'episode')} of {contrast.arm} and {b} of "
            f"{lost.control_planned} of {contrast.control} were lost. Delta between {low} and {high} points whatever "
            f"they were; with losses counted as failures {points(lost.as_failures)}."
        )
    if not contrast.tasks and contrast.state == "final":
        return "Nothing to compare: no task is valid in both arms."
    scope = contrast.tasks_scope
    if scope is None or (scope.verdict in ("none", "withheld") and contrast.running.since is not None):
        return contrast.running.sentence
    return scope.sentence


def of_tasks(contrast: Contrast, scope: UnitResult) -> str:
    """Return what the tasks allow to be said at the planned size."""
    n = contrast.tasks
    if scope.interval is None or contrast.delta is None:
        kept = f" ({count(scope.units, 'unit')}, as tasks share answers)" if scope.units < n else ""
        return f"{count(n, 'task')}{kept} are too few for a result." if n != 1 else "1 task is too few for a result."
    on = f"on {'this task' if n == 1 else f'these {n:,} tasks'}"
    numbers = (
        f"{on}: {points(contrast.delta)} {span_text(scope.interval)}, {contrast.won:,} won, {contrast.lost:,} lost"
    )
    test = scope.method.partition(",")[0].partition(" on ")[0]
    if scope.verdict == "withheld":
        return f"Withheld {numbers}. {hangs_on(contrast.unknown)}"
    if scope.is_shown:
        holds = f" {holds_for(contrast.unknown)}" if contrast.unknown else ""
        return f"{scope.verdict.capitalize()} {numbers}, {_p_words(scope, f' ({test}, planned size)')}.{holds}"
    sentence = f"No difference shown {numbers}."
    if not scope.holds_zero:
        sentence += f" Borderline: the interval leaves out 0 but the exact test does not show it ({_p_words(scope)})."
    elif scope.p is not None and scope.p < scope.level:
        sentence += f" Borderline: the interval includes 0 though the test alone would show it ({_p_words(scope)})."
    elif max(map(abs, scope.interval)) < 1:
        # no number here: a second rounding of the interval's end would differ from the one that is printed
        sentence += " Differences outside this interval are ruled out at 95%."
    return sentence


def reread(sentence: str, again: str = "run") -> str:
    """Return what is said of a statement that only the outcomes of a repaired verifier show."""
    return (
        f"Withheld after an erratum. On the corrected outcomes alone: {sentence} The verifier was repaired by people "
        f"who had seen the outcomes, so only a new {again} can show it."
    )


WIDENED = "After an erratum, each interval holds that of the first outcomes, too."


def of_both_readings(corrected: Mapping[str, int]) -> str:
    """Return that an interval is that of two readings, and how many outcomes of each arm were corrected."""
    arms = " and ".join(f"{number:,} of {arm}" for arm, number in corrected.items())
    return f"After an erratum ({arms} corrected), the interval holds that of the first outcomes, too."


def of_scenarios(contrast: Contrast, scope: UnitResult) -> str:
    """Return what the scenarios allow to be said of others like them."""
    if scope.interval is None or contrast.delta is None:
        return f"{count(scope.units, 'scenario')} {'is' if scope.units == 1 else 'are'} too few to generalize."
    word = scope.verdict if scope.verdict in deciding.SHOWN else "not shown"
    return f"For scenarios like these {scope.units}: {word} ({points(contrast.delta)} {span_text(scope.interval)})."


def _p_words(scope: UnitResult, how: str = "") -> str:
    holm = "" if scope.p_holm is None else f", p {p_text(scope.p_holm)} after Holm"
    return f"p {p_text(1.0 if scope.p is None else scope.p)}{how}{holm}"


def hangs_on(unknown: int) -> str:
    """Return why a statement is withheld: it would change with the way in which unknown episodes count."""
    were = "was" if unknown == 1 else "were"
    return (
        f"Whether a difference is shown depends on {count(unknown, 'episode')} that {were} cancelled, lost or replaced."
    )


def holds_for(unknown: int) -> str:
    are = "is" if unknown == 1 else "are"
    return f"This holds however {count(unknown, 'cancelled, lost or replaced episode')} {are} counted."


def shown_while_running(where: str, verdict: str, e: float, span: Interval) -> str:
    sentence = f"Shown while running, at task {where}: {verdict} (E {e:.3g}, may be read at any time). Interval so far "
    return f"{sentence}{span_text(span)}."


def in_round(place: int, rounds: int) -> str:
    """Return which round of seeds that is; "" for the only one."""
    return f" in round {place + 1} of {rounds}" if rounds > 1 else ""


def not_shown(
    state: str, read: int, planned: int, where: str = "", *, noun: str = "task", what: str = "Nothing shown"
) -> str:
    """Return what the anytime statement says while it has shown nothing: `read` of the `planned` were read, in their
    planned order, `where` names their round; `what` is not shown of a run that goes on."""
    if state == "stopped":
        at = f"{read} of {planned}{where}"
        return f"Stopped at {at} by a person: only the anytime statement applies. Nothing shown."
    look = "You can look as often as you like."
    if read or not planned:
        return f"{what} yet on the first {read:,} of {count(planned, noun)}{where}. {look}"
    if planned == 1:
        return f"No result yet: the only {noun}{where} is not finished. {look}"
    first = f"the first of {planned:,}{where} is not finished"
    return f"No result yet: {noun}s are read in their planned order, and {first}. {look}"


def signed(share: float) -> str:
    """Return a share as a whole number of points with its sign; 0 has none."""
    value = round(100 * share)
    return f"{value:+d}" if value else "0"


def points(share: float) -> str:
    """Return a difference of shares as points, such as `+18 points`."""
    value = signed(share)
    return f"{value} {'point' if value in ('+1', '-1') else 'points'}"


def span_text(span: Interval) -> str:
    return (
        # no sign before 0
        f"[{100 * span[0]:+.0f}, {100 * span[1]:+.0f}]".replace("+0,", "0,").replace("-0,", "0,").replace("+0]", "0]")
    )


def p_text(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"
