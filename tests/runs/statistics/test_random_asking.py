"""Random asking at other rates than the drawn one, against numbers by hand."""

from __future__ import annotations

import pytest

from runs.statistics.gating import DrawnDecision
from runs.statistics.random_asking import RATES, DrawnEpisode, episodes_of, random_asking


def test_episode_counts_its_draws_and_asks():
    decisions = [DrawnDecision("e", "s", (), offered, 0.2, True, offered) for offered in (True, False, False)]
    assert episodes_of(decisions) == [DrawnEpisode("s", 0.2, 1, 3, 1, True)]


def test_weight_is_how_much_likelier_the_draws_are():
    assert DrawnEpisode("s", 0.2, 1, 3, 1, True).weight(0.4) == pytest.approx((0.4 * 0.6**2) / (0.2 * 0.8**2))


def test_other_rates_are_weighed_means_of_the_drawn_episodes():
    # one draw each: an offer completes the episode, nothing else does
    drawn = [DrawnEpisode(f"s{n % 10}", 0.5, n % 2, 1, n % 2, n % 2 == 1) for n in range(400)]
    rows = random_asking(drawn)
    assert [row.rate for row in rows] == list(RATES)
    for row in rows:
        assert row.complete == pytest.approx(row.rate) and row.per_task == pytest.approx(row.rate)
        assert row.interval[0] < row.rate < row.interval[1]


def test_rate_that_rests_on_few_episodes_is_left_out():
    drawn = [DrawnEpisode(f"s{n % 10}", 0.1, n % 4, 20, n % 4, n % 2 == 0) for n in range(100)]
    assert {row.rate for row in random_asking(drawn)} == {0.05, 0.1, 0.15, 0.2}
    assert random_asking([]) == []
