"""A server with a key signs what a session came to, on the control channel alone; a loop's recorded steps prove it."""

import json
import stat

import pytest

from awmclient.rollout import rollout
from awmclient.scripted import ScriptedPolicy
from awmclient.testing import MemoryDashboard
from awmenv.attesting import NotAttested, Trail, opened, signed
from awmenv.client import EnvironmentClient
from awmenv.packs import load_pack
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


def test_key_is_made_once_and_readable_by_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("AWMENV_ATTEST_KEY_FILE", raising=False)
    key = attest_key(tmp_path)
    assert len(key) >= 32 and attest_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / "attest_key").stat().st_mode) == 0o600
    with pytest.raises(NotAttested):
        opened(key, signed(KEY, {}))
