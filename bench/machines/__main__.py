"""`make cluster`: kill each process of a cluster in turn under load, and see that nothing acknowledged is lost.

Prints a line for each process and writes docs/measured/cluster.md. Exits with an error if something is missing.
`--few` kills one of each kind.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.machines.cluster import ROOT, Cluster, Missing, cluster
from bench.machines.load import Load
from tests.running import until

TABLE = ROOT / "docs" / "measured" / "cluster.md"
BEFORE_S, AFTER_S = 3.0, 4.0
HEAD = """# A cluster, killed in turn

`make cluster` starts {webs} web processes behind nginx, {rollouts} rollouts workers, a worker, beat, {environments}
environment servers, PostgreSQL behind PgBouncer in transaction mode, Valkey and an S3-compatible store (moto). Each
process has a port and a log of its own, each server a data folder. Under load each one gets `kill -9`, and starts again
after half a second.

{when}, {machine}. {summary}

| killed | works again | steps acknowledged meanwhile | longest pause of appends | 5xx answers | of which |
|---|---|---|---|---|---|
{rows}

- *Works again*: from the kill until the process itself responds.
- *5xx answers*: by nginx, until 4 s after all loops go on. Loops of `awmclient` and the experts repeat those calls.
  {calls}
- {episodes}
- {answers}
- {lost}

The load: {load}.
"""


@dataclass
class Round:
    """What one kill did."""

    name: str
    back_s: float
    steps: int
    pause_s: float
    statuses: Counter[int]

    @property
    def row(self) -> str:
        said = ", ".join(f"{number} of {status}" for status, number in sorted(self.statuses.items())) or "none"
        cells = (
            self.name,
            f"{self.back_s:.1f} s",
            f"{self.steps:,}",
            f"{self.pause_s:.1f} s",
            self.statuses.total(),
            said,
        )
        return f"| {' | '.join(map(str, cells))} |"


def killed(here: Cluster, load: Load, name: str) -> Round:
    """Kill one process under load, and wait until all loops go on."""
    time.sleep(BEFORE_S)
    began, before = time.time(), load.steps
    back = here.kill(name)
    acknowledged = load.steps
    until(lambda: load.steps > acknowledged + 50 or load.faults, 120)
    time.sleep(AFTER_S)
    said = [line for line in here.lines() if line[0] >= began]
    appends = sorted(line[0] for line in said if line[1] == 200 and line[3].endswith("/steps"))
    points = [began, *appends, time.time()]
    pause = max(later - earlier for earlier, later in zip(points, points[1:], strict=False))
    return Round(name, back, load.steps - before, pause, Counter(line[1] for line in said if line[1] >= 500))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cluster")
    parser.add_argument("--few", action="store_true", help="kill one of each kind")
    parser.add_argument("--output", type=Path, default=TABLE)
    chosen = parser.parse_args()
    began = time.monotonic()
    try:
        with cluster() as here:
            print(
                f"{len(here.parts)} processes after {time.monotonic() - began:.0f} s: {', '.join(here.parts)}",
                flush=True,
            )
            names = [name for name in here.parts if not chosen.few or not name.endswith((" 2", " 3"))]
            # the database last: all others are then known to come back with it
            names.sort(key=lambda name: name == "postgres")
            return through(here, names, chosen.output)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1


def through(here: Cluster, names: list[str], output: Path) -> int:
    load = Load(here)
    load.start()
    until(lambda: load.steps > 200 or load.faults, 60)
    rounds = []
    for name in names:
        rounds.append(killed(here, load, name))
        print(rounds[-1].row, flush=True)
        if load.faults:
            break
    load.stop()
    problems = load.problems()
    output.write_text(report(here, load, rounds, problems))
    print(f"{len(problems)} problems; {output}", flush=True)
    for problem in problems[:40]:
        print(f"  {problem}")
    return 1 if problems else 0


def report(here: Cluster, load: Load, rounds: list[Round], problems: list[str]) -> str:
    every, lines = load.episodes(), here.lines()
    own = [one for one in every if one["id"] not in {loop.id for loop in load.loops}]
    states = Counter(one["state"] for one in every)
    more = sum(one.get("attempt", 1) > 1 for one in own)
    answered = sum(advice["source"] == "human" for loop in load.loops for advice in loop.asks.values())
    fell = sum(len(loop.asks) for loop in load.loops) - answered
    count = Counter(line[1] >= 500 for line in lines)
    steps = sum(loop.last for loop in load.loops)
    kinds = Counter(name.split()[0] for name in here.parts)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    return HEAD.format(
        webs=kinds["web"], rollouts=kinds["rollouts"], environments=kinds["environment"],
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{os.cpu_count()} cores, {memory:.0f} GB, Linux {platform.release().split('-')[0]}, load "
        f"{os.getloadavg()[2]:.1f} with other work",
        summary=f"**{len(rounds)} kills, {len(problems)} losses.**",
        rows="\n".join(one.row for one in rounds),
        calls=f"Of all {len(lines):,} calls {count[True]:,} were 5xx.",
        episodes=f"{len(every):,} episodes, {len(load.loops):,} of loops and {len(own):,} built-in ones: "
        + ", ".join(f"{number:,} {state}" for state, number in sorted(states.items()))
        + (f"; {more} built-in ones took more than one attempt" if more else ""),
        answers=f"{len(load.answered):,} answers acknowledged, each read back with its text. {answered:,} of "
        f"{answered + fell:,} asks of loops were answered by the expert, {fell} fell back at their deadline. "
        f"{len(load.exports)} exports were built into the store.",
        lost=f"{steps:,} steps of loops acknowledged, each there once, in order and as it was sent."
        if not problems else "Problems: " + "; ".join(problems[:20]),
        load="six loops of `awmclient` that append five steps four times a second and ask after each 40, two scripted "
        "experts, a run of scripted policies every 20 s with and without an expert, an export every 40 s",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
