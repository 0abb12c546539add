"""The report of a run as files: Markdown with the sentences, CSV tables, drawings, and the plan that repeats it.

Called by the command `report`. Says only what `compare.py` allows; the episodes themselves are an export's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runs import drawing, rewarding, spending
from runs.compare import Contrast, count, points
from runs.comparison import Comparison
from runs.costs import Cost
from runs.difficulty import ByDifficulty
from runs.offers import Effect
from runs.tables import TABLES, Row, in_csv, plan_file, repeats

MARKS = str.maketrans({mark: f"\\{mark}" for mark in r"\`*_{}[]<>#|!"})


def write(found: Comparison, folder: Path) -> list[Path]:
    """Write the report into a folder, over an earlier one of the same names, and return its files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        (folder / f"{name}.csv").write_text(in_csv(name, found), encoding="utf-8")
    (folder / "plan.yaml").write_text(plan_file(found.plan), encoding="utf-8")
    drawing.completions(found, folder / "completions.png")
    for place, one in enumerate(found.contrasts, 1):
        drawing.differences(one, folder / f"differences-{place}.png")
    paid = rewarding.rows(found.plan)
    profiles = list(dict.fromkeys(profile for profile, *_ in rewarding.means(paid)))
    for profile in profiles:
        drawing.rewards(profile, paid, folder / f"rewards-{profile}.png")
    (folder / "report.md").write_text(markdown(found, paid), encoding="utf-8")
    drawn = [f"differences-{place}.png" for place in range(1, len(found.contrasts) + 1)]
    drawn += [f"rewards-{profile}.png" for profile in profiles]
    names = ["report.md", "plan.yaml", *(f"{name}.csv" for name in TABLES), "completions.png", *drawn]
    return [folder / name for name in names]


def markdown(found: Comparison, paid: Sequence[Row]) -> str:
    """Return the report's text; `paid` are the rows of shaped rewards."""
    plan = found.plan
    policies = dict(plan.arms.values_list("name", "policy"))
    parts = [
        f"# {_plain(plan.run.name)}",
        f"**{_plain(found.sentence)}**",
        f"Run {plan.run_id}, {plan.state}. {count(plan.seeds, 'seed')} per task and arm. "
        f"Control: {_plain(plan.control)}.",
        "## Arms",
        _table(
            ["arm", "policy", "expert", "planned", "ended", "complete", "not complete", "left out"],
            [
                [
                    _plain(arm.name),
                    _plain(policies[arm.name]),
                    f"{arm.expert}, {_plain(arm.briefing)}" if arm.briefing else arm.expert,
                    arm.planned,
                    arm.ended,
                    arm.complete,
                    arm.others,
                    _reasons(arm.excluded),
                ]
                for arm in found.arms
            ],
        ),
        "![Complete episodes by arm](completions.png)",
    ]
    if found.ruled_later:
        named = ", ".join(_plain(task) for task in found.ruled_later[:20])
        parts.append(f"Ruled at fault after the launch, and still counted: {named}.")
    for place, (one, levels) in enumerate(zip(found.contrasts, found.levels, strict=True), 1):
        parts += _of_contrast(one, place)
        parts += _of_difficulty(levels)
    for effect in found.effects:
        parts += _of_help(effect)
    if seeds := repeats(found.tries, [arm.name for arm in found.arms]):
        rows = [
            [one.k, _plain(arm), one.tasks, f"{one.any_of[arm]:.3f}", f"{one.all_of[arm]:.3f}"]
            for one in seeds
            for arm in one.any_of
        ]
        parts += ["## Repeats", _table(["k", "arm", "tasks", "pass@k", "pass^k"], rows)]
    parts += _of_costs(spending.costs_of(plan.run))
    parts += _of_rewards(rewarding.means(paid))
    parts += ["## Repeat this run", "```\n.venv/bin/python manage.py run plan.yaml\n```"]
    return "\n\n".join(parts) + "\n"


