"""The first hour of a stranger with docs/protocol.md, as one script against one running product: tools as OpenAI writes
them, a run and an episode resumed by key, an ask in HTTP words, an MCP agent, and a pack loaded without a restart."""

from __future__ import annotations

import asyncio
import json
import shutil

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from awmclient.client import HttpDashboard
from awmclient.schema import LIVE_STATES
from tests.running import ROOT, until

FUNCTION = {
    "name": "look_up",
    "description": "How many are left.",
    "parameters": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
}
SHOWN_S = 60


def answer_next(expert: httpx.Client, episode: str, text: str) -> None:
    """What `examples/own_expert.py` does, for one ask."""
    found = until(
        lambda: [one for one in expert.get("/asks?status=open&limit=200").json()["asks"] if one["episode"] == episode],
        30,
    )
    claim = expert.post(f"/asks/{found[0]['id']}/claim", json={}).raise_for_status().json()
    body = {"lease_token": claim["lease_token"], "text": text, "nonce": text}
    expert.post(f"/assignments/{claim['assignment']}/answer", json=body).raise_for_status()


def test_a_strangers_first_hour(house, tmp_path):
    token = house.token("agent")
    with house.http(token) as agent, house.http(house.token("expert")) as expert:
        tools_of_openai(agent)
        asyncio.run(resumed_by_key(house, token))
        asked_in_http_words(agent, expert)
        asyncio.run(asked_over_mcp(house, token, expert))
        own_pack_without_restart(house, agent, tmp_path)


def tools_of_openai(agent: httpx.Client) -> None:
    body = {"key": "tools", "task": "order", "tools": [{"type": "function", "function": FUNCTION}]}
    assert agent.post("/episodes", json=body).status_code == 201
    assert agent.post("/episodes", json={**body, "task": "sell"}).json()["error"]["code"] == "key_conflict"


async def resumed_by_key(house, token: str) -> None:
    """The program starts twice; the second time it goes on where the record ends."""
    ids = []
    for start in (1, 2):
        async with HttpDashboard(house.url, token) as dash:
            run = await dash.start_run("orders", key="hour")
            episode = await dash.start_episode("Order tea", key="hour", run=run, expert="plain")
            done = await episode.steps()
            await episode.append({"kind": "tool_call", "name": "look_up", "arguments": {"start": start}, "result": {}})
            ids.append((run, episode.id, len(done)))
            if start == 2:
                await episode.finish("done")
    assert ids[0][:2] == ids[1][:2] and [count for *_, count in ids] == [0, 1]


def asked_in_http_words(agent: httpx.Client, expert: httpx.Client) -> None:
    episode = agent.post("/episodes", json={"key": "curl", "task": "refund", "expert": "plain"}).json()["id"]
    step = {"seq": 1.0, "kind": "tool_call", "name": "look_up", "arguments": {}, "result": 0}
    assert agent.post(f"/episodes/{episode}/steps", json={"steps": [step]}).json() == {"acknowledged": 1}
    body = {"key": "curl-q1", "episode": episode, "seq": 2, "question": "May I refund the fee?", "deadline_s": 120.0}
    ask = agent.post("/asks", json=body).raise_for_status().json()["id"]
    answer_next(expert, episode, "Yes.")
    view = agent.get(f"/asks/{ask}?wait=25").json()
    assert (view["status"], view["advice"]["text"], view["advice"]["source"]) == ("answered", "Yes.", "human")
    assert agent.post(f"/asks/{ask}/consumed", json={}).is_success
    assert agent.post(f"/episodes/{episode}/finish", json={"stop_reason": "done"}).is_success


async def asked_over_mcp(house, token: str, expert: httpx.Client) -> None:
    head = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=head, timeout=40) as http,
        streamable_http_client(f"{house.url}/mcp", http_client=http) as (read, write, session),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        tool = next(one for one in (await client.list_tools()).tools if one.name == "ask_expert")
        waiting = asyncio.create_task(client.call_tool(tool.name, {"question": "Tea or coffee?", "deadline_s": 60}))
        await asyncio.sleep(0)
        await asyncio.to_thread(answer_next, expert, session(), "Tea.")
        assert (await waiting).structuredContent == {"status": "advice", "advice": "Tea."}


def own_pack_without_restart(house, agent: httpx.Client, folder) -> None:
    """A copy of the tiny pack with code verifiers alone; a script of it plays its first task."""
    assert (house.var / "settings.json").stat().st_mode & 0o777 == 0o600  # what `rollout` reads
    own = folder / "mine"
    own.mkdir()
    for file in (ROOT / "tests" / "packs" / "tiny").glob("*.jsonl"):
        if file.name != "gen_verifier.jsonl":
            shutil.copy(file, own)
    house.manage("checkpack", str(own))
    assert "loads them within" in house.manage("loadpack", str(own))
    scripts = json.loads((own / "scripts.jsonl").read_text().splitlines()[0])
    name = next(iter(scripts["scripts"]))
    said = house.manage(
        *("rollout", "--scenario", scripts["scenario"], "--task-idx", str(scripts["task_idx"])),
        *("--policy", f"script:{name}"),
    )
    episode = said.strip().rstrip("/").rpartition("/")[2]
    ended = until(lambda: ended_view(agent, episode), SHOWN_S)
    assert (ended["state"], ended.get("fault")) == ("finished", None), ended


def ended_view(agent: httpx.Client, episode: str) -> dict | None:
    view = agent.get(f"/episodes/{episode}").raise_for_status().json()
    return None if view["state"] in LIVE_STATES else view
