"""A verifier that the dashboard sends: run in the sandbox if it is signed and fresh, and never attested."""

from __future__ import annotations

import time

import pytest

from awmenv.attesting import NotAttested, question, sent_verifier, sha256_of
from awmenv.client import EnvironmentClient
from awmenv.errors import ServerRefused
from tests.awmenv.conftest import TINY, OpenFolders, start_server

KEY = "k" * 40
YES = 'def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n    return {"result": %s}\n'
COMPLETE = YES % '"complete" if final_answer == "right" else "others"'
OUTSIDE = YES % "open('/etc/hostname').read() and 'complete'"


@pytest.fixture(scope="module")
def server():
    folders = OpenFolders()
    folder = folders.mktemp("awmenv")
    (folder / "key").write_text(KEY)
    running = start_server(folder, TINY, own_zygotes=False, AWMENV_ATTEST_KEY_FILE=str(folder / "key"))
    yield running
    running.stop()
    folders.remove()


async def judged(client, code, answer=None, key=KEY):
    return await client.judge(question(key, {"verifier": code}), sha256_of(code), answer)


async def test_sent_verifier_runs_beside_the_packs(server):
    async with EnvironmentClient(server.url) as client:
        await client.reset(scenario="notes_1", task_idx=0, state_diff=True, world=True)
        first = await client.verify()
        right, other = await judged(client, COMPLETE, "right"), await judged(client, COMPLETE, "wrong")
        assert [(one.reward_type, one.reward) for one in (right, other)] == [("complete", 1.0), ("others", 0.0)]
        assert right.metadata["world"] == first.metadata["world"] and "attestation" not in right.metadata
        assert (await client.verify()).reward_type == first.reward_type, "its result is not the session's"
        failed = await judged(client, OUTSIDE)
        assert failed.reward_type == "judge_error" and failed.verify_result["execution_status"] == "error"


async def test_unsigned_verifier_is_not_run(server):
    async with EnvironmentClient(server.url) as client:
        await client.reset(scenario="notes_1", task_idx=0)
        with pytest.raises(ServerRefused, match="signature is not by a dashboard"):
            await judged(client, COMPLETE, "right", key="x" * 40)
        said = await client._control("verify", {"verifier": COMPLETE}, 20)
        assert (said.reward_type, said.verify_result) == ("verifier_refused", None)


def test_sent_verifier_is_fresh_and_nothing_else(monkeypatch):
    sent = question(KEY, {"verifier": COMPLETE})
    assert sent_verifier(KEY, sent) == COMPLETE
    for about in ({"verifier": 1}, {"verifier": COMPLETE, "scenario": "s"}, {"table": "t"}):
        with pytest.raises(NotAttested):
            sent_verifier(KEY, question(KEY, about))
    now = time.time()
    for off in (-119, -121, 121):
        monkeypatch.setattr(time, "time", lambda moved=now + off: moved)
        old = question(KEY, {"verifier": COMPLETE})
        monkeypatch.setattr(time, "time", lambda: now)
        if off == -119:
            assert sent_verifier(KEY, old) == COMPLETE
            continue
        with pytest.raises(NotAttested, match="too long ago"):
            sent_verifier(KEY, old)
