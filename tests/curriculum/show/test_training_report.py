"""The report of a run that trained: the charts of its page as PNG, turns beside their rewards, and curves as files."""

from __future__ import annotations

import json

import matplotlib.image
import pytest
from django.core.management import CommandError, call_command

from awmclient.schema import RunStart
from episodes.record import recording
from people.access import system
from tests.runs.planned import end, launched

pytestmark = pytest.mark.usefixtures("shop")
HOSTILE = "``` <script>alert(1)</script> \x1b[2J"
CHARTS = ["training-completions.png", "training-format-errors.png", "training-help-path.png", "training-success.png"]


def report(run, folder):
    call_command("report", run=run, output=folder, project="lab")
    return (folder / "report.md").read_text()


def test_report_of_training_has_charts_turns_and_curves(train, tmp_path):
    for step in (1, 2, 3):
        for place in range(6):
            said = {"kind": "message", "role": "assistant", "content": HOSTILE}
            expert = "plain" if place % 2 else "off"
            train.play(step, calls=[said], complete=place < 2 * step, expert=expert)
        train.report(step, components={"overall": step / 4, "$\\frac{1}$": 1.0}, losses={"policy": 1 / step})
    text = report("t-31", tmp_path)
    assert text.startswith("# t-31\n\n## Training\n\n") and "| Scaffold | above 70% |" in text
    drawn = sorted(path.name for path in tmp_path.glob("training-*.png"))
    assert drawn == sorted([*CHARTS, "training-series.png"]) and all(f"({name})" in text for name in drawn)
    for name in drawn:
        pixels = matplotlib.image.imread(tmp_path / name)
        assert pixels.shape[1] >= 1200 and pixels[:, :, :3].std() > 0.02, "something is drawn"
    assert "### Turns of step 3" in text and text.count(", turn ") == 5 and "The trainer reported" in text
    assert f"\n````\n{HOSTILE.partition(chr(27))[0]}" in text and "\x1b" not in text
    assert "shop/0, solo, turn 1 of 1: complete. pr428 -1.0 (format -1); bundle.v1 0.55 (primary 1, " in text
    turns = [json.loads(line) for line in (tmp_path / "turns.jsonl").read_text().splitlines()]
    assert [turn["training_step"] for turn in turns] == [1] * 5 + [2] * 5 + [3] * 5
    assert (tmp_path / "training.csv").exists() and not (tmp_path / "summary.json").exists()


def test_report_of_a_plan_has_its_training_too(ada, tmp_path):
    plan = launched(ada, tasks={"limit": 2})
    for one in plan.tries.all():
        end(one.episode_id)
    assert "## Training" not in report(plan.pk, tmp_path)


def test_report_needs_a_plan_or_training(train, project, tmp_path):
    recording.start_run(system(project), RunStart(name="bare"))
    with pytest.raises(CommandError, match="no plan and no training steps"):
        report("bare", tmp_path / "out")
    with pytest.raises(CommandError, match=r"^There is no run nope nope\.$"):
        report("nope nope", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    recording.start_run(system(project), RunStart(name="bare"))
    with pytest.raises(CommandError, match="2 runs are named bare. Use the ID."):
        report("bare", tmp_path)
