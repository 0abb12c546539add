"""The charts of a run's page, from values that are counted by hand."""

from __future__ import annotations

import json

import pytest

from runs.pages import one_run
from runs.show import charts
from runs.show.comparison import ArmCount
from runs.statistics.compare import Try, contrasts
from runs.statistics.deciding import statements
from tests.browsing import as_person, html
from tests.runs.planned import end, launched


def tried(task, arm, complete, position):
    return Try(task, task.partition("/")[0], arm, 0, position, 0, complete, "", None, None, False, 0.0, "", frozenset())


def contrast(outcomes):
    """Compare two arms; `outcomes` is (task, baseline complete, expert complete)."""
    tries = [
        tried(task, arm, complete, position)
        for position, (task, *both) in enumerate(outcomes)
        for arm, complete in zip(("baseline", "<b>expert"), both, strict=True)
    ]
    return contrasts(tries, statements(["baseline", "<b>expert"], "baseline"))[0]


GAIN = [("a/0", False, True), ("a/1", False, True), ("b/0", True, True), ("b/1", True, False), ("c/0", False, False)]


def test_forest_stands_by_difference_with_the_total_last():
    chart = charts.forest(contrast(GAIN), "plain", "/s.csv")
    marks = [trace for trace in chart.figure["data"] if trace["mode"] == "markers"]
    assert [trace["x"] for trace in marks] == [[100.0], [0.0], [-50.0], [20.0]]
    assert chart.figure["layout"]["yaxis"]["ticktext"] == ["a (2)", "c (1)", "b (2)", "All tasks (5)"]
    assert [row[0] for row in chart.rows] == ["a", "c", "b", "All tasks"]
    assert chart.rows[0][:5] == ["a", "2", "2", "0", "+100 points"] and chart.columns[5] == "Shrunk"
    assert 0 < int(chart.rows[0][5].split()[0]) < 100 and chart.rows[-1][5] == ""
    assert chart.says.startswith("Difference in completion of <b>expert minus baseline in 3 scenarios, from -50 points")
    texts = [one["text"] for one in chart.figure["layout"]["annotations"]]
    assert "no effect" in texts and "&lt;b&gt;expert better ▸" in texts


def test_forest_mark_is_hollow_where_its_interval_includes_zero():
    total = charts.forest(contrast(GAIN), "plain", "")
    assert total.figure["data"][-1]["marker"]["color"] == "--surface"
    sure = charts.forest(contrast([(f"a/{n}", False, True) for n in range(30)]), "informed", "")
    assert sure.figure["data"][-1]["marker"]["color"] == "--c4"


def test_forest_draws_some_of_many_scenarios_and_lists_all():
    many = [(f"s{n}/0", False, n % 2 == 0) for n in range(100)]
    chart = charts.forest(contrast(many), "off", "")
    assert len(chart.figure["layout"]["yaxis"]["ticktext"]) == 41 and len(chart.rows) == 101
    assert "40 of 100 scenarios are drawn." in chart.note


def test_forest_without_valid_tasks_is_none():
    assert charts.forest(contrast([("a/0", None, True)]), "plain", "") is None


def arm(name, expert="off"):
    return ArmCount(name, expert, "", 0, 0, 0, 0, 0, {})


def so_far(name, outcomes):
    return [
        {"arm": name, "counted": at, "complete": sum(outcomes[:at]), "rate": sum(outcomes[:at]) / at}
        for at in range(1, len(outcomes) + 1)
    ]


def test_completions_climb_along_the_planned_order():
    rows = [*so_far("baseline", [0, 1, 0]), *so_far("expert", [1, 1])]
    [chart] = charts.completions([arm("baseline"), arm("expert", "plain"), arm("idle")], rows, "/c.csv")
    assert [(trace["x"], trace["y"]) for trace in chart.figure["data"]] == [
        ([0, 1, 2, 3], [0, 0, 1, 1]),
        ([0, 1, 2], [0, 1, 2]),
    ]
    assert chart.says == "Complete episodes so far: baseline 1 of 3; expert 2 of 2."
    assert chart.columns == ["Counted", "baseline", "expert"]
    assert chart.rows == [["1", "0", "1"], ["2", "1", "2"], ["3", "1", ""]]
    assert {one["text"] for one in chart.figure["layout"]["annotations"]} == {"1 baseline", "2 expert"}


def test_completions_of_six_arms_are_two_charts():
    names = [f"arm {n}" for n in range(6)]
    rows = [row for name in names for row in so_far(name, [1] * 1000)]
    first, second = charts.completions([arm(name) for name in names], rows, "")
    assert (len(first.figure["data"]), len(second.figure["data"])) == (5, 1)
    assert len(first.figure["data"][0]["x"]) == 400 and len(first.rows) == 24 and first.left_out == 976
    assert len({json.dumps(trace["line"]) for trace in first.figure["data"]}) == 5


def test_rewards_are_means_so_far_and_leave_out_the_unpaid():
    paid = [
        ("pr428", "baseline", 2.0),
        ("pr428", "baseline", None),
        ("pr428", "baseline", 0.0),
        ("pr428", "expert", 1.0),
    ]
    rows = [{"profile": profile, "arm": name, "total": total} for profile, name, total in paid]
    [chart] = charts.rewards(rows, [arm("baseline"), arm("expert", "plain")], "")
    assert [trace["y"] for trace in chart.figure["data"]] == [[2.0, 1.0], [1.0]]
    assert chart.rows == [["1", "2.000", "1.000"], ["2", "1.000", ""]]
    assert "not a measure of success" in chart.note
    assert charts.rewards([], [arm("baseline")], "") == []


def test_rewards_that_are_all_zero_have_no_axis_below_it():
    [chart] = charts.rewards([{"profile": "pr428", "arm": "baseline", "total": 0.0}], [arm("baseline")], "")
    low, high = chart.figure["layout"]["yaxis"]["range"]
    assert (low, high) == (-0.06, 1.06)


@pytest.mark.django_db(transaction=True)
def test_page_holds_figures_as_data_and_loads_rewards_apart(ada, max_, monkeypatch):
    plan = launched(ada, tasks={"limit": 6})
    client = as_person(ada)
    assert "run_rewards" not in html(client.get(f"/runs/{plan.pk}/")) and "/charts/rewards" not in html(
        client.get(f"/runs/{plan.pk}/")
    )
    for one in plan.tries.select_related("arm"):
        end(one.episode_id, complete=one.arm.name == "expert")
    page = html(client.get(f"/runs/{plan.pk}/"))
    assert page.count('type="application/json"') == page.count("data-chart=") == 3
    assert 'id="plotly.js-style-global" class="no-inline-styles"' in page and "vendor/plotly" not in page
    assert f"/runs/{plan.pk}/charts/rewards" in page and "+100 points" in page
    drawn = html(client.get(f"/runs/{plan.pk}/charts/rewards"))
    assert "Shaped reward pr428, mean so far" in drawn and "Shaped reward bundle.v1, mean so far" in drawn
    assert as_person(max_).get(f"/runs/{plan.pk}/charts/rewards").status_code == 404
    monkeypatch.setattr(one_run, "REWARDS_DRAWN", 3)
    assert "/charts/rewards" not in html(client.get(f"/runs/{plan.pk}/"))
    assert "No episode was paid." in html(client.get(f"/runs/{plan.pk}/charts/rewards"))
