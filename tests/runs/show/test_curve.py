"""Completion against asks: the sentence about the arms, and a chart that names each of them apart."""

from __future__ import annotations

from dataclasses import replace

from runs.show import curve
from runs.show.curve import NEVER, Point
from runs.statistics.random_asking import RandomAsking


def point(arm, rule, complete, asks):
    looks = (rule.startswith("gate"), rule in ("never", "always", "random:0.3"))
    return Point(arm, rule, 100, complete, asks, 600.0, (0.0, 1.0), *looks)


POINTS = [
    point("off", "never", 12, 0),
    point("<b>gate", "gate 1f03c2aa", 61, 130),
    point("own", "own", 12, 3),
    point("drawn", "random:0.3", 27, 130),
    point("all", "always", 64, 640),
]


def test_sentence_sets_each_gate_beside_the_arm_that_asks_most():
    said = curve.sentence(POINTS)
    rest = "all 64% of 100 with 6.4 and off 12% of 100 with 0.0."
    assert said == f"With 1.3 asks per task, <b>gate completes 61% of 100; {rest}"
    words = "Complete, with asks per task: off 12% of 100 with 0.0; all 64% of 100 with 6.4."
    assert curve.sentence([POINTS[0], POINTS[4]]) == words


def test_chart_names_each_arm_apart_and_escapes_it():
    chart = curve.charts(POINTS, "/c.csv")["curve"]
    named = chart.figure["layout"]["annotations"]
    assert {one["text"] for one in named} >= {"&lt;b&gt;gate, 61% of 100", "own, 12% of 100", "off, 12% of 100"}
    heights = sorted(one["y"] for one in named)
    assert all(high - low >= curve.GAP for low, high in zip(heights, heights[1:], strict=False))
    marks = [one for one in chart.figure["data"] if one["mode"] == "markers"]
    assert [(one["x"][0], one["y"][0]) for one in marks] == [
        (0.0, 12.0),
        (0.03, 12.0),
        (1.3, 61.0),
        (1.3, 27.0),
        (6.4, 64.0),
    ]
    assert "dotted" not in chart.note, "no line joins rules: all rules lie above it"
    assert [row[0] for row in chart.rows] == [one.arm for one in POINTS] and chart.rows[1][6] == "0.10"
    assert "so far" not in chart.note and "so far" in curve.charts(POINTS, "", is_open=True)["curve"].note
    assert curve.charts(POINTS[:1], "") == {}


def test_dotted_line_is_random_asking_with_its_interval():
    rows = [RandomAsking(0.1, 0.6, 0.5, (0.4, 0.6)), RandomAsking(0.2, 1.1, 0.7, (0.6, 0.8))]
    chart = curve.charts(POINTS, "", at_random=rows)["curve"]
    band, line = chart.figure["data"][:2]
    assert (band["x"], band["y"]) == ([0.6, 1.1, 1.1, 0.6], [40.0, 60.0, 80.0, 60.0])
    assert (line["x"], line["y"], line["line"]["dash"]) == ([0.6, 1.1], [50.0, 70.0], "dot")
    assert "dotted: random offers" in chart.note and "timing" not in chart.note


def test_timing_is_said_only_where_the_gates_own_test_does():
    shown = curve.timing_of({"card": {"timing": {"mean": 0.1, "interval": [0.02, 0.18]}}})
    assert shown == (0.02, 0.18)
    for rule in (
        "random:0.3",
        {},
        {"card": {"timing": {"interval": None}}},
        {"card": {"timing": {"interval": [0, 1]}}},
    ):
        assert curve.timing_of(rule) is None
    (off, gate, *_) = POINTS
    note = curve.charts([off, replace(gate, timing=shown)], "")["curve"].note
    assert note.endswith("By its own test, the timing of <b>gate adds [+2, +18] points per episode.")


def test_curve_against_minutes_exists_where_people_answered():
    slow = [
        Point("off", NEVER, 10, 2, 0, 0.0, (0.0, 1.0)),
        Point("gate", "gate 1f", 10, 8, 4, 1800.0, (0.0, 1.0), True),
    ]
    chart = curve.charts(slow, "")["curve-minutes"]
    assert chart.title == "With 3.0 people's minutes per task, gate completes 80% of 10; off 20% of 10 with 0.0."
    assert [one["x"] for one in chart.figure["data"] if one["mode"] == "markers"] == [[0.0], [3.0]]
    assert chart.figure["layout"]["xaxis"]["title"]["text"] == "people's minutes per task"
    assert list(curve.charts([replace(one, human_s=0.0) for one in slow], "")) == ["curve"]


def test_interval_is_never_narrower_than_that_of_single_episodes():
    alike = {f"s{n}": [True, False] for n in range(10)}
    low, high = curve.interval_of(alike, 10, 20)
    assert low < 0.3 and high > 0.7
    apart = {f"s{n}": [n % 2 == 0] * 10 for n in range(10)}
    low, high = curve.interval_of(apart, 50, 100)
    assert low < 0.2 and high > 0.8, "episodes of a scenario are alike, so they count for less"
