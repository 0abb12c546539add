"""Approvals of Inspect AI, decided at the desk of the running product (`make test-frameworks`)."""

from __future__ import annotations

import asyncio

import pytest

from awmclient.client import HttpDashboard
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.frameworks.pausing import (
    Cuts,
    Killed,
    a_name,
    approve,
    asks_of,
    cut_dashboard,
    deciding,
    edit,
    every_cut,
    reject,
)
from tests.frameworks.story import SAYS, TASK, model, told
from tests.frameworks.test_call_pauses import PAYS, PAYS_TWICE, pays_and_says

pytestmark = pytest.mark.frameworks


@pytest.fixture(autouse=True)
def key_of_the_model(monkeypatch):
    monkeypatch.setenv("LOCAL_API_KEY", "none")


def pay_tool(paid):
    from inspect_ai.tool import ToolDef

    async def pay(item: str) -> str:
        return paid(item)

    return ToolDef(pay, "pay", "Pay for an item.", {"item": "what to pay for"}).as_tool()


async def evaluated(dash, server, name, made, log_dir, before=lambda: None, log=None, **more):
    """Evaluate one sample, or go on with what a log says. Models are kept by name, so each server needs its own."""
    from inspect_ai import Task, eval_async, eval_retry_async, task
    from inspect_ai.approval import ApprovalPolicy
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import generate, use_tools

    from awmclient.adapters.inspect_ai import decided, desk

    def paid(item):
        before()
        made.append(item)
        return f"paid {item}"

    @task
    def paying():
        return Task([Sample(TASK, id=name)], solver=[use_tools(pay_tool(paid)), generate()])

    given = {"log_dir": str(log_dir)}
    with decided(dash, name, **more):
        if log is not None:
            return (await eval_retry_async(log, **given))[0]
        where = {"model": "openai-api/local/small", "model_base_url": server.base_url}
        return (await eval_async(paying(), **where, approval=[ApprovalPolicy(desk(), "pay*")], **given))[0]


def lived(house, token, folder, *turns, name="", **more):
    """One evaluation: what was paid, what the model read, its run's name."""
    made, name = [], name or a_name("inspect")

    async def work(server):
        async with HttpDashboard(house.url, token) as dash:
            return await evaluated(dash, server, name, made, folder, **more)

    with model(*turns) as server:
        log = asyncio.run(work(server))
        assert log.status == "success", log.error
        return made, told(server), name


@pytest.mark.parametrize(("rule", "paid"), [(approve, "tea"), (edit, "milk"), (reject, "")])
def test_inspect_call_is_decided_at_the_desk(house, agent_token, expert_token, tmp_path, rule, paid):
    name, receipts = a_name("inspect"), []

    def before():
        receipts.extend(one["consumed_at"] for one in asks_of(house, agent_token, name))

    with deciding(house, expert_token, rule) as seen:
        made, [read], _ = lived(house, agent_token, tmp_path, PAYS, SAYS, name=name, before=before)
    assert made == [paid] * bool(paid) and seen[0]["typed"]["calls"][0]["schema"]["required"] == ["item"]
    assert ("Not today." in read) if not paid else (f"paid {paid}" in read)
    # langchain-ai/langchain#33787: the model reads what ran
    assert ("A person changed the arguments" in read) == (rule is edit)
    # microsoft/agent-framework#7458: confirmed after the call
    assert receipts == [None] * bool(paid) and [bool(one["consumed_at"]) for one in asks_of(house, agent_token, name)]


def test_inspect_evaluation_asks_again_and_by_call(house, agent_token, expert_token, tmp_path):
    def only_coffee(ask):
        return approve(ask) if ask["typed"]["calls"][0]["arguments"] == {"item": "coffee"} else reject(ask)

    name = a_name("inspect")
    with deciding(house, expert_token, only_coffee) as seen:
        for asked in (2, 4):
            made, read, _ = lived(house, agent_token, tmp_path, PAYS_TWICE, SAYS, name=name)
            assert made == ["coffee"] and len(seen) == asked
    assert "Not today." in read[0] and "paid coffee" in read[1]


def test_inspect_call_without_a_decision_is_rejected(house, agent_token, tmp_path):
    made, read, _ = lived(house, agent_token, tmp_path, PAYS, SAYS, deadline_s=1)
    assert made == [] and "no decision before the deadline" in read[0]


def test_no_inspect_decision_is_lost_or_doubled_at_any_cut(house, agent_token, expert_token, tmp_path):
    made, logs, server = {}, {}, OpenAIServer(pays_and_says)

    async def once(name: str, cuts: Cuts) -> None:
        folder = tmp_path / name
        async with cut_dashboard(house, agent_token, cuts) as dash:
            if logs.get(name) != "success":
                earlier = next((str(one) for one in folder.glob("*")), None)
                log = await evaluated(dash, server, name, made.setdefault(name, []), folder, log=earlier)
                logs[name] = log.status
        if cuts.at and cuts.count >= cuts.at:
            raise Killed  # Inspect takes an end of its process as an error of the sample, and goes on

    def check(name: str) -> None:
        asks = asks_of(house, agent_token, name)
        assert [one["advice"]["decision"]["calls"][0]["verdict"] for one in asks] == ["approve"], name
        assert set(made[name]) == {"tea"} and asks[0]["consumed_at"] and logs[name] == "success", name

    with answering(server), deciding(house, expert_token, approve):
        assert every_cut(once, check) >= 3
