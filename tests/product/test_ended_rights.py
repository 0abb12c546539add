"""An open socket ends with the right that opened it: a token, a membership, a session."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import websockets

from people.models import new_id

pytestmark = pytest.mark.attack("tokens and doors")

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
        while '"seq":1' not in await asyncio.wait_for(stays.recv(), 10):
            pass
    assert codes == [4401, 4404, 4404, 4401]
