"""The charts of the page Curriculum, from values that are counted by hand."""

from __future__ import annotations

import random

import pytest

from curriculum.rules.ratio import (
    LAST_STEP,
    Measured,
    Override,
    Phase,
    Strategy,
    history,
)
from curriculum.show import charts
from curriculum.show.series import Series

COUNTS = ((1, 10, 9), (2, 0, 0), (3, 10, 5), (4, 10, 1))
MEASURED = [Measured(*counts, LAST_STEP) for counts in COUNTS]
"""90%, nothing counted, 50%, 10%. By the last step alone: Scaffold three times, then Balanced, then Independence."""
HELPS = history(MEASURED, size=8)


def test_format_errors_are_percent_with_band_limits_and_phases():
    chart = charts.format_errors(MEASURED, HELPS, dict.fromkeys(range(99), 999), "/f.csv")
    band, line = chart.figure["data"]
    assert (line["x"], line["y"]) == ([1, 3, 4], [90.0, 50.0, 10.0])
    assert band["y"][:3] == pytest.approx([59.58, 23.66, 1.79], abs=0.01)  # Wilson for 9, 5 and 1 of 10
    layout = chart.figure["layout"]
    assert [one["y0"] for one in layout["shapes"] if one.get("line", {}).get("dash") == "dot"] == [70, 40]
    assert [one["fillcolor"] for one in layout["shapes"] if one["type"] == "rect"] == ["--c2/16", "--c2/7"]
    assert {one["text"] for one in layout["annotations"]} >= {"Scaffold", "Balanced", "70%, above it<br>Scaffold"}
    heights = [one["yshift"] for one in layout["annotations"] if one["text"] in ("Scaffold", "Balanced")]
    assert heights == [0, 13], "neighbors that are wider than their bands do not meet"
    assert chart.says == "Format errors: 90% at step 1, 10% at step 4."
    assert chart.rows[0] == ["1", "9 of 10", "90%", "60 to 98%"] and chart.left_out <= 0
    assert charts.format_errors([Measured(1, 0, 0)], HELPS, {}, "") is None


def test_help_path_steps_down_to_the_step_to_come():
    chart = charts.help_path(HELPS, Strategy.ADAPTIVE, 8, "/f.csv")
    [line] = chart.figure["data"]
    assert (line["x"], line["y"], line["line"]["shape"]) == ([1, 2, 3, 4, 5], [75, 75, 75, 50, 25], "hvh")
    assert (
        chart.says == "Rollouts with an expert: 6 of 8 from step 1, then 4 of 8 from step 4, then 2 of 8 from step 5."
    )
    assert chart.rows[1] == ["4", "Balanced", "4", "4", ""]
    assert chart.figure["layout"]["xaxis"]["range"] == [0.5, 5.5]


def test_help_path_names_who_held_it():
    helps = history(MEASURED, [Override(Phase.SCAFFOLD, 3, "step", 4, by="Mina <b>")], size=8)
    chart = charts.help_path(helps, Strategy.ADAPTIVE, 8, "")
    assert "held by Mina &lt;b&gt;" in [one["text"] for one in chart.figure["layout"]["annotations"]]
    [bar] = [one for one in chart.figure["layout"]["shapes"] if one["type"] == "line"]
    assert (bar["x0"], bar["x1"]) == (3.5, 4.5)


def test_help_path_of_a_fixed_share_has_no_phases():
    chart = charts.help_path(HELPS, Strategy.ALWAYS, 8, "")
    assert chart.figure["data"][0]["y"] == [100] * 5 and chart.figure["layout"]["shapes"] == []


def test_interval_of_a_step_covers_when_rollouts_come_in_groups():
    """Sixteen tasks with eight rollouts each; what varies is the tasks. Rollouts as units covered 55 to 82%."""
    covered = {"by task": 0, "by rollout": 0}
    for number in range(300):
        dice = random.Random(number)
        part = sum(
            dice.random() < chance for chance in (dice.betavariate(0.4, 0.6) for _ in range(16)) for _ in range(8)
        )
        for name, units in (("by task", 16), ("by rollout", 128)):
            low, high = charts.interval(part, 128, units)
            covered[name] += low <= 0.4 <= high
    assert covered["by task"] >= 0.93 * 300 and covered["by rollout"] < 0.83 * 300


def test_success_has_a_line_and_a_band_for_each_arm():
    counts = {
        "episode/success_rate": {1: (2, 4), 2: (3, 4)},
        "episode/success_rate/solo": {1: (0, 2), 2: (1, 2)},
        "episode/success_rate/with_expert": {2: (2, 2)},
    }
    chart = charts.success(counts, {"/solo": {1: 2, 2: 2}, "/with_expert": {2: 2}}, "/s.csv")
    lines = chart.figure["data"][1::2]
    assert [(line["x"], line["y"]) for line in lines] == [([1, 2], [0, 50]), ([2], [100])]
    assert [line["line"]["dash"] for line in lines] == ["dash", "solid"]
    assert chart.says == "Complete: solo 50% at step 2; with expert 100% at step 2."
    assert chart.columns == ["Step", "Solo", "95%", "With expert", "95%"]
    assert chart.rows == [
        ["1", "0%, 0 of 2", "0 to 66%", "", ""],
        ["2", "50%, 1 of 2", "9 to 91%", "100%, 2 of 2", "34 to 100%"],
    ]
    assert charts.success({}, {}, "") is None


def test_completions_add_up_for_all_and_each_arm():
    series = {
        "episode/completions": Series("episode/completions", ((1, 1.0), (2, 3.0))),
        "episode/completions/solo": Series("episode/completions/solo", ((1, 1.0), (2, 1.0))),
    }
    chart = charts.completions(series, "")
    assert [line["y"] for line in chart.figure["data"]] == [[1.0, 1.0], [1.0, 3.0]]
    assert chart.rows == [["1", "1", "1"], ["2", "1", "3"]]
    assert chart.says == "Complete rollouts so far: solo 1; all 3."
    assert charts.completions({}, "") is None


def test_series_that_never_changes_has_no_axis_below_zero():
    for value, top in ((0.0, 1.0), (40.0, 40.0)):
        chart = charts.small(Series("episode/timeout_rate", ((1, value), (2, value))))
        low, high = chart.figure["layout"]["yaxis"]["range"]
        assert -0.2 * top < low < 0 and top < high < 1.2 * top
        assert chart.note == f"{value:g} at step 2, unchanged"


def test_small_chart_dashes_the_untrained_value_and_not_a_loss():
    chart = charts.small(Series("reward/<b>", ((1, 0.25), (2, 1.0))))
    [dashed] = chart.figure["layout"]["shapes"]
    assert dashed["y0"] == dashed["y1"] == 0.25
    assert chart.note == "1 at step 2, 0.25 to 1" and chart.rows == [["1", "0.25"], ["2", "1"]]
    assert charts.small(Series("loss/policy", ((1, 0.5), (2, 0.1)))).figure["layout"]["shapes"] == []
    long = charts.small(Series("reward/x", tuple((step, float(step)) for step in range(10_000))))
    assert len(long.figure["data"][0]["x"]) == 400 and len(long.rows) == 24 and long.left_out == 9976
