"""An agent that speaks MCP asks the desk: the official client over real HTTP against the running product."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager

import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.types import Implementation

from people.models import new_id

ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
TOOLS = ["ask_expert", "request_approval", "answer_elicitation"]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "mover", "version": "1"}}


@pytest.fixture(scope="module")
def token(house):
    return house.token("agent")


@pytest.fixture(scope="module")
def expert_token(house):
    return house.token("expert")


@pytest.fixture
async def edo(house, expert_token):
    async with _http(house, expert_token) as http:
        yield http


@pytest.fixture
async def raw(house, token):
    """The same door without the official client, for what no client would do."""
    async with _http(house, token) as http:
        yield http


def _http(house, token):
    return httpx.AsyncClient(base_url=house.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)


@asynccontextmanager
async def talking(house, token, query="", name="mover", elicitation_callback=None, **more):
    """A session of the official client; its id beside it."""
    who = {"client_info": Implementation(name=name, version="1"), "elicitation_callback": elicitation_callback}
    async with (
        _http(house, token) as http,
        streamable_http_client(f"{house.url}/mcp{query}", http_client=http, **more) as (read, write, session_id),
        ClientSession(read, write, **who) as client,
    ):
        await client.initialize()
        await client.list_tools()
        yield client, session_id()


async def open_asks(edo, episode, count=1):
    async with asyncio.timeout(90):
        while True:
            # by episode: other tests leave more open asks than one list holds
            asks = (await edo.get(f"/api/v1/asks?status=open&episode={episode}")).json()["asks"]
            if len(asks) >= count:
                return asks
            await asyncio.sleep(0.02)


async def answer(edo, ask, text="Into the oldest.", **more):
    lease = (await edo.post(f"/api/v1/asks/{ask}/claim")).json()
    body = {"lease_token": lease["lease_token"], "text": text, "nonce": new_id(), **more}
    # its nonce makes it one answer; where a starved machine gives no connection in time, a client asks again
    while (sent := await edo.post(f"/api/v1/assignments/{lease['assignment']}/answer", json=body)).status_code == 503:
        await asyncio.sleep(0.2)
    assert sent.status_code == 200, sent.text


async def until_seen(edo, ask, field):
    async with asyncio.timeout(90):
        while not (view := (await edo.get(f"/api/v1/asks/{ask}")).json()).get(field):
            await asyncio.sleep(0.02)
        return view


def said(method, number=None, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})


def asking(question, number=7, **more):
    return said("tools/call", number, name="ask_expert", arguments={"question": question, **more})


async def begun(raw, query=""):
    answered = await raw.post(f"/mcp{query}", json=said("initialize", 0, **HELLO), headers=ACCEPT)
    assert answered.status_code == 200, answered.text
    return {**ACCEPT, "Mcp-Session-Id": answered.headers["mcp-session-id"]}


def events_of(text):
    """Ids and messages of a stream, in order."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "id" in fields:
            found.append((fields["id"], json.loads(fields["data"]) if fields.get("data") else None))
    return found


async def test_answer_has_text_and_value_and_is_consumed(house, token, edo):
    heard = []

    async def progress(done, total, words):
        heard.append((done, total, words))

    async with talking(house, token) as (client, episode):
        call = client.call_tool(
            "ask_expert", {"question": "Into which one?", "deadline_s": 60}, progress_callback=progress
        )
        waiting = asyncio.create_task(call)
        [ask] = await open_asks(edo, episode)
        await answer(edo, ask["id"], tool_calls=[{"name": "merge", "arguments": {"into": 1}}])
        result = await waiting
        view = await until_seen(edo, ask["id"], "consumed_at")
    calls = [{"name": "merge", "arguments": {"into": 1}}]
    assert result.structuredContent == {"status": "advice", "advice": "Into the oldest.", "tool_calls": calls}
    assert [block.text for block in result.content] == ["Into the oldest.", json.dumps(calls[0])]
    assert not result.isError and view["status"] == "answered" and view["delivered_at"]
    assert heard and heard[0][1] == pytest.approx(60, abs=15)


