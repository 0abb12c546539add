"""A plan that offers fewer tools: those that a task needs, and others that are drawn once for all arms."""

from __future__ import annotations

import pytest

from awmclient.choosing.scripted import tools_called
from awmclient.schema import OfferedTools
from runs.errors import BadPlan
from runs.launch import launching, planning
from runs.taskset import own_tools
from tests.runs.planned import document, launched

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)


def test_tools_of_a_script_are_those_of_all_its_branches():
    ask = {"ask": {"question": "?"}, "advised": [{"call": {"name": "pay"}}], "after": [{"call": {"name": "close"}}]}
    script = [{"call": {"name": "find"}}, {"say": "x", **ask}, {"call": {"name": "find"}}, {"answer": "done"}]
    assert tools_called(script) == ["find", "pay", "close"]
    assert tools_called(None) == tools_called([{"answer": "7"}]) == []


def test_episode_has_its_tools_alike_in_every_arm(ada):
    plan = launched(ada, tools={"per_task": 4}, seeds=2)
    by_cell = {}
    for row in plan.tries.select_related("episode"):
        offered = row.episode.policy["tools"]
        assert offered["per_task"] == 4 and offered["own"] == own_tools.needed_by(row.scenario, row.task_idx) != []
        by_cell.setdefault((row.scenario, row.task_idx, row.seed), []).append(offered)
    assert all(first == second for first, second in by_cell.values())
    assert len({offered["draw"] for offered, _ in by_cell.values()}) == len(by_cell) == 12
    assert all(OfferedTools.of(offered) for offered, _ in by_cell.values())


def test_tools_are_part_of_the_digest_of_a_plan():
    assert document().digest == document(tools=None).digest
    assert len({document(tools=one).digest for one in (None, {"per_task": 4}, {"per_task": 5})}) == 3
    assert "tools" not in launching.OF_POLICY  # a fork keeps those of its episode


def test_tools_need_a_script_that_calls_them(ada, monkeypatch):
    monkeypatch.setattr(own_tools, "find_pack", lambda scenario: None)
    with pytest.raises(BadPlan, match="no script that calls a tool"):
        launched(ada, tools={"per_task": 4})
    with pytest.raises(BadPlan, match="per_task"):
        document(tools={"per_task": 0})
    with pytest.raises(BadPlan, match="further server"):
        document(tools={"per_task": 4}, environment="shop")


def test_retry_keeps_the_tools(ada):
    plan = launched(ada, tools={"per_task": 4}, tasks={"limit": 1}, arms=[{"name": "a"}])
    episode = plan.tries.get().episode
    episode.state, episode.fault = "failed", "worker"
    episode.save(update_fields=["state", "fault"])
    planning.retry(ada, plan.run_id)
    again = plan.tries.get().episode
    assert again.pk != episode.pk and again.policy["tools"] == episode.policy["tools"]
