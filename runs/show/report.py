"""The report of a run as files: Markdown with the sentences, CSV tables, drawings, and the plan that repeats it.

Called by the command `report`. Contains only conclusions of `compare.py`; the episodes themselves belong to an export.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from episodes.models import EXPERT_WORDS, ExpertMode
from people.access import system
from people.text.figures import Chart
from people.text.in_words import count
from people.text.plain_text import printable
from runs.models import Plan
from runs.plan import spending
from runs.plan.servers import ServerReport
from runs.show import asking, causes, charts, checkable, curve, helping, model_turns, pictures, rewarding
from runs.show.comparison import RunComparison
from runs.show.tables import (
    TABLES,
    Row,
    in_csv,
    of_completions,
    plan_file,
    repeats,
)
from runs.statistics.contrast import Contrast
from runs.statistics.corrected import BLIND
from runs.statistics.costs import Cost
from runs.statistics.difficulty import ByDifficulty
from runs.statistics.offers import Effect
from runs.statistics.self_control import WORDS as SELF_CONTROL
from runs.statistics.sentences import EXPLORATORY, points

# what Markdown would read as markup
MARKS = str.maketrans({mark: f"\\{mark}" for mark in r"\`*_{}[]<>#|!"})


def write(comparison: RunComparison, folder: Path, more: Sequence[str] = ()) -> list[Path]:
    """Write the report into a folder, over an earlier one with the same names, and return its files. `more` are
    Markdown sections from other modules."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        (folder / f"{name}.csv").write_text(in_csv(name, comparison), encoding="utf-8")
    (folder / "plan.yaml").write_text(plan_file(comparison.plan), encoding="utf-8")
    (folder / "report.json").write_text(json.dumps(checkable.document(comparison), indent=1), encoding="utf-8")
    paid = rewarding.rows(comparison.plan)
    drawings = _drawings(comparison, paid, asking.asking_of(comparison))
    pictured = drawings if pictures.are_possible() else {}
    for name, chart in pictured.items():
        pictures.draw(chart, folder / f"{name}.png")
    (folder / "report.md").write_text(markdown(comparison, paid, drawings, more), encoding="utf-8")
    names = ["report.md", "report.json", "plan.yaml", *(f"{name}.csv" for name in TABLES)]
    names += [f"{name}.png" for name in pictured]
    return [folder / name for name in names]


def _drawings(comparison: RunComparison, paid: Sequence[Row], asked: asking.RunAsking | None) -> dict[str, Chart]:
    """Return the charts of the run's page, by the name of their file."""
    modes = {arm.name: arm.expert for arm in comparison.arms}
    forests = [charts.forest(one, modes[one.arm], "") for one in comparison.contrasts]
    groups = {"completions": charts.completions(comparison.arms, of_completions(comparison), "")}
    for profile in dict.fromkeys(row["profile"] for row in paid):
        mine = [row for row in paid if row["profile"] == profile]
        groups[f"rewards-{profile}"] = charts.rewards(mine, comparison.arms, "")
    named = {f"differences-{place}": chart for place, chart in enumerate(forests, 1) if chart}
    plotted, is_open = curve.points_of(comparison, asked), any(one.is_open for one in comparison.tries)
    named |= curve.charts(plotted, "", is_open=is_open, at_random=curve.random_of(comparison, plotted))
    for name, group in groups.items():  # more arms than a reader can distinguish get a second chart
        named |= {f"{name}-{place}" if place > 1 else name: chart for place, chart in enumerate(group, 1)}
    return named