async def test_approval_returns_the_decision_of_each_call(house, token, edo):
    calls = [{"name": "refund", "arguments": {"order": order}} for order in (7, 8)]
    decision = {"calls": [{"id": "1", "verdict": "approve"}, {"id": "2", "verdict": "reject", "reason": "Too old."}]}
    async with talking(house, token) as (client, episode):
        waiting = asyncio.create_task(client.call_tool("request_approval", {"calls": calls, "deadline_s": 60}))
        [ask] = await open_asks(edo, episode)
        await answer(edo, ask["id"], text="", decision=decision)
        result = await waiting
    value = result.structuredContent
    assert not result.isError and (value["status"], value["by"]) == ("decided", "person")
    assert [one["verdict"] for one in value["decision"]["calls"]] == ["approve", "reject"]
    assert json.loads(result.content[0].text) == value


async def test_a_deadline_gives_the_typed_absence_and_no_sentence(house, token, edo):
    async with talking(house, token) as (client, _):
        result = await client.call_tool("ask_expert", {"question": "Anybody?", "deadline_s": 1})
    assert result.structuredContent == {"status": "no_advice", "reason": "deadline"} and not result.isError
    assert [json.loads(block.text) for block in result.content] == [result.structuredContent]


async def test_mcp_desk_offers_one_tool_and_clear_refusals(house, token):
    async with talking(house, token) as (client, _):
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        for tool, arguments in [
            ("ask_expert", {}),
            ("ask_expert", {"question": "?", "deadline_s": 0}),
            ("ask_expert", {"question": "?", "priority": 9}),
            ("verify", {}),
        ]:
            result = await client.call_tool(tool, arguments)
            assert result.isError and json.loads(result.content[0].text)["error"]["code"] in ("invalid", "not_found")


async def test_mcp_session_is_an_episode_of_a_run_named_for_client(house, token, raw):
    name = f"client {new_id()}"
    query = "?task=Merge%20the%20tickets&scenario=helpdesk_1&task_idx=3"
    async with talking(house, token, query, name) as (_, first), talking(house, token, name=name) as (_, second):
        one = (await raw.get(f"/api/v1/episodes/{first}")).json()
        other = (await raw.get(f"/api/v1/episodes/{second}")).json()
    assert (one["task"], one["scenario"], one["task_idx"], one["state"]) == (
        "Merge the tickets", "helpdesk_1", 3, "running",
    )  # fmt: skip
    assert other["task"] == f"A session of {name}"
    code = (
        "from episodes.models import Episode as E; from sys import argv; print(*E.objects.filter(pk__in={}).values_list"
    )
    code = (code + "('run__name', 'run_id', 'expert'))").format([first, second])
    rows = house.manage("shell", "-c", code).strip().splitlines()[-1]
    assert rows.count(name) == 2 and rows.count("plain") == 2 and len(set(rows.split("'")[3::6])) == 1


async def test_a_run_of_ones_own_takes_the_session_in(house, token, raw):
    run = (await raw.post("/api/v1/runs", json={"name": "nightly"})).json()["id"]
    session = (await begun(raw, f"?run={run}"))["Mcp-Session-Id"]
    assert (await raw.get(f"/api/v1/episodes/{session}")).status_code == 200
    refused = await raw.post("/mcp?run=none-of-ours", json=said("initialize", 0, **HELLO), headers=ACCEPT)
    assert refused.status_code == 404


async def test_two_asks_at_once_take_two_step_numbers(house, token, edo):
    async with talking(house, token) as (client, episode):
        waiting = [
            asyncio.create_task(client.call_tool("ask_expert", {"question": words})) for words in ("Which?", "Whose?")
        ]
        asks = await open_asks(edo, episode, 2)
        assert sorted(ask["seq"] for ask in asks) == [1, 2]
        for ask in asks:
            await answer(edo, ask["id"], f"On {ask['question']}")
        assert [(await one).structuredContent["advice"] for one in waiting] == ["On Which?", "On Whose?"]


