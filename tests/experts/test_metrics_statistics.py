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
    Proportion,
    arm_lines,
    call_lines,
    desk_line,
    expert_lines,
    per_hour,
    sorted_lines,
)
from experts.metrics.times import Middle, TimeEnd, _days, independent, ranks_below, reached_by_time
from people.rates import wilson

EDO, SMALL = (
    {"source": "human", "author_key": "user:2", "author": "edo"},
    {"source": "llm", "author_key": "model:small"},
)
MERGE = {"name": "merge_tickets", "arguments": {"source": 4, "target": 7}}
REACHED, LONGER, NEVER = TimeEnd.REACHED, TimeEnd.LONGER, TimeEnd.NEVER
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
    few, more = _among([3, None, 1, 2]), _among(range(1, 11))
    assert (few.n, few.median, few.low, few.p90) == (3, 2, None, None)
    assert (more.n, more.median, more.low, more.high, more.p90) == (10, 5.5, 2, 9, 9)
    assert _among([None]) == Middle()


def _among(values):
    return Middle.among((value, f"{place}", 1e6 * place) for place, value in enumerate(values))


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


def test_asks_that_fell_back_at_once_stay_among_all():
    """Eighteen of twenty fell back because too many waited: the page said 0:30."""
    asks = [Asked(f"{n}", waited_s=0.05, status="fell_back", asked_s=100.0 * n) for n in range(18)]
    seen = desk_line([*asks, *(Asked(f"{n}", waited_s=30.0, asked_s=100.0 * n) for n in (18, 19))]).waited
    assert (seen.n, seen.censored, seen.median) == (2, 18, None) and pages._middle(seen)[0] == "not reached"


@pytest.mark.parametrize(("fell_back", "median"), [(10, None), (9, 25.0)])
def test_median_is_not_reached_where_half_fell_back(fell_back, median):
    asks = [Asked(f"{n}", waited_s=6.0 + 2 * n, asked_s=100.0 * n) for n in range(19 - fell_back, -1, -1)]
    asks += [Asked(f"f{n}", waited_s=60.0, status="fell_back", asked_s=9000.0 + 100 * n) for n in range(fell_back)]
    assert desk_line(asks).waited.median == median


def test_withdrawn_asks_waited_as_long_as_they_were_open():
    """Ten agents ended after two minutes without an answer: the median of the other ten was 30 s."""
    asks = [Asked(f"{n}", waited_s=30.0, asked_s=1000.0 * n) for n in range(10)]
    asks += [Asked(f"c{n}", waited_s=120.0, status="cancelled", asked_s=1000.0 * n + 500) for n in range(11)]
    assert (desk_line(asks).waited.median, desk_line(asks).waited.censored) == (None, 11)


def test_wait_for_people_outlasts_the_answer_of_a_program():
    asks = [Asked(f"{n}", waited_s=2.0, source="llm", asked_s=100.0 * n) for n in range(9)]
    asks += [Asked(f"p{n}", waited_s=40.0, asked_s=5000.0 + 100 * n, **EDO) for n in range(3)]
    assert statistics.waits(asks).median == 2.0 and statistics.waits(asks, for_people=True).median == 40.0
    assert statistics.waits(asks[:9], for_people=True).words == "none yet"


def test_share_reached_by_hand():
    """Reached at 1 and 3, one lost at 2: of three left after 1 two are at risk at 3, so 2/3 * 1/2 = 1/3 are left."""
    seen = Middle.of_times([(1, REACHED), (2, LONGER), (3, REACHED)], 3)
    assert (seen.median, seen.n, seen.censored) == (3, 2, 1)
    for second, shares in ((LONGER, [(1, 0.25), (3, 0.625)]), (NEVER, [(1, 0.25), (3, 0.5)])):
        curve = reached_by_time([(1, REACHED), (2, second), (3, REACHED), (4, LONGER)])
        assert [(time, round(share, 4)) for time, share, _ in curve] == shares


def test_error_of_a_share_is_binomial_where_all_are_seen():
    curve = reached_by_time([(n, NEVER if n % 3 else REACHED) for n in range(30)])
    assert [wide for *_, wide in curve] == [pytest.approx(30**-0.5)] * 10


def test_answer_to_a_group_is_one_answer_with_its_one_time():
    group = [Asked(f"e{n}", answer="ada/press", took_s=60.0 if n == 0 else 0.02, read=True) for n in range(8)]
    alone = [Asked(f"o{n}", took_s=300.0, read=True) for n in range(3)]
    found = desk_line([replace(one, **EDO) for one in (*group, *alone)])
    assert (found.took.n, found.took.median) == (4, 300.0)
    assert (found.per_hour.n, found.per_hour.value) == (4, pytest.approx(4 / (960.14 / 3600)))


def test_fallbacks_after_each_other_are_one_unit():
    asks = [Asked(f"{n}", waited_s=1.0, asked_s=10.0 * n) for n in range(12)]
    away = [replace(ask, status="fell_back") if 3 <= n < 9 else ask for n, ask in enumerate(asks)]
    assert statistics.busy_periods(asks) == 12 and statistics.busy_periods(away) == pytest.approx(12**2 / (6 + 36))


def test_busy_period_is_one_unit():
    apart = [Asked(f"{n}", waited_s=5.0, asked_s=10.0 * n) for n in range(9)]
    together = [replace(one, waited_s=15.0) for one in apart]
    assert statistics.busy_periods(apart) == 9 and statistics.busy_periods(together) == 1
    assert desk_line(apart).waited.low == 5.0 and desk_line(together).waited.low is None


def test_values_that_follow_each_other_alike_are_fewer():
    alone = [(60.0 * n, float(n % 3 == 0)) for n in range(240)]
    blocks = [(60.0 * n, float(n // 20 % 2)) for n in range(240)]
    assert independent(alone) > 100 and independent(blocks) < 30
    apart = [(at_s + 86_400 * (at_s // 1200), value) for at_s, value in blocks]
    assert independent(apart) == pytest.approx(12)  # each day is one value
    assert independent([(n, 1.0) for n in range(9)]) == 9 and independent([]) == 0


def of_days(days, begin_h, every_h, size=10):
    """Cases of some days, alike in each of them."""
    return [
        (86_400.0 * day + 3600 * (begin_h + every_h * n), float(day % 2)) for day in range(days) for n in range(size)
    ]


def test_days_end_at_a_pause_or_midnight_and_count_from_three():
    never_closed, office = of_days(7, 0.5, 2.4), of_days(7, 9, 0.5)
    assert [len(_days([at_s for at_s, _ in some])) for some in (never_closed, office)] == [7, 7]
    assert independent(never_closed) == independent(office) == pytest.approx(7)
    assert independent(of_days(2, 9, 0.5, 5)) == 10  # of these days alone


def test_row_of_an_expert_counts_the_tasks_of_its_share():
    """Two answers of one task: the 30 asks that this person declined say nothing about being in time."""
    sent = [Asked("a", **EDO), Asked("a", status="fell_back", late_by=("user:2",))]
    (line,) = expert_lines([*sent, *(Asked(f"{n}", passed_by=("user:2",)) for n in range(30))], {})
    assert (line.in_time.part, line.in_time.of, line.in_time.low) == (1, 2, None)
    assert (line.passed.part, line.passed.of) == (30, 32) and line.passed.low is not None


METRICS = [case for case in cases() if case.subject.startswith("Metrics") and not case.stored]


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
