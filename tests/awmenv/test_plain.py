"""Plain OpenEnv servers as strangers: what they offer is read within bounds, and what breaks their word is named."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import pytest
from openenv.core.env_server.http_server import create_app

from awmenv.errors import BrokenServer, NothingToPlay, ServerRefused, ServerTimeout, SessionLost
from awmenv.models import Tool
from awmenv.offers import actions_in, offer_of, reset_arguments, task_text, without_success
from awmenv.plain import PlainClient
from runs.launch import foreign_tasks
from runs.plan import servers
from runs.plan.plans import MAX_EPISODES, plan_of
from tests.runs.openenv_worlds import (
    Drawers,
    Guess,
    GuessAction,
    GuessObservation,
    drawers,
    guess,
    served,
    spoiled_step,
)

LOOK = ("look", {"drawer": 0})


async def play(server, *calls, timeout_s=60.0):
    schema = httpx.get(f"{server.url}/schema", timeout=60).json()
    async with PlainClient(server.url, timeout_s=timeout_s, schema=schema) as env:
        await env.list_tools()
        await env.begin({"seed": 1})
        return [await env.call_tool(*call) for call in calls]


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "1.0", [1.0], {"value": 1}, 10**400])
def test_reward_that_is_no_number_is_named(reward):
    with served(drawers()) as server:
        server.spoil = spoiled_step(reward=reward)
        with pytest.raises(BrokenServer, match="The reward of the server is no number: ") as said:
            asyncio.run(play(server, LOOK))
    assert len(str(said.value)) < 200


def test_end_that_is_no_boolean_is_named():
    with served(drawers()) as server:
        server.spoil = spoiled_step(done="<b>yes</b>")
        with pytest.raises(BrokenServer, match="neither true nor false"):
            asyncio.run(play(server, LOOK))


@pytest.mark.parametrize(
    ("text", "words"),
    [("x" * (50 << 20), "a message of more than 4 MB"), ("[" * 200_000, "invalid frame"), ("{}", "invalid frame")],
    ids=["fifty megabytes", "deep", "no frame"],
)
def test_message_that_no_agent_could_read_ends_the_session(text, words):
    with served(drawers()) as server:
        server.spoil = lambda said: text if '"observation"' in said else said
        with pytest.raises(SessionLost, match=words):
            asyncio.run(play(server, LOOK))


def test_reset_that_never_ends_exceeds_its_time():
    ended = threading.Event()

    class Stuck(Guess):
        def reset(self, seed=None, episode_id=None, **given):
            super().reset(seed, **given)
            ended.wait(60)
            return GuessObservation(hint="")

    with served(create_app(Stuck, GuessAction, GuessObservation)) as server:
        try:
            with pytest.raises(ServerTimeout, match="within 0.5 s"):
                asyncio.run(play(server, timeout_s=0.5))
            assert len(Stuck.resets) == 1, "it is not sent again"
        finally:
            ended.set()


def test_tools_that_change_in_mid_episode_are_named():
    class Growing(Drawers):
        async def step_async(self, action, timeout_s=None, **more):
            found = await super().step_async(action, timeout_s=timeout_s, **more)
            self._server.tool(lambda: "x", name="<script>")
            return found

    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

    with (
        served(create_app(Growing, CallToolAction, CallToolObservation)) as server,
        pytest.raises(BrokenServer, match="changed its tools since the launch .new: <script>."),
    ):
        asyncio.run(play(server, LOOK))


@pytest.mark.parametrize(
    ("published", "words"),
    [
        ({"guess": {"type": "integer"}}, "it wants number, which is not in it"),
        ({"number": {"type": "integer"}, "extra": {"type": "integer"}}, "it refuses extra, which is in it"),
    ],
)
def test_schema_that_the_server_contradicts_is_named(published, words):
    class Liar(GuessAction):
        @classmethod
        def model_json_schema(cls, *args, **kwargs):
            return {"title": "GuessAction", "type": "object", "properties": published}

    with served(create_app(Guess, Liar, GuessObservation)) as server, pytest.raises(BrokenServer, match=words):
        asyncio.run(play(server, ("guess", dict.fromkeys(published, 3))))


def test_agents_own_error_is_no_fault_of_the_server():
    with served(guess()) as server:
        unfit, calm = asyncio.run(play(server, ("guess", {"number": "many"}), ("guess", {"number": 1})))
    assert "number" in unfit.error and (calm.done, calm.reward) == (True, 1.0)


def test_each_alternative_of_a_union_is_a_tool():
    move = {"title": "MoveAction", "properties": {"type": {"const": "move"}, "to": {"type": "string"}, "metadata": {}}}
    wait = {"title": "WaitAction", "properties": {"type": {"const": "reset"}}, "required": ["type"]}
    found = actions_in({"anyOf": [{"$ref": "#/$defs/Move"}, wait], "$defs": {"Move": move}})
    assert [(one.tool.name, one.fixed) for one in found] == [
        ("move", {"type": "move"}),
        ("reset_action", {"type": "reset"}),
    ]
    assert list(found[0].tool.input_schema["properties"]) == ["to"] and "required" not in found[1].tool.input_schema
    with pytest.raises(BrokenServer, match="a part that it does not have"):
        actions_in({"anyOf": [{"$ref": "#/$defs/None"}]})


@pytest.mark.parametrize(
    "names", [[""], ["a", "a"], ["a\nb"], ["x" * 201], [f"t{number}" for number in range(1001)]], ids=str
)
def test_list_of_tools_that_is_none_is_named(names):
    with pytest.raises(BrokenServer, match="The server lists"):
        offer_of({}, [Tool(name, "", {}) for name in names])


def test_server_without_tools_and_actions_offers_nothing():
    for schema in (None, {}, {"action": {"title": "Action", "properties": {"metadata": {}}}}):
        with pytest.raises(NothingToPlay, match="offers nothing to play"):
            offer_of(schema, [Tool("verify", "", {}), Tool("reset", "", {})] if schema == {} else [])


def test_words_of_a_task_leave_its_answer_out():
    assert task_text({"answer": "42", "question": " How many? "}) == "How many?"
    assert task_text({"answer": "42"}) == task_text(7) == "" and task_text("Go.") == "Go."
    assert reset_arguments(["test"], "test", 3, 1) == {"split": "test", "index": 3, "seed": 1}
    assert reset_arguments([], "seed", 3, 1) == {"seed": 3}
    assert reset_arguments([], "retail", 0, None) == {"task_id": "retail"}


def test_observation_without_success_keeps_its_shape():
    deep = json.loads('{"a":' * 150 + "1" + "}" * 150)
    assert without_success({"Score": 1, "board": [{"done": True, "row": 1}]}) == {"board": [{"row": 1}]}
    assert "nested too deeply" in json.dumps(without_success(deep))


@pytest.mark.parametrize(
    ("drip", "size", "words"),
    [(0.01, 10_000, "no answer in time"), (0.0, 3 << 20, "has more than 2 MB")],
    ids=["byte by byte", "three megabytes"],
)
def test_probe_is_bounded_in_time_and_size(monkeypatch, drip, size, words):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for place in range(size if drip else 3):
            more = place < (size - 1 if drip else 2)
            await send({"type": "http.response.body", "body": b" " * (1 if drip else 1 << 20), "more_body": more})
            await asyncio.sleep(drip)

    monkeypatch.setattr(servers, "PROBE_S", 5.0)
    with served(app) as server:
        assert words in servers.probe(servers.ServerProfile("lab", server.url)).problem


def test_tasks_of_an_endless_split_are_taken_as_needed():
    server = servers.ServerReport("", splits={f"s{number}": 2**31 - 1 for number in range(100)})
    assert len(foreign_tasks._listed(None, plan_of(PLAN | {"tasks": {"limit": 3}}), server)) == 3
    assert len(foreign_tasks._listed(None, plan_of(PLAN), server)) == MAX_EPISODES + 1, "which the launch refuses"


PLAN = {"name": "t", "arms": [{"name": "a"}], "environment": "lab", "policy": "model"}


def test_words_of_an_error_are_bounded():
    with served(drawers()) as server:
        said = {"type": "error", "data": {"message": "<b>" * 1_000_000, "code": "SESSION_ERROR"}}
        server.spoil = lambda text: json.dumps(said) if '"observation"' in text else text
        with pytest.raises(ServerRefused) as refused:
            asyncio.run(play(server, LOOK))
    assert len(str(refused.value)) == 10_000
