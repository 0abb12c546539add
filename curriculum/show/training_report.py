"""The training of a run as files: curves, five turns of each step with their rewards, the charts of its page as PNG,
and its section of a report. Called by the commands `curves` and `report`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from curriculum import next_tasks
from curriculum.rules.plan import CurriculumPlan
from curriculum.show import (
    cockpit,
    generations,
    series,
)
from curriculum.show.generations import SampledTurn
from curriculum.show.series import Series
from episodes.models import Run
from people.text.plain_text import printable
from runs.show import pictures
from runs.show.report import plain, table


def write_curves(run: Run, curves: Sequence[Series], folder: Path) -> list[str]:
    """Write every series as CSV and as a TensorBoard event file, and the turns. Return the names of the files."""
    (folder / "training.csv").write_text(series.in_csv(curves), encoding="utf-8")
    (folder / series.events_name(run)).write_bytes(series.in_events(run, curves))
    with (folder / "turns.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(generations.in_lines(run))
    return ["training.csv", series.events_name(run), "turns.jsonl"]


def write(run: Run, curves: Sequence[Series], folder: Path) -> tuple[list[str], list[str]]:
    """Write the results of a run that trained; `curves` are all its series. Return the report's section, and the names
    of the files."""
    names = write_curves(run, curves, folder)
    plan, helps = CurriculumPlan.of(run.metadata), next_tasks.help_of(run)
    charts = cockpit.charts_of(run, plan, helps, "")
    parts = ["## Training", cockpit.headline(plan, helps[-1]), _phases(cockpit.phases(plan, helps[-1]))]
    if not pictures.are_possible():
        return [*parts, *_turns(run)], names
    for chart in (*charts.history, *charts.completions):
        names.append(f"training-{chart.name}.png")
        pictures.draw(chart, folder / names[-1])
        parts.append(f"![{plain(chart.says)}]({names[-1]})")
    if charts.small:
        names.append("training-series.png")
        pictures.draw_small(charts.small, folder / names[-1])
        parts.append(f"![What the trainer reported, and rates, by training step]({names[-1]})")
    return [*parts, *_turns(run)], names


def _phases(phases: Sequence[dict[str, object]]) -> str:
    rows = [[one["name"], one["limit"], one["expert"], one["solo"], "now" if one["now"] else ""] for one in phases]
    return table(["phase", "format errors", "with an expert", "solo", ""], rows)


def _turns(run: Run) -> list[str]:
    """Return the turns of the last step as the model wrote them, each below the rewards of its episode."""
    if (shown := cockpit.generations_of(run, None)) is None:
        return []
    reported = ", ".join(f"{plain(name)} {value:.4g}" for name, value in shown.reported) or "nothing"
    words = f"Drawn by a hash, so that no one picks them. The trainer reported {reported}. Those of all steps are in"
    return [f"### Turns of step {shown.step}", f"{words} `turns.jsonl`.", *(_turn(one) for one in shown.turns)]


def _turn(turn: SampledTurn) -> str:
    rewards = "; ".join(
        f"{name} {reward.total if reward.total is not None else 'none'}"
        f" ({', '.join(f'{part} {value:.3g}' for part, value in reward.components.items())})"
        for name, reward in turn.rewards.items()
    )
    about = f"{plain(turn.task)}, {'with an expert' if turn.with_expert else 'solo'}, turn {turn.number} of {turn.of}"
    text = printable(turn.shown)
    # A model's text can have a fence of its own, which must not end this one.
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
    return f"{about}: {plain(turn.outcome) or 'no outcome'}. {rewards}\n\n{fence}\n{text}\n{fence}"
