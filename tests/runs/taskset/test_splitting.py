"""Splits: drawn by scenario or by task, and the faults of one that others made."""

from __future__ import annotations

import json
import random

import pytest
from django.core.management import CommandError, call_command

from episodes.models import Split
from episodes.stored import splits
from episodes.stored.packs import scenario_digest
from people.errors import Invalid
from runs.taskset import splitting
from runs.taskset.splitting import Sides, TaskFacts
from tests.checked import checked, reports  # noqa: F401


def some(scenarios=10, each=6):
    return [
        TaskFacts(
            f"shop_{number}", idx, f"Refund order {number * 100 + idx} to customer {idx * 7 + number} in full today"
        )
        for number in range(scenarios)
        for idx in range(each)
    ]


def test_split_by_scenario_shares_none_and_repeats():
    made = splitting.split(some(), unit="scenario", seed=3)
    assert {scenario for scenario, _ in made.train}.isdisjoint(scenario for scenario, _ in made.val)
    assert len({scenario for scenario, _ in made.val}) == 3 and len(made.val) == 18
    assert splitting.split(some()[::-1], unit="scenario", seed=3) == made
    assert splitting.split(some(), unit="scenario", seed=4) != made


def test_split_by_task_draws_as_pull_request_833():
    tasks = some()
    places = sorted(task.place for task in tasks)
    random.Random(7).shuffle(places)
    assert splitting.split(tasks, unit="task", seed=7).val == sorted(places[: int(60 * 0.35)])


def test_unusable_tasks_are_left_out_and_counted():
    broken = TaskFacts("shop_0", 99, "Ship it", "no code verifier")
    made = splitting.split([*some(), broken], unit="task", seed=1)
    assert made.meta["unusable"] == {"no code verifier": 1}
    assert broken.place not in (*made.train, *made.val)


def test_training_task_like_a_held_out_one_is_left_out():
    text = "Cancel every open order of the customer Mina Okafor and write a note about the reason"
    tasks = [
        TaskFacts(f"shop_{number}", 0, text if number < 2 else f"Count the items of shelf {number}")
        for number in range(6)
    ]
    for seed in range(20):
        made = splitting.split(tasks, unit="task", seed=seed)
        sides = [("shop_0", 0) in made.val, ("shop_1", 0) in made.val]
        if sides.count(True) == 1:
            assert made.meta["near_duplicates_left_out"] == [("shop_0", 0) if sides[1] else ("shop_1", 0)]
            return
    raise AssertionError("no seed parted the two")


@pytest.mark.parametrize("tasks", [[], some(1, 1), some(1, 5)])
def test_split_with_an_empty_side_is_refused(tasks):
    with pytest.raises(Invalid, match="cannot be split"):
        splitting.split(tasks, unit="scenario", seed=0)


def test_faults_of_a_foreign_split_are_named():
    unusable = [TaskFacts("shop_1", 3, "Count", "no code verifier"), TaskFacts("shop_1", 4, "Sum", "partial scenario")]
    tasks = [*some(2, 3), *unusable]
    sides = Sides(
        [("shop_0", 0), ("shop_1", 0), ("shop_1", 3), ("shop_1", 4)], [("shop_0", 1), ("shop_9", 0), ("shop_1", 0)]
    )
    said = " ".join(splitting.faults(sides, tasks))
    assert "1 task is listed more than once, for example shop_1/0." in said
    assert "2 of 3 held-out tasks are in scenarios with training tasks (2 scenarios are on both sides)" in said
    assert "1 task is in no loaded pack, for example shop_9/0." in said
    assert "1 task cannot be used (no code verifier), for example shop_1/3." in said
    assert "1 task cannot be used (partial scenario), for example shop_1/4." in said
    clean = splitting.split(some(), unit="scenario", seed=0)
    assert splitting.faults(splitting.read(clean.as_json()), some()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"train": [], "val": []}', "train: a list"),
        ('{"train": [["a", true]], "val": [["b", 0]]}', r"\['a', True\] is not a pair"),
        ('{"train": [["a", 0]], "val": "b"}', "val: a list"),
    ],
)
def test_file_that_is_no_split_is_refused(text, why):
    with pytest.raises(Invalid, match=why):
        splitting.read(text)


