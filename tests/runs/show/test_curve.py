"""Completion against asks: the sentence about the arms, and a chart that names each of them apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.planted import shares
from bench.planted.case import PlantedCase
from runs.show import curve, gating
from runs.show.curve import NEVER, Point
from runs.statistics.compare import Try
from runs.statistics.gating import DrawnDecision
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
    low, high = curve.interval_of(alike)
    assert low < 0.3 and high > 0.7
    apart = {f"s{n}": [n % 2 == 0] * 10 for n in range(10)}
    low, high = curve.interval_of(apart)
    assert low < 0.2 and high > 0.8, "episodes of a scenario are alike, so they count for less"


@pytest.mark.parametrize("sizes", [[20], [20, 20], [60, 10, 10, 10, 10]])
def test_few_scenarios_have_no_interval(sizes):
    """Each episode alone counted: these covered 22 to 78%."""
    assert curve.interval_of({f"s{n}": [True, False] * (size // 2) for n, size in enumerate(sizes)}) is None
    assert curve.interval_of({f"s{n}": [True, False] * 10 for n in range(3)}) is not None


@pytest.mark.parametrize("scenarios", [36, 72])
def test_interval_takes_scenarios_with_one_answer_as_one(scenarios):
    """Each alone counted: it held the truth in 72%."""
    case = PlantedCase("curve", "", shares.curve_of_one_answer_covers(scenarios), covers=True)
    covered, of = case.counted(100)
    assert of == 100 and case.holds(covered, of)


def test_decisions_of_scenarios_with_one_answer_are_of_one():
    reads = {"s0": "a", "s1": "a", "s2": "b"}
    tries = [
        Try(f"{name}/0", name, "drawn", 0, place, complete=True, episode=name, shared=frozenset({answer}))
        for place, (name, answer) in enumerate(reads.items())
    ]
    joined = gating.joined_by(tries)
    assert joined == {"s0": "s0", "s1": "s0"}
    decisions = [DrawnDecision(name, name, (), True, 0.2, True, joined=joined.get(name, "")) for name in reads]
    assert [each.unit for each in decisions] == ["s0", "s0", "s2"]


def test_arm_without_an_interval_says_why():
    off, gate, *_ = POINTS
    chart = curve.charts([off, replace(gate, interval=None)], "")["curve"]
    few = "fewer than 3 scenarios without a common answer, or a few of them have most of the episodes."
    assert f"<b>gate has no interval: {few}" in chart.note
    assert [row[4] for row in chart.rows] == ["0% to 100%", "none"]
    assert [one["mode"] for one in chart.figure["data"]] == ["lines", "markers", "markers"]
