"""One's own model: the agent endpoint plays a task over real HTTP, the Test button shows an endpoint's own error, and a
key is in no page, no log and no export."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import httpx
import pytest

from awmenv.packs import load_pack
from tests.awmclient.openai_server import tool_call
from tests.browsing import squeezed
from tests.product.conftest import AGENT_KEY, EXPERT_KEY, JUDGE
from tests.running import ROOT, until


def oracle(body):
    """Plays the oracle script of helpdesk_1/0, one call a request: a model that knows the way."""
    turns = load_pack(ROOT / "packs" / "starter").scripts("helpdesk_1", 0)["oracle"]
    turn = turns[sum(message["role"] == "assistant" for message in body["messages"])]
    return turn["answer"] if "answer" in turn else tool_call(turn["call"]["name"], turn["call"]["arguments"])


@pytest.fixture(scope="module")
def endpoint(own_models):
    server = own_models[1]
    server.reply, server.key = oracle, AGENT_KEY
    server.bodies.clear()
    return server


@pytest.fixture(scope="module")
def ours(own_models, endpoint):
    return own_models[0]


@pytest.fixture
def owner(ours):
    with httpx.Client(base_url=ours.url, follow_redirects=True, timeout=30) as browser:
        browser.get(ours.link("owner", "admin"))
        yield browser


def test_a_model_plays_a_task_to_its_verified_end(ours, endpoint, tmp_path):
    ours.manage("rollout", "--scenario", "helpdesk_1", "--task-idx", "0", "--policy", "model")
    file = tmp_path / "list-keys.jsonl"
    until(lambda: "1 row " in ours.manage("export", "--format", "sft", "--output", str(file)), 90, 1)
    (row,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert row["reward_type"] == "complete" and row["model"] == "tiny"
    offered = {tool["function"]["name"] for tool in endpoint.bodies[0]["tools"]}
    assert "update_ticket" in offered
    assert not offered & {"ask_expert", "verify", "done", "reset"}
    heard = json.dumps([body["messages"] for body in endpoint.bodies])
    assert "reward" not in heard and "verif" not in heard
    assert AGENT_KEY not in file.read_text()


def test_sandbox_level_is_on_outcome_and_environment_page(owner):
    listed = owner.get("/episodes/").text
    page = squeezed(owner.get(re.search(r'href="([^"]*/episodes/[^"/]+/)"', listed)[1]).text)
    assert "Sandbox level:<b>strict</b>" in page and "Verifier check: no problems found" in page
    standing = squeezed(owner.get("/environment/").text)
    assert "Pack code runs at sandbox level strict." in standing and "sandbox_missing" in standing
    assert "opening sockets is blocked" in standing and "failed:" not in standing


def press_test(owner, role):
    page = owner.get("/models/").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[1]
    return owner.post(
        f"/models/{role}/test", data={"csrfmiddlewaretoken": token}, headers={"Referer": str(owner.base_url)}
    )


def test_the_test_button_shows_the_endpoints_own_words(owner):
    assert "Incorrect API key provided" in press_test(owner, "expert").text
    assert "Only the environment server can call the judge" in press_test(owner, "judge").text


def test_judges_secrets_are_in_no_process_but_the_environments(ours, owner):
    """Read from the running processes themselves; the supervisor hands them on."""
    holding, seen = set(), set()
    for process, name in ours.processes().items():
        told = " ".join(process.environ().values())
        seen.add(name)
        if any(secret in told for secret in JUDGE.values()):
            holding.add(name)
    assert {"web", "worker", "rollouts", "beat", "postgres", "valkey", "env"} <= seen
    assert holding == {"supervisor", "env"}
    page = squeezed(owner.get("/models/").text)
    judge = page[page.index('id="r-judge"') :]
    assert (
        "solomon" in judge and "not known to this process" in judge and "<form" not in judge.partition("</section>")[0]
    )


def test_no_role_borrows_the_endpoint_of_another(owner, endpoint):
    page = owner.get("/models/").text
    assert "tiny" in page and "wise" in page and "AWMENV_JUDGE_BASE_URL" in page
    press_test(owner, "expert")
    assert endpoint.heads[-1]["authorization"] == f"Bearer {EXPERT_KEY}"


def test_a_key_is_in_no_page_and_no_log(ours, owner):
    press_test(owner, "expert")
    said = [owner.get(path).text for path in ("/", "/models/", "/episodes/", "/connect/", "/api-tokens/")]
    said += [press_test(owner, "expert").text, press_test(owner, "agent").text, *ours.said]
    said += [log.read_text(errors="replace") for log in (ours.var / "logs").glob("*.log")]
    for key in (AGENT_KEY, EXPERT_KEY):
        assert not any(key in text for text in said)


def test_a_bad_setting_stops_the_start_with_the_reason(ours):
    for name, value, words in [
        ("AWMWEB_AGENT_BASE_URL", "not a url", "AWMWEB_AGENT_BASE_URL"),
        ("AWMWEB_HEARTBEAT_S", "soon", "AWMWEB_HEARTBEAT_S"),
        ("AWMWEB_PUBLIC_URL", "ftp://x", "AWMWEB_PUBLIC_URL"),
    ]:
        done = subprocess.run(
            [sys.executable, "manage.py", "check"],
            cwd=ROOT, env={**ours.environment, name: value}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode != 0 and words in done.stderr and "Traceback" not in done.stderr
