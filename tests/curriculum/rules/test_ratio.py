"""The ratio rule: its published table, its boundaries, any group size, and overrides with an end."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from curriculum.rules.ratio import (
    CUSUM,
    LAST_STEP,
    PHASES,
    Measured,
    Override,
    Phase,
    Strategy,
    group,
    history,
    phase_of,
)

S, B, I = Phase.SCAFFOLD, Phase.BALANCED, Phase.INDEPENDENCE  # noqa: E741
# Format errors among the 128 rollouts of each step, from the percentages published in pull request 428 of OpenEnv.
ERRORS = [113, 110, 108, 115, 112, 104, 104, 96, 93, 84, 84, 77, 77, 80, 72, 70, 57, 69, 65, 64, 55, 55, 55, 64, 57]
ERRORS += [55, 56, 45, 40]
PERCENT = [88.3, 85.9, 84.4, 89.8, 87.5, 81.3, 81.3, 75.0, 72.7, 65.6, 65.6, 60.2, 60.2, 62.5, 56.3, 54.7, 44.5, 53.9]
PERCENT += [50.8, 50.0, 43.0, 43.0, 43.0, 50.0, 44.5, 43.0, 43.8, 35.2, 31.3]


def steps(errors, rollouts=128, version=LAST_STEP):
    return [Measured(number, rollouts, one, version) for number, one in enumerate(errors, 1)]


def replayed(measured, overrides=()):
    return [one.phase for one in history(measured, overrides, size=8)]


def rates_of(rate, seed, groups=16, count=100):
    """Format errors of steps whose rate never changes; half of a rollout is its group's."""
    dice = random.Random(seed)
    owns = ([dice.betavariate(rate, 1 - rate) for _ in range(groups)] for _ in range(count))
    return [sum(dice.random() < own for own in step for _ in range(8)) for step in owns]


def test_table_counts_are_the_published_percentages():
    assert all(abs(one / 1.28 - percent) <= 0.0501 for one, percent in zip(ERRORS, PERCENT, strict=True))


def test_table_replays_its_29_phases():
    found = history(steps(ERRORS), size=8)
    assert [one.phase for one in found] == [*[S] * 10, *[B] * 18, I, I]
    assert [one.step for one in found] == list(range(1, 31))
    assert found[10].looked_at == Measured(10, 128, 84, LAST_STEP)


def test_table_moves_once_by_the_sum_of_its_steps():
    """The table ends at 31%: two steps below 40 are not enough for Independence."""
    assert replayed(steps(ERRORS, version=CUSUM)) == [*[S] * 20, *[B] * 10]
    assert replayed(steps([*ERRORS, *[26] * 8], version=CUSUM))[-3:] == [B, I, I]


def test_learner_that_never_changes_keeps_its_help():
    """By the last step alone, its help changed 29 times in 100 steps."""
    for seed in range(6):
        assert set(replayed(steps(rates_of(0.7, seed), version=CUSUM))) == {S}
        before = steps([64] * 20, version=CUSUM)
        after = [Measured(20 + one.step, 128, one.errors) for one in steps(rates_of(0.4, seed))]
        assert set(replayed([*before, *after])[20:]) == {B}


def test_help_follows_a_learner_both_ways():
    for seed in range(6):
        falling = steps([*[115] * 20, *rates_of(0.2, seed, count=20), *rates_of(0.9, seed, count=20)], version=CUSUM)
        phases = replayed(falling)
        assert phases[19] == S and phases[40] == I and phases[-1] == S


def test_steps_keep_the_rule_they_were_reported_under():
    old, new = steps([50, 50], 100), [Measured(3, 100, 90), Measured(4, 100, 90)]
    assert replayed([*old, *new]) == [S, B, B, B, B]
    assert replayed([*old, *(replace(one, version=LAST_STEP) for one in new)]) == [S, B, B, S, S]


@pytest.mark.parametrize(
    ("errors", "rollouts", "phase"),
    [(701, 1000, S), (7, 10, B), (700, 1000, B), (4, 10, B), (399, 1000, I), (0, 8, I), (8, 8, S)],
)
def test_phase_at_boundaries_is_balanced(errors, rollouts, phase):
    assert phase_of(Measured(1, rollouts, errors)) == phase


def test_rate_that_swings_around_a_boundary_moves_once():
    assert replayed(steps([72, 69, 72, 69, 75, 76], 100)) == [S, S, B, B, B, B, S]
    assert replayed(steps([39, 41, 39, 45, 46], 100)) == [S, I, I, I, I, B]


def test_phase_without_counted_rollouts_stays():
    for version, phase in ((LAST_STEP, B), (CUSUM, S)):
        assert replayed([Measured(1, 10, 5, version), Measured(2, 0, 0, version)]) == [S, phase, phase]


@pytest.mark.parametrize(
    ("size", "counts"),
    [(8, [6, 4, 2]), (16, [12, 8, 4]), (4, [3, 2, 1]), (2, [1, 1, 1]), (3, [2, 2, 1]), (5, [4, 2, 1])],
)
def test_group_of_any_size_keeps_one_of_each(size, counts):
    found = [group(Strategy.ADAPTIVE, phase, size) for phase in (S, B, I)]
    assert [expert for expert, _ in found] == counts and all(expert + solo == size for expert, solo in found)


def test_strategies_without_rule_ignore_the_phase():
    for phase in Phase:
        assert group(Strategy.BASELINE, phase, 8) == (0, 8)
        assert group(Strategy.ALWAYS, phase, 8) == (8, 0)
        assert group(Strategy.MIXED, phase, 8) == (4, 4)


def phases(overrides, errors=(90, 90, 50, 50, 30)):
    return replayed(steps(errors, 100), overrides)


def test_override_holds_from_the_next_step_to_its_end():
    assert phases([]) == [S, S, S, B, B, I]
    assert phases([Override(I, after=1, until="step", until_step=3)]) == [S, I, I, B, B, I]
    assert phases([Override(I, after=1, undone_after=2)]) == [S, I, S, B, B, I]
    assert phases([Override(I, after=1)]) == [S, I, I, I, I, I]


def test_override_until_the_rule_agrees_never_returns():
    errors = (90, 90, 50, 90, 90)
    assert phases([], errors) == [S, S, S, B, S, S]
    assert phases([Override(B, after=1, until="agrees")], errors) == [S, B, B, B, S, S]


def test_newest_override_counts_and_the_rule_stays_known():
    held = history(steps((90, 90), 100), [Override(B, after=0), Override(I, after=1)], size=8)
    assert [one.phase for one in held] == [B, I, I] and {one.rule for one in held} == {S}


def test_each_phase_has_its_share_and_its_limits():
    assert {phase: tuple(rule) for phase, rule in PHASES.items()} == {
        S: (0.75, "above 70%"),
        B: (0.5, "40 to 70%"),
        I: (0.25, "below 40%"),
    }
    assert set(PHASES) == set(Phase)
