"""An open socket ends with the right that opened it: a revoked token, a removed member."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import websockets

from people.models import new_id

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


@pytest.mark.slow
async def test_a_revoked_token_and_a_removed_member_are_cut_off(house):
    secret = house.token("agent")
    with house.http(secret) as http:
        episode = http.post("/episodes", json={"key": new_id(), "task": "t"}).json()["id"]
    with httpx.Client(base_url=house.url) as browser:
        browser.get(house.link("vic", "expert"))
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    person = {"Cookie": cookie, "Origin": house.url}
    path = f"{house.websocket}/ws/episodes/{episode}"
    async with (
        websockets.connect(path, additional_headers={"Authorization": f"Bearer {secret}"}) as loop,
        websockets.connect(path, additional_headers=person) as watcher,
        websockets.connect(f"{house.websocket}/ws/queue", additional_headers=person) as queue,
    ):
        ours = "from people.models import ApiToken; print(ApiToken.objects.order_by('-created_at')[0].pk)"
        newest = house.manage("shell", "-v", "0", "-c", ours).split()[-1]
        house.manage("shell", "-v", "0", "-c", END.format(token=newest))
        closed = [hears_until_closed(socket) for socket in (loop, watcher, queue)]
        codes = await asyncio.wait_for(asyncio.gather(*closed), 25)
    assert codes == [4401, 4404, 4404]
