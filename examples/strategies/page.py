"""The page of a comparison, from its results alone: tables, sentences of the product's statistics, charts.

Says nothing of its own: what is better or worse is decided by `seeds.py` beside it, over seeds. Charts are drawn by the
product, in a folder beside the page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
import django

django.setup()

from examples.strategies.plan import Plan  # noqa: E402
from examples.strategies.seeds import SeedContrast, components, contrast, in_order, reached  # noqa: E402
from people.text import figures  # noqa: E402
from people.text.figures import BASELINE, EXPERT, FIFTH, INFORMED, SINGLE, Chart  # noqa: E402
from runs.show.drawing import draw  # noqa: E402

Results = Mapping[int, Mapping[str, Mapping[str, Any]]]
"""By seed and arm."""
ANSWER_MINUTES = 0.5
"""What an answer is taken to cost a person: the expert here is a script, whose own time says nothing."""
STYLES = (BASELINE, EXPERT, SINGLE, INFORMED, FIFTH)
NEEDED, NEEDLESS = 0.90, 0.05
"""The goal of asking: at least this share of the needed asks, at most this one of the needless."""


def write(kind: str, plan: Plan, starts: Mapping[int, Mapping[str, Any]], results: Results, file: Path) -> None:
    """Write the page, and its charts."""
    lines = (strategies if kind == "strategies" else prices)(plan, results) if results else ["No seed is through yet."]
    made = charts(plan, starts, results) if results and kind == "strategies" else price_charts(plan, results)
    folder = file.with_suffix("")
    shown = []
    for chart in made:
        folder.mkdir(parents=True, exist_ok=True)
        draw(chart, folder / f"{chart.name}.png")
        shown += ["", f"**{chart.title}.** {chart.note}", "", f"![{chart.says}]({folder.name}/{chart.name}.png)"]
    head = [HEADS[kind], "", *_setting(kind, plan, starts, results), ""]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([*head, *lines, *(["", "## Charts", *shown] if shown else [])]) + "\n")


HEADS = {
    "strategies": "# Four ways of helping, over training seeds",
    "prices": "# Asking at a price, over training seeds",
}


def _setting(kind: str, plan: Plan, starts: Mapping[int, Mapping[str, Any]], results: Results) -> list[str]:
    tried = plan.held_desks * 20
    said = ", ".join(f"{seed} ({starts[seed]['digest']})" for seed in sorted(starts)) or "none"
    seconds = [one["seconds"] for arms in results.values() for one in arms.values()]
    return [
        f"Written by `make {kind}` ([how](../training.md#strategies-of-help)); no figure is by hand. Plan "
        f"{plan.digest}.",
        "",
        f"- Seeds that are through: {len(results)}. Starts (with the digest of weights and tokenizer): {said}.",
        f"- Each seed: SFT of {plan.sft_updates} updates, and from that one start every arm with {plan.steps} steps of "
        f"{plan.groups} groups of {plan.group}, {plan.rollouts:,} rollouts, on the same tasks. Names and numbers are "
        "redrawn for every group.",
        f"- Tried greedily on {tried} held-out tasks, the same for all seeds: {tried // 5} need a fact that only the "
        f"expert has, {tried - tried // 5} do not.",
        "- The unit is the seed. Each question has a fixed order of contrasts, tested at 4.5% until one is not shown; "
        "the first question is the planned one, the others each have an error of their own.",
        *([f"- An arm took {fmean(seconds):.0f} s on average, {os.cpu_count()} cores."] if seconds else []),
    ]


def of_readings(one: Mapping[str, Any], name: str, keep: Callable[[Mapping[str, Any]], bool] = lambda _: True) -> Any:
    return [reading for reading in one[name] if keep(reading)]


def rate(readings: Sequence[Mapping[str, Any]]) -> float:
    return fmean(reading["complete"] for reading in readings)


def asking(readings: Sequence[Mapping[str, Any]]) -> float:
    return fmean(reading["asks"] > 0 for reading in readings)


def alone(one: Mapping[str, Any]) -> float:
    return rate(of_readings(one, "solo"))


def offered(one: Mapping[str, Any]) -> float:
    return rate(of_readings(one, "offered"))


def needed(one: Mapping[str, Any]) -> float:
    return asking(of_readings(one, "offered", lambda reading: bool(reading["needs"])))


def needless(one: Mapping[str, Any]) -> float:
    return asking(of_readings(one, "offered", lambda reading: not reading["needs"]))


def asks(one: Mapping[str, Any]) -> float:
    return fmean(reading["asks"] for reading in of_readings(one, "offered"))


def per_minute(one: Mapping[str, Any]) -> float | None:
    """Return the complete held-out tasks of a human minute; None where no answer was used."""
    answers = sum(reading["asks"] for reading in one["offered"])
    return sum(reading["complete"] for reading in one["offered"]) / (answers * ANSWER_MINUTES) if answers else None


def answers(one: Mapping[str, Any]) -> float:
    return float(sum(step["asks"] for step in one["steps"]))


def percent(value: float) -> str:
    return f"{100 * value:.0f}%"


def table(
    plan: Plan,
    results: Results,
    of: Callable[[Mapping[str, Any]], float | None],
    shown: Callable[[float], str] = percent,
) -> list[str]:
    """Return a row for each arm with the value of each seed and their mean."""
    seeds = sorted(results)
    lines = [
        "| arm | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean |",
        "|---|" + "---:|" * (len(seeds) + 1),
    ]
    for arm in plan.arms:
        values = [of(results[seed][arm.name]) for seed in seeds]
        known = [value for value in values if value is not None]
        mean = shown(fmean(known)) if len(known) == len(values) else "-"
        lines.append(f"| {arm.name} | " + " | ".join("-" if v is None else shown(v) for v in values) + f" | {mean} |")
    return [*lines, ""]


def against(
    plan: Plan, results: Results, of: Callable[[Mapping[str, Any]], float], pairs: Sequence[tuple[str, str]]
) -> list[SeedContrast]:
    seeds = sorted(results)
    return in_order([
        contrast(arm, other, *([of(results[seed][name]) for seed in seeds] for name in (arm, other)))
        for arm, other in pairs
    ])  # fmt: skip


def said(found: Sequence[SeedContrast], words: Callable[[SeedContrast], str] = lambda one: one.sentence) -> list[str]:
    return [f"- {one.arm} against {one.control}: {words(one)}" for one in found]


def fewer(one: SeedContrast) -> str:
    """Say a contrast of asks: more of them are not better."""
    return one.in_words("More", "Fewer")


ORDER = [
    (adaptive, other) for other in ("none", "always", "mixed") for adaptive in ("adaptive_levels", "adaptive_errors")
]
"""The claim of pull request 428 first, that help which shrinks trains better than none; fixed before any run."""


def strategies(plan: Plan, results: Results) -> list[str]:
    ones = against(plan, results, alone, ORDER)
    shown = [one for one in ones if one.is_shown]
    lines = ["## In short", ""]
    lines += said(shown) if shown else [f"- Nothing is shown of the planned question. {ones[0].sentence}"]
    lines += ["", "## 1. Solved without an expert", "", *table(plan, results, alone), *said(ones), ""]
    lines += [
        "## 2. Solved with one",
        "",
        *table(plan, results, offered),
        *said(against(plan, results, offered, ORDER)),
    ]
    lines += ["", "## 3. Asks where needed, and where not", "", "Needed:", "", *table(plan, results, needed)]
    lines += [*said(against(plan, results, needed, ORDER), fewer), "", "Needless:", "", *table(plan, results, needless)]
    lines += [*said(against(plan, results, needless, ORDER), fewer), ""]
    lines += ["## 4. Answers of people", "", f"An answer is taken to cost {ANSWER_MINUTES:g} minutes. In training:", ""]
    lines += table(plan, results, answers, "{:.0f} answers".format)
    lines += [
        "Complete held-out tasks of a human minute, with an expert:",
        "",
        *table(plan, results, per_minute, "{:.1f}".format),
    ]
    if all(per_minute(one) is not None for arms in results.values() for one in arms.values()):
        found = against(plan, results, lambda one: per_minute(one) or 0.0, ORDER)
        lines += said(found, lambda one: one.in_units("a minute"))
    else:
        lines.append("- Not compared: some arm used no answer.")
    lines += [
        "",
        "## 5. Learning curves",
        "",
        "Charts below; held-out tasks on the way:",
        "",
        *curves(plan, results),
        "",
    ]
    lines += ["## Variance, as description", "", *_variances(plan, results)]
    return lines


def curves(plan: Plan, results: Results) -> list[str]:
    """Return the mean over seeds at each look, with the lowest and the highest seed."""
    steps = [look["step"] for look in next(iter(next(iter(results.values())).values()))["looks"]]
    lines = ["| arm, reading | " + " | ".join(f"step {step}" for step in steps) + " |", "|---|" + "---:|" * len(steps)]
    for arm in plan.arms:
        for name in ("solo", "offered"):
            cells = []
            for at in range(len(steps)):
                values = [arms[arm.name]["looks"][at][name] for arms in results.values()]
                cells.append(f"{percent(fmean(values))} ({percent(min(values))} to {percent(max(values))})")
            lines.append(f"| {arm.name}, {name} | " + " | ".join(cells) + " |")
    return lines


def _variances(plan: Plan, results: Results) -> list[str]:
    """Describe the differences of tasks by a mixed model with random seeds and tasks."""
    first, seeds = plan.arms[0].name, sorted(results)
    lines = [
        f"Differences from {first} of each seed and task, solved without an expert: a mixed model with seeds and tasks "
        "as random effects. It describes these runs and tests nothing.",
        "",
        "| arm | mean | variance by seed | by task | rest |",
        "|---|---:|---:|---:|---:|",
    ]
    for arm in plan.arms[1:]:
        tried = [[{one["place"]: one["complete"] for one in results[seed][name]["solo"]} for name in (arm.name, first)]
                 for seed in seeds]  # fmt: skip
        found = components([[float(a[place] - b[place]) for place in sorted(a)] for a, b in tried])
        if found is not None:
            shares = " | ".join(percent(found.share(part)) for part in (found.seeds, found.tasks, found.rest))
            lines.append(f"| {arm.name} | {100 * found.mean:+.1f} points | {shares} |")
    return lines


def goals(one: Mapping[str, Any], always: Mapping[str, Any]) -> dict[str, bool]:
    """Return what the goal of asking wants of one seed."""
    return {
        "needed asks at least 90%": needed(one) >= NEEDED,
        "needless asks at most 5%": needless(one) <= NEEDLESS,
        "success at least that of always": offered(one) >= offered(always),
        "at most half of its asks": asks(one) <= asks(always) / 2,
    }


def prices(plan: Plan, results: Results) -> list[str]:
    first, seeds = plan.arms[0].name, sorted(results)
    priced = [arm for arm in plan.arms if arm.price]
    met = {
        arm.name: reached([goals(results[seed][arm.name], results[seed][first]) for seed in seeds]) for arm in priced
    }
    lines = [
        "## In short",
        "",
        "The goal, on held-out tasks: what it is, and in how many seeds each price meets it.",
        "",
    ]
    names = list(met[priced[0].name].alone)
    lines += ["| price of an ask | " + " | ".join(names) + " | all of them |", "|---|" + "---:|" * (len(names) + 1)]
    for arm in priced:
        found = met[arm.name]
        cells = [f"{found.alone[name]} of {found.seeds}" for name in names]
        lines.append(f"| {arm.price:g} | " + " | ".join(cells) + f" | **{found.together} of {found.seeds}** |")
    pairs = [(arm.name, first) for arm in priced]
    return [
        *lines, "", "Several prices are tried, so that the best of them is partly luck.", "",
        "## Success with an expert", "", *table(plan, results, offered),
        *said(against(plan, results, offered, pairs)), "",
        "## Needed asks", "", *table(plan, results, needed), "## Needless asks", "", *table(plan, results, needless),
        *said(against(plan, results, needless, pairs), fewer), "",
        "## Asks of a task", "", *table(plan, results, asks, "{:.2f}".format),
        "## Success without an expert", "", *table(plan, results, alone),
    ]  # fmt: skip


Line = Sequence[tuple[float, float, float, float]]
"""Of each place: mean over seeds, lowest and highest."""


def _chart(name: str, title: str, note: str, x: str, lines: Mapping[str, Line]) -> Chart:
    styles = dict(zip(lines, STYLES, strict=False))
    data, last = [], []
    for arm, line in lines.items():
        if len(line) > 1:
            data.append(
                figures.band([(a, low) for a, _, low, _ in line], [(a, high) for a, _, _, high in line], styles[arm])
            )
        data.append(figures.line([(a, mean) for a, mean, _, _ in line], styles[arm], ["" for _ in line]))
        last.append((line[-1][1], f"{line[-1][1]:.0f}% {figures.label(arm, 15)}", styles[arm]))
    layout = figures.layout(
        280, figures.axis(x), figures.shares(""), right=150, annotations=figures.ends(last, (-2, 102))
    )
    places = sorted({place for line in lines.values() for place, *_ in line})
    cells = {arm: {place: f"{mean:.0f}" for place, mean, _, _ in line} for arm, line in lines.items()}
    rows = [
        [f"{place:g}", *(cells[arm].get(place, "") for arm in lines)]
        for place in figures.thinned(places, figures.LISTED)
    ]
    ends = "; ".join(f"{arm} {line[-1][1]:.0f}%" for arm, line in lines.items())
    return Chart(name, title, note, f"{title}, at the end: {ends}", [x, *lines], rows, {"data": data, "layout": layout})


def _line(values: Mapping[float, Sequence[float]]) -> Line:
    return [(at, 100 * fmean(some), 100 * min(some), 100 * max(some)) for at, some in sorted(values.items()) if some]


def charts(plan: Plan, starts: Mapping[int, Mapping[str, Any]], results: Results) -> list[Chart]:
    """Return the six charts of pull request 428, from these runs."""
    note = "Mean of the seeds, and the area from the lowest to the highest."

    def steps(of: Callable[[Mapping[str, Any]], float | None]) -> dict[str, Line]:
        found: dict[str, Line] = {}
        for arm in plan.arms:
            values = {
                at + 1: [v for arms in results.values() if (v := of(arms[arm.name]["steps"][at])) is not None]
                for at in range(plan.steps)
            }
            if line := _line(values):
                found[arm.name] = line
        return found

    def looks(name: str) -> dict[str, Line]:
        first = [starts[seed]["look"][name] for seed in results]
        return {
            arm.name: _line({0: first} | {
                look["step"]: [arms[arm.name]["looks"][at][name] for arms in results.values()]
                for at, look in enumerate(next(iter(results.values()))[arm.name]["looks"])
            })
            for arm in plan.arms
        }  # fmt: skip

    def share(parts: Mapping[str, Sequence[int]]) -> float | None:
        of = sum(one[-1] for one in parts.values())
        return sum(one[0] for one in parts.values()) / of if of else None

    step = "training step"
    return [
        _chart("errors", "Rollouts without an executable call", note, step,
               steps(lambda s: s["errors"] / max(1, s["counted"]))),
        _chart("help", "Rollouts that could ask", note, step,
               steps(lambda s: sum(one[-1] for one in s["helped"].values()) / max(1, s["counted"]))),
        _chart("alone", "Complete in training, alone", note, step, steps(lambda s: share(s["solo"]))),
        _chart("helped", "Complete in training, with an expert", note, step, steps(lambda s: share(s["helped"]))),
        _chart("held-alone", "Complete of held-out tasks, alone", note, step, looks("solo")),
        _chart("held-helped", "Complete of held-out tasks, with an expert", note, step, looks("offered")),
    ]  # fmt: skip


def price_charts(plan: Plan, results: Results) -> list[Chart]:
    """Return success and asks against the price of an ask."""
    if not results or not any(arm.price for arm in plan.arms):
        return []
    kinds = {"complete": offered, "needed asks": needed, "needless asks": needless}
    lines = {
        name: _line({arm.price: [of(arms[arm.name]) for arms in results.values()] for arm in plan.arms})
        for name, of in kinds.items()
    }
    note = "Held-out tasks with an expert; mean of the seeds, and the area from the lowest to the highest."
    return [_chart("success", "Success and asks by price", note, "price of an ask", lines)]