def markdown(
    comparison: RunComparison, paid: Sequence[Row], drawings: Mapping[str, Chart], more: Sequence[str] = ()
) -> str:
    """Return the report's text; `paid` are the rows of shaped rewards, `drawings` are by file, `more` are sections from
    other modules."""
    plan = comparison.plan
    policies = dict(plan.arms.values_list("name", "policy"))
    parts = [
        f"# {plain(plan.run.name)}",
        f"**{plain(comparison.sentence)}**",
        f"Run {plan.run_id}, {plan.state}. {count(plan.seeds, 'seed')} per task and arm. "
        f"Control: {plain(plan.control)}.",
        f"What it says was fixed at its launch (SHA-256 {comparison.claims.digest}): {_claims_text(comparison)}. "
        "Each interval is for itself.",
        "## Arms",
        table(
            ["arm", "policy", "kind", "planned", "ended", "complete", "not complete", "left out"],
            [
                [
                    plain(arm.name),
                    plain(policies[arm.name]),
                    ", ".join(filter(None, (EXPERT_WORDS[ExpertMode(arm.expert)], plain(arm.briefing)))),
                    arm.planned,
                    arm.ended,
                    arm.complete,
                    arm.others,
                    _reasons(arm.excluded),
                ]
                for arm in comparison.arms
            ],
        ),
        *(f"{plain(arm.name)}: {plain(arm.corrected.sentence)}" for arm in comparison.arms if arm.corrected),
        *([BLIND] if any(arm.corrected for arm in comparison.arms) else []),
        *_of_asks(comparison),
        *_drawn(drawings, "completions"),
        *_of_causes(comparison),
        *_of_turns(comparison),
        *_of_server(plan),
    ]
    if comparison.ruled_later:
        named = ", ".join(plain(task) for task in comparison.ruled_later[:20])
        parts.append(f"Ruled at fault after the launch, and still counted: {named}.")
    for place, (contrast, levels) in enumerate(zip(comparison.contrasts, comparison.levels, strict=True), 1):
        parts += _of_contrast(contrast, _drawn(drawings, f"differences-{place}"))
        parts += _of_difficulty(levels)
    for effect in comparison.effects:
        parts += _of_help(effect)
    if seeds := repeats(comparison.ends, [arm.name for arm in comparison.arms]):
        rows = [
            [repeat.k, plain(arm), repeat.tasks, repeat.any_of[arm].words, repeat.all_of[arm].words]
            for repeat in seeds
            for arm in repeat.any_of
        ]
        parts += [
            "## Repeats",
            f"{EXPLORATORY.capitalize()}. Each interval is at 95%.",
            table(["k", "arm", "tasks", "pass@k", "pass^k"], rows),
        ]
    parts += _of_curve(comparison, drawings)
    parts += _of_asking(asking.asking_of(comparison))
    parts += _of_costs(spending.costs_of(plan.run))
    parts += _of_rewards(rewarding.means(paid), _drawn(drawings, "rewards"))
    parts += more
    parts += [] if pictures.are_possible() else [pictures.MISSING]
    parts += ["## Repeat this run", "```\n.venv/bin/python manage.py run plan.yaml\n```"]
    return "\n\n".join(parts) + "\n"


def _of_asks(comparison: RunComparison) -> list[str]:
    """Return how the asks of each arm ended; nothing for a run without asks."""
    ended = helping.of_arms(comparison.plan, [arm.name for arm in comparison.arms])
    return ["\n".join(f"- {plain(one.arm)}, {one.words}" for one in ended)] if ended else []


def _of_causes(comparison: RunComparison) -> list[str]:
    """Return why episodes failed, wait or have no outcome, grouped."""
    why = causes.causes_of(system(comparison.plan.run.project), comparison.plan.run)
    if not why.shown:
        return []
    more = [f"- {count(why.more, 'more episode')} with other causes"] if why.more else []
    return ["## Causes", "\n".join([*(f"- {one.line}: {plain(one.words)}" for one in why.shown), *more])]


def _of_turns(comparison: RunComparison) -> list[str]:
    """Return which turns of models were cut off, not read, or had calls in their words."""
    run = comparison.plan.run
    lines = [f"- {plain(line)}" for arm in model_turns.turns_of(system(run.project), run) for line in arm.lines]
    return ["## Turns of the models", "\n".join(lines)] if lines else []


