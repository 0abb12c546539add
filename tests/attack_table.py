"""The tables that `make attack` ends with: for each hostile corpus, how many attacks were tried and how many held, and
what a megabyte costs at each place that reads a stranger's text (`record_property("place", ...)`).

A test or module joins a corpus by `pytestmark = pytest.mark.attack("frames")`; each of its cases counts as one attack.
Loaded by pytest (`-p tests.attack_table`); silent unless only attacks are run.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

MARK = "attack"
HEADS = ("corpus", "attacks", "held", "not held", "not tried here")
PLACE = "place"
COST_HEADS = ("place", "kB", "MB of memory, of the bound", "seconds of a quarter, of all", "longest hold")
STARTED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--attack-table", type=Path, metavar="FILE", help="write the table of `-m attack` to a file, too")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = time.monotonic()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reports carry no arguments of marks, also none between the processes of xdist; properties they do."""
    for item in items:
        mark = item.get_closest_marker(MARK)
        if mark is not None:
            item.user_properties.append((MARK, str(mark.args[0])))


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    if config.option.markexpr != MARK:
        return
    table = "\n\n".join(filter(None, (tabulated(_rows(terminalreporter)), costs(_places(terminalreporter)))))
    seconds = time.monotonic() - config.stash[STARTED]
    terminalreporter.section("attacks")
    terminalreporter.write_line(f"{table}\n\n{seconds:.0f} seconds")
    if config.option.attack_table is not None:
        _write(config.option.attack_table, table, seconds)


def _rows(reporter: TerminalReporter) -> dict[str, Counter[str]]:
    """By corpus, how its attacks ended. One that broke in any phase was not held, whatever its other phases say."""
    ends: dict[tuple[str, str], str] = {}
    for kind, end in (("passed", "held"), ("skipped", "not tried here"), ("failed", "not held"), ("error", "not held")):
        for report in reporter.getreports(kind):
            corpus = dict(getattr(report, "user_properties", [])).get(MARK)
            if corpus is not None:
                ends[str(corpus), report.nodeid] = end
    rows: dict[str, Counter[str]] = {}
    for (corpus, _), end in sorted(ends.items()):
        rows.setdefault(corpus, Counter()).update([end, "attacks"])
    return rows


def _places(reporter: TerminalReporter) -> list[dict[str, Any]]:
    """What a stranger's text costs at each place that was measured."""
    reports = [one for end in ("passed", "failed") for one in reporter.getreports(end)]
    found = [dict(getattr(report, "user_properties", [])).get(PLACE) for report in reports]
    return sorted(filter(None, found), key=lambda place: str(place["name"]))


def costs(places: list[dict[str, Any]]) -> str:
    """A Markdown table with a row for each place, or nothing."""
    lines = [COST_HEADS, ("---", *["---:"] * (len(COST_HEADS) - 1))]
    for one in places:
        memory = f"{one['memory']:.1f} of {one['most']}"
        times = f"{one['quarter']:.3f}, {one['whole']:.3f}"
        lines.append((one["name"], f"{one['bytes'] / 1000:,.0f}", memory, times, f"{one['hold'] / one['unit']:.1f}"))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if places else ""


def tabulated(rows: dict[str, Counter[str]]) -> str:
    """A Markdown table, with all corpora together in its last row."""
    total = sum(rows.values(), Counter[str]())
    lines = [HEADS, ("---", *["---:"] * (len(HEADS) - 1))]
    lines += [(name, *(str(row[head]) for head in HEADS[1:])) for name, row in [*rows.items(), ("all", total)]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _write(file: Path, table: str, seconds: float) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "# What the hostile corpus found\n\n"
        "The last run of `make attack TABLE=docs/measured/attack.md`. Each case of a test is one attack; *held* means\n"
        "that it got nothing and stopped nobody. *Not tried here*: the machine lacks what it needs, such as a kernel\n"
        "feature.\n\n"
        "The second table says what a megabyte of a stranger's text costs at each place, or as much as can reach it:\n"
        "memory at its peak beside the text, processor seconds, and the longest time in which no other thread ran, in\n"
        "units of parsing a megabyte of JSON (the bound is 40).\n\n"
        f"{table}\n\n{seconds:.0f} seconds with two processes.\n",
        encoding="utf-8",
    )
