"""OpenEnv's own harness with an expert of the running product: its adapters, its command, its rollout function."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from openenv.core.harness import (
    CLIHarnessAdapter,
    HarnessRolloutResult,
    HarnessRunLimits,
    LoopOwningSession,
    MCPHarnessAdapter,
    ModelStepResult,
    ResourceSession,
    ToolResult,
    TrainableSession,
    VerifyResult,
    build_harness_rollout_func,
)
from openenv.core.harness.collect import build_model_step
from openenv.core.llm_client import OpenAIClient

from awmclient.adapters.openenv import AwmSessions, listening, with_expert
from awmclient.client import SyncHttpDashboard
from awmclient.errors import EpisodeEnded
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.commands import ROOT
from tests.frameworks.story import an_expert, model, outline, recorded, turn

TASK = "helpdesk_1/0"
FIND = turn("I look her up.", ("search_tickets", '{"customer_id": 10}'))
ASK = turn("", ("ask_expert", '{"question": "Which tag?", "context": "shop words"}'))
RAISE = turn("", ("update_ticket", '{"ticket_id": 1012, "priority": "high"}'))
TAG = turn("", ("add_tag", '{"ticket_id": 1012, "tag": "warranty"}'))
SAYS = turn("Ticket 1012 is tagged.")
SOLVES = (FIND, ASK, RAISE, TAG, SAYS)
LIMITS = HarnessRunLimits(max_turns=8)


@pytest.fixture(scope="module")
def dash(house):
    with SyncHttpDashboard(house.url, house.token("agent")) as found:
        yield found


@pytest.fixture(scope="module")
def sessions(house):
    return AwmSessions(f"http://127.0.0.1:{house.environment['AWMENV_PORT']}", scenario="helpdesk_1")


@pytest.fixture(scope="module")
def tokens_of(house):
    return {scope: house.token(scope) for scope in ("agent", "expert", "export")}


def a_model_step(server: OpenAIServer):
    return build_model_step(OpenAIClient(server.url, None, model="small", api_key="none"))


def outcomes_of(house, token, episode):
    with house.http(token) as http:
        listed = http.get("/episodes?limit=100").raise_for_status().json()["items"]
    [found] = [one["outcomes"] for one in listed if one["id"] == episode]
    return [(one["source"], one["reward_type"], one["reward"]) for one in found]


def test_mcp_agent_asks_and_is_recorded_with_its_reward(house, dash, sessions, tokens_of):
    with model(*SOLVES) as server:
        session = with_expert(sessions, dash).create(task=TASK)
        try:
            with an_expert(house, tokens_of["expert"], session.episode.id, "Use 'warranty'."):
                played = listening(MCPHarnessAdapter()).run_white_box(a_model_step(server), session, LIMITS)
            found = session.verify(played.messages, {"done": played.done})
        finally:
            session.close()
    assert (found.env_reward, found.metrics["reward_type"]) == (1.0, "complete")
    view, steps = recorded(house, tokens_of["agent"], session.episode.id)
    assert (view["state"], view["stop_reason"]) == ("finished", "done")
    assert [line.partition(" {")[0] for line in outline(steps)[1:]] == [
        "1 assistant: I look her up.",
        "1 search_tickets",
        "2 ask Which tag? (shop words) -> Use 'warranty'.",
        "3 update_ticket",
        "4 add_tag",
        "5 assistant: Ticket 1012 is tagged.",
    ]
    read = [one["content"] for one in server.bodies[-1]["messages"] if one["role"] == "tool"]
    results = [step["result"] for step in steps if step["kind"] == "tool_call"]
    assert [read[0], *read[2:]] == results and "Use 'warranty'." in read[1]
    offered = [one["function"]["name"] for one in server.bodies[0]["tools"]]
    assert offered[-1] == "ask_expert" and not {"verify", "done"} & set(offered)
    said = outcomes_of(house, tokens_of["export"], session.episode.id)
    assert set(said) == {("reported", "complete", 1.0), ("attested", "complete", 1.0)}


def test_command_line_agent_behind_the_bridge_is_recorded(house, dash, sessions, tokens_of):
    def agent(bridge, session, limits):
        """A process of its own would send these over a pipe."""
        listed = bridge.handle_request({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert "ask_expert" in [tool["name"] for tool in listed["result"]["tools"]]
        for number, (name, arguments) in enumerate(
            [
                ("verify", {}),
                ("search_tickets", {"customer_id": 10}),
                ("search_tickets", {"customer_id": "ten"}),
                ("update_ticket", {"ticket_id": 1012, "priority": "high"}),
                ("add_tag", {"ticket_id": 1012, "tag": "warranty"}),
            ]
        ):
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
            answer = bridge.handle_request({**asked, "params": {"name": name, "arguments": arguments}})
            said.append(answer["result"])
        messages = [{"role": "assistant", "content": "Tagged."}]
        return HarnessRolloutResult(messages=messages, done=True)

    said: list[dict[str, Any]] = []
    session = with_expert(sessions.create(TASK), dash)
    played = CLIHarnessAdapter(agent).run_black_box(session, LIMITS)
    assert session.verify(played.messages).env_reward == 1.0
    session.close()
    assert said[0]["error"] == "Unknown tool: verify" and said[2]["error"].startswith("Input validation error")
    # what people alone see stays behind the session
    assert all(not one["metadata"] for one in said)
    view, steps = recorded(house, tokens_of["agent"], session.episode.id)
    assert [step.get("name") or step.get("content") for step in steps][1:] == [
        *("verify", "search_tickets", "search_tickets", "update_ticket", "add_tag", "Tagged."),
    ]
    assert (view["state"], view["stop_reason"]) == ("finished", "done")


def test_rollout_function_of_trl_gets_rewards_and_ids(house, dash, sessions, tokens_of, tmp_path):
    """The trainer samples: the ids of its model's turns are those of the steps."""
    prompts = [next(one["task"] for one in sessions.tasks() if one["task_idx"] == 0)]

    def builder(trainer, session):
        turns = iter((RAISE, TAG, SAYS))

        def step(messages, tools, sampling):
            said = next(turns)
            ids = [len(messages), 3]
            return ModelStepResult(response_of(said), [1, 2], ids, [-0.5, -0.25])

        return step

    func = build_harness_rollout_func(
        session_factory=with_expert(sessions, dash, arm="trl"),
        harness_adapter=listening(MCPHarnessAdapter()),
        model_step_builder=builder,
        limits=LIMITS,
    )
    found = func(prompts, None)
    assert found["env_reward"] == [1.0]
    with house.http(tokens_of["agent"]) as http:
        [episode] = [one["id"] for one in http.get("/episodes?arm=trl").json()["items"]]
    _, steps = recorded(house, tokens_of["agent"], episode)
    metas = [step["meta"] for step in steps if step.get("role") == "assistant"]
    assert [one["completion_ids"] for one in metas] == [[1, 3], [3, 3], [5, 3]]
    assert found["completion_ids"] == [[*itertools.chain(*(one["completion_ids"] for one in metas))]]
    assert {one["capture"]["trainable"] for one in metas} == {True}
    path = tmp_path / "rows.jsonl"
    house.manage("export", "--format", "tokens", "--filter", "arm=trl", "--output", str(path))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    wanted = ("prompt_ids", "completion_ids", "logprobs")
    assert [[row[name] for name in wanted] for row in rows] == [[meta[name] for name in wanted] for meta in metas]