def _of_server(plan: Plan) -> list[str]:
    """Return what a further environment server said of itself at the launch, and what cannot be had of it."""
    if not plan.server:
        return []
    server, name = ServerReport(**plan.server), plain(plan.document["environment"])
    return ["## Environment", " ".join([f"{name} at the launch: {plain(server.words)}.", *map(plain, server.offers)])]


def _claims_text(comparison: RunComparison) -> str:
    """Return the statements of the plan, with their errors."""
    return (
        "; ".join(
            f"{plain(row.arm)} {f'against {plain(row.control)}' if row.control else 'with an offer and without'}, "
            f"error {100 * row.planned:.3g}% at the planned size and {100 * row.running:.3g}% while running"
            for row in comparison.claims.said
        )
        or "no statement, as there is nothing to compare"
    )


def _drawn(drawings: Mapping[str, Chart], name: str) -> list[str]:
    """Return the pictures of one file name, and of those with the same name and a number; none without matplotlib."""
    if not pictures.are_possible():
        return []
    return [
        f"![{plain(chart.says)}]({file}.png)"
        for file, chart in drawings.items()
        if file == name or file.startswith(f"{name}-")
    ]


def _of_contrast(contrast: Contrast, drawn: Sequence[str]) -> list[str]:
    parts = [f"## {plain(contrast.arm)} against {plain(contrast.control)}", plain(contrast.sentence)]
    scopes = [("These tasks", contrast.tasks_scope), ("Scenarios like these", contrast.scenarios_scope)]
    lines = [f"- {words}: {plain(scope.sentence)} Method: {scope.method}." for words, scope in scopes if scope]
    if contrast.tasks_scope is None:
        lines.append(f"- At any time: {plain(contrast.running.sentence)}")
    lost = contrast.exclusions
    if lost.treated or lost.control:
        low, high = (points(bound) for bound in lost.bounds)
        lines.append(
            f"- Lost with {plain(contrast.arm)}: {_reasons(lost.treated)} (of {lost.treated_planned}); with "
            f"{plain(contrast.control)}: {_reasons(lost.control)} (of {lost.control_planned}). Whatever they were, the "
            f"difference lies between {low} and {high}."
        )
    if contrast.sharing:
        lines.append(
            f"- {count(contrast.sharing, 'task')} share an answer with another task; those that do are one unit."
        )
    if contrast.added is not None:
        lines.append(f"- With the seeds that were added: {points(contrast.added)}. {EXPLORATORY.capitalize()}.")
    if contrast.corrected is not None:
        lines.append(f"- {plain(contrast.corrected.sentence)}")
    if contrast.against_itself:
        lines.append(f"- {SELF_CONTROL.format(plain(contrast.control))} {plain(contrast.against_itself)}")
    rows = [
        [plain(row.scenario), row.tasks, row.won, row.lost, f"{row.delta:+.2f}", f"{row.shrunk:+.2f}"]
        for row in contrast.scenarios
    ]
    by_scenario = table(["scenario", "tasks", "won", "lost", "difference", "shrunk"], rows)
    if contrast.price is not None:
        lines.append(f"- Price: {contrast.price.sentence} Of counted tries, {EXPLORATORY}.")
    return [*parts, "\n".join(lines), *drawn, f"By scenario: {EXPLORATORY}.", by_scenario]


def _of_difficulty(levels: ByDifficulty | None) -> list[str]:
    if levels is None:
        return []
    rows = [
        [level.name, level.tasks, level.won, level.lost, f"{level.control_rate:.2f}", f"{level.delta:+.2f}"]
        for level in levels.levels
    ]
    words = f"By difficulty: {levels.basis}. {EXPLORATORY.capitalize()}."
    return [words, table(["level", "tasks", "won", "lost", "control", "difference"], rows)]