def test_file_says_its_unit_and_its_seed():
    apart, mixed = Sides([("a", 0)], [("b", 0)], {"seed": 7}), Sides([("a", 0)], [("a", 1)], {"unit": "scenario"})
    assert (apart.unit, apart.seed, mixed.unit, mixed.seed) == ("scenario", 7, "task", 0)
    assert Sides([("a", 0)], [("b", 0)], {"unit": "task", "seed": True}).unit == "task"


def test_changed_verifiers_of_a_split_are_named():
    now = {"shop_1/0": "a", "shop_1/1": "b", "shop_2/0": "c"}
    said = "1 task has another verifier than the split march names, for example shop_1/1."
    assert splitting.changes({"shop_1/0": "a", "shop_1/1": "old"}, now, "march") == [said]
    assert splitting.changes("none", now) == splitting.changes({}, now) == []


def test_changed_versions_of_a_split_are_named():
    now = {"shop_1": "b", "shop_2": "c", "gone_1": ""}
    said = "1 scenario is loaded in another version than the split march names, for example shop_1."
    pinned = {"shop_1": "a", "shop_2": "c", "gone_1": "d"}
    assert splitting.changed_versions(pinned, now, "march") == [said]
    assert splitting.changed_versions(None, now) == splitting.changed_versions({}, now) == []


@pytest.mark.django_db
@pytest.mark.usefixtures("checked")
def test_command_keeps_what_a_split_of_others_says(project, tmp_path, capsys):
    file = tmp_path / "833.json"
    meta = {"seed": 42, "prefixes": ["helpdesk"], "max_tasks": 9, "verifiers": {"helpdesk_1/1": "old"}}
    sides = {"train": [["helpdesk_1", 0]], "val": [["helpdesk_1", 1]]}
    file.write_text(json.dumps({"meta": meta, **sides}))
    call_command("build_split", read=file, name="833", project="lab")
    pinned = Split.objects.get(project=project, name="833")
    version = {"scenario_versions": {"helpdesk_1": scenario_digest("helpdesk_1")}}
    assert (pinned.unit, pinned.seed, pinned.about) == ("task", 42, {**meta, **version})
    assert "1 task has another verifier than the split names, for example helpdesk_1/1." in capsys.readouterr().out
    file.write_text(json.dumps({"meta": {"note": "\x00"}, **sides}))
    with pytest.raises(CommandError, match="meta: it cannot be stored"):
        call_command("build_split", read=file, name="zero", project="lab")
    file.write_text(json.dumps(sides))
    call_command("build_split", read=file, name="bare", project="lab")
    assert len(Split.objects.get(name="bare").about["verifiers"]) == 2


@pytest.mark.django_db
@pytest.mark.usefixtures("checked")
def test_command_pins_a_split_of_the_starter_pack(project, tmp_path, capsys):
    file = tmp_path / "starter.json"
    call_command("build_split", output=file, seed=5, project="lab")
    told = json.loads(file.read_text())
    assert told["meta"]["unit"] == "scenario" and told["meta"]["num_val"] == len(told["val"]) > 0
    assert all(len(digest) == 64 for digest in told["meta"]["verifiers"].values())
    assert told["meta"]["prefixes"] is None and told["meta"]["verifier_mode"] == "code"
    assert [len(digest) for digest in told["meta"]["packs"].values()] == [64]
    versions = told["meta"]["scenario_versions"]
    assert versions == {scenario: scenario_digest(scenario) for scenario, _ in (*told["train"], *told["val"])}
    pinned = Split.objects.get(project=project, name="starter")
    assert (pinned.unit, pinned.seed, pinned.about) == ("scenario", 5, told["meta"])
    assert splits.held_out(project) == {f"{scenario}/{idx}" for scenario, idx in told["val"]}
    assert f"held-out tasks, pinned as {pinned.name}" in capsys.readouterr().out
    with pytest.raises(CommandError, match="Name a file"):
        call_command("build_split")
    with pytest.raises(CommandError, match="'starter' exists with different tasks"):
        call_command("build_split", output=file, seed=6, project="lab")
    assert json.loads(file.read_text()) == told
    with pytest.raises(CommandError, match=r"nowhere\.json: No such file"):
        call_command("build_split", read=tmp_path / "nowhere.json", project="lab")
