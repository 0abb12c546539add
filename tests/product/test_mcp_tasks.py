"""Tasks of MCP 2025-11-25 at `/mcp`: the official client polls, is asked back, and finds its task after a restart."""

from __future__ import annotations

import asyncio

import pytest
from mcp import types
from mcp.shared.exceptions import McpError

from tests.product.test_mcp import (
    ACCEPT,
    HELLO,
    _http,
    answer,
    asking,
    begun,
    edo,
    expert_token,
    open_asks,
    raw,
    said,
    talking,
    token,
)

__all__ = ["edo", "expert_token", "raw", "token"]
META = "io.modelcontextprotocol/related-task"
CALLS = [{"name": "refund", "arguments": {"order": 7}}]


async def task_of(client, question="Into which one?", **more):
    made = await client.experimental.call_tool_as_task("ask_expert", {"question": question, **more})
    return made.task


async def reaches(client, task, status):
    async with asyncio.timeout(90):
        while (now := await client.experimental.get_task(task)).status != status:
            await asyncio.sleep(0.05)
        return now


def result_of(client, task):
    return client.experimental.get_task_result(task, types.CallToolResult)


async def test_task_is_polled_and_its_result_is_the_calls(house, token, edo):
    async with talking(house, token) as (client, episode):
        offered = {one.name: one.execution for one in (await client.list_tools()).tools}
        assert [one and one.taskSupport for one in offered.values()] == ["optional", "optional", None]
        task = await task_of(client, deadline_s=60)
        approval = await client.experimental.call_tool_as_task("request_approval", {"calls": CALLS, "deadline_s": 60})
        assert (task.status, approval.task.status) == ("working", "working") and task.ttl
        waiting = asyncio.create_task(result_of(client, task.taskId))
        asks = {one["kind"]: one["id"] for one in await open_asks(edo, episode, 2)}
        assert set(asks.values()) == {task.taskId, approval.task.taskId}
        assert (await edo.get(f"/api/v1/episodes/{episode}")).json()["state"] == "parked"
        await answer(edo, asks["question"])
        await answer(edo, asks["approval"], text="", decision={"calls": [{"id": "1", "verdict": "approve"}]})
        result = await waiting
        assert (await reaches(client, approval.task.taskId, "completed")).lastUpdatedAt > approval.task.createdAt
        decided = await result_of(client, approval.task.taskId)
        listed = await client.experimental.list_tasks()
    assert result.structuredContent == {"status": "advice", "advice": "Into the oldest."}
    assert result.meta[META] == {"taskId": task.taskId}
    assert decided.structuredContent["decision"]["calls"][0]["verdict"] == "approve"
    assert [one.taskId for one in listed.tasks[:2]] == [approval.task.taskId, task.taskId]
    assert {one.status for one in listed.tasks[:2]} == {"completed"}
    assert (await edo.get(f"/api/v1/asks/{task.taskId}")).json()["consumed_at"]


async def test_question_of_an_expert_is_elicited_and_continues(house, token, edo):
    heard = []

    async def user(context, params):
        heard.append(params)
        return types.ElicitResult(action="accept", content={"answer": "The one in Rome."})

    async with talking(house, token, elicitation_callback=user) as (client, episode):
        task = await task_of(client, deadline_s=60)
        [ask] = await open_asks(edo, episode)
        await answer(edo, ask["id"], "Which store?", asks_back=True)
        assert (await reaches(client, task.taskId, "input_required")).statusMessage == "Which store?"
        waiting = asyncio.create_task(result_of(client, task.taskId))
        [following] = await open_asks(edo, episode)
        assert (following["question"], following["thread"]) == ("The one in Rome.", ask["id"])
        assert (await client.experimental.get_task(task.taskId)).status == "working"
        await answer(edo, following["id"], "Merge it.")
        result = await waiting
    assert result.structuredContent == {"status": "advice", "advice": "Merge it."}
    assert [one.message for one in heard] == ["Which store?"]
    assert heard[0].meta.model_dump()[META] == {"taskId": task.taskId}


@pytest.mark.parametrize("how", ["declines", "cannot be asked"])
async def test_question_that_no_user_answers_is_the_advice(house, token, edo, how):
    async def user(context, params):
        return types.ElicitResult(action="decline")

    given = {"elicitation_callback": user} if how == "declines" else {}
    async with talking(house, token, **given) as (client, episode):
        task = await task_of(client, deadline_s=60)
        [ask] = await open_asks(edo, episode)
        await answer(edo, ask["id"], "Which store?", asks_back=True)
        result = await result_of(client, task.taskId)
        assert (await client.experimental.get_task(task.taskId)).status == "completed"
    assert result.structuredContent == {"status": "advice", "advice": "Which store?"}


