"""The results of the demo as a table, for the README of the environment's Space. Reads the demo's page."""

from __future__ import annotations

import re
from pathlib import Path

BEGIN, END = "<!-- written by make train-demo -->", "<!-- end -->"
MODELS = {
    "untrained": "untrained",
    "sft": "SFT",
    "start": "SFT",
    "grpo": "SFT, then GRPO",
    "more_sft": "SFT, then more SFT",
    "more_sft_time": "more SFT, equal time",
    "more_sft_episodes": "more SFT, equal episodes",
}
COUNT = re.compile(r"^- (\w+): (\d+) of (\d+) complete$", re.MULTILINE)
AGAINST = re.compile(r"^- (\w+) against (sft|start|untrained): (\w[\w ]*) on these .*?: ([^,]*\[[^]]*\])", re.MULTILINE)


def table(page: str) -> str:
    """Return a row for each seed: complete held-out tasks by model in the first reading, and what the comparison says
    first."""
    rows, names = list[str](), list[str]()
    for part in page.split("\n## Seed ")[1:]:
        seed, counts = part.partition("\n")[0], dict[str, str]()
        for name, complete, tasks in COUNT.findall(part):
            counts.setdefault(name, f"{complete} of {tasks}")
        said = AGAINST.search(part)
        names = names or [name for name in MODELS if name in counts]
        if said is None or set(counts) != set(names):
            raise ValueError(f"The page has no results for seed {seed}.")
        cells = [*(counts[name] for name in names), f"{said[1]}: {said[3].lower()}: {said[4]}"]
        rows.append(f"| {seed} | {' | '.join(cells)} |")
    head = f"| seed | {' | '.join(MODELS[name] for name in names)} | against its start |"
    return "\n".join([head, "|---|" + "---|" * (len(names) + 1), *rows])


def write(readme: Path, page: str) -> None:
    """Replace the table between the two marks."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} has no marks for the results.")
    readme.write_text(f"{before}{BEGIN}\n\n{table(page)}\n\n{END}{after}", encoding="utf-8")
