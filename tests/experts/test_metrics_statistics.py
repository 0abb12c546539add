"""Statistics of the desk and the rule of following: pure, no database."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.planted.beside import cases
from experts.metrics import pages, statistics
from experts.metrics.adherence import followed, next_call
from experts.metrics.records import DeskMetrics
from experts.metrics.statistics import (
    Asked,
    Called,
    Middle,
    Proportion,
    arm_lines,
    call_lines,
    desk_line,
    expert_lines,
    per_hour,
    ranks_below,
    sorted_lines,
)
from people.rates import wilson

EDO, SMALL = (
    {"source": "human", "author_key": "user:2", "author": "edo"},
    {"source": "llm", "author_key": "model:small"},
)
MERGE = {"name": "merge_tickets", "arguments": {"source": 4, "target": 7}}
TOOLS = {"merge_tickets", "get_ticket", "close_ticket"}


@pytest.mark.parametrize(
    ("part", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_a_share_has_the_interval_of_wilson(part, of, low, high):
    assert wilson(part, of) == pytest.approx((low, high), abs=1e-4)


def test_interval_of_asks_counts_an_episode_once():
    """Forty episodes that each ask three times, mostly with the same result: apart they covered less than 90%."""
    covered = {"episodes": 0, "asks": 0}
    for number in range(300):
        dice, asks = random.Random(number), []
        for episode in range(40):
            luck = dice.random() < 0.5
            asks += [Asked(f"e{episode}", read=luck if dice.random() < 0.8 else dice.random() < 0.5) for _ in range(3)]
        found = Proportion.of_asks(asks, lambda one: one.read)
        apart = Proportion.count(one.read for one in asks)
        assert (found.part, found.of) == (apart.part, 120)
        for name, one in (("episodes", found), ("asks", apart)):
            covered[name] += one.low <= 0.5 <= one.high
    assert covered["episodes"] >= 0.93 * 300 and covered["asks"] < 0.9 * 300


def test_without_a_case_there_is_no_share():
    assert Proportion.count([]) == Proportion() and Proportion.of_counts(0, 0, 0).value is None


@pytest.mark.parametrize(("n", "rank"), [(0, 0), (5, 0), (6, 1), (9, 2), (20, 6), (100, 40), (101, 40), (1000, 469)])
def test_median_interval_uses_binomial_ranks(n, rank):
    assert ranks_below(n) == rank


def test_a_median_keeps_quiet_about_what_few_values_cannot_tell():
    few, more = Middle.among([3, None, 1, 2]), Middle.among(range(1, 11))
    assert (few.n, few.median, few.low, few.p90) == (3, 2, None, None)
    assert (more.n, more.median, more.low, more.high, more.p90) == (10, 5.5, 2, 9, 9)
    assert Middle.among([None]) == Middle()


def test_useful_rate_is_read_answers_per_claimed_hour():
    rate = per_hour([Asked(e, took_s=900, read=True) for e in "abcd"] + [Asked("e", took_s=3600, read=False)])
    assert (rate.n, rate.hours, rate.value) == (5, 2.0, 2.0)
    assert rate.low < 2.0 < rate.high
    assert per_hour([Asked("e", took_s=900, read=True)]).low is None and per_hour([Asked("e")]).value is None


def test_a_rate_is_hidden_on_less_than_15_minutes_and_says_why():
    short = per_hour([Asked("e", took_s=0.16, read=True) for _ in range(60)])
    assert (short.n, short.value, short.low) == (60, None, None)
    assert pages._rate(short) == ("–", ("under 15\u00a0min of work",))
    assert per_hour([Asked("e", took_s=300, read=True)] * 3).value == 12.0
    assert pages._rate(per_hour([])) == ("–", ())


def test_a_single_case_has_a_share_and_no_interval():
    one = Proportion.count([True])
    assert (one.value, one.low, one.high) == (1.0, None, None)
    cell = pages._share("In time", one)
    assert (cell.value, cell.small, cell.start) == ("100%", ("1 of 1",), None)
    assert Proportion.count([True, True]).low is not None


def test_the_desk_counts_every_ask_once_and_every_episode_once():
    asks = [
        Asked("a", waited_s=10, took_s=5, read=True, complete=True, followed="followed", **EDO),
        Asked("a", waited_s=30, read=True, complete=True, followed="cannot_tell", drafted_by="small", kept=0.5, **EDO),
        Asked("b", status="fell_back", reason="deadline", source="fallback", complete=False, passed_by=("user:2",)),
        Asked("c", status="cancelled"),
        Asked("d", status="open", drawn=True),
    ]
    desk = desk_line(asks)
    assert (desk.asks, desk.answered, desk.open, desk.cancelled, desk.drawn) == (5, 2, 1, 1, 1)
    assert (desk.in_time.part, desk.in_time.of, desk.fell_back) == (2, 3, {"deadline": 1})
    assert (desk.completed.part, desk.completed.of) == (1, 2)
    assert (desk.followed.part, desk.followed.of, desk.cannot_tell) == (1, 1, 1)
    assert (desk.waited.median, desk.drafted.part, desk.kept.median, desk.passed.part) == (20, 1, 0.5, 1)


def test_waits_without_an_answer_are_longer_not_left_out():
    """Eight asks with a deadline of 60 s: three answers, and five that fell back. The median of the answers is 20 s."""
    asks = [Asked(f"{n}", waited_s=10.0 * n, asked_s=1000.0 * n) for n in (1, 2, 3)]
    asks += [Asked(f"{n}", waited_s=60.0, status="fell_back", asked_s=1000.0 * n) for n in range(4, 9)]
    found = desk_line(asks).waited
    assert (found.n, found.censored, found.median, found.high) == (3, 5, None, None)
    value, small = pages._middle(found)
    assert value == "not reached" and small[:2] == ("n = 3", "5 without an answer")
    assert pages._headline(DeskMetrics(None, None, desk_line(asks), [], [], [], False, 0)).endswith("not reached.")
    more = desk_line([*asks, *(Asked(f"{n}", waited_s=40.0, asked_s=1000.0 * n) for n in range(9, 13))]).waited
    assert (more.median, more.censored) == (40.0, 5)


def test_kaplan_meier_by_hand():
    """Ends at 1 and 3, one lost at 2: of three left after 1 two are at risk at 3, so 2/3 * 1/2 = 1/3 are left."""
    found = Middle.of_times([(1, True), (2, False), (3, True)], 3)
    assert (found.median, found.n, found.censored) == (3, 2, 1)
    curve = statistics._survival([(1, True), (2, False), (3, True), (4, False)])
    assert [(time, round(share, 4)) for time, share, _ in curve] == [(1, 0.25), (3, 0.625)]


def test_answer_to_a_group_is_one_answer_with_its_one_time():
    group = [Asked(f"e{n}", answer="ada/press", took_s=60.0 if n == 0 else 0.02, read=True) for n in range(8)]
    alone = [Asked(f"o{n}", took_s=300.0, read=True) for n in range(3)]
    found = desk_line([replace(one, **EDO) for one in (*group, *alone)])
    assert (found.took.n, found.took.median) == (4, 300.0)
    assert (found.per_hour.n, found.per_hour.value) == (4, pytest.approx(4 / (960.14 / 3600)))


def test_busy_period_is_one_unit():
    apart = [Asked(f"{n}", waited_s=5.0, asked_s=10.0 * n) for n in range(9)]
    together = [replace(one, waited_s=15.0) for one in apart]
    assert statistics.busy_periods(apart) == 9 and statistics.busy_periods(together) == 1
    assert desk_line(apart).waited.low == 5.0 and desk_line(together).waited.low is None


METRICS = [case for case in cases() if case.subject.startswith("Metrics")]


@pytest.mark.parametrize("case", METRICS, ids=[f"{one.subject}, {one.world}" for one in METRICS])
def test_intervals_cover_in_planted_worlds(case):
    """Tasks of several attempts, busy desks, deadlines and unequal episodes: these covered 44 to 76%."""
    assert case.holds(*case.counted(150))


def test_experts_have_what_they_sent_passed_and_sent_too_late():
    asks = [
        Asked("a", **EDO),
        Asked("b", drafted_by="small", kept=0.9, **EDO),
        Asked("c", status="fell_back", reason="deadline", late_by=("user:2",), **SMALL),
        Asked("d", passed_by=("user:2", "user:3"), **SMALL),
        Asked("e", source="cache", author_key="user:2", author="edo"),
    ]
    lines = {line.key: line for line in expert_lines(asks, {"user:3": "mina", "user:2": "edo", "model:small": "small"})}
    edo, small, mina, cache = (lines[key] for key in ("user:2", "model:small", "user:3", "cache"))
    assert (edo.kind, edo.name, edo.asks, edo.late) == ("person", "edo", 2, 1)
    assert (edo.in_time.part, edo.in_time.of) == (2, 3) and (edo.passed.part, edo.passed.of) == (1, 4)
    assert (edo.drafted.part, edo.drafted.of, edo.kept.median) == (1, 2, 0.9)
    assert (small.kind, small.asks, small.answered, small.prepared) == ("model", 2, 1, 1)
    assert (small.drafted.part, small.drafted.of) == (1, 2)
    assert (mina.name, mina.asks, mina.passed.part, cache.name, cache.asks) == ("mina", 0, 1, "Cache", 1)


def test_lines_of_arms_and_calls():
    arms = arm_lines([Asked("a", run="r", arm="people"), Asked("b", run="r", arm="models"), Asked("c")], {"r": "night"})
    assert [(line.name, line.arm, line.asks) for line in arms] == [
        ("night", "people", 1), ("night", "models", 1), ("No run", "", 1),
    ]  # fmt: skip
    calls = call_lines([Called("model:m", 10, 1.0), Called("model:m", 5, 3.0, "401"), Called("model:m", 0, 2.0, "401")])
    assert [(one.name, one.calls, one.tokens, one.words, one.faults.part) for one in calls] == [
        ("m", 3, 15, [("401", 2)], 2)
    ]


def test_what_has_no_figure_stands_last_in_either_order():
    lines = [desk_line([Asked("a", waited_s=wait)], name=name) for name, wait in (("x", None), ("y", 5.0), ("z", 9.0))]
    assert [line.name for line in sorted_lines(lines, "waited")] == ["y", "z", "x"]
    assert [line.name for line in sorted_lines(lines, "-waited")] == ["z", "y", "x"]


@pytest.mark.parametrize(
    ("text", "suggested", "call", "said"),
    [
        ("", [MERGE], MERGE, "followed"),
        ("", [MERGE], {"name": "merge_tickets", "arguments": {"source": "4", "target": 7, "note": "x"}}, "followed"),
        ("", [{"name": "get_ticket"}, MERGE], MERGE, "followed"),
        ("", [MERGE], {"name": "merge_tickets", "arguments": {"source": 4, "target": 9}}, "not_followed"),
        ("", [MERGE], {"name": "get_ticket", "arguments": {}}, "not_followed"),
        ("", [MERGE], None, "cannot_tell"),
        ("", [MERGE], {"name": "merge_tickets", "arguments": "broken"}, "not_followed"),
        ("Use merge_tickets.", [], MERGE, "followed"),
        ("Use merge_tickets with target 7.", [], MERGE, "followed"),
        ("Use merge_tickets with target 8.", [], MERGE, "cannot_tell"),
        ("First get_ticket, please.", [], MERGE, "not_followed"),
        ("Do not use merge_tickets.", [], MERGE, "cannot_tell"),
        ("Take get_ticket instead of merging.", [], MERGE, "cannot_tell"),
        ("Number 7 is the older one.", [], MERGE, "followed"),
        ("Number 77 is the older one.", [], MERGE, "cannot_tell"),
        ("Look at it again.", [], MERGE, "cannot_tell"),
        ("Close it as “Won by them”", [], {"name": "close", "arguments": {"why": ["won by them"]}}, "followed"),
        ("Yes, do it.", [], {"name": "close", "arguments": {"sure": True, "x": "do", "y": None}}, "cannot_tell"),
    ],
)
def test_an_advice_was_followed_or_not_or_nobody_can_tell(text, suggested, call, said):
    assert followed(text, suggested, call, TOOLS) == said


def test_calls_in_the_asking_turn_precede_the_answer():
    asked = {"kind": "ask", "turn": 3}
    same, later = {"kind": "tool_call", "turn": 3, "name": "a"}, {"kind": "tool_call", "turn": 4, "name": "b"}
    assert next_call([asked, same, {"kind": "ask", "turn": 4}, later]) == later
    assert next_call([asked, same]) is None and next_call([]) is None
    assert next_call([{"kind": "ask"}, {"kind": "tool_call", "name": "c"}]) == {"kind": "tool_call", "name": "c"}
