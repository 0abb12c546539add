"""Trials of Harbor at a running product, with doubles of Harbor's classes: `make test-harbor` has the real ones."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import uuid
from types import ModuleType, SimpleNamespace

import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from awmclient.adapters import harbor
from awmclient.client.episode import HttpEpisode
from awmclient.errors import NotFound, Unreachable
from people.models import new_id
from tests.running import until

USER = {"source": "user", "message": "Fix it."}
LOOKS = {
    "source": "agent",
    "message": "I look.",
    "tool_calls": [{"tool_call_id": "c1", "function_name": "Bash", "arguments": {"command": "ls"}}],
    "observation": {"results": [{"source_call_id": "c1", "content": "a b"}]},
}
QUESTION = "Which one?"
ASKS = {
    "source": "agent",
    "message": "",
    "tool_calls": [{"tool_call_id": "c2", "function_name": "awmweb_ask_expert", "arguments": {"question": QUESTION}}],
    "observation": {"results": [{"source_call_id": "c2", "content": "b"}]},
}
DONE = {"source": "agent", "message": "It was b."}


class FakeTrial:
    """What the adapter uses of Harbor's trial."""

    def __init__(self, folder, has_headers=True, takes_servers=True):
        self.id, self.hooks = uuid.uuid4(), {}
        model = SimpleNamespace(name="m-1")
        about = SimpleNamespace(name="robot", version="1", model_info=model)
        able = SimpleNamespace(mcp_servers=takes_servers, mcp_http_headers=has_headers)
        self.agent = SimpleNamespace(
            name=lambda: "robot", to_agent_info=lambda: about, capabilities=able, mcp_servers=["theirs"]
        )
        self.task = SimpleNamespace(name="desk/fix", instruction="Fix it.", has_steps=False)
        self.config = SimpleNamespace(trial_name="fix__1")
        self.paths = SimpleNamespace(agent_dir=folder)

    def add_hook(self, event, hook):
        self.hooks[event] = hook

    def writes(self, *steps, agent=None):
        (self.paths.agent_dir / "trajectory.json").write_text(json.dumps({"agent": agent or {}, "steps": steps}))

    async def ends(self, rewards=None, error=None, is_valid=True):
        verified = SimpleNamespace(rewards=rewards) if rewards else None
        fields = {"verifier_result": verified, "exception_info": error, "reward_valid": is_valid, "step_results": None}
        await self.hooks["end"](SimpleNamespace(result=SimpleNamespace(**fields)))


@pytest.fixture(autouse=True)
def doubles(monkeypatch):
    """Modules that the adapter imports late."""

    def module(name, **values):
        made = ModuleType(name)
        vars(made).update(values)
        monkeypatch.setitem(sys.modules, name, made)

    class Trial:
        @classmethod
        async def create(cls, config, **more):
            return config.trial

    module("harbor.trial.trial", Trial=Trial)
    module("harbor.trial.hooks", TrialEvent=SimpleNamespace(END="end"))
    module("harbor.models.task.config", MCPServerConfig=SimpleNamespace)
    return Trial


@pytest.fixture(scope="module")
def token(house):
    return house.token("agent")


@pytest.fixture(scope="module")
def reader(house):
    return house.http(house.token("export"))


@pytest.fixture(scope="module")
def expert(house):
    return house.http(house.token("expert", behind="person"))


@pytest.fixture
def desk(house, token):
    return harbor.DeskOfTrials(house.url, token, house.url, "Harbor: nightly", f"harbor:{uuid.uuid4()}")


async def happens(what):
    """Wait beside the loop, in which the adapter works."""
    return await asyncio.to_thread(until, what, 30)


@pytest.fixture
def trial(tmp_path):
    return FakeTrial(tmp_path)


async def begun(trial, desk):
    recorded = harbor.RecordedTrial(trial, desk)
    await recorded.begin()
    return recorded


def episode_of(reader, trial):
    items = reader.get("/episodes?scenario=desk/fix&limit=200").json()["items"]
    return next(one for one in items if one["key"] == f"harbor:{trial.id}")


def steps_of(reader, episode):
    return reader.get(f"/episodes/{episode['id']}/steps").json()["steps"]


async def asks(trial, question=QUESTION):
    """Ask as the harness in the sandbox does, by what it was given."""
    _, server = trial.agent.mcp_servers
    variable = server.headers["Authorization"].removeprefix("Bearer ${").removesuffix("}") if server.headers else ""
    headers = {"Authorization": f"Bearer {os.environ[variable]}"} if variable else {}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(server.url, http_client=http) as (read, write, _),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        return (await client.call_tool("ask_expert", {"question": question})).content[0].text


