"""The table that `make attack` ends with: for each hostile corpus, how many attacks were tried and how many held.

A test or module joins a corpus by `pytestmark = pytest.mark.attack("frames")`; each of its cases counts as one attack.
Loaded by pytest (`-p tests.attack_table`); silent unless only attacks are run.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

MARK = "attack"
HEADS = ("corpus", "attacks", "held", "not held", "not tried here")
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
    table = tabulated(_rows(terminalreporter))
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
        f"{table}\n\n{seconds:.0f} seconds with two processes.\n",
        encoding="utf-8",
    )
