"""The report of a run: what it says is what the comparison allows, and its plan launches the same run."""

from __future__ import annotations

import csv
import math
import random
from dataclasses import replace

import pytest
import yaml
from django.core.management import CommandError, call_command

from runs.plan.plans import plan_from_yaml
from runs.show import pictures
from runs.show.tables import repeats
from runs.statistics.compare import Try
from tests.browsing import as_person, html
from tests.runs.planned import ARMS, ended_rows, rows_of_run

pytestmark = pytest.mark.django_db
PNG = b"\x89PNG\r\n\x1a\n"


def ended(actor, **how):
    """Six tasks that the expert wins, and the rest lost in both arms."""
    plan = rows_of_run(actor, 10, **how)
    rows = plan.tries.values_list("episode_id", "arm__name", "position")
    ended_rows({episode: arm == "expert" and position < 6 for episode, arm, position in rows})
    return plan


def test_report_holds_sentence_tables_charts_and_plan(ada, tmp_path, capsys):
    plan = ended(ada, scenarios=3)
    call_command("report", "--run", plan.pk, "--output", str(tmp_path / "out"), "--project", "lab")
    files = {path.name: path for path in (tmp_path / "out").iterdir()}
    assert sorted(capsys.readouterr().out.split()) == sorted(str(path) for path in files.values())
    text = files["report.md"].read_text()
    assert "**Better on these 10 tasks: +60 points" in text and "3 scenarios are too few" in text
    drawn = ("completions.png", "differences-1.png", "rewards-pr428.png", "rewards-bundle.v1.png")
    assert all(files[name].read_bytes().startswith(PNG) for name in drawn)
    assert all(f"({name})" in text for name in drawn) and "| baseline | script:demo | baseline | 10 |" in text
    rows = list(csv.DictReader(files["tries.csv"].open()))
    assert len(rows) == 20 and sum(int(row["complete"]) for row in rows) == 6
    assert [row["difference"] for row in csv.DictReader(files["scenarios.csv"].open())].count("0.5") == 1
    paid = list(csv.DictReader(files["rewards.csv"].open()))
    assert len(paid) == 40 and {row["total"] for row in paid if row["profile"] == "pr428"} == {"-1.0"}, "no calls"
    assert "| bundle.v1 | expert | 10 | " in text and "do not compare arms" in text
    assert plan_from_yaml(files["plan.yaml"].read_text()).digest == plan.digest
    assert yaml.safe_load(files["plan.yaml"].read_text())["name"] == "planted"


def test_report_without_matplotlib_says_how_to_get_charts(ada, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "are_possible", lambda: False)
    plan = ended(ada)
    call_command("report", "--run", plan.pk, "--output", str(tmp_path), "--project", "lab")
    text = (tmp_path / "report.md").read_text()
    assert pictures.MISSING in text and ".png)" not in text and "**Better on these 10 tasks" in text
    assert not list(tmp_path.glob("*.png")) and (tmp_path / "tries.csv").exists()


def test_report_of_a_running_run_has_no_fixed_test(ada, tmp_path):
    plan = rows_of_run(ada, 4)
    call_command("report", "--run", plan.pk, "--output", str(tmp_path), "--project", "lab")
    text = (tmp_path / "report.md").read_text()
    assert "and the first of 4 is not finished" in text and "McNemar" not in text


def test_report_shows_hostile_names_as_text(ada, tmp_path):
    names = [{"name": "=1+1|`x`<b>"}, {"name": "$\\frac{1}$", "expert": "plain"}]
    plan = rows_of_run(ada, 2, arms=names)
    call_command("report", "--run", plan.pk, "--output", str(tmp_path), "--project", "lab")
    assert "=1+1\\|\\`x\\`\\<b\\>" in (tmp_path / "report.md").read_text()
    assert "'=1+1|" in (tmp_path / "tries.csv").read_text()


def test_report_of_an_unknown_run_is_refused(ada, tmp_path):
    with pytest.raises(CommandError, match="."):
        call_command("report", "--run", "nothere", "--output", str(tmp_path), "--project", "lab")
    assert not list(tmp_path.iterdir())