def answers(expert, episode, words):
    [ask] = expert.get(f"/asks?status=open&episode={episode['id']}").json()["asks"]
    lease = expert.post(f"/asks/{ask['id']}/claim").json()
    body = {"lease_token": lease["lease_token"], "text": words, "nonce": new_id()}
    assert expert.post(f"/assignments/{lease['assignment']}/answer", json=body).status_code == 200


@pytest.mark.parametrize("has_headers", [True, False])
async def test_agent_asks_in_the_episode_of_its_trial(desk, reader, expert, tmp_path, has_headers):
    trial = FakeTrial(tmp_path, has_headers)
    await begun(trial, desk)
    trial.writes(USER, LOOKS, ASKS)
    episode = episode_of(reader, trial)
    await happens(lambda: len(steps_of(reader, episode)) == 3)
    asking = asyncio.create_task(asks(trial))
    await happens(lambda: steps_of(reader, episode)[-1]["kind"] == "ask")
    answers(expert, episode, "b")
    assert await asking == "b"
    trial.writes(USER, LOOKS, ASKS, DONE)
    await trial.ends({"reward": 1.0})
    seen = [(step["kind"], step.get("content") or step.get("name")) for step in steps_of(reader, episode)]
    assert seen == [
        *(("message", "Fix it."), ("message", "I look."), ("tool_call", "Bash")),
        *(("ask", None), ("message", "It was b.")),
    ]
    ended = episode_of(reader, trial)
    assert (ended["state"], ended["policy_name"], ended["scenario"]) == ("finished", "robot", "desk/fix")
    assert ended["outcomes"] == [{"reward_type": "complete", "reward": 1.0, "source": "reported"}]
    assert not any(name.startswith("AWMWEB_EPISODE_") for name in os.environ)


async def test_token_opens_nothing_but_the_desk_of_its_episode(house, desk, reader, trial):
    await begun(trial, desk)
    secret = next(value for name, value in os.environ.items() if name.startswith("AWMWEB_EPISODE_"))
    stranger, episode = house.http(secret), episode_of(reader, trial)
    for path in ("/episodes", f"/episodes/{episode['id']}", f"/episodes/{episode['id']}/token", "/asks"):
        assert stranger.get(path).status_code == 401
    steps = {"steps": [{"seq": 1, "kind": "note", "content": "x"}]}
    assert stranger.post(f"/episodes/{episode['id']}/steps", json=steps).status_code == 401
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    assert stranger.post(f"{house.url}/mcp/desk", json=hello).status_code == 401
    assert house.http().post(f"{house.url}/mcp?token={desk.token}", json=hello).status_code == 401
    await trial.ends()
    over = stranger.post(f"{house.url}/mcp", json={**hello, "params": {"protocolVersion": "2025-11-25"}})
    assert over.status_code == 404


async def test_questions_that_take_numbers_leave_no_gap(desk, reader, expert, trial):
    recorded = await begun(trial, harbor.DeskOfTrials(**{**vars(desk), "is_live": False}))
    asking = asyncio.create_task(asks(trial))
    episode = episode_of(reader, trial)
    await happens(lambda: bool(steps_of(reader, episode)))
    recorded._note("one")
    await recorded._flush()
    answers(expert, episode, "b")
    await asking
    trial.writes(USER, LOOKS)
    await trial.ends()
    kinds = [step["kind"] for step in steps_of(reader, episode)]
    assert kinds == ["ask", "note", "message", "message", "tool_call"]


ENDS = {
    "others": ({"reward": 0.5}, None, ("finished", "done", "", [("others", 0.5)])),
    "first by name": ({"speed": 0.2, "accuracy": 1}, None, ("finished", "done", "", [("complete", 1.0)])),
    "timeout": ({"reward": 0.0}, ("AgentTimeoutError", "late"), ("finished", "timeout", "", [("others", 0.0)])),
    "no container": (None, ("RuntimeError", "no image"), ("failed", "error", "environment", [])),
    "model is away": (None, ("RateLimitError", "slow"), ("failed", "error", "model", [])),
    "cancelled": (None, ("CancelledError", ""), ("failed", "error", "", [])),
}


