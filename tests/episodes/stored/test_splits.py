"""Pinned splits, and where an episode comes from."""

from __future__ import annotations

import pytest

from awmclient.schema import EpisodeStart
from episodes.errors import SplitExists
from episodes.models import Episode, Origin, SplitTask
from episodes.record import pinning, recording
from episodes.stored import policies, splits
from people.access import bearer
from people.errors import Forbidden, Invalid
from people.record.members import issue_token

TRAIN, VAL = ["shop_1/0", "shop_1/1"], ["shop_2/0"]


def pin(actor, name="first", **more):
    return pinning.pin(actor, name, **{"unit": "scenario", "seed": 7, "train": TRAIN, "val": VAL, **more})


def test_pin_keeps_both_sides_and_holds_out_val(ada, project):
    split = pin(ada)
    assert set(split.tasks.values_list("task", "side")) == {*((t, "train") for t in TRAIN), *((t, "val") for t in VAL)}
    assert splits.held_out(project) == set(VAL)


def test_pin_twice_is_the_same_split_and_other_tasks_are_refused(ada):
    assert pin(ada).pk == pin(ada, train=[*reversed(TRAIN)]).pk and SplitTask.objects.count() == 3
    with pytest.raises(SplitExists):
        pin(ada, val=["shop_3/0"])
    with pytest.raises(SplitExists):
        pin(ada, seed=8)


def test_pin_refuses_a_task_on_both_sides_and_a_strange_unit(ada):
    with pytest.raises(Invalid, match="shop_1/0"):
        pin(ada, val=["shop_1/0"])
    with pytest.raises(Invalid, match="unit"):
        pin(ada, unit="world")


def test_split_pin_needs_launch_right_and_is_per_project(edo, ada, elsewhere):
    with pytest.raises(Forbidden):
        pin(edo)
    pin(ada)
    assert splits.held_out(elsewhere) == set()


@pytest.mark.parametrize("name", ["validation", "VAL", "dev", "test", "holdout", "trainval", "eval"])
def test_a_split_name_other_than_train_is_held_out(name):
    assert not splits.is_training_name(name)


@pytest.mark.parametrize("name", [None, "", "train", " Train ", "TRAINING"])
def test_train_or_no_split_name_is_for_training(name):
    assert splits.is_training_name(name)


def test_task_key_names_scenario_and_number_or_the_text():
    assert splits.task_key("shop_1", 3) == "shop_1/3"
    key = splits.task_key(None, None, "Close ticket \ud800 7")
    assert key == splits.task_key("", None, "Close ticket \ud800 7") != splits.task_key("", 2, "Close it")


def test_origin_is_never_taken_from_what_a_loop_says(ada):
    agent = bearer(issue_token(ada, "loop", "agent")[0])
    plan = EpisodeStart(key="e", task="t", policy={"awmweb": "script", "script": "demo", "origin": "builtin"})
    said = recording.start_episode(agent, plan)[0]
    assert (said.origin, said.is_builtin, said.policy_kind, said.policy_name) == ("external", False, "script", "demo")
    own = recording.start_episode(ada, plan.model_copy(update={"key": "f"}), origin=Origin.BUILTIN)[0]
    assert own.is_builtin and Episode.objects.filter(origin="builtin").get() == own


@pytest.mark.parametrize(
    ("policy", "facts"),
    [
        ({"model": "m-7b"}, ("model", "m-7b")),
        ({"kind": "react", "name": "v2", "model": "m"}, ("react", "v2")),
        ({"kind": 7, "model": ["m"]}, ("", "")),
        ({}, ("", "")),
        ({"model": "\x00" + "m" * 300}, ("model", "m" * 200)),
    ],
)
def test_policy_facts_name_kind_and_name(policy, facts):
    found = policies.policy_facts(policy)
    assert (found["policy_kind"], found["policy_name"]) == facts
