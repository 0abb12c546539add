"""The results of the demo as a table, for the README of the environment's Space. Reads the demo's page."""

from __future__ import annotations

import re
from pathlib import Path

BEGIN, END = "<!-- written by make train-demo -->", "<!-- end -->"
MODELS = {"untrained": "untrained", "sft": "SFT", "grpo": "SFT, then GRPO", "more_sft": "SFT, then more SFT"}
COUNT = re.compile(r"^- (\w+): (\d+) of (\d+) complete$", re.MULTILINE)
AGAINST = re.compile(r"^- sft against untrained: (\w[\w ]*) on these .*?: ([^,]*\[[^]]*\])", re.MULTILINE)


def table(page: str) -> str:
    """Return a row for each seed: complete held-out tasks by model, and what the comparison says of SFT."""
    lines = [f"| seed | {' | '.join(MODELS.values())} | SFT against untrained |", "|---|" + "---|" * (len(MODELS) + 1)]
    for part in page.split("\n## Seed ")[1:]:
        counts = {name: f"{complete} of {tasks}" for name, complete, tasks in COUNT.findall(part)}
        said = AGAINST.search(part)
        if said is None or set(counts) != set(MODELS):
            raise ValueError(f"The page has no results for seed {part.partition(chr(10))[0]}.")
        cells = [*(counts[name] for name in MODELS), f"{said[1].lower()}: {said[2]}"]
        lines.append(f"| {part.partition(chr(10))[0]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write(readme: Path, page: str) -> None:
    """Replace the table between the two marks."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} has no marks for the results.")
    readme.write_text(f"{before}{BEGIN}\n\n{table(page)}\n\n{END}{after}", encoding="utf-8")
