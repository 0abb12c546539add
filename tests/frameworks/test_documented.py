"""The ten lines per framework in docs/frameworks.md, run as they stand against the running product."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
from pathlib import Path

import pytest

from awmclient.client import HttpDashboard, SyncHttpDashboard
from tests.frameworks.pausing import a_name, approve, deciding
from tests.frameworks.story import SAYS, look_up, model
from tests.frameworks.test_call_pauses import PAYS, finished

pytestmark = pytest.mark.frameworks
PAGE = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"
BLOCKS = dict(re.findall(r"(?ms)^## ([^\n]+)\n\n```python\n(.+?)```", PAGE.read_text(encoding="utf-8")))


PAUSES = dict(re.findall(r"(?ms)^### Pauses of ([^\n]+)\n\n```python\n(.+?)```", PAGE.read_text(encoding="utf-8")))


def names_for_agents_sdk():
    from agents import function_tool, set_default_openai_api, set_tracing_disabled
    from agents.models import openai_provider

    openai_provider._http_client = None  # it keeps one for good, and a client works in one event loop
    set_default_openai_api("chat_completions")
    set_tracing_disabled(True)
    return {"look_up": function_tool(look_up)}


def names_for_langgraph():
    from langchain_openai import ChatOpenAI

    # it keeps a client for each address, and a client works in one event loop
    return {"look_up": look_up, "chat": ChatOpenAI(model="small", base_url=os.environ["OPENAI_BASE_URL"])}


def names_for_pydantic_ai():
    return {"look_up": look_up, "chat": "openai-chat:small"}


def names_for_smolagents():
    from smolagents import OpenAIModel, tool

    return {"look_up": tool(look_up), "chat": OpenAIModel("small")}


def names_for_inspect():
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, use_tools

    from tests.frameworks.test_inspect_ai import look_up_tool

    given = {"Task": Task, "includes": includes, "generate": generate, "use_tools": use_tools, "look_up": look_up_tool}
    return {**given, "samples": [Sample("Order tea", target="12")]}


def names_for_openenv():
    from openenv.core.harness import ResourceSession, ResourceSessionFactory, VerifyResult
    from openenv.core.harness.collect import build_model_step
    from openenv.core.llm_client import OpenAIClient

    class Order(ResourceSession):
        def initial_messages(self):
            return [{"role": "user", "content": "Order tea"}]

        def list_tools(self):
            return []

        def call_tool(self, name, arguments):
            raise KeyError(f"Unknown tool: {name}")

        def verify(self, transcript, final_state=None):
            return VerifyResult(env_reward=1.0, done=True)

        def close(self):
            pass

    class Orders(ResourceSessionFactory):
        def create(self, task, seed=None, episode_id=None):
            return Order()

    client = OpenAIClient(os.environ["OPENAI_BASE_URL"], None, model="small", api_key="none")
    return {"sessions": Orders(), "task": "Order tea", "model_step": build_model_step(client)}


NAMES = {
    "OpenAI Agents SDK": names_for_agents_sdk,
    "LangGraph": names_for_langgraph,
    "PydanticAI": names_for_pydantic_ai,
    "smolagents": names_for_smolagents,
    "Inspect AI": names_for_inspect,
    "OpenEnv": names_for_openenv,
}


@pytest.mark.parametrize("framework", NAMES)
def test_documented_lines_record_an_episode(house, agent_token, framework, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # Inspect writes its log into the folder where it runs
    ends = {**SAYS}
    if framework == "smolagents":
        function = {"name": "final_answer", "arguments": '{"answer": "12"}'}
        ends["tool_calls"] = [{"type": "function", "function": function}]
    with model(ends) as server, house.http(agent_token) as http:
        before = {one["id"] for one in http.get("/episodes").json()["items"]}
        for kind in ("OPENAI", "LOCAL"):
            monkeypatch.setenv(f"{kind}_BASE_URL", server.base_url)
            monkeypatch.setenv(f"{kind}_API_KEY", "none")
        given = {"HttpDashboard": HttpDashboard, "SyncHttpDashboard": SyncHttpDashboard}
        given |= {"url": house.url, "token": agent_token, **NAMES[framework]()}
        code = compile(BLOCKS[framework], str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        coroutine = eval(code, given)  # noqa: S307
        if inspect.isawaitable(coroutine):
            asyncio.run(coroutine)
        [episode] = [one for one in http.get("/episodes").json()["items"] if one["id"] not in before]
    assert (episode["state"], episode["stop_reason"]) == ("finished", "done")
    assert len(server.bodies) == 1 and "ask_expert" in str(server.bodies[0]["tools"])


def test_every_framework_has_its_lines():
    assert set(BLOCKS) == set(NAMES)
    assert set(PAUSES) == {"LangGraph", "the OpenAI Agents SDK", "PydanticAI", "Inspect AI", "AG-UI"}
    assert all(len(block.splitlines()) <= 10 for block in [*BLOCKS.values(), *PAUSES.values()])


def names_for_pauses(framework, pay, thread):
    if framework == "the OpenAI Agents SDK":
        from agents import function_tool

        names_for_agents_sdk()
        return {"pay": function_tool(needs_approval=True)(pay)}
    if framework == "LangGraph":
        from langgraph.checkpoint.memory import InMemorySaver

        return {**names_for_langgraph(), "saver": InMemorySaver(), "pay": pay}
    if framework == "PydanticAI":
        return {**names_for_pydantic_ai(), "pay": pay}
    if framework == "Inspect AI":
        from inspect_ai.dataset import Sample

        from tests.frameworks.test_inspect_pauses import pay_tool

        return {**names_for_inspect(), "pay": lambda: pay_tool(pay), "samples": [Sample("Order tea", id=thread)]}
    from ag_ui.core import AssistantMessage, FunctionCall, ToolCall

    call = ToolCall(id="c1", function=FunctionCall(name="pay", arguments='{"item": "tea"}'))
    asked = {"id": "i1", "reason": "tool_call", "tool_call_id": "c1", "message": "Pay for tea?"}

    async def play(given):
        [entry] = given.resume
        pay("tea" if entry.payload["approved"] else "nothing")
        return finished(thread, "2")

    messages = [AssistantMessage(id="m1", tool_calls=[call])]
    return {"finished": finished(thread, "1", asked), "messages": messages, "play": play}


@pytest.mark.parametrize("framework", PAUSES)
def test_documented_lines_let_the_desk_approve(house, agent_token, expert_token, framework, monkeypatch, tmp_path):
    made, thread = [], a_name("documented")

    def pay(item: str) -> str:
        """Pay for an item."""
        made.append(item)
        return f"paid {item}"

    monkeypatch.chdir(tmp_path)
    with model(PAYS, SAYS) as server, deciding(house, expert_token, approve):
        for kind in ("OPENAI", "LOCAL"):
            monkeypatch.setenv(f"{kind}_BASE_URL", server.base_url)
            monkeypatch.setenv(f"{kind}_API_KEY", "none")
        given = {"HttpDashboard": HttpDashboard, "SyncHttpDashboard": SyncHttpDashboard}
        given |= {"url": house.url, "token": agent_token, "thread": thread}
        given |= names_for_pauses(framework, pay, thread)
        code = compile(PAUSES[framework], str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        coroutine = eval(code, given)  # noqa: S307
        if inspect.isawaitable(coroutine):
            asyncio.run(coroutine)
    assert made == ["tea"]