def _of_help(offer: Effect) -> list[str]:
    """Return the effect of the draw of offers, and separately the parts that were not drawn."""
    lines = [
        f"- Method: {offer.method}. Each episode was offered help with chance {offer.chance:g}, drawn before it began."
    ]
    if offer.price is not None:
        lines.append(f"- Price: {offer.price.sentence} Of counted tries, {EXPLORATORY}.")
    if offer.lost.offered or offer.lost.withheld:
        low, high = (points(bound) for bound in offer.lost.bounds)
        lines.append(
            f"- Left out: {_reasons(offer.lost.offered)} with help offered, {_reasons(offer.lost.withheld)} without. "
            f"Whatever they were, the change lies between {low} and {high}."
        )
    basis = [(group, "drawn") for group in offer.drawn] + [(group, "descriptive") for group in offer.described]
    rows = [[group.name, way, group.counted, group.complete] for group, way in basis]
    words = "Who asks was not drawn: the descriptive rows show no effect of asking."
    by_group = table(["episodes", "basis", "counted", "complete"], rows)
    return [f"## Help offered by draw in {plain(offer.arm)}", plain(offer.sentence), "\n".join(lines), by_group, words]


def _of_curve(comparison: RunComparison, drawings: Mapping[str, Chart]) -> list[str]:
    """Return completion against asks, where the run has the curve; and gates that were withdrawn."""
    if "curve" not in drawings:
        return []
    chart = drawings["curve"]
    withdrawn = comparison.plan.arms.filter(withdrawn_at__isnull=False)
    lines = [f"The gate of {plain(arm.name)} was withdrawn: {plain(arm.withdrawn)}" for arm in withdrawn]
    rows = [[plain(cell) for cell in row] for row in chart.rows]
    words = [f"{plain(chart.title)} {EXPLORATORY.capitalize()}.", table(chart.columns, rows)]
    return ["## When to ask", *words, *lines, *_drawn(drawings, "curve")]


def _of_asking(asked: asking.RunAsking | None) -> list[str]:
    """Return how each arm asked; nothing if no task has a registry of blockers."""
    if asked is None:
        return []
    names = ["arm", "episodes", "asks", "asks_per_task", "precision", "recall", "f1", "human_minutes"]
    rows = [[plain(str(row[name])) or "none" for name in names] for row in map(asking.row_of, asked.arms)]
    words = (
        f"Counted episodes of the {count(asked.tasks, 'task')} with a registry of blockers, {EXPLORATORY}. A question "
        "counts if it matched a blocker that no earlier one of its episode did."
    )
    words += f" Ask-F1 of no thought: {asked.controls.words}." if asked.controls else ""
    columns = [name.replace("_", " ") for name in names]
    return ["## Asking", words, table(columns, rows), *(plain(one.words) for one in asked.differences)]


def _of_costs(costs: Sequence[Cost]) -> list[str]:
    """Return the cost of each arm, whether or not its episodes count in a rate."""
    columns = ["arm", "episodes", "tokens in", "tokens out", "expert tokens", "briefing tokens", "episode time"]
    columns += ["people's time", "money"]
    rows = [[plain(one.arm), one.episodes, *one.counts, *one.minutes, plain(one.money)] for one in costs]
    words = (
        "Every episode that began, those included that a retry replaced. Money is at the prices of the launch. "
        "Episode time adds up the ended episodes."
    )
    return ["## Costs", words, table(columns, rows)]


def _of_rewards(means: Sequence[tuple[str, str, int, float]], drawn: Sequence[str]) -> list[str]:
    """Return shaped rewards in a section of their own: they pay solo and helped episodes differently, so they compare
    no arms."""
    if not means:
        return []
    rows = [[profile, plain(arm), episodes, f"{mean:.3f}"] for profile, arm, episodes, mean in means]
    words = (
        f"Mean reward by profile, {EXPLORATORY}. Profiles pay helped episodes differently, so these numbers do not "
        "compare arms."
    )
    return ["## Shaped rewards", words, table(["profile", "arm", "episodes", "mean"], rows), *drawn]


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {plain(reason)}" for reason, count in sorted(counts.items())) or "none"


def plain(text: str) -> str:
    """Return one line of text that Markdown shows unchanged; names come from datasets and plans."""
    return printable(" ".join(text.split())).translate(MARKS)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)