def response_of(said):
    from openenv.core.llm_client import LLMResponse, ToolCall

    calls = [
        ToolCall(f"c{number}", one["function"]["name"], json.loads(one["function"]["arguments"]))
        for number, one in enumerate(said.get("tool_calls", ()))
    ]
    return LLMResponse(said["content"], calls)


def test_collect_command_records_each_episode(house, sessions, tokens_of, tmp_path):
    turns = itertools.cycle((RAISE, TAG, SAYS))
    ids = itertools.count()

    def reply(body):
        said = next(turns)
        return said | {"tool_calls": [one | {"id": f"c{next(ids)}"} for one in said.get("tool_calls", ())]}

    server = OpenAIServer(reply)
    command = [sys.executable, "-m", "awmclient.adapters.openenv_collect", "awm:helpdesk_1", "--base-url", sessions.url]
    command += ["--output-dir", str(tmp_path), "-n", "2", "--llm-endpoint", "URL", "--model", "small", "--keep-losses"]
    mine = {"AWMWEB_URL": house.url, "AWMWEB_TOKEN": tokens_of["agent"], "PYTHONPATH": str(ROOT)}
    with answering(server), house.http(tokens_of["agent"]) as http:
        command[command.index("URL")] = server.url
        before = {one["id"] for one in http.get("/episodes").json()["items"]}
        done = subprocess.run(command, env={**os.environ, **mine}, capture_output=True, text=True, timeout=300)
        fresh = [one for one in http.get("/episodes").json()["items"] if one["id"] not in before]
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [(row["episode_id"], row["reward"]) for row in rows] == [("ep-000000", 1.0), ("ep-000001", 0.0)]
    assert {(one["state"], one["task_idx"]) for one in fresh} == {("finished", 0), ("finished", 1)}


