"""A server with a key signs what a session came to, on the control channel alone; a loop's recorded steps prove it."""

import asyncio
import json
import stat
from types import SimpleNamespace

import pytest

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.rollout import rollout
from awmclient.testing import MemoryDashboard
from awmenv.attesting import NotAttested, Trail, opened, sha256_of, signed
from awmenv.client import EnvironmentClient
from awmenv.errors import HostFailed
from awmenv.packs import load_pack
from awmenv.server.session.environment import _made
from awmenv.server.session.loading import _checked_tools
from awmweb.embedded.paths import attest_key
from tests.awmenv.conftest import ROOT, start_server

KEY = "s" * 43
HELPDESK = {"scenario": "helpdesk_1", "task_idx": 0}


@pytest.fixture(scope="module")
def signing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signing")
    (folder / "key").write_text(KEY)
    (folder / "run").mkdir()
    server = start_server(folder / "run", ROOT / "packs" / "starter", AWMENV_ATTEST_KEY_FILE=str(folder / "key"))
    yield server
    server.stop()


def scripted():
    scripts = load_pack(ROOT / "packs" / "starter").scripts("helpdesk_1", 0)
    return ScriptedPolicy(scripts["oracle"])


async def test_recorded_steps_match_the_signed_hash(signing):
    dash = MemoryDashboard()
    async with EnvironmentClient(signing.url) as environment:
        done = await rollout(scripted(), environment, dash, task="t", verify=True, **HELPDESK)
    outcome = dash.book.entry(done.episode).reported
    statement = opened(KEY, outcome["attestation"])
    trail = Trail()
    for step in done.steps:
        if step["kind"] == "tool_call":
            trail.add(step["name"], step["arguments"], step.get("result"), step.get("error"))
    assert statement["trail_sha256"] == trail.sha256() and statement["calls"] == trail.calls > 0
    assert (statement["reward_type"], outcome["reward_type"]) == ("complete", "complete")
    assert "attestation" not in json.dumps(done.steps)


async def test_session_statement_is_on_the_control_channel_only(signing):
    sessions = set()
    for _ in range(2):
        async with EnvironmentClient(signing.url) as environment:
            await environment.reset(**HELPDESK, state_diff=True)
            missing = await environment.call_tool("no_such_tool", {})
            assert "attestation" not in missing.metadata
            first, again = await environment.verify("a"), await environment.verify("b")
            assert first.metadata["attestation"] == again.metadata["attestation"]
            sessions.add(opened(KEY, first.metadata["attestation"])["session"])
    assert len(sessions) == 2
    async with EnvironmentClient(signing.url) as environment:
        await environment.reset(**HELPDESK)
        assert "attestation" not in (await environment.verify()).metadata, "upstream's clients get upstream's answer"


def oracle():
    return [
        turn["call"]
        for turn in load_pack(ROOT / "packs" / "starter").scripts("helpdesk_1", 0)["oracle"]
        if "call" in turn
    ]


async def moved(url, world, action):
    """What `verify` says of a world that began so, and in which only this call was made."""
    async with EnvironmentClient(url) as env:
        await env.reset(**HELPDESK, state_diff=True, world=world)
        await env.step(action)
        return (await env.verify("Merged.")).metadata


@pytest.mark.parametrize("how", ["put_back", "mark", "start"])
async def test_world_that_was_moved_gets_no_statement(signing, how):
    async with EnvironmentClient(signing.url) as worker:
        await worker.reset(**HELPDESK, state_diff=True, world=True)
        marks = [(await worker.call_tool(c["name"], c.get("arguments"))).metadata["mark"] for c in oracle()]
        world = worker.world
    call = {"type": "call_tool", "tool_name": oracle()[0]["name"], "arguments": oracle()[0].get("arguments", {})}
    known = {"clock": marks[0]["clock"], "answer": marks[0]["answer"], "database": marks[-1].get("database", "")}
    metadata = {"put_back": {"mark": known, "put_back": True}, "mark": {"mark": known}, "start": {}}[how]
    begun = world if how == "start" else True
    found = await moved(signing.url, begun, {**call, "metadata": metadata})
    assert "attestation" not in found and found["not_attested"]
    fresh = await moved(signing.url, True, call)
    assert "attestation" in fresh and "not_attested" not in fresh


async def test_cut_off_call_gets_no_statement():
    class Cut(SimpleNamespace):
        async def call(self, *_call):
            raise asyncio.CancelledError

    session = Cut(moved="", trail=Trail())
    with pytest.raises(asyncio.CancelledError):
        await _made(session, "merge", {})
    assert session.moved == "a call was cut off"


async def test_signed_reward_is_the_servers_own(signing):
    async with EnvironmentClient(signing.url) as env:
        await env.reset(**HELPDESK, state_diff=True, reward_config={"others": 1e6})
        found = await env.verify("Nothing.")
    statement = opened(KEY, found.metadata["attestation"])
    assert (found.reward, statement["reward_type"], statement["reward"]) == (1e6, "others", 0.0)


async def test_statement_names_the_packs_task(signing):
    async with EnvironmentClient(signing.url) as env:
        await env.reset(**HELPDESK, state_diff=True, task="Do nothing.")
        statement = opened(KEY, (await env.verify("Nothing.")).metadata["attestation"])
    assert statement["task_sha256"] == sha256_of(load_pack(ROOT / "packs" / "starter").tasks("helpdesk_1")[0])


async def test_near_name_of_a_control_tool_is_counted(signing):
    async with EnvironmentClient(signing.url) as env:
        await env.reset(**HELPDESK, state_diff=True)
        for name in (" ASK_expert", "Verify "):
            await env.call_tool(name, {})
        assert opened(KEY, (await env.verify("a")).metadata["attestation"])["calls"] == 2


@pytest.mark.parametrize("name", [" ASK_expert", "Verify "])
def test_near_name_of_a_control_tool_is_no_tool(name):
    with pytest.raises(HostFailed, match="reserved tool name"):
        _checked_tools([{"name": name, "input_schema": {}}])


def test_key_is_made_once_and_readable_by_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("AWMENV_ATTEST_KEY_FILE", raising=False)
    key = attest_key(tmp_path)
    assert len(key) >= 32 and attest_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / "attest_key").stat().st_mode) == 0o600
    with pytest.raises(NotAttested):
        opened(key, signed(KEY, {}))
