"""Known values of the methods of a comparison, each computed by two routes before it was written down here."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import pytest

from people.rates import student_quantile
from runs.statistics import power
from runs.statistics.anytime import (
    Unit,
    Wave,
    first_crossing,
    interval,
    log_e,
)
from runs.statistics.paired import (
    SMALLEST_P,
    cluster_interval,
    effective,
    holm,
    mcnemar,
    newcombe,
    pass_all,
    pass_at,
    shrink,
    sign_flip,
    tango,
)


@pytest.mark.parametrize(
    ("delta", "seeds", "discordant", "tasks"),
    [
        (0.1, 1, 0.3, 244),
        (0.1, 4, 0.3, 120),
        (0.1, 8, 0.3, 99),
        (0.2, 1, 0.3, 61),
        (0.2, 1, 0.4, 82),
        (0.3, 1, 0.4, 36),
    ],
)
def test_tasks_for_a_difference_have_known_values(delta, seeds, discordant, tasks):
    assert power.tasks_for(delta, seeds, discordant=discordant, level=0.05) == pytest.approx(tasks, abs=1)


def test_tests_at_four_and_a_half_percent_need_more_tasks():
    assert power.tasks_for(0.1) == pytest.approx(250.6, abs=0.1)


def test_smallest_difference_of_a_run_has_known_values():
    assert [round(power.smallest(n) or 0, 2) for n in (33, 100, 300)] == [0.28, 0.16, 0.09]
    assert power.smallest(5) is None and power.smallest(6, contrasts=9) is None
    assert power.smallest(24) > power.smallest(24, 4) and power.smallest(24, 4) < power.smallest(24, 4, contrasts=3)
    assert power.tasks_for(power.smallest(50, 2), 2) == pytest.approx(50, abs=0.01)


def close(value, wanted):
    return value == pytest.approx(wanted, abs=6e-5)


def wave(won, lost, n):
    return Wave((*[Unit(1)] * won, *[Unit(-1)] * lost, *[Unit(0)] * (n - won - lost)))


@pytest.mark.parametrize(
    ("won", "lost", "p"),
    [(0, 0, 1), (1, 0, 1), (5, 0, 0.0625), (6, 0, 0.03125), (12, 4, 0.0768), (9, 2, 0.0654), (8, 1, 0.0391), (7, 7, 1)],
)
def test_mcnemar_known_values(won, lost, p):
    assert close(mcnemar(won, lost), p)
    assert close(sign_flip([1] * won + [-1] * lost), p)


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ((0, 0, 0), (-1, 1)),
        ((0, 0, 1), (-0.7935, 0.7935)),
        ((0, 0, 33), (-0.1043, 0.1043)),
        ((5, 5, 33), (-0.1979, 0.1979)),
        ((5, 0, 33), (0.0314, 0.3092)),
        ((12, 4, 100), (0.0018, 0.1656)),
        ((40, 20, 160), (0.0309, 0.2181)),
        ((33, 0, 33), (0.7915, 1)),
        ((0, 33, 33), (-1, -0.7915)),
    ],
)
def test_tango_known_values(counts, wanted):
    assert close(tango(*counts), wanted)


def test_tango_of_six_wins_to_three_digits():
    assert tango(6, 0, 33) == pytest.approx((0.059, 0.344), abs=5e-4)


@pytest.mark.parametrize(
    ("sums", "p"),
    [([3, -1, 2, 2, -1, 4], 0.1875), ([1] * 5, 0.0625), ([0, 0, 0], 1), ([1, 2, 3, 4, 5, 6, 7], 0.0156)],
)
def test_sign_flip_known_values(sums, p):
    assert close(sign_flip(sums), p)
    assert close(sign_flip([Fraction(one, 4) for one in sums]), p)


def counted(sums):
    """Return the p of a sign-flip test by counting the sign patterns of every sum."""
    ways = Counter({0: 1})
    for one in sums:
        new = {total for old in ways for total in (old - one, old + one)}
        ways = Counter({total: ways[total - one] + ways[total + one] for total in new})
    return Fraction(sum(n for total, n in ways.items() if abs(total) >= abs(sum(sums))), 2 ** len(sums))


@pytest.mark.parametrize(("units", "lean"), [(13, 0.5), (60, 0.5), (250, 0.5), (250, 0.6), (250, 0.95)])
def test_sign_flip_agrees_with_counted_patterns(units, lean):
    dice = random.Random(units)
    sums = [dice.choice([1, 1, 2, 3, 7, 0]) * (1 if dice.random() < lean else -1) for _ in range(units)]
    assert sign_flip(sums) == pytest.approx(float(counted(sums)), rel=1e-11, abs=0)
    assert sign_flip([Fraction(one, 30) for one in sums]) == sign_flip(sums)


def test_sign_flip_of_equal_sums_is_mcnemar():
    for won, lost in ((1, 0), (30, 30), (700, 600), (8000, 7600), (900, 10)):
        assert sign_flip([1] * won + [-1] * lost) == pytest.approx(mcnemar(won, lost), rel=1e-10, abs=0)
    assert mcnemar(8000, 7600) == pytest.approx(0.0013996957276, rel=1e-9) and sign_flip([5]) == 1


@pytest.mark.parametrize("p", [mcnemar(1100, 0), sign_flip([1] * 1100), sign_flip([Fraction(1, 3)] * 2000)])
def test_no_p_is_zero(p):
    assert p == SMALLEST_P > 0


def test_newcombe_known_values():
    """The example of his paper: 56 of 70 and 48 of 80."""
    assert newcombe(56, 70, 48, 80) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))


def test_sign_flip_rounds_sums_of_odd_parts():
    """Means over very different numbers of seeds have no common part that could be counted through."""
    primes = [97, 89, 83, 79, 73, 71, 67, 61, 59, 53, 47, 43]
    sums = [Fraction((-1) ** (n % 3), prime) for n, prime in enumerate(primes)]
    parts = math.prod(one.denominator for one in sums)
    assert sign_flip(sums) == pytest.approx(float(counted([int(one * parts) for one in sums])), abs=0.002)


def test_cluster_interval_known_values():
    sums = [2, 0, 1, -1, 3, 1]
    delta, found = cluster_interval(sums, [3] * 6)
    assert close(delta, 0.3333) and close(found, (-0.1614, 0.8280))
    assert close(effective([3, 1, 2, 4, 6, 2]), 4.6286)
    assert close(cluster_interval(sums, [3, 1, 2, 4, 6, 2])[1], (-0.1975, 0.8641))


def test_cluster_interval_floor_and_single_unit():
    assert close(cluster_interval([1] * 4, [3] * 4)[1], (-0.1566, 0.8232))
    assert cluster_interval([2], [5]) == (0.4, None)


def test_student_quantile_of_tables():
    assert close(student_quantile(0.975, 5), 2.57058)
    assert close(student_quantile(0.975, 30), 2.04227)


@pytest.mark.parametrize(
    ("won", "lost", "e"),
    [
        *((0, 0, 1), (6, 0, 9.1429), (8, 0, 28.4444), (9, 3, 1.4322)),
        *((12, 4, 2.1182), (10, 10, 0.2703), (20, 5, 24.2905)),
    ],
)
def test_e_process_known_values(won, lost, e):
    assert close(math.exp(log_e([wave(won, lost, 33)])), e)
    assert close(2 ** (won + lost) / ((won + lost + 1) * math.comb(won + lost, won)), e)


def test_e_process_of_seed_means_is_the_mean_of_bounded_bets():
    """The product of 1 + bet * D is a polynomial of the bet; its mean over bets from -1 to 1 is exact."""
    means = [Fraction(one, 4) for one in (4, 2, 3, 1, 4, 0, 2, -1)]
    powers = [Fraction(1)]
    for one in means:
        powers = [a + one * b for a, b in zip([*powers, Fraction(0)], [Fraction(0), *powers], strict=True)]
    exact = sum(part / (power + 1) for power, part in enumerate(powers) if power % 2 == 0)
    assert math.exp(log_e([Wave(tuple(Unit(float(one)) for one in means))])) == pytest.approx(float(exact), rel=1e-9)
    assert close(math.exp(log_e([Wave((Unit(0),) * 5)])), 1)


def test_bets_on_units_are_parts_of_the_largest_read():
    """A unit of one task beside one of four can lose a quarter as much."""
    read = Wave((Unit(1), Unit(4, 4, 4), Unit(1, 1, 4)))
    same = Wave((Unit(1), Unit(1), Unit(0.25)))
    assert close(log_e([read]), log_e([same]))


def test_interval_of_contradicting_rounds_says_nothing():
    assert interval([wave(30, 0, 30), wave(0, 30, 30)]) == (-1, 1)


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ((0, 0, 1), (-0.9747, 0.9747)),
        ((0, 0, 33), (-0.1444, 0.1444)),
        ((9, 3, 33), (-0.1340, 0.4769)),
        ((33, 0, 33), (0.6413, 1)),
        ((25, 10, 100), (-0.0300, 0.3275)),
        ((0, 0, 0), (-1, 1)),
    ],
)
def test_anytime_interval_known_values(counts, wanted):
    assert interval([wave(*counts)]) == pytest.approx(wanted, abs=1.5e-4)


def test_crossing_stays_where_it_came():
    units = wave(8, 0, 8).units + wave(0, 8, 8).units
    assert first_crossing([Wave(units)]) == (8, 1, pytest.approx(28.4444, abs=1e-4))
    assert math.exp(log_e([Wave(units)])) < 20


def test_waves_multiply():
    assert close(log_e([wave(5, 0, 5), wave(3, 1, 9)]), log_e([wave(5, 0, 5)]) + log_e([wave(3, 1, 9)]))


@pytest.mark.parametrize(
    ("n", "complete", "k", "any_of", "all_of"),
    [
        (8, 2, 4, 0.7857, 0),
        (8, 0, 4, 0, 0),
        (8, 8, 8, 1, 1),
        (5, 3, 2, 0.9, 0.3),
        (8, 6, 1, 0.75, 0.75),
        (8, 6, 2, 0.9643, 0.5357),
        (8, 6, 4, 1, 0.2143),
        (8, 6, 8, 1, 0),
    ],
)
def test_pass_at_and_pass_all_known_values(n, complete, k, any_of, all_of):
    assert close(pass_at(n, complete, k), any_of) and close(pass_all(n, complete, k), all_of)


def test_pass_at_is_none_when_k_exceeds_n():
    assert pass_at(4, 1, 8) is None and pass_all(4, 1, 8) is None


def test_shrunk_means_have_known_values():
    between, found = shrink([0.5, 0.1, -0.2, 0.3], [0.02] * 4)
    assert close(between, 0.0692) and close(found, [0.4271, 0.1168, -0.1159, 0.2720])
    assert shrink([0.1] * 3, [0.02, 0.03, 0.04]) == (0, pytest.approx([0.1] * 3))
    assert shrink([0.4], [0.1]) == (0, [0.4]) and shrink([0.4, 0.1], [0.0, 0.0]) == (0, [0.4, 0.1])


@pytest.mark.parametrize(
    ("n", "discordant", "delta", "chance"), [(33, 0.3, 0.2, 0.4566), (33, 0.4, 0.3, 0.7670), (100, 0.3, 0.15, 0.7466)]
)
def test_exact_power_has_known_values(n, discordant, delta, chance):
    """How likely the exact test says "better" is summed over all counts of wins and losses."""
    won, lost = (discordant + delta) / 2, (discordant - delta) / 2
    shown = sum(
        math.comb(n, k) * math.comb(k, c) * won ** (k - c) * lost**c * (1 - discordant) ** (n - k)
        for k in range(n + 1)
        for c in range((k + 1) // 2)
        if mcnemar(k - c, c) < 0.05
    )
    assert close(shown, chance)


def test_holm_known_values():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