class OwnsLoop(ResourceSession):
    """A session whose agent runs by itself: its calls come over the bridge, its tokens from a capture."""

    def __init__(self):
        self.entries: list[dict[str, Any]] = []
        self.closed = False

    def initial_messages(self):
        return [{"role": "user", "content": "Count the mugs."}]

    def list_tools(self):
        from openenv.core.env_server.mcp_types import Tool

        return [Tool(name=name, description="", input_schema={"type": "object"}) for name in ("count", "verify")]

    def call_tool(self, name, arguments):
        if name == "break":
            raise ValueError("the shelf fell down")
        return ToolResult(data={"left": 12})

    def verify(self, transcript, final_state=None):
        return VerifyResult(env_reward=0.5, done=True)

    def close(self):
        self.closed = True

    def wait_for_completion(self, timeout_s=None):
        return 0

    def fetch_proxy_trace(self):
        return self.entries

    def calls(self, node, message, sampled):
        sent = [{"role": "user", "content": "Count the mugs."}]
        ids = {"prompt_token_ids": [1], "completion_token_ids": sampled, "per_token_logps": [-0.5] * len(sampled)}
        answer = {"choices": [{"message": {"role": "assistant", **message}}]}
        mask = [0, *[1] * len(sampled)]
        about = {"metadata": {"node_id": node}, "loss_mask": mask}
        self.entries.append({"request": {"messages": sent}, "response": answer, **ids, **about})


COUNTS = {"function": {"name": "count", "arguments": '{"what": "mugs"}'}, "id": "c1", "type": "function"}


def test_loop_owning_agent_is_recorded_with_captured_tokens(house, dash, tokens_of):
    inner = OwnsLoop()
    session = with_expert(inner, dash)
    assert isinstance(session, LoopOwningSession) and not isinstance(session, TrainableSession)
    inner.calls("n1", {"content": "I count.", "reasoning_content": "Mugs.", "tool_calls": [COUNTS]}, [4, 5])
    assert session.call_tool("count", {"what": "mugs"}).data == {"left": 12}
    inner.calls("n2", {"content": "Twelve."}, [6])
    inner.entries.pop(0)  # the capture thinks better of its first turn
    assert session.wait_for_completion() == 0 and session.fetch_proxy_trace() == inner.entries
    session.verify([{"role": "assistant", "content": "Twelve."}])
    session.close()
    assert inner.closed
    view, steps = recorded(house, tokens_of["agent"], session.episode.id)
    first, call, last, note = steps[1:]
    assert (first["content"], first["reasoning"]["text"], first["meta"]["completion_ids"]) == (
        "I count.",
        "Mugs.",
        [4, 5],
    )
    assert (call["call_id"], call["result"]) == ("c1", {"left": 12})
    assert (last["content"], last["meta"]["completion_ids"]) == ("Twelve.", [6])
    assert note["meta"]["capture"]["changed"]["n1"]["reason"] == "the capture has left the turn out"
    assert outcomes_of(house, tokens_of["export"], session.episode.id) == [("reported", "incomplete", 0.5)]


def test_session_that_breaks_or_is_left_is_a_fault(house, dash, tokens_of):
    for breaks in (True, False):
        session = with_expert(OwnsLoop(), dash)
        if breaks:
            with pytest.raises(ValueError, match="shelf"):
                session.call_tool("break", {})
        assert session.call_tool("verify", {}).error == "Unknown tool: verify"
        session.close()
        view, steps = recorded(house, tokens_of["agent"], session.episode.id)
        said = "the shelf fell down" if breaks else "without verifying"
        assert view["state"] == "failed" and said in steps[-1]["content"]


def test_stopped_episode_ends_the_harness(house, dash, tokens_of):
    session = with_expert(OwnsLoop(), dash)
    with house.http(tokens_of["agent"]) as http:
        http.post(f"/episodes/{session.episode.id}/finish", json={"stop_reason": "gave_up"}).raise_for_status()
    with pytest.raises(EpisodeEnded):
        session.call_tool("count", {})
    session.close()


def test_sessions_take_tasks_in_order_and_refuse_unknown_ones(sessions):
    assert [sessions._chosen(None, f"ep-00000{number}") for number in (1, 0)] == [("helpdesk_1", 1), ("helpdesk_1", 0)]
    assert sessions._chosen({"task_idx": 2}, None) == ("helpdesk_1", 2)
    text = sessions.tasks()[3]["task"]
    assert sessions._chosen([{"role": "user", "content": text}], None) == ("helpdesk_1", 3)
    with pytest.raises(ValueError, match="has no task 'helpdesk_1/99'"):
        sessions.create("helpdesk_1/99")
    with pytest.raises(ValueError, match="helpdesk_1/99"):
        sessions.create({"scenario": "helpdesk_1", "task_idx": 99})