async def test_a_call_whose_line_broke_goes_on_after_its_last_event(raw, edo):
    session = await begun(raw)
    body = asking("Into which one?", 7)
    body["params"]["_meta"] = {"progressToken": "p"}
    async with raw.stream("POST", "/mcp", json=body, headers=session) as broken:
        lines = broken.aiter_lines()  # kept: the line breaks with its last reader
        async for line in lines:
            if line.startswith("id: "):
                last = line[4:]
                break
        [ask] = await open_asks(edo, session["Mcp-Session-Id"])  # the first event comes before the ask is stored
    async with raw.stream("GET", "/mcp", headers={**session, "Last-Event-ID": last}) as resumed:
        await answer(edo, ask["id"])
        messages = [message for _, message in events_of((await resumed.aread()).decode()) if message]
    assert messages[0]["method"] == "notifications/progress" and messages[0]["params"]["progressToken"] == "p"
    assert messages[-1]["id"] == 7 and messages[-1]["result"]["structuredContent"]["advice"] == "Into the oldest."
    assert await until_seen(edo, ask["id"], "consumed_at")


async def test_call_that_broke_before_its_ask_says_to_call_again(raw, edo):
    """The first event comes before the ask is stored; a line that breaks between them leaves none."""
    session = await begun(raw)
    never_stored = base64.urlsafe_b64encode(json.dumps([7, f"mcp:{'0' * 24}:{'1' * 24}", None]).encode()).decode()
    resumed = await raw.get("/mcp", headers={**session, "Last-Event-ID": never_stored})
    [(_, message)] = events_of(resumed.text)
    assert message["id"] == 7 and message["result"]["isError"]
    assert "The call did not arrive; call again." in message["result"]["content"][0]["text"]
    again = asyncio.create_task(raw.post("/mcp", json=asking("Into which one?", 8), headers=session))
    [ask] = await open_asks(edo, session["Mcp-Session-Id"])
    await answer(edo, ask["id"])
    assert events_of((await again).text)[-1][1]["result"]["structuredContent"]["status"] == "advice"


async def test_repeated_ask_after_lost_connection_joins_the_same_ask(raw, edo):
    session = await begun(raw)
    async with raw.stream("POST", "/mcp", json=asking("Into which one?", 1), headers=session):
        [ask] = await open_asks(edo, session["Mcp-Session-Id"])
    assert (await edo.get(f"/api/v1/asks/{ask['id']}")).json().get("consumed_at") is None
    async with raw.stream("POST", "/mcp", json=asking("Into which one?", 2), headers=session) as again:
        assert [one["id"] for one in await open_asks(edo, session["Mcp-Session-Id"])] == [ask["id"]]
        await answer(edo, ask["id"])
        messages = events_of((await again.aread()).decode())
    assert len(await open_asks(edo, session["Mcp-Session-Id"], 0)) == 0
    assert messages[-1][1]["result"]["structuredContent"]["status"] == "advice"


async def test_repeated_call_is_the_same_ask(raw, edo):
    session = await begun(raw)
    first = asyncio.create_task(raw.post("/mcp", json=asking("Again?", 1), headers=session))
    [ask] = await open_asks(edo, session["Mcp-Session-Id"])
    await answer(edo, ask["id"], "Yes.")
    await first
    await until_seen(edo, ask["id"], "consumed_at")
    repeated = await raw.post("/mcp", json=asking("Again?", 1), headers=session)
    assert events_of(repeated.text)[-1][1]["result"]["structuredContent"]["advice"] == "Yes."
    later = await raw.post("/mcp", json=asking("Again?", 2, deadline_s=1), headers=session)
    assert events_of(later.text)[-1][1]["result"]["structuredContent"]["status"] == "no_advice"


async def test_withdrawn_call_leaves_the_queue_and_timeout_does_not(raw, edo):
    session = await begun(raw)
    waiting = [asyncio.create_task(raw.post("/mcp", json=asking(f"No {n}?", n), headers=session)) for n in (1, 2)]
    asks = {ask["question"]: ask["id"] for ask in await open_asks(edo, session["Mcp-Session-Id"], 2)}
    for number, reason in [(1, "McpError: MCP error -32001: Request timed out"), (2, "the person pressed Escape")]:
        notice = said("notifications/cancelled", requestId=number, reason=reason)
        assert (await raw.post("/mcp", json=notice, headers=session)).status_code == 202
    assert [ask["id"] for ask in await open_asks(edo, session["Mcp-Session-Id"])] == [asks["No 1?"]]
    await answer(edo, asks["No 1?"])
    results = [events_of((await one).text)[-1][1]["result"]["structuredContent"] for one in waiting]
    assert results == [{"status": "advice", "advice": "Into the oldest."}, {"status": "no_advice", "reason": "asker"}]