def _of_contrast(one: Contrast, place: int) -> list[str]:
    parts = [f"## {_plain(one.arm)} against {_plain(one.control)}", _plain(one.sentence)]
    said = [("These tasks", one.tasks_scope), ("Scenarios like these", one.scenarios_scope)]
    lines = [f"- {words}: {_plain(scope.sentence)} Method: {scope.method}." for words, scope in said if scope]
    if one.tasks_scope is None:
        lines.append(f"- At any time: {_plain(one.running.sentence)}")
    lost = one.exclusions
    if lost.treated or lost.control:
        low, high = (points(bound) for bound in lost.bounds)
        lines.append(
            f"- Lost with {_plain(one.arm)}: {_reasons(lost.treated)} (of {lost.treated_planned}); with "
            f"{_plain(one.control)}: {_reasons(lost.control)} (of {lost.control_planned}). Whatever they were, the "
            f"difference lies between {low} and {high}."
        )
    if one.sharing:
        lines.append(f"- {count(one.sharing, 'task')} share an answer with another task; those that do are one unit.")
    rows = [[_plain(row.scenario), row.tasks, row.won, row.lost, f"{row.delta:+.2f}"] for row in one.scenarios]
    table = _table(["scenario", "tasks", "won", "lost", "difference"], rows)
    if one.price is not None:
        lines.append(f"- Price: {one.price.sentence}")
    return [*parts, "\n".join(lines), f"![Differences](differences-{place}.png)", table]


def _of_difficulty(levels: ByDifficulty | None) -> list[str]:
    if levels is None:
        return []
    rows = [
        [one.name, one.tasks, one.won, one.lost, f"{one.control_rate:.2f}", f"{one.delta:+.2f}"]
        for one in levels.levels
    ]
    words = f"By difficulty: {levels.basis}. Descriptive, without a test."
    return [words, _table(["level", "tasks", "won", "lost", "control", "difference"], rows)]


def _of_help(one: Effect) -> list[str]:
    """Return what the draw of offers shows, and apart from it what no one drew."""
    lines = [
        f"- Method: {one.method}. Each episode was offered help with chance {one.chance:g}, drawn before it began."
    ]
    if one.price is not None:
        lines.append(f"- Price: {one.price.sentence}")
    if one.lost.offered or one.lost.withheld:
        low, high = (points(bound) for bound in one.lost.bounds)
        lines.append(
            f"- Left out: {_reasons(one.lost.offered)} with help offered, {_reasons(one.lost.withheld)} without. "
            f"Whatever they were, the change lies between {low} and {high}."
        )
    basis = [(group, "drawn") for group in one.drawn] + [(group, "descriptive") for group in one.described]
    rows = [[group.name, way, group.counted, group.complete] for group, way in basis]
    words = "Who asks was not drawn: the descriptive rows show no effect of asking."
    table = _table(["episodes", "basis", "counted", "complete"], rows)
    return [f"## Help offered by draw in {_plain(one.arm)}", _plain(one.sentence), "\n".join(lines), table, words]


def _of_costs(costs: Sequence[Cost]) -> list[str]:
    """Return what each arm took, whether or not its episodes count in a rate."""
    columns = ["arm", "episodes", "tokens in", "tokens out", "expert tokens", "episode time", "people's time", "money"]
    rows = [[_plain(one.arm), one.episodes, *one.counts, *one.minutes, _plain(one.money)] for one in costs]
    words = (
        "Every episode that began, those included that a retry replaced. Money is at the prices of the launch. "
        "Episode time adds up the ended episodes."
    )
    return ["## Costs", words, _table(columns, rows)]


def _of_rewards(means: Sequence[tuple[str, str, int, float]]) -> list[str]:
    """Return shaped rewards apart: they pay solo and helped episodes differently, so they compare no arms."""
    if not means:
        return []
    rows = [[profile, _plain(arm), episodes, f"{mean:.3f}"] for profile, arm, episodes, mean in means]
    words = "Mean reward by profile. Profiles pay helped episodes differently, so these numbers do not compare arms."
    drawn = [f"![Mean {profile}](rewards-{profile}.png)" for profile in dict.fromkeys(profile for profile, *_ in means)]
    return ["## Shaped rewards", words, _table(["profile", "arm", "episodes", "mean"], rows), *drawn]


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {_plain(reason)}" for reason, count in sorted(counts.items())) or "none"


def _plain(text: str) -> str:
    """Return one line of text that Markdown shows as it is; names come from datasets and plans."""
    return " ".join(text.split()).translate(MARKS)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)
