"""Reads: what a run says, with the raw counts that it says it from, as one file that others can recompute.

`python -m awmclient.check` reads it, without awmweb. Owns the shape of `report.json`. Answers that tasks share are
numbers here: their text is no part of a report.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from runs.show.comparison import RunComparison, first_tries_of
from runs.statistics.compare import CANCELLED, Try
from runs.statistics.contrast import Contrast, Corrected
from runs.statistics.corrected import Verdicts

FORMAT = "awmweb.report/1"


def document(comparison: RunComparison) -> dict[str, Any]:
    """Return the report of a run: its tries, and each finding on the planned size with its numbers."""
    first = {each.episode: each for each in first_tries_of(comparison)}
    names: dict[str, int] = {}
    return {
        "format": FORMAT,
        "run": comparison.plan.run_id,
        "control": comparison.plan.control,
        "sentence": comparison.sentence,
        "arms": [
            {"arm": arm.name, "planned": arm.planned, "complete": arm.complete, "others": arm.others}
            | {"corrected": corrected_row(arm.corrected)}
            for arm in comparison.arms
        ],
        "contrasts": list(map(contrast_row, comparison.contrasts)),
        "tries": [try_row(each, first.get(each.episode), names, comparison.accepted) for each in comparison.tries],
    }


def contrast_row(contrast: Contrast) -> dict[str, Any]:
    """Return the numbers of a contrast that follow from its tries, and its sentence."""
    numbers = ("arm", "control", "state", "tasks", "won", "lost", "delta", "treated_rate", "control_rate")
    scope = asdict(contrast.tasks_scope) if contrast.tasks_scope is not None else None
    row = {name: getattr(contrast, name) for name in (*numbers, "sentence", "verdict")}
    return row | {"on_tasks": scope, "corrected": corrected_row(contrast.corrected)}


def corrected_row(line: Corrected | None) -> dict[str, Any] | None:
    """Return a line without the verifier's own errors; None where there is none."""
    return None if line is None else asdict(line)


def try_row(each: Try, first: Try | None, names: dict[str, int], accepted: Verdicts | None = None) -> dict[str, Any]:
    """Return the raw counts of a try; `first` is what counted before its verifier was repaired, where that differs, and
    `accepted` what blind people said of the episodes that were drawn for them."""
    unknown = "cancelled" if each.lost == CANCELLED else "lost" if each.lost else ""
    row = {name: getattr(each, name) for name in ("task", "arm", "seed", "wave", "episode", "complete", "excluded")}
    row |= {"unknown": unknown, "shared": sorted(names.setdefault(name, len(names)) for name in each.shared)}
    row |= {"accepted": accepted[each.episode]} if accepted and each.episode in accepted else {}
    return row if first is None or first.complete == each.complete else row | {"first": first.complete}