async def test_the_end_of_a_session_ends_the_episode_and_its_asks(house, token, raw, edo):
    async with talking(house, token) as (client, episode):
        waiting = asyncio.create_task(client.call_tool("ask_expert", {"question": "Still there?"}))
        [ask] = await open_asks(edo, episode)
        session = {**ACCEPT, "Mcp-Session-Id": episode}
        assert (await raw.delete("/mcp", headers=session)).status_code == 200
        assert (await waiting).structuredContent == {"status": "no_advice", "reason": "episode_ended"}
        with pytest.raises(McpError):
            await client.call_tool("ask_expert", {"question": "And now?"})
    ended = (await raw.get(f"/api/v1/episodes/{episode}")).json()
    assert (ended["state"], ended["stop_reason"]) == ("finished", "done")
    assert (await edo.get(f"/api/v1/asks/{ask['id']}")).json()["status"] == "cancelled"
    for again in (raw.delete("/mcp", headers=session), raw.post("/mcp", json=said("ping", 3), headers=session)):
        assert (await again).status_code == 404


SILENCE = """
import time
from datetime import timedelta
from django.utils import timezone
from episodes.models import Episode
from people.models import ApiToken

def until(holds):
    patience = time.monotonic() + 60
    while not holds() and time.monotonic() < patience:
        time.sleep(0.2)  # the product itself looks for silent episodes, and the stream beats
both = silent, listening = {silent!r}, {listening!r}
aged = timezone.now() - timedelta(seconds=400)
Episode.objects.filter(pk__in=both).update(heartbeat_at=aged)
until(lambda: Episode.objects.get(pk=listening).heartbeat_at > aged)
for pk in both:
    before = Episode.objects.get(pk=pk).heartbeat_at
    Episode.objects.filter(pk=pk).update(heartbeat_at=before - timedelta(seconds=300))
until(lambda: Episode.objects.get(pk=silent).state == "failed")
print(Episode.objects.get(pk=silent).state, Episode.objects.get(pk=listening).state)
ApiToken.objects.filter(name={name!r}).update(revoked_at=timezone.now())
"""


async def test_listening_session_lives_and_silent_one_is_lost(house, raw):
    """Both were silent for most of the time that they may. The stream that listens ends with its token."""
    silent = await begun(raw)
    name = new_id()
    secret = house.manage("createtoken", name, "--project", "demo", "--scope", "agent").splitlines()[-1]
    async with _http(house, secret) as other:
        listening = await begun(other)
        async with other.stream("GET", "/mcp", headers=listening) as stream:
            assert stream.status_code == 200
            ids = {"silent": silent["Mcp-Session-Id"], "listening": listening["Mcp-Session-Id"], "name": name}
            said_there = await asyncio.to_thread(house.manage, "shell", "-c", SILENCE.format(**ids))
            assert said_there.split()[-2:] == ["failed", "running"]
            assert (await raw.post("/mcp", json=said("tools/list", 1), headers=silent)).status_code == 200
            assert (await raw.get(f"/api/v1/episodes/{silent['Mcp-Session-Id']}")).json()["state"] == "running"
            await asyncio.wait_for(stream.aread(), 90)


async def test_text_that_no_column_takes_arrives_as_it_was_said(raw, edo):
    session = await begun(raw)
    body = json.dumps(asking("a\x00b \ud800", 1, deadline_s=1))
    headers = {**session, "Content-Type": "application/json"}
    assert (await raw.post("/mcp", content=body, headers=headers)).status_code == 200
    [step] = (await raw.get(f"/api/v1/episodes/{session['Mcp-Session-Id']}/steps")).json()["steps"]
    assert step["question"] == "a\x00b \ud800" and step["advice"]["source"] == "fallback"


