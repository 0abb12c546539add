"""Writes docs/measured/growth.md and growth.svg from lines of `bench/cluster.py`: `python -m bench.machines.table`."""

from __future__ import annotations

import json

from matplotlib.figure import Figure

from bench.machines.cluster import ROOT

LINES = ROOT / "docs" / "measured" / "cluster.jsonl"
PAGE, PLOT = LINES.with_name("growth.md"), LINES.with_name("growth.svg")
FLAT = 2.0
"""A page that takes at most this many times the processor on the most rows is called flat."""
MATCHES = "counts its matches, which grow with the rows up to 10,000, the most that are counted"
OF_SIZE = {
    "home": "counts the outcomes of today; ends at 15 s for each statement",
    "search, a rare phrase": "looks at the newest 20,000 episodes, and then for its words in all by their index",
    "search, a word": "reads what an index has of the word, unless the newest 20,000 episodes cost less",
    "episodes by scenario": MATCHES,
    "episodes by state": MATCHES,
    "episodes by state and arm": "looks at the newest 20,000 episodes",
    "run of 1/40 of all": MATCHES,
}
HEAD = """# How cost grows

`python bench/cluster.py` on {cores} cores that load and measured processes share, beside other work
([all figures](cluster.jsonl)).

## With processes

| work | with 1 of each process | with 2 | ratio | processor seconds for 1,000, 1 and 2 | load, 1 and 2 |
|---|---|---|---|---|---|
{processes}

{cores} cores end at about two busy processes, and the load is that of the whole machine: where it differs, the ratio
says little. Processor time for each unit compares: it stays about the same if nothing is done twice.

So that the cores do not end first, each web process is held to a fifth of a core here (`shares`), and the second one
brings as many writers, sockets and desks of its own. The aim is 1.7 times:

| work | with 1 web process, a second | with 2 | ratio |
|---|---|---|---|
{shares}

## With rows

Milliseconds of processor of web process and database for one page, by the number of episodes in the project. In
brackets the milliseconds until the answer, on a machine with other work:

| page | {sizes} | ratio |
|---|{dashes}---|
{pages}

A list counts at most 10,000 matches that an index finds, newest first. Any other list looks at the newest 20,000
episodes, says so, and offers *Search all episodes*
([decision 81](../decisions/0081-a-list-looks-at-the-newest-episodes.md)). That one, other orders than newest first, and
`q` of the API read as much as they find, and end at 15 s for each statement. A frequent word in an old run is found by
*Search all episodes* alone.

{filled}

![The same on logarithmic scales](growth.svg)

{findings}
"""


def lines() -> list[dict]:
    return [json.loads(line) for line in LINES.read_text().splitlines()]


def by_processes(found: list[dict]) -> str:
    kinds: dict[str, list[dict]] = {}
    for one in found:
        if "processes" in one["conditions"]:
            kinds.setdefault(one["name"].removeprefix("cluster."), []).append(one)
    rows = []
    for kind, both in kinds.items():
        if len(both) < 2:
            continue  # the bench was ended in between
        first, second = both
        unit = first["unit"]
        # the work of children that ended is not known
        spent = [one["conditions"]["cpu_s_of_1000"] for one in both]
        cpu = " and ".join(f"{seconds:g} s" if seconds > 0 else "not known" for seconds in spent)
        rates = " | ".join(f"{one['value']:,.{0 if one['value'] > 100 else 1}f} {unit}" for one in both)
        load = " and ".join(f"{one['conditions']['load']:g}" for one in both)
        rows.append(f"| {kind} | {rates} | {second['ratio']:.2f} | {cpu} ({first['conditions']['of']}) | {load} |")
    return "\n".join(rows)


def by_shares(found: list[dict]) -> str:
    kinds: dict[str, list[dict]] = {}
    for one in found:
        if "share" in one["conditions"]:
            kinds.setdefault(one["name"].removeprefix("cluster.shares."), []).append(one)
    return "\n".join(
        f"| {kind} | {first['value']:,.0f} | {second['value']:,.0f} | {second['ratio']:.2f} |"
        for kind, (first, second) in kinds.items()
    )


def by_rows(found: list[dict]) -> dict[str, dict[int, float]]:
    pages: dict[str, dict[int, float]] = {}
    for one in found:
        # a database process that ended meanwhile took its time with it
        if one["unit"] == "ms of processor" and one["value"] > 0:
            times = pages.setdefault(one["name"].removeprefix("cluster.rows."), {})
            times[one["conditions"]["episodes"]] = one["value"]
    return pages


def waits(found: list[dict]) -> dict[tuple[str, int], float]:
    about = [(one["name"].removeprefix("cluster.rows."), one["conditions"]) for one in found]
    return {(name, said["episodes"]): said["median_ms"] for name, said in about if "median_ms" in said}


def filling(found: list[dict]) -> str:
    """Return how large the database of the most rows was, and how long they took."""
    filled = [one for one in found if one["name"] == "cluster.rows.filled"]
    last = max(filled, key=lambda one: one["conditions"]["episodes"])
    minutes, gigabytes = sum(one["value"] for one in filled) / 60, last["conditions"]["database_mb"] / 1000
    return (
        f"{last['conditions']['episodes']:,} episodes take {gigabytes:.0f} GB, with their steps, words and indexes. "
        f"To fill them in took {minutes:.0f} minutes."
    )


def finding(pages: dict[str, dict[int, float]]) -> str:
    """Return a line for each page that is not flat."""
    grown = {page: times[max(times)] / times[min(times)] for page, times in pages.items()}
    flat = [page for page, ratio in grown.items() if ratio <= FLAT]
    said = [f"{len(flat)} of {len(grown)} take at most {FLAT:g} times as much on the most rows as on the fewest."]
    for page, ratio in sorted(grown.items(), key=lambda one: -one[1]):
        if ratio > FLAT:
            said.append(f"- *{page}*: {ratio:.1f} times; {OF_SIZE.get(page, 'not bounded yet')}.")
    return "\n".join([said[0], "", *said[1:]]).rstrip()


def draw(pages: dict[str, dict[int, float]]) -> None:
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for page, times in pages.items():
        axes.plot(list(times), list(times.values()), marker="o", label=page)
    axes.set(xscale="log", yscale="log", xlabel="episodes", ylabel="ms of processor for one page")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    axes.grid(alpha=0.3)
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    found = lines()
    pages, waited = by_rows(found), waits(found)
    sizes = sorted({size for times in pages.values() for size in times})
    rows = []
    for page, times in pages.items():
        cells = " | ".join(f"{times[size]:,.0f} ({waited[page, size]:,.0f})" if size in times else "" for size in sizes)
        rows.append(f"| {page} | {cells} | {times[max(times)] / times[min(times)]:.1f} |")
    draw(pages)
    PAGE.write_text(
        HEAD.format(
            cores=found[0]["conditions"]["cores"], processes=by_processes(found), shares=by_shares(found),
            pages="\n".join(rows),
            sizes=" | ".join(f"{size:,}" for size in sizes), dashes="---|" * len(sizes), filled=filling(found),
            findings=finding(pages),
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