async def test_cancelled_task_stays_cancelled(house, token, edo):
    async def user(context, params):
        raise AssertionError("no one waits for the result")

    async with talking(house, token, elicitation_callback=user) as (client, episode):
        task = await task_of(client, deadline_s=60)
        assert (await client.experimental.cancel_task(task.taskId)).status == "cancelled"
        assert (await result_of(client, task.taskId)).structuredContent == {"status": "no_advice", "reason": "asker"}
        other = await task_of(client, deadline_s=60)  # the same words again are another task
        [ask] = await open_asks(edo, episode)
        assert ask["id"] == other.taskId != task.taskId
        await answer(edo, other.taskId, "Which store?", asks_back=True)
        await reaches(client, other.taskId, "input_required")
        assert (await client.experimental.cancel_task(other.taskId)).status == "cancelled"
        for ended in (task, other):
            with pytest.raises(McpError, match="has ended"):
                await client.experimental.cancel_task(ended.taskId)
            assert (await client.experimental.get_task(ended.taskId)).status == "cancelled"


async def test_task_is_unknown_to_another_token(house, token, edo):
    async with talking(house, token) as (client, _), talking(house, house.token("agent")) as (stranger, _):
        task = await task_of(client, deadline_s=60)
        assert task.taskId not in [one.taskId for one in (await stranger.experimental.list_tasks()).tasks]
        for do in (stranger.experimental.get_task, stranger.experimental.cancel_task):
            with pytest.raises(McpError, match="Not found"):
                await do(task.taskId)
        with pytest.raises(McpError, match="Not found"):
            await result_of(stranger, task.taskId)
        with pytest.raises(McpError):
            await task_of(client, "")
        assert (await client.experimental.get_task(task.taskId)).status == "working"


async def test_task_outlives_web_processes_and_its_session(house, token, edo):
    async with talking(house, token, terminate_on_close=False) as (client, episode):
        task = await task_of(client, deadline_s=90)
    house.kill("web")
    async with asyncio.timeout(90):
        while not house.healthy():
            await asyncio.sleep(0.1)
    async with talking(house, token) as (client, _):
        assert (await client.experimental.get_task(task.taskId)).status == "working"
        waiting = asyncio.create_task(result_of(client, task.taskId))
        [ask] = await open_asks(edo, episode)
        await answer(edo, ask["id"], "Yes.")
        assert (await waiting).structuredContent["advice"] == "Yes."


async def test_older_client_sees_no_tasks(raw, edo):
    old = {**HELLO, "protocolVersion": "2025-06-18"}
    hello = await raw.post("/mcp", json=said("initialize", 0, **old), headers=ACCEPT)
    new = await raw.post("/mcp", json=said("initialize", 0, **HELLO), headers=ACCEPT)
    assert "tasks" not in hello.json()["result"]["capabilities"] and "tasks" in new.json()["result"]["capabilities"]
    session = {**ACCEPT, "MCP-Protocol-Version": "2025-06-18", "Mcp-Session-Id": hello.headers["mcp-session-id"]}
    listing = (await raw.post("/mcp", json=said("tools/list", 1), headers=session)).json()["result"]["tools"]
    assert not any("execution" in one for one in listing)
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        refused = (await raw.post("/mcp", json=said(method, 2, taskId="x"), headers=session)).json()
        assert refused["error"]["code"] == types.METHOD_NOT_FOUND
    body = asking("Anybody?", 3, deadline_s=1)
    body["params"]["task"] = {"ttl": 1000}
    answered = await raw.post("/mcp", json=body, headers={**session, "Accept": "application/json"})
    assert answered.json()["result"]["structuredContent"] == {"status": "no_advice", "reason": "deadline"}


async def test_reply_that_comes_twice_changes_nothing(house, raw, edo):
    session = await begun(raw)
    ask_it = {**HELLO, "capabilities": {"elicitation": {}}}
    hello = await raw.post("/mcp", json=said("initialize", 0, **ask_it), headers=ACCEPT)
    session = {**ACCEPT, "Mcp-Session-Id": hello.headers["mcp-session-id"]}
    body = asking("Into which one?", 1, deadline_s=60)
    body["params"]["task"] = {}
    task = (await raw.post("/mcp", json=body, headers=session)).json()["result"]["task"]["taskId"]
    # the response to this call was lost: the same call is the same task
    again = {**body, "id": 2}
    assert (await raw.post("/mcp", json=again, headers=session)).json()["result"]["task"]["taskId"] == task
    await answer(edo, task, "Which store?", asks_back=True)
    for words in ("In Rome.", "In Paris."):
        reply = {
            "jsonrpc": "2.0",
            "id": f"awmweb-input:{task}",
            "result": {"action": "accept", "content": {"answer": words}},
        }
        assert (await raw.post("/mcp", json=reply, headers=session)).status_code == 202
    asks = await open_asks(edo, session["Mcp-Session-Id"])
    assert [one["question"] for one in asks] == ["In Rome."]
    async with _http(house, house.token("agent")) as stranger:
        other = await begun(stranger)
        assert (
            await stranger.post("/mcp", json={**reply, "id": f"awmweb-input:{asks[0]['id']}"}, headers=other)
        ).status_code == 404
