"""The whole product behind the nginx and the Caddy of the docs, over TLS: pages, sockets, streams and long bodies."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from people.models import new_id
from tests.awmweb.test_proxy_files import PROGRAMS, certificate, proxying
from tests.examples import some_of
from tests.product.test_mcp import ACCEPT, HELLO, asking, said
from tests.provider import provider
from tests.running import Product, free_ports, product, until

STEPS, STEP = 3, "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(65_000))
"""Four megabytes that no one compresses to less than half."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def behind() -> Iterator[Product]:
    """A product that people open by https."""
    address = f"https://localhost:{free_ports(1)[0]}"
    with provider() as lab, product(world=False, **lab.settings, AWMWEB_PUBLIC_URL=address) as house:
        yield house


@pytest.fixture(scope="module")
def token(behind):
    return behind.token("agent")


@pytest.fixture(scope="module")
def export_token(behind):
    return behind.token("export")


@pytest.fixture(scope="module", params=some_of(PROGRAMS))
def proxied(request, behind, tls, tmp_path_factory):
    """The address of people, with a proxy that answers there, and what trusts its certificate."""
    url, folder = behind.environment["AWMWEB_PUBLIC_URL"], tmp_path_factory.mktemp("proxy")
    port = int(url.rpartition(":")[2])
    with proxying(request.param, folder, tls, behind.url.removeprefix("http://"), port) as trust:
        until(lambda: _answers(url, trust), 60)
        yield url, trust


def _answers(url, trust):
    try:
        return httpx.get(f"{url}/health", verify=trust, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def http(proxied, token):
    with client(*proxied, token) as agent:
        yield agent


def client(url: str, trust: Any, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{url}/api/v1", verify=trust, headers=headers, timeout=60)


def begun(http):
    return http.post("/episodes", json={"key": new_id(), "task": "t", "expert": "plain"}).json()["id"]


def test_person_signs_in_and_out_through_a_proxy(behind, proxied):
    url, trust = proxied
    link = behind.link("mina", "expert")
    assert link.startswith(url)
    with httpx.Client(verify=trust, follow_redirects=True, timeout=40) as browser:
        page = browser.get(link)
        assert page.status_code == 200 and "/projects/demo/" in str(page.url)
        assert {"__Host-awmweb_session", "__Host-awmweb_csrf"} <= set(browser.cookies)
        csrf = browser.cookies["__Host-awmweb_csrf"]
        out = browser.post(f"{url}/logout", data={"csrfmiddlewaretoken": csrf}, headers={"Referer": url})
        assert out.status_code == 200 and "__Host-awmweb_session" not in browser.cookies


def test_socket_hears_steps_through_a_proxy(proxied, http, token):
    url, trust = proxied
    episode = begun(http)
    address = f"{url.replace('https', 'wss')}/ws/episodes/{episode}?since=0&beat=1"
    headers = {"Authorization": f"Bearer {token}"}
    with connect(address, ssl=trust, additional_headers=headers, open_timeout=60) as socket:
        while json.loads(socket.recv(timeout=60)) != {"type": "beat"}:
            pass
        http.post(f"/episodes/{episode}/steps", json={"steps": [{"seq": 1, "kind": "note", "content": "here"}]})
        while not (frame := json.loads(socket.recv(timeout=60))).get("steps"):
            pass
        assert frame["steps"][0]["content"] == "here"


async def test_stream_is_not_held_back_by_a_proxy(proxied, token):
    url, trust = proxied
    headers = {"Authorization": f"Bearer {token}", **ACCEPT}
    async with httpx.AsyncClient(base_url=url, verify=trust, headers=headers, timeout=30) as agent:
        first = await agent.post("/mcp", json=said("initialize", 0, **HELLO))
        agent.headers["Mcp-Session-Id"] = first.headers["mcp-session-id"]
        async with agent.stream("POST", "/mcp", json=asking("Into which one?")) as stream:
            lines = stream.aiter_lines()
            async with asyncio.timeout(60):  # the answer has not been given, and its deadline is minutes ahead
                while not (await anext(lines)).startswith("id: "):
                    pass


def test_long_bodies_pass_a_proxy_in_both_directions(behind, proxied, http, export_token):
    episode = begun(http)
    for seq in range(1, STEPS + 1):
        steps = [{"seq": seq, "kind": "note", "content": STEP}]
        assert http.post(f"/episodes/{episode}/steps", json={"steps": steps}).status_code == 200
    ended = {"stop_reason": "done"}
    http.post(f"/episodes/{episode}/finish", json=ended).raise_for_status()
    recipe = {"format": "raw", "filter": {"id": [episode]}, "redact": "off"}
    with client(*proxied, export_token) as exporter, client(behind.url, True, export_token) as direct:
        made = exporter.post("/exports", json=recipe).raise_for_status().json()["id"]
        until(lambda: exporter.get(f"/exports/{made}").json()["state"] in ("done", "failed"), 60)
        whole = direct.get(f"/exports/{made}/download").content
        assert len(whole) > STEPS * len(STEP)
        with exporter.stream("GET", f"/exports/{made}/download") as slow:
            read = hashlib.sha256()
            for number, part in enumerate(slow.iter_bytes(2**18)):
                time.sleep(0.1 if number < 20 else 0)
                read.update(part)
        assert read.digest() == hashlib.sha256(whole).digest()
        rest = exporter.get(f"/exports/{made}/download", headers={"Range": f"bytes={len(whole) - 9}-"})
        assert (rest.status_code, rest.content) == (206, whole[-9:])


def test_sender_names_no_address_of_its_own(proxied):
    """Sign-ins are limited by address: a client that says another one each time is limited all the same."""
    url, trust = proxied
    with httpx.Client(base_url=url, verify=trust, timeout=40) as browser:
        said = [
            browser.get("/login/provider", headers={"X-Forwarded-For": f"192.0.2.{number}"}).status_code
            for number in range(130)  # more than 60 in one of two minutes
        ]
    assert said[-1] == 429
