"""An operator's policies: files of scripts and functions by name, on a server of others."""

from __future__ import annotations

import json

import pytest

from awmclient.policies import Turn
from awmclient.toolcalls import Call
from awmweb.variables import policies
from episodes.models import Episode
from runs.errors import UnknownPolicy
from runs.launch import launching
from runs.plan import teachers
from runs.play import playing
from tests.runs.openenv_worlds import drawers, served
from tests.runs.planned import launched

pytestmark = pytest.mark.django_db(transaction=True)
TAKE = [{"call": {"name": "look", "arguments": {"drawer": 2}}}, {"call": {"name": "take", "arguments": {"drawer": 2}}}]
ALONE = {"arms": [{"name": "alone"}], "environment": "lab", "tasks": ["seed/2"]}


@pytest.fixture
def lab(settings, monkeypatch, tmp_path):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    settings.VAR = tmp_path
    (tmp_path / "scripts").mkdir()
    with served(drawers()) as server:
        settings.ENVIRONMENTS = {"lab": {"url": server.url, "timeout_s": 60.0}}
        yield tmp_path / "scripts" / "keys.jsonl"


def write(file, *rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def played(plan):
    pk = plan.tries.get().episode_id
    playing.play(pk, "w")
    return Episode.objects.get(pk=pk)


def teacher(view):
    if view.turn > 1:
        return Turn(answer="done")
    return Turn(calls=[Call("take", {"drawer": 2})])


async def silent(view):
    return "no turn"


def test_file_of_scripts_demonstrates_on_a_server_of_others(ada, lab):
    write(lab, {"scenario": "seed", "task_idx": 2, "script": TAKE})
    episode = played(launched(ada, **ALONE, policy="file:keys"))
    assert (episode.state, episode.policy_kind, episode.policy_name) == ("finished", "file", "keys")
    assert episode.outcomes.get().reward_type == "complete" and len(episode.policy["digest"]) == 64


def test_changed_file_plays_no_more(ada, lab):
    write(lab, {"scenario": "seed", "task_idx": 2, "script": TAKE})
    plan = launched(ada, **ALONE, policy="file:keys")
    write(lab, {"scenario": "seed", "task_idx": 2, "script": [*TAKE, {"answer": "done"}]})
    episode = played(plan)
    assert (episode.state, episode.fault) == ("failed", "worker") and "changed since" in episode.fault_detail


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"scenario": "seed", "task_idx": 3, "script": TAKE}, "no script for seed/2"),
        ({"scenario": "seed", "task_idx": 2, "script": ["x"]}, "keys.jsonl, line 1: expected"),
        ([], "keys.jsonl, line 1: expected"),
    ],
)
def test_unfit_file_is_refused_at_the_launch(ada, lab, row, words):
    write(lab, row)
    with pytest.raises(UnknownPolicy, match=words):
        launched(ada, **ALONE, policy="file:keys")


def test_file_is_named_and_never_a_path(lab):
    for name in ("../keys", "/etc/passwd", "none", ""):
        with pytest.raises(UnknownPolicy):
            teachers.script_file(name)


def test_function_by_name_plays(ada, lab, settings):
    settings.AWMWEB_POLICIES = {"teacher": f"{__name__}:teacher"}
    episode = played(launched(ada, **ALONE, policy="python:teacher"))
    assert episode.outcomes.get().reward_type == "complete" and episode.policy_kind == "python"
    assert episode.policy["function"] == f"{__name__}:teacher"
    with pytest.raises(UnknownPolicy, match="names no policy"):
        launched(ada, **ALONE, policy="python:os.system")


def test_function_that_returns_no_turn_is_the_policys_fault(ada, lab, settings):
    settings.AWMWEB_POLICIES = {"teacher": f"{__name__}:silent"}
    episode = played(launched(ada, **ALONE, policy="python:teacher"))
    assert episode.fault == "policy" and "returned str" in episode.fault_detail
    settings.AWMWEB_POLICIES = {"teacher": "nowhere_at_all:act"}
    episode = played(launched(ada, **ALONE, policy="python:teacher"))
    assert episode.fault == "worker" and "cannot be imported" in episode.fault_detail


def test_setting_names_functions():
    assert policies("a=b.c:d, e=f:g") == {"a": "b.c:d", "e": "f:g"} and policies("") == {}
    for wrong in ("a", "a=b", "a=:b", "a=b:c d", "a=b:c,a=b:c", "-=b:c"):
        with pytest.raises(SystemExit):
            policies(wrong)