def test_tables_are_downloaded_from_the_page(ada, rita, max_):
    plan = ended(ada, seeds=2)
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    for name in ("tries", "scenarios", "repeats", "completions"):
        address = f"/runs/{plan.pk}/tables/{name}.csv"
        assert address in page
        answer = as_person(rita).get(address)
        assert answer.status_code == 200 and answer.headers["Content-Disposition"].startswith("attachment")
        assert as_person(max_).get(address).status_code == 404
    assert "pass@k" in page and as_person(rita).get(f"/runs/{plan.pk}/tables/else.csv").status_code == 404


def test_repeats_have_hand_computed_values():
    """Eight seeds, two complete: pass@1, 2, 4, 8 are .25, .464, .786, 1, pass^2 is 1/28."""
    tries = [
        Try("a/0", "a", arm["name"], seed, 0, complete=seed < (2 if arm["name"] == "expert" else 0))
        for arm in ARMS
        for seed in range(8)
    ]
    tries += [Try("a/1", "a", "expert", seed, 1, complete=True) for seed in range(8)]  # not in both arms
    found = repeats(tries, ["baseline", "expert"])
    assert [(one.k, one.tasks, round(one.any_of["expert"].share, 3)) for one in found] == [
        (1, 1, 0.25), (2, 1, 0.464), (4, 1, 0.786), (8, 1, 1.0),
    ]  # fmt: skip
    assert round(found[1].all_of["expert"].share, 4) == round(1 / 28, 4) and found[0].any_of["baseline"].share == 0
    three = repeats([one for one in tries if one.seed < 3], ["baseline", "expert"])
    assert [(one.k, round(one.any_of["expert"].share, 3)) for one in three] == [(1, 0.667), (2, 1.0), (3, 1.0)]
    assert repeats(tries[:1], ["baseline", "expert"]) == []
    assert repeats([*tries, Try("a/2", "a", "expert", 0, 2)], ["baseline", "expert"]) == []  # one is open


def test_repeats_have_intervals_over_tasks():
    """Six tasks of two seeds, of which 0, 0, 1, 1, 2, 2 are complete: pass@2 is the mean of 0, 0, 1, 1, 1, 1."""
    tries = [
        Try(f"a/{task}", "a", arm, seed, task, complete=seed < task // 2 if arm == "expert" else True)
        for arm in ("baseline", "expert")
        for task in range(6)
        for seed in range(2)
    ]
    once, twice = repeats(tries, ["baseline", "expert"])
    wide = 2.570582 * math.sqrt((2 * (2 / 3) ** 2 + 4 * (1 / 3) ** 2) / 5 / 6)
    assert twice.any_of["expert"].span == (pytest.approx(2 / 3 - wide, abs=1e-6), 1.0)
    assert twice.any_of["expert"].words == f"0.667 [{2 / 3 - wide:.2f}, 1.00]"
    floor = 1.959964**2 / (6 + 1.959964**2)
    assert once.any_of["baseline"].span == (pytest.approx(1 - floor, abs=1e-6), 1.0), "nothing varied"
    few = repeats([one for one in tries if one.position < 2], ["baseline", "expert"])
    assert few[1].any_of["expert"].span is None, "2 tasks are too few"
    shared = [replace(one, shared=frozenset({"answer"})) if one.arm == "expert" else one for one in tries]
    joined = repeats(shared, ["baseline", "expert"])[1]
    assert joined.any_of["expert"].span is None and joined.any_of["baseline"].span is not None


def test_interval_of_repeats_near_one_covers():
    """Of forty tasks nearly all are complete in some of four seeds: what does vary may be missing; it covered 71%."""
    covered = 0
    for number in range(200):
        dice = random.Random(number)
        chances = [0.25 if dice.random() < 0.05 else 0.98 for _ in range(40)]
        truth = sum((1 - (1 - chance) ** 4) for chance in [0.25] * 2 + [0.98] * 38) / 40
        tries = [
            Try(f"s/{place}", "s", "only", seed, place, complete=dice.random() < chance)
            for place, chance in enumerate(chances)
            for seed in range(4)
        ]
        low, high = repeats(tries, ["only"])[-1].any_of["only"].span
        covered += low <= truth <= high
    assert covered >= 0.93 * 200
