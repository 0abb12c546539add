"""The page Metrics, and the same values as a CSV file.

Owns headline, columns and the text of a cell. Values come from `metrics/statistics.py`, rows from `metrics/records.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from episodes.show.legend import label_of_no_answer
from experts.find.board import percent
from experts.metrics import records
from experts.metrics.records import TIMES, DeskMetrics, Look
from experts.metrics.statistics import RATE_FROM_H, Calls, HourlyRate, MetricsLine, Proportion
from experts.metrics.times import NOT_REACHED, Middle
from people.access import MemberRequest, may_see_metrics, member_required
from people.text.in_words import duration
from people.text.plain_text import clean
from people.text.spreadsheets import in_csv
from people.text.zones import zone_name, zone_of

COLUMNS = {
    "asks": ("Answers", "answers that agents got, including drafts used at the deadline"),
    "waited": (
        "Wait",
        "when half of all asks had an answer, from the question on; those that fell back never got one; "
        "p90 from 10 values",
    ),
    "took": (
        "Answer time",
        "median time from claim to answer, an answer to a group once; p90 from 10 values, interval from 6 tasks",
    ),
    "per_hour": (
        "Used per hour",
        "answers in time and read by the agent, per hour of claimed time, an answer to a group once; "
        f"from {RATE_FROM_H * 60:.0f} minutes on",
    ),
    "in_time": ("In time", "share answered before the deadline"),
    "followed": ("Followed", "share where the agent's next call did what the answer said; unclear cases are excluded"),
    "passed": ("Declined", "share that the expert declined"),
    "drafted": ("Started from a draft", "share of answers that started from a model's draft"),
    "completed": (
        "Episode completed",
        "share of the episodes that asked with the verifier outcome complete, so it is no rate of an arm; each episode "
        "counts once, in the interval each task",
    ),
}
BESIDE = {"taken": ("Reused an answer", "share of people's answers that started from an earlier answer")}
"""Metrics of the project as a whole that have no column."""


@require_GET
@member_required(may_see_metrics)
def metrics_page(request: MemberRequest) -> HttpResponse:
    """Show the metrics. The query string holds filters and sort order."""
    look, now = Look.read(request.GET), timezone.now()
    numbers = records.metrics_of(request.actor, look, now)
    runs, arms = records.choices(request.actor, look)
    context = {
        "look": look,
        "zone": zone_name(zone_of(request)),
        "metrics": numbers,
        "desk": numbers.desk,
        "facts": _facts(numbers.desk),
        "experts": [_row(line, look) for line in numbers.experts],
        "run_arms": [_row(line, look) for line in numbers.arms],
        "calls": [_calls(one) for one in numbers.models],
        "headline": _headline(numbers),
        "note": records.NOTE,
        "most": records.MOST,
        "times": [(name, words, look.query(time=name, since="", until="")) for name, (words, _) in TIMES.items()],
        "runs": runs,
        "arms": arms,
        "columns": [_column(look, name) for name in ("name", *COLUMNS)],
        "arm_columns": [_column(look, name, asks="Asks", name="Run") for name in ("name", *COLUMNS)],
        "sorts": _sorts(look),
        "reasons": [(label_of_no_answer(why), n) for why, n in numbers.desk.fell_back.items()],
        "file": look.query(),
        "all_asks": Look(time="all").query(),
        "plain": Look(time=look.time, sort=look.sort).query(),
        "ever": bool(numbers.desk.asks) or records.has_asks(request.actor),
    }
    return render(request, "experts/desk/metrics.html", context)


def _headline(numbers: DeskMetrics) -> str:
    """Return the headline: "187 of 214 asks were answered in time. Median wait: 0:42."."""
    desk = numbers.desk
    closed = desk.in_time.of
    if not desk.asks:
        return "No asks in this period."
    if not closed:
        return f"{_whole(desk.asks)} {'ask' if desk.asks == 1 else 'asks'}, none closed yet."
    wait = f" Median wait: {_middle(desk.waited)[0]}." if desk.waited.n else ""
    were = "ask was" if closed == 1 else "asks were"
    return f"{_whole(desk.answered)} of {_whole(closed)} {were} answered in time.{wait}"


@dataclass(frozen=True)
class MetricCell:
    """One value, the count and interval below it, and, for a share, the interval as a bar from 0 to 100."""

    words: str
    value: str
    small: tuple[str, ...] = ()
    start: float | None = None
    width: float = 0.0
    point: float = 0.0


@dataclass(frozen=True)
class MetricRow:
    """One row of a table: the name, a detail line, a link and the cells."""

    line: MetricsLine
    name: str
    small: str
    address: str
    cells: list[MetricCell]


def _row(line: MetricsLine, look: Look) -> MetricRow:
    arm = line.kind == "arm"
    more = [(line.late, "late"), (line.prepared, "prepared"), (line.cancelled, "cancelled"), (line.open, "open")]
    small = [*([line.arm or "no arm"] if arm else [line.kind] if line.kind in ("model", "script") else [])]
    small += [f"{_whole(count)} {words}" for count, words in more if count]
    address = look.query(run=line.run, arm=line.arm) if arm and (line.run or line.arm) else ""
    return MetricRow(line, clean(line.name), clean(", ".join(small)), address, [_cell(line, name) for name in COLUMNS])


def _cell(line: MetricsLine, name: str) -> MetricCell:
    value, words = getattr(line, name), "Asks" if (name, line.kind) == ("asks", "arm") else (COLUMNS | BESIDE)[name][0]
    if isinstance(value, Proportion):
        return _share(words, value, _more(line, name))
    figure = _middle(value) if isinstance(value, Middle) else _rate(value) if isinstance(value, HourlyRate) else None
    return MetricCell(words, *(figure or (_whole(value),)))


def _more(line: MetricsLine, name: str) -> str:
    if name == "followed" and line.cannot_tell:
        return f"{_whole(line.cannot_tell)} can't tell"
    return f"kept {percent(line.kept.median)}" if name == "drafted" and line.kept.median is not None else ""


def _share(words: str, share: Proportion, more: str = "") -> MetricCell:
    if share.value is None:
        return MetricCell(words, "–", (more,) if more else ())
    if share.low is None or share.high is None:
        return MetricCell(words, percent(share.value), (f"{share.part} of {share.of}", *([more] if more else [])))
    low, high = 100 * share.low, 100 * share.high
    small = (
        f"{_whole(share.part)} of {_whole(share.of)}",
        f"{low:.0f} to {high:.0f}%",
        *([more] if more else []),
    )
    # at least 1 wide, so that a narrow interval can be seen
    return MetricCell(
        words, percent(share.value), small, round(low, 1), round(max(high - low, 1), 1), round(98.4 * share.value, 1)
    )


def _middle(middle: Middle) -> tuple[str, tuple[str, ...]]:
    if not middle.n and not middle.censored:
        return "–", ()
    low, high = (None if end is None else duration(end) for end in (middle.low, middle.high))
    between = [_span(low, high)] if low and high else [f"{low} or more"] if low else []
    p90 = [f"p90 {duration(middle.p90)}"] if middle.p90 is not None else []
    without = [f"{_whole(middle.censored)} without an answer"] if middle.censored else []
    value = NOT_REACHED if middle.median is None else duration(middle.median)
    return value, (f"n = {_whole(middle.n)}", *without, *between, *p90)


def _rate(rate: HourlyRate) -> tuple[str, tuple[str, ...]]:
    if rate.value is None:
        return "–", (("under 15\u00a0min of work",) if rate.n else ())
    hours = f"in {rate.hours:.1f}\u00a0h" if rate.hours >= 1 else f"in {max(1, round(60 * rate.hours))}\u00a0min"
    return _short(rate.value), (hours, *([_span(_short(rate.low), _short(rate.high))] if rate.low is not None else []))


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _short(value: float | None) -> str:
    return f"{value or 0:.1f}" if (value or 0) < 100 else _whole(round(value or 0))


def _whole(count: int) -> str:
    return f"{count:,}"


def _calls(row: Calls) -> dict[str, Any]:
    cells = [
        MetricCell("Calls", _whole(row.calls)),
        MetricCell("Tokens", _whole(row.tokens)),
        MetricCell("Duration", *_middle(row.took)),
        _share("Faults", row.faults),
    ]
    return {"name": clean(row.name), "cells": cells, "words": row.words}


def _facts(desk: MetricsLine) -> list[tuple[str, list[MetricCell]]]:
    """Return the metrics of the whole project in three columns."""
    return [
        ("Answers", [_cell(desk, name) for name in ("in_time", "passed")]),
        ("Time", [_cell(desk, name) for name in ("waited", "took", "per_hour")]),
        ("Results", [_cell(desk, name) for name in ("followed", "drafted", "taken", "completed")]),
    ]


def _column(look: Look, column: str, **words: str) -> dict[str, str]:
    """Return a column heading that sorts: descending first, names ascending first."""
    called, why = COLUMNS.get(column, ("Expert", ""))
    first, other = (column, f"-{column}") if column == "name" else (f"-{column}", column)
    return {
        "words": words.get(column, called),
        "why": "" if column in words else why,
        "order": {f"-{column}": "descending", column: "ascending"}.get(look.sort, ""),
        "address": look.query(sort=other if look.sort == first else first),
    }


def _sorts(look: Look) -> list[tuple[str, str]]:
    """Return the sort orders for small screens, where the table has no headings."""
    orders = {"name": "name"} | {f"-{name}": words.lower() for name, (words, _) in COLUMNS.items()}
    if look.sort not in orders:
        orders[look.sort] = f"{orders.get(f'-{look.sort}', 'name')}, {'down' if look.sort == '-name' else 'up'}"
    return list(orders.items())


@require_GET
@member_required(may_see_metrics)
def metrics_file(request: MemberRequest) -> HttpResponse:
    """Return the metrics as CSV: one row for the project, each expert and each arm."""
    look = Look.read(request.GET)
    numbers = records.metrics_of(request.actor, look, timezone.now())
    rows = [dict(_cells(line)) for line in numbers.lines]
    text = in_csv(list(rows[0]), [list(row.values()) for row in rows])
    headers = {"Content-Disposition": f'attachment; filename="awmweb-{request.project.slug}-metrics.csv"'}
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


def _cells(line: MetricsLine) -> Iterator[tuple[str, Any]]:
    """Yield the cells of a row without nesting: `waited_median`, `in_time_low`, and so on."""
    for name, value in asdict(line).items():
        if name == "fell_back":
            yield name, "; ".join(f"{why} {count}" for why, count in value.items())
        elif isinstance(value, dict):
            yield from ((f"{name}_{part}", _rounded(one)) for part, one in value.items())
        else:
            yield name, value


def _rounded(value: float | None) -> float | None:
    return round(value, 4) if isinstance(value, float) else value
