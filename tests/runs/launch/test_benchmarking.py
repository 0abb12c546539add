"""The benchmark's plan, and its expert, which answers from the notes of packs and knows nothing else."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from awmclient.schema import AskOpen, EpisodeStart, RunStart
from episodes.record import pinning, recording
from experts.models import Advice, Ask
from experts.record import opening
from people import access
from people.record import members
from runs.errors import BadPlan
from runs.launch import benchmarking, launching, planning
from runs.pages import runs

pytestmark = pytest.mark.django_db


@pytest.fixture
def expert(ada):
    token, _ = members.issue_token(ada, "benchmark notes", "expert")
    return access.bearer(token)


@pytest.fixture
def asked(ada):
    """A run with one ask for a task that has a note and one for a task without."""
    run, _ = recording.start_run(ada, RunStart(name="bench"))
    for task_idx in (0, 1):
        plan = {"scenario": "helpdesk_1", "task_idx": task_idx, "expert": "plain", "run": run.pk}
        episode, _ = recording.start_episode(ada, EpisodeStart(key=f"e{task_idx}", task="t", **plan))
        opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="What now?"))
    return run


def test_plan_has_one_arm_per_mode_and_the_first_as_control():
    plan = benchmarking.plan_for(["off", "plain"], seeds=2, policy="script:demo")
    assert [(arm.name, arm.expert) for arm in plan.arms] == [("off", "off"), ("plain", "plain")]
    assert (plan.control, plan.seeds, plan.name) == ("off", 2, "benchmark plain against off")
    with pytest.raises(BadPlan, match="same name"):
        benchmarking.plan_for(["off", "off"], seeds=1, policy="script:demo")


def test_arms_of_a_benchmark_have_the_names_of_the_run_form():
    plan = benchmarking.plan_for()
    assert [(arm.name, arm.expert) for arm in plan.arms] == [("baseline", "off"), ("expert", "plain")]
    assert (plan.control, plan.name) == ("baseline", "benchmark expert against baseline")
    assert {arm.name for arm in plan.arms} <= set(runs.ARMS)


def test_plan_of_a_recipe_keeps_what_is_not_given():
    plan = benchmarking.plan_for(named="pr428", tasks=["helpdesk_1/0"], policy="script:demo")
    assert (plan.seeds, plan.max_steps, plan.max_asks, plan.control) == (8, 15, 3, "solo")
    assert (plan.name, plan.policy, plan.tasks) == ("pr428", "script:demo", ["helpdesk_1/0"])
    plan = benchmarking.plan_for(["plain", "off"], named="pr833", seeds=2)
    assert (plan.tasks.split, plan.tasks.side, plan.seeds, plan.control) == ("pr833", "val", 2, "plain")
    with pytest.raises(BadPlan, match="Recipes are pr428, pr833"):
        benchmarking.plan_for(named="pr1")
    with pytest.raises(BadPlan, match="mode informed"):
        benchmarking.plan_for(["off", "informed"])


def test_scenarios_of_a_benchmark_replace_all_tasks():
    plan = benchmarking.plan_for(["off", "plain"], scenarios=["*_blocked"])
    assert (plan.tasks.scenarios, plan.tasks.split) == (["*_blocked"], "")


def test_notes_answer_asks_and_no_note_declines(asked, expert):
    assert benchmarking.answer_from_notes(expert, asked) == 2
    [answer] = Advice.objects.exclude(source="fallback")
    assert (answer.ask.episode.task_idx, answer.is_by_script, answer.privilege) == (1, True, "blind")
    assert answer.text == launching.pack_with("helpdesk_1").about("helpdesk_1", 1)["expert_note"]
    assert Ask.objects.get(episode__task_idx=0).declines.get().reason == "the pack has no note for this task"
    assert benchmarking.answer_from_notes(expert, asked) == 0


def test_asks_of_other_runs_are_left_alone(asked, ada, expert):
    other, _ = recording.start_run(ada, RunStart(name="other"))
    assert benchmarking.answer_from_notes(expert, other) == 0
    assert Ask.objects.open().count() == 2


def test_unknown_arm_is_refused_before_the_launch(tmp_path):
    with pytest.raises(CommandError, match="Unknown arm informed. Arms are baseline, expert"):
        call_command("benchmark", arms="off,informed", report=tmp_path)


def test_doubts_of_a_split_are_printed_by_launching_commands(project, ada, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    pinning.pin(ada, "shared", unit="task", seed=0, train=["helpdesk_1/1"], val=["helpdesk_1/0"])
    said = "1 of 1 held-out task is in scenarios with training tasks of the split shared"
    file = tmp_path / "plan.yaml"
    file.write_text("{name: x, tasks: {split: shared}, arms: [{name: a}]}")
    call_command("run", str(file), project=project.slug)
    assert said in capsys.readouterr().err

    def refuse(*_):
        raise BadPlan("stop")

    monkeypatch.setattr(planning, "launch", refuse)
    with pytest.raises(CommandError, match="stop"):
        call_command("benchmark", split="shared", report=tmp_path, project=project.slug)
    assert said in capsys.readouterr().out
