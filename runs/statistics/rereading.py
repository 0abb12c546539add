"""What may be said of a run, a fork or a campaign whose outcomes a repaired verifier corrected: what both readings
show, and nothing else.

The claims of a run are read again with the error that the launch gave them, those of a fork with that of its tree. A
statement that needs the first reading, too, is never said more often than that reading says it, for any repair and any
reason for it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from runs.statistics import campaigned, deciding, sentences
from runs.statistics.campaigned import CampaignFinding
from runs.statistics.contrast import Contrast, Running, UnitResult
from runs.statistics.forked import ForkFinding
from runs.statistics.offers import Anytime, Effect
from runs.statistics.paired import Interval

InWords = Callable[[Contrast, UnitResult], str]
Said = TypeVar("Said", Running, Anytime)


def contrast(now: Contrast, first: Contrast, corrected: Mapping[str, int] | None = None) -> Contrast:
    """Return a contrast of corrected outcomes without what the first outcomes did not show, and without ruling out what
    they did not rule out. `corrected` counts the outcomes of each arm that were corrected."""
    arms = {arm: (corrected or {}).get(arm, 0) for arm in (now.arm, now.control)}
    read = replace(
        now,
        tasks_scope=_both(now, now.tasks_scope, first.tasks_scope, sentences.of_tasks, arms),
        scenarios_scope=_both(now, now.scenarios_scope, first.scenarios_scope, sentences.of_scenarios, arms),
        running=_timeless(now.running, first.running),
    )
    if read == now:
        return now
    return replace(read, sentence=sentences.headline(read))


def effect(now: Effect, first: Effect) -> Effect:
    """Return the effect of an offer without what the first outcomes did not show."""
    corrected = replace(now, running=_timeless(now.running, first.running))
    if not _is_new(now.verdict, first.verdict):
        return corrected if corrected == now else replace(corrected, sentence=corrected.running.sentence)
    return replace(corrected, verdict="withheld", sentence=sentences.reread(now.sentence))


def fork(now: ForkFinding, first: ForkFinding) -> ForkFinding:
    """Return what a fork shows without what the first outcomes of its branches did not show."""
    if not _is_new(now.verdict, first.verdict):
        return now
    return replace(now, verdict="", sentence=sentences.reread(now.sentence, "fork"))


def campaign(now: CampaignFinding, first: CampaignFinding) -> CampaignFinding:
    """Return what a campaign shows without what the first outcomes of its branches did not show. Both have the same
    roots, kinds and places."""
    before = {(one.kind, one.at): one.verdict for one in first.cells}
    cells = [
        replace(cell, verdict="", withheld=cell.verdict)
        if _is_new(cell.verdict, before.get((cell.kind, cell.at), ""))
        else cell
        for cell in now.cells
    ]
    return now if cells == now.cells else campaigned.of_cells(cells, now.least, fixed=now.is_fixed)


def _both(
    whole: Contrast, now: UnitResult | None, first: UnitResult | None, words: InWords, arms: Mapping[str, int]
) -> UnitResult | None:
    """Return a scope with the interval that holds those of both readings: the people who chose what to repair had seen
    the outcomes, so that of the corrected ones alone can miss."""
    if now is None:
        return None
    wide = replace(now, interval=_hull(now.interval, first.interval if first is not None else None))
    if _is_new(now.verdict, first.verdict if first is not None else ""):
        return replace(wide, verdict="withheld", sentence=sentences.reread(now.sentence))
    if wide == now:
        return now
    return replace(wide, sentence=f"{words(whole, wide)} {sentences.of_both_readings(arms)}")


def _hull(now: Interval | None, first: Interval | None) -> Interval | None:
    return now if now is None or first is None else (min(now[0], first[0]), max(now[1], first[1]))


def _timeless(now: Said, first: Said) -> Said:
    if not _is_new(now.verdict, first.verdict):
        return now
    return replace(now, verdict="withheld", since=None, sentence=sentences.reread(now.sentence))


def _is_new(now: str, first: str) -> bool:
    return now in deciding.SHOWN and now != first
