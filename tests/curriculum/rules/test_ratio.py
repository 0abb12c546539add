"""The ratio rule: its published table, its boundaries, any group size, and overrides with an end."""

from __future__ import annotations

import pytest

from curriculum.rules.ratio import (
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


def steps(errors, rollouts=128):
    return [Measured(number, rollouts, one) for number, one in enumerate(errors, 1)]


def test_table_counts_are_the_published_percentages():
    assert all(abs(one / 1.28 - percent) <= 0.0501 for one, percent in zip(ERRORS, PERCENT, strict=True))


def test_table_replays_its_29_phases():
    found = history(steps(ERRORS))
    assert [one.phase for one in found] == [*[S] * 10, *[B] * 18, I, I]
    assert [one.step for one in found] == list(range(1, 31))
    assert found[10].looked_at == Measured(10, 128, 84)


@pytest.mark.parametrize(
    ("errors", "rollouts", "phase"),
    [(701, 1000, S), (7, 10, B), (700, 1000, B), (4, 10, B), (399, 1000, I), (0, 8, I), (8, 8, S)],
)
def test_phase_at_boundaries_is_balanced(errors, rollouts, phase):
    assert phase_of(Measured(1, rollouts, errors)) == phase


def test_rate_that_swings_around_a_boundary_moves_once():
    assert [one.phase for one in history(steps([72, 69, 72, 69, 75, 76], 100))] == [S, S, B, B, B, B, S]
    assert [one.phase for one in history(steps([39, 41, 39, 45, 46], 100))] == [S, I, I, I, I, B]


def test_phase_without_counted_rollouts_stays():
    assert [one.phase for one in history([Measured(1, 10, 5), Measured(2, 0, 0)])] == [S, B, B]


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
    return [one.phase for one in history(steps(errors, 100), overrides)]


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
    held = history(steps((90, 90), 100), [Override(B, after=0), Override(I, after=1)])
    assert [one.phase for one in held] == [B, I, I] and {one.rule for one in held} == {S}


def test_each_phase_has_its_share_and_its_limits():
    assert {phase: tuple(rule) for phase, rule in PHASES.items()} == {
        S: (0.75, "above 70%"),
        B: (0.5, "40 to 70%"),
        I: (0.25, "below 40%"),
    }
    assert set(PHASES) == set(Phase)