@pytest.mark.parametrize(("rewards", "error", "expected"), ENDS.values(), ids=ENDS)
async def test_end_of_a_trial(desk, reader, trial, rewards, error, expected):
    await begun(trial, desk)
    names = ("exception_type", "exception_message")
    await trial.ends(rewards, SimpleNamespace(**dict(zip(names, error, strict=True))) if error else None)
    item = episode_of(reader, trial)
    outcomes = [(one["reward_type"], one["reward"]) for one in item["outcomes"]]
    assert (item["state"], item["stop_reason"], item["fault"] or "", outcomes) == expected
    assert steps_of(reader, item)[0]["content"] == "The trial has no trajectory.json."


async def test_reward_that_harbor_calls_invalid_is_none(desk, reader, trial):
    await begun(trial, desk)
    await trial.ends({"reward": 1.0}, is_valid=False)
    assert episode_of(reader, trial)["outcomes"] == []


def test_reward_that_is_no_number_is_none():
    verified = SimpleNamespace(rewards={"reward": float("nan")})
    assert harbor.outcome_of(SimpleNamespace(verifier_result=verified, reward_valid=True)) is None


async def test_harness_without_servers_is_recorded_and_says_so(desk, reader, tmp_path):
    trial = FakeTrial(tmp_path, takes_servers=False)
    await begun(trial, desk)
    assert trial.agent.mcp_servers == ["theirs"]
    trial.writes(USER, DONE)
    await trial.ends({"reward": 1})
    steps = steps_of(reader, episode_of(reader, trial))
    assert steps[0]["content"] == "Harbor gives robot no MCP servers, so it cannot ask."
    assert [step["content"] for step in steps[1:]] == ["Fix it.", "It was b."]


async def test_trial_goes_on_without_a_desk(trial, caplog, monkeypatch):
    monkeypatch.setattr(harbor, "RETRY_S", 0.1)
    away = harbor.DeskOfTrials("http://127.0.0.1:9", "x", "http://127.0.0.1:9", "Harbor: nightly", "harbor:1")
    with caplog.at_level(logging.WARNING):
        await begun(trial, away)
    assert trial.hooks == {} and trial.agent.mcp_servers == ["theirs"]
    assert "The trial fix__1 goes on without the desk" in caplog.text


def fails(folder):
    raise AttributeError("'list' object has no attribute 'get'")


STRANGE = {
    "question": (dict(ASKS, tool_calls=[dict(ASKS["tool_calls"][0], arguments={"question": ["a"]})]), {}, None),
    "agent": (LOOKS, "x", None),
    "converter": (LOOKS, {}, fails),
}


@pytest.mark.parametrize(("step", "agent", "convert"), STRANGE.values(), ids=STRANGE)
async def test_what_an_agent_wrote_ends_no_job(desk, reader, trial, caplog, step, agent, convert):
    if convert is not None:
        trial.agent.convert_trajectory = convert
    await begun(trial, desk)
    variable = next(name for name in os.environ if name.startswith("AWMWEB_EPISODE_"))
    trial.writes(USER, step, DONE, agent=agent)
    await asyncio.sleep(1.5)
    await trial.ends({"reward": 1.0})
    item = episode_of(reader, trial)
    assert (item["state"], variable in os.environ) == ("finished", False)
    assert [one["kind"] for one in steps_of(reader, item)][-2:] == ["tool_call", "message"]
    assert ("waits with its steps: AttributeError" in caplog.text) == (convert is not None)


def timed(second, step, **more):
    return {**step, "timestamp": f"2026-11-30T10:00:0{second}Z", **more}


async def test_growing_trajectory_comes_whole_and_once(desk, reader, trial):
    await begun(trial, desk)
    waits = {name: value for name, value in LOOKS.items() if name != "observation"}
    aside = {"extra": {"is_sidechain": True}}
    trial.writes(timed(1, USER), timed(3, waits), timed(4, DONE, **aside), timed(5, DONE, **aside))
    episode = episode_of(reader, trial)
    await happens(lambda: len(steps_of(reader, episode)) == 1)
    await asyncio.sleep(1)
    between = timed(2, DONE, message="In between.")
    grown = [timed(1, USER), timed(1, DONE, **aside), between, timed(3, LOOKS), timed(4, DONE, **aside)]
    trial.writes(*grown, timed(6, DONE))
    await happens(lambda: len(steps_of(reader, episode)) == 4)
    trial.writes(*grown, timed(6, DONE))
    await trial.ends({"reward": 1.0})
    seen = [(step.get("content"), step.get("result")) for step in steps_of(reader, episode)]
    texts = ["Fix it.", "In between.", "I look."]
    assert seen == [*((text, None) for text in texts), (None, "a b"), ("It was b.", None)]


