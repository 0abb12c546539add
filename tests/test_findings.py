"""What docs/training.md says of a measurement is what the page of that measurement says, figure by figure."""

from __future__ import annotations

import re

from tests.commands import ROOT
from tests.measured import LINK

SAID = " ".join(LINK.sub(r"\1", (ROOT / "docs/training.md").read_text(encoding="utf-8")).split())
DEMO, STRATEGIES, PRICES = (
    (ROOT / f"docs/measured/{name}.md").read_text(encoding="utf-8") for name in ("train-demo", "strategies", "prices")
)


def rows(page: str, title: str) -> dict[str, list[str]]:
    """Cells by the first one of the first table after a title."""
    table = re.search(r"(?:^\|.*\n)+", page[page.index(title) :], re.MULTILINE)
    assert table is not None, title
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()[2:]]
    return {name: rest for name, *rest in cells}


def percents(cells: list[str]) -> list[int]:
    return [int(cell.rstrip("%")) for cell in cells]


def test_asks_of_the_small_model_are_those_of_its_page():
    first, second = DEMO[DEMO.index("## Seed 1") : DEMO.index("## Seed 2")], DEMO[DEMO.index("## Seed 2") :]
    needed, fell = [], {}
    for reading in ("**Read greedily**", "**Read at temperature 1**"):
        for seed in (first, second):
            table = rows(seed, reading)
            counts = [table[model][-1].split(" of ")[0] for model in ("start", "grpo")]
            fell.setdefault(reading, []).append("from {} to {}".format(*counts))
            needed.append(int(table["grpo"][-2].split(" of ")[0]))
    greedily, drawn = (" and ".join(fell[reading]) for reading in fell)
    assert f"Of 400 they go {greedily} greedily. At temperature 1 they go {drawn}." in SAID
    assert f"Needed ones stay at {min(needed)} of 100 or more" in SAID


def test_findings_on_ways_of_helping_are_those_of_their_page():
    alone = [percents(cells)[-1] for cells in rows(STRATEGIES, "## 1.").values()]
    helped = [percents(cells)[-1] for cells in rows(STRATEGIES, "## 2.").values()]
    assert f"all five solve {min(alone)}% to {max(alone)}% of held-out tasks" in SAID and len(alone) == 5
    assert f"With an expert it is {min(helped)}% to {max(helped)}%." in SAID
    part = STRATEGIES[STRATEGIES.index("## 1.") : STRATEGIES.index("## 2.")]
    contrasts = re.findall(r"^- (\w+) against (\w+): (Not tested|No difference shown|\w+)", part, re.MULTILINE)
    assert [one[:2] for one in contrasts if one[2] != "Not tested"] == [("adaptive_levels", "none")]
    assert len(contrasts) == 6 and {("always", "none"), ("mixed", "none")}.isdisjoint(one[:2] for one in contrasts)
    shown = "adaptive_levels against none: No difference shown over these 6 seeds: "
    tested = re.search(shown + r"(-\d points? \[.*?\])", part)
    assert tested is not None and f"`adaptive_levels` against `none`: no difference shown, {tested[1]}" in SAID
    assert "show 7 points or more" in part and "Seeds as uneven as these show about 7 points" in SAID


def test_findings_on_prices_are_those_of_their_page():
    needed, needless = rows(PRICES, "## Needed asks"), rows(PRICES, "## Needless asks")
    success = rows(PRICES, "## Success with an expert")
    tried = ("price_0.03", "price_0.1")
    least = min(min(percents(needed[name])) for name in tried)
    most = max(max(percents(needless[name])) for name in tried)
    assert f"each seed keeps at least {least}% of the needed asks. Needless ones are {most}% or fewer" in SAID
    assert max(percents(needless["price_0.1"])) == 0
    free = sum(share <= 2 for share in percents(needless["always"][:-1]))
    assert f"Without a price {free} of 6 seeds end at 2% or fewer" in SAID
    means = [success[name][-1] for name in (*tried, "always")]
    assert "Success with an expert is {} and {}, for `always` {}.".format(*means) in SAID
    for name in tried:
        assert len(re.findall(rf"{re.escape(name)} against always: Not tested", PRICES)) == 2


def test_bounds_on_asks_are_the_ends_of_their_rows():
    part = STRATEGIES[STRATEGIES.index("## 3.") :]
    needed, needless = (
        [share for cells in rows(part, title).values() for share in percents(cells[:-1])]
        for title in ("Needed:", "Needless:")
    )
    assert f"all arms ask in at least {min(needed)}% of the tasks, `none` too" in SAID
    assert f"needless asks end anywhere from {min(needless)}% to {max(needless)}%, by seed" in SAID
    assert f"in {max(cells[2] for cells in rows(PRICES, '## In short').values())} seeds at most" in SAID
    assert f"end at {max(percents(rows(PRICES, '## Needless asks')['price_0.01'][:-1]))}% in one seed" in SAID
    asks = [float(cell) for cell in rows(PRICES, "## Asks of a task")["always"][:-1]]
    assert sum(each / 2 >= 0.9 * 0.2 for each in asks) == 1 and "in all seeds but one the two goals" in SAID
