"""`--costs FILE`: processor seconds of each test file, its own and those of all processes below it, as a table.

What several files share counts for the file in which it works.
"""

from __future__ import annotations

import resource
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

ABOUT = """# What the tests cost

The last run of `make costs`. What files share counts for the file that began it.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=Path, metavar="FILE", help="write a table of processor seconds by test file")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--costs"):
        return
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_Worker(config))
    elif config.getvalue("numprocesses"):
        config.pluginmanager.register(_Table(config.getoption("--costs")))
    else:
        pytest.exit("--costs needs -n", 2)


class _Worker:
    def __init__(self, config: pytest.Config) -> None:
        self.config, self.seconds, self.last = config, Counter[str](), spent()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        now = spent()
        self.seconds[nodeid.partition("::")[0]] += now - self.last
        self.last = now

    def pytest_sessionfinish(self) -> None:
        vars(self.config)["workeroutput"]["costs"] = dict(self.seconds)


class _Table:
    def __init__(self, file: Path) -> None:
        self.file, self.seconds = file, Counter[str]()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.seconds.update(getattr(node, "workeroutput", {}).get("costs", {}))

    def pytest_terminal_summary(self) -> None:
        rows = [f"| {file} | {seconds:,.1f} |" for file, seconds in self.seconds.most_common()]
        total = f"| all {len(rows)} | {self.seconds.total():,.0f} |"
        self.file.write_text("\n".join([ABOUT, "| file | processor seconds |", "| --- | ---: |", total, *rows]) + "\n")


def spent() -> float:
    """Return the processor seconds of this process, of its ended children, and of all that still run below it."""
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    total = sum(one.ru_utime + one.ru_stime for one in own)
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