async def test_step_whose_response_was_lost_is_there_once(desk, reader, expert, trial, monkeypatch):
    recorded = await begun(trial, harbor.DeskOfTrials(**{**vars(desk), "is_live": False}))
    append = HttpEpisode.append

    async def loses(episode, steps):
        await append(episode, steps)
        raise Unreachable

    recorded._note("one")
    with monkeypatch.context() as patch, pytest.raises(Unreachable):
        patch.setattr(HttpEpisode, "append", loses)
        await recorded._flush()
    asking = asyncio.create_task(asks(trial))
    episode = episode_of(reader, trial)
    await happens(lambda: steps_of(reader, episode)[-1]["kind"] == "ask")
    recorded._note("two")
    await recorded._flush()
    answers(expert, episode, "b")
    await asking
    trial.writes(USER)
    await trial.ends()
    seen = [step.get("content") for step in steps_of(reader, episode)]
    assert seen == ["one", None, "two", "Fix it."]


async def test_refused_step_is_a_note_and_the_episode_ends(desk, reader, trial):
    recorded = await begun(trial, desk)
    recorded._note("one")
    bad = {"kind": "message", "role": "user", "content": "Bad.", "at": "0001-01-01T00:00:00+10:00"}
    recorded._pending.append(bad)
    trial.writes(USER, DONE)
    await asyncio.sleep(1.5)
    await trial.ends({"reward": 1.0})
    item = episode_of(reader, trial)
    one, note, *others = steps_of(reader, item)
    assert (item["state"], one["content"], note["kind"]) == ("finished", "one", "note")
    assert "A step was refused" in note["content"] and '"content": "Bad."' in note["content"]
    assert [step["content"] for step in others] == ["Fix it.", "It was b."]


async def test_episode_ends_also_without_its_steps(desk, reader, trial, monkeypatch, caplog):
    await begun(trial, desk)

    async def refuses(episode, steps):
        raise NotFound

    monkeypatch.setattr(HttpEpisode, "append", refuses)
    trial.writes(USER, DONE)
    await trial.ends({"reward": 1.0})
    item = episode_of(reader, trial)
    assert (item["state"], steps_of(reader, item)) == ("finished", [])
    assert "The trial fix__1 ends without its last steps: NotFound" in caplog.text


async def test_trial_without_a_token_is_recorded_to_its_end(desk, reader, trial, monkeypatch):
    async def refuses(episode):
        raise NotFound

    monkeypatch.setattr(HttpEpisode, "token", refuses)
    await begun(trial, desk)
    assert trial.agent.mcp_servers == ["theirs"]
    trial.writes(USER, DONE)
    await trial.ends({"reward": 1.0})
    item = episode_of(reader, trial)
    assert item["state"] == "finished"
    assert "The trial cannot ask: NotFound" in steps_of(reader, item)[0]["content"]


async def test_plugin_gives_each_new_trial_the_desk(house, token, reader, trial, doubles, monkeypatch):
    monkeypatch.setenv("AWMWEB_URL", house.url)
    monkeypatch.setenv("AWMWEB_TOKEN", token)
    plugin = harbor.DeskPlugin(sandbox_url="http://host.docker.internal:8000/")
    await plugin.on_job_start(SimpleNamespace(id=uuid.uuid4(), config=SimpleNamespace(job_name="nightly")))
    again = SimpleNamespace(source_trial="graded again", trial=FakeTrial(trial.paths.agent_dir))
    assert (await doubles.create(again)).hooks == {}
    made = await doubles.create(SimpleNamespace(source_trial=None, trial=trial))
    assert made is trial and trial.agent.mcp_servers[1].url == "http://host.docker.internal:8000/mcp"
    await trial.ends()
    await plugin.on_job_end(None)
    later = FakeTrial(trial.paths.agent_dir)
    assert (await doubles.create(SimpleNamespace(source_trial=None, trial=later))).hooks == {}
    run = reader.get(f"/runs/{episode_of(reader, trial)['run']}").json()
    assert run["name"] == "Harbor: nightly"


def test_plugin_without_a_token_names_what_to_set(monkeypatch):
    monkeypatch.delenv("AWMWEB_TOKEN", raising=False)
    with pytest.raises(ValueError, match="AWMWEB_URL to the dashboard and AWMWEB_TOKEN"):
        harbor.desk_from_environment("run", "key")
