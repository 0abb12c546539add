"""How often a run says something false while a person attacks it, and what its intervals cover.

Run as `python -m bench.planted` (`make planted`); it writes docs/measured/planted.md. `--minutes` is about what it
takes with two `--processes` on a quiet machine; large runs get more of it, so that all cells have as many runs. After a
stop it goes on with the cells that are missing.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
import django

django.setup()

from bench.planted import draws, power  # noqa: E402
from bench.planted.case import COVERED, FALSE, Kept, pool  # noqa: E402
from bench.planted.truth import ATTACKS, Counts, cell  # noqa: E402
from tools import sentences  # noqa: E402

SIZES, SEEDS = (60, 150, 300, 1000), (1, 2, 4, 8)
LOSS = 0.03
PART = "sentences that can be false"
TABLE = Path(__file__).resolve().parents[2] / "docs" / "measured" / "planted.md"
Cell = tuple[int, int]


def error(share: float, of: int) -> float:
    """Return the Monte Carlo standard error of a share."""
    return math.sqrt(share * (1 - share) / of) if of else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2000, help="of each place of the table of power")
    parser.add_argument("--output", type=Path, default=TABLE)
    given = parser.parse_args()
    begun = time.monotonic()
    places = [(tasks, seeds) for tasks in SIZES for seeds in SEEDS]
    weights = {place: math.sqrt(math.prod(place)) for place in places}
    seconds = 0.8 * 60 * given.minutes * given.processes / sum(weights.values())
    kept, size = Kept("runs"), (given.minutes, given.processes)
    with pool(given.processes) as workers:
        asked: dict[Future[Any], tuple[object, ...]] = {}

        def ask(key: tuple[object, ...], *call: Any) -> None:
            if key not in kept:
                asked[workers.submit(*call)] = key

        ask(("draws", given.runs), draws.coverage, given.runs // 4)
        ask(("power", given.runs), power.losses, given.runs)
        for place in reversed(places):
            ask((*place, *size), cell, place, seconds * weights[place])
        for future in as_completed(asked):
            kept.keep(asked[future], future.result())
    found = {place: kept[*place, *size] for place in places}
    covered, losses = kept["draws", given.runs], kept["power", given.runs]
    how = f"`python -m bench.planted --minutes {given.minutes:g} --processes {given.processes} --runs {given.runs}`"
    text, wrong = table(found, covered, losses, f"{how}: {kept.took(begun)}")
    given.output.write_text(text, encoding="utf-8")
    kept.forget()
    print(text)
    if wrong:
        raise SystemExit("\n".join(wrong))


def table(
    found: dict[Cell, Counts],
    covered: list[tuple[str, float, int, int, int]],
    losses: list[tuple[int, int, float, int, int, int]],
    how: str,
) -> tuple[str, list[str]]:
    """Return the page, and what does not hold beyond three standard errors."""
    wrong: list[str] = []
    head = ["| attack | " + " | ".join(f"{tasks} x {seeds}" for tasks, seeds in found) + " | all |"]
    head.append("| --- |" + " ---: |" * (len(found) + 1))
    parts = {"false": [*head], "end": [*head], "early": [*head]}
    for attack in ATTACKS:
        rows = {place: each[attack] for place, each in found.items()}
        rows_all = [sum(column) for column in zip(*rows.values(), strict=True)]
        of = [*rows.items(), ("all", rows_all)]
        parts["false"].append(f"| {attack} | " + " | ".join(f"{100 * row[1] / row[0]:.1f}" for _, row in of) + " |")
        for name, part, whole in (("end", 2, 3), ("early", 4, 5)):
            values = (f"{100 * row[part] / row[whole]:.0f}" if row[whole] else "-" for _, row in of)
            parts[name].append(f"| {attack} | " + " | ".join(values) + " |")
        for place, row in of:
            share = row[1] / row[0]
            if share > FALSE + 3 * error(FALSE, row[0]):
                wrong.append(f"{attack}, {place}: {share:.3f} of {row[0]} runs said something false")
            for part, whole in ((2, 3), (4, 5)):
                # several looks at one run are not independent, so runs are counted for the error
                if row[whole] and row[part] / row[whole] < COVERED - 3 * error(COVERED, min(row[0], row[whole])):
                    wrong.append(f"{attack}, {place}: intervals cover {row[part] / row[whole]:.3f}")
    runs = {place: min(row[0] for row in each.values()) for place, each in found.items()}
    errors = " | ".join(f"{100 * error(FALSE, number):.1f}" for number in runs.values())
    numbers = " | ".join(f"{number:,}" for number in runs.values())
    parts["false"].append(f"| *runs of each attack* | {numbers} | {sum(runs.values()):,} |")
    parts["false"].append(f"| *Monte Carlo error at 5%* | {errors} | {100 * error(FALSE, sum(runs.values())):.1f} |")
    wrong += [
        f"help by draw at {chance}, {rates} complete: intervals cover {part / whole:.3f}"
        for rates, chance, _, part, whole in covered
        if whole and part / whole < COVERED - 3 * error(COVERED, whole)
    ]
    wrong += [
        f"{tasks} tasks, {seeds} seeds: {100 * (before - now) / runs_:.1f} points of power lost"
        for tasks, seeds, _, runs_, before, now in losses
        if (before - now) / runs_ > LOSS + 3 * error(LOSS, runs_)
    ]
    lines = [
        "# Planted truth",
        "",
        "The last run of `make planted`. None of these runs has an effect: the mean of the true differences is 0. A",
        "person who sees every outcome attacks each one and looks as often as they like. The runs go through",
        "`comparison.evaluate`, which pages and API call. *False* is a run that said better or worse anywhere, in any",
        "scope, at any look. Cells are tasks x seeds, in percent.",
        "",
        "| attack | what the person does |",
        "| --- | --- |",
        *(f"| {name} | {_first_line(how.__doc__)} |" for name, (how, _) in ATTACKS.items()),
        "",
        "*Choice of arm* and *everything* have three arms beside the control. Every attack reads every scope and field",
        "of what a run says, so a choice of scope or profile is part of each.",
        "Four kinds of tasks take turns: no task has an effect; nine of ten always tie; one in five loses what the",
        "others gain; the control is certain where the others throw a coin.",
        "",
        "## Runs that said something false, percent (at most 5)",
        "",
        *parts["false"],
        "",
        "## Intervals at the planned size that cover, percent (at least 93)",
        "",
        *parts["end"],
        "",
        "## Intervals while running that cover, percent (at least 93)",
        "",
        *parts["early"],
        "",
        "## Help by draw: intervals that cover, percent (at least 93)",
        "",
        *drawn_table(covered),
        "",
        "## Power against one test at 5%, percent (at most 3 points lower)",
        "",
        "| tasks | seeds | true difference | runs | one test at 5% | now | Monte Carlo error |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {tasks} | {seeds} | {uplift:+.2f} | {runs_:,} | {100 * before / runs_:.1f} | {100 * now / runs_:.1f} | "
            f"{100 * error(abs(before - now) / runs_, runs_):.1f} |"
            for tasks, seeds, uplift, runs_, before, now in losses
        ),
        "",
        f"{how}. A cell fails beyond three Monte Carlo errors.",
        "",
        "## Sentences that can be false",
        "",
        "What the product says, what decides it, and the planted worlds that test it. `python -m bench.planted.beside`",
        "has those beside runs.",
        "",
        f"<!-- {PART} -->",
        sentences.table(),
        "<!-- end -->",
        "",
    ]
    return "\n".join(lines), wrong


def drawn_table(covered: list[tuple[str, float, int, int, int]]) -> list[str]:
    """Return the lines of the table of help by draw."""
    return [
        "| complete without an offer | chance of an offer | episodes | runs with an interval | cover |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {rates} | {chance} | {episodes} | {whole:,} | {f'{100 * part / whole:.1f}' if whole else '-'} |"
            for rates, chance, episodes, part, whole in covered
        ),
    ]


def _first_line(text: str | None) -> str:
    return " ".join((text or "").split())


if __name__ == "__main__":
    main()