async def test_whoever_takes_no_stream_gets_one_answer(raw):
    session = await begun(raw)
    plain = {**session, "Accept": "application/json"}
    answered = await raw.post("/mcp", json=asking("Anybody?", 1, deadline_s=1), headers=plain)
    assert answered.headers["content-type"].startswith("application/json")
    assert answered.json()["result"]["structuredContent"] == {"status": "no_advice", "reason": "deadline"}


async def refusal(http, method="POST", body=None, path="/mcp", **headers):
    content = body if isinstance(body, bytes) else json.dumps(body or said("ping", 1)).encode()
    headers = {**ACCEPT, "Content-Type": "application/json", **headers}
    answered = await http.request(method, path, content=content, headers=headers)
    return answered.status_code, answered.json()["error"]["data"]["code"]


async def test_the_door_says_why_it_stays_shut(house, raw, edo):
    async with httpx.AsyncClient(base_url=house.url, timeout=40) as nobody:
        assert await refusal(nobody) == (401, "unauthenticated")
        assert (await nobody.post("/mcp")).headers["www-authenticate"] == "Bearer"
        assert await refusal(nobody, Authorization="Bearer awm_nonsense") == (401, "unauthenticated")
    assert await refusal(edo) == (403, "scope")
    assert await refusal(raw) == (400, "session_missing")
    assert await refusal(raw, **{"Mcp-Session-Id": "unknown"}) == (404, "not_found")
    assert await refusal(raw, Origin="https://evil.example") == (403, "origin")
    assert await refusal(raw, "PUT") == (405, "method_not_allowed")
    assert await refusal(raw, body=b"{") == (400, "bad_json")
    assert await refusal(raw, body=b"[]") == (422, "invalid")
    assert await refusal(raw, body=b" " * (2 * 1024 * 1024 + 1)) == (413, "too_large")
    assert await refusal(raw, body=said("initialize", 0, **HELLO), path="/mcp?colour=red") == (422, "invalid")
    assert await refusal(raw, body=said("initialize", 0, protocolVersion="2025-11-25")) == (422, "invalid")
    session = await begun(raw)
    assert await refusal(raw, "GET", **{**session, "Last-Event-ID": "none"}) == (422, "invalid")
    assert (await raw.post("/mcp", json=said("ping", 1), headers={**session, "Origin": house.url})).status_code == 200


async def test_mcp_session_is_bound_to_its_token(house, raw):
    session = await begun(raw)
    house.manage("shell", "-c", "from people.record.members import ensure_project as e; e('far', 'Far')")
    for stranger in (house.token("agent"), house.token("agent", "far")):
        async with _http(house, stranger) as max_:
            assert await refusal(max_, **session) == (404, "not_found")
            assert await refusal(max_, "DELETE", **session) == (404, "not_found")
    looped = (await raw.post("/api/v1/episodes", json={"key": new_id(), "task": "t", "expert": "plain"})).json()["id"]
    assert await refusal(raw, **{"Mcp-Session-Id": looped}) == (404, "not_found")


@pytest.mark.slow
async def test_a_call_outlives_the_web_processes_that_wait_with_it(monkeypatch, two_webs):
    """Two web processes behind one port, both killed in mid-wait: the official client resumes by itself."""
    monkeypatch.setattr("mcp.client.streamable_http.MAX_RECONNECTION_ATTEMPTS", 12)  # a busy machine starts slowly
    house = two_webs.with_project("outliving")
    token, expert_token = house.token("agent"), house.token("expert")
    async with _http(house, expert_token) as edo, talking(house, token) as (client, episode):
        session = {**ACCEPT, "Mcp-Session-Id": episode, "Connection": "close"}
        async with _http(house, token) as raw:
            seen = [await raw.post("/mcp", json=said("tools/list", n), headers=session) for n in range(12)]
        assert {one.status_code for one in seen} == {200}
        waiting = asyncio.create_task(client.call_tool("ask_expert", {"question": "Still there?"}))
        [ask] = await open_asks(edo, episode)
        house.kill("web")
        while not house.healthy():
            await asyncio.sleep(0.1)
        await answer(edo, ask["id"], "Yes.")
        assert (await asyncio.wait_for(waiting, 60)).structuredContent["advice"] == "Yes."
        assert len(await open_asks(edo, episode, 0)) == 0
