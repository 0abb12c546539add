"""An open socket ends with the right that opened it: a token, a membership, a session."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import websockets

from people.models import new_id

pytestmark = pytest.mark.attack("tokens and doors")

LEAVE = """
from people.record import members
from people.access import system
from people.models import ApiToken, Membership, Project
project = Project.objects.get(slug="demo")
for token in ApiToken.objects.filter(name={token!r}):
    members.revoke_token(system(project), token.pk)
members.remove_member(system(project), Membership.objects.get(project=project, user__username={user!r}).pk)
"""
END = """
from django.utils import timezone
from people.models import ApiToken, Membership
ApiToken.objects.filter(pk="{token}").update(revoked_at=timezone.now())
Membership.objects.filter(user__username="vic").delete()
"""


async def hears_until_closed(socket):
    try:
        while True:
            await socket.recv()
    except websockets.ConnectionClosed as closed:
        return closed.rcvd.code


def session_of(house, name):
    """Somebody signed in: their browser, and what a socket of it shows."""
    browser = httpx.Client(base_url=house.url, follow_redirects=True, timeout=40)
    browser.get(house.link(name, "expert"))
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    return browser, {"Cookie": cookie, "Origin": house.url}


def sign_out(house, browser):
    csrf = next(value for name, value in browser.cookies.items() if "csrf" in name)
    page = browser.post("/logout", data={"csrfmiddlewaretoken": csrf}, headers={"Referer": house.url})
    assert page.status_code == 200


@pytest.mark.slow
async def test_sockets_close_on_revocation_removal_and_sign_out(house):
    secret = house.token("agent")
    with house.http(secret) as http:
        episode = http.post("/episodes", json={"key": new_id(), "task": "t"}).json()["id"]
    (browser, here), (_, elsewhere), (_, vic) = [session_of(house, name) for name in ("uma", "uma", "vic")]
    path = f"{house.websocket}/ws/episodes/{episode}"
    async with (
        websockets.connect(path, additional_headers={"Authorization": f"Bearer {secret}"}) as loop,
        websockets.connect(path, additional_headers=vic) as watcher,
        websockets.connect(f"{house.websocket}/ws/queue", additional_headers=vic) as queue,
        websockets.connect(path, additional_headers=here) as signed_out,
        websockets.connect(path, additional_headers=elsewhere) as stays,
    ):
        ours = "from people.models import ApiToken; print(ApiToken.objects.order_by('-created_at')[0].pk)"
        newest = house.manage("shell", "-v", "0", "-c", ours).split()[-1]
        sign_out(house, browser)
        house.manage("shell", "-v", "0", "-c", END.format(token=newest))
        closed = [hears_until_closed(socket) for socket in (loop, watcher, queue, signed_out)]
        codes = await asyncio.wait_for(asyncio.gather(*closed), 25)
        with house.http(house.token("agent")) as http:
            http.post(f"/episodes/{episode}/steps", json={"steps": [{"seq": 1, "kind": "note", "content": "x"}]})
        while '"seq":1' not in await asyncio.wait_for(stays.recv(), 60):
            pass
    assert codes == [4401, 4404, 4404, 4401]


async def waits(http, address, headers):
    """The long poll of an ask, again and again, until it is refused."""
    while (answer := await http.get(address, headers=headers)).status_code == 200:
        assert answer.json()["status"] == "open"
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.slow
async def test_waits_end_when_a_token_or_a_member_leaves(house):
    """An agent's wait for an answer and for an approval, a call by MCP, and the poll of a member in a browser."""
    user, name = new_id(), new_id()
    (_, member) = session_of(house, user)
    secret = house.manage("createtoken", name, "--project", "demo", "--scope", "agent").splitlines()[-1]
    with house.http(secret) as http:
        episode = http.post("/episodes", json={"key": new_id(), "task": "t", "expert": "plain"}).json()["id"]
        typed = {"kind": "approval", "calls": [{"id": "1", "name": "look", "arguments": {}}]}
        about = ({"question": "Which?"}, {"question": "May it?", **typed})
        bodies = ({"key": new_id(), "episode": episode, "seq": seq, **one} for seq, one in enumerate(about, 1))
        asks = [http.post("/asks", json=body).json()["id"] for body in bodies]
    bearer = {"Authorization": f"Bearer {secret}"}
    said = {**bearer, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "m", "version": "1"}}
    call = {"name": "ask_expert", "arguments": {"question": "And?"}}
    async with httpx.AsyncClient(base_url=house.url, timeout=60) as http:
        begun = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        session = (await http.post("/mcp", json=begun, headers=said)).headers["mcp-session-id"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        calling = asyncio.create_task(http.post("/mcp", json=body, headers={**said, "Mcp-Session-Id": session}))
        addresses = [f"/api/v1/asks/{ask}?wait=25" for ask in asks]
        polls = [asyncio.create_task(waits(http, one, bearer)) for one in addresses]
        polls += [asyncio.create_task(waits(http, addresses[0], member))]
        await asyncio.sleep(2)
        assert not any(one.done() for one in (calling, *polls))
        await asyncio.to_thread(house.manage, "shell", "-v", "0", "-c", LEAVE.format(token=name, user=user))
        refused = await asyncio.wait_for(asyncio.gather(*polls), 45)
        answer = await asyncio.wait_for(calling, 45)
    assert refused == [(401, "unauthenticated"), (401, "unauthenticated"), (404, "not_found")]
    assert "advice" not in answer.text
