"""The same words at several times of an episode: a fork at each, and no claim beyond what its branches show."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from episodes.models import Episode, Fork
from episodes.visible.trajectory import steps_of
from runs.play import playing
from runs.show import timing
from tests.runs.faulty import WORKER, Faults, plan_of

pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)


def test_shares_of_an_episode_are_turns_and_no_turn_comes_twice():
    steps = [{"seq": 1, "kind": "message"}, {"seq": 2, "kind": "tool_call", "turn": 1}]
    steps += [{"seq": 3, "kind": "nudge", "turn": 1}, {"seq": 4, "kind": "ask", "turn": 2}]
    steps += [{"seq": 3 + turn, "kind": "tool_call", "turn": turn} for turn in range(3, 9)]
    times = timing.times_in(steps)
    assert [(one.turn, one.seq) for one in timing.times_at(times, timing.SHARES)] == [(1, 2), (3, 6), (5, 8), (7, 10)]
    assert [one.turn for one in timing.times_at(times, [99, 99])] == [8] and timing.times_at([], [0]) == []


def test_words_are_given_at_each_time_and_claim_nothing_unshown(desk, tmp_path, capsys):
    parent, _ = desk.played(plan_of([["a"], ["b"], ["c"]]), Faults())
    file = tmp_path / "advice.txt"
    file.write_text("Mind the order.\n")
    with pytest.raises(CommandError, match="Use fewer times or tries"):
        call_command("timing", episode=parent.pk, words=file, tries=9)
    with pytest.raises(CommandError, match="from 0 to 99"):
        call_command("timing", episode=parent.pk, words=file, points="0,100")
    with pytest.raises(CommandError, match="Pass --words"):
        call_command("timing", episode=parent.pk)
    assert not Fork.objects.exists()
    call_command("timing", episode=parent.pk, words=file, points="0,50", tries=1)
    assert "turn 1 of 4 (0%): 2 branches" in capsys.readouterr().out
    for branch in Episode.every.filter(fork__parent=parent):
        playing.play(branch.pk, WORKER)
    firsts = [next(step["seq"] for step in steps_of(parent) if step.get("turn") == turn) for turn in (1, 3)]
    for fork, seq in zip(Fork.objects.order_by("seq"), firsts, strict=True):
        told = Episode.every.get(fork=fork, branch_arm="treated")
        assert [step["seq"] for step in steps_of(told) if step.get("content") == "Mind the order."] == [seq]
    call_command("timing", episode=parent.pk)
    said = capsys.readouterr().out
    assert "turn 3 of 4 (50%)" in said and "A script makes the same choices" in said
    Episode.every.update(policy_kind="model")
    call_command("timing", episode=parent.pk)
    said = capsys.readouterr().out
    assert said.count("1 of 1 complete with the words, 1 of 1 without.") == 2 and said.count("not shown.") == 2
    assert "share the error of 5%" in said
