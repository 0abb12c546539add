"""What signs somebody in, what a person searched for and how their files are called is in no log: neither in that of
awmweb nor in those of the documented proxies, whose programs run here."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.apps import apps
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.module_loading import import_string

from awmweb.logs import SECRET_ADDRESSES
from tests.awmweb.test_proxy_files import PROGRAMS, certificate, proxying
from tests.commands import ROOT
from tests.running import free_ports, until

SECRET = "aF-7tA41TvwSq3vkbamR_-NrGUYN-H2oq4WoanUMFb8"
KNOWN = re.compile(r"pk|\w+_id|slug|seq|scenario|task_idx|action|command|name|role|digest")
"""Names of what may be in a log: IDs, digests, words of awmweb, names of an operator. Anything else is a secret."""


def routes(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for one in patterns:
        route = before + str(one.pattern)
        yield from routes(one.url_patterns, route) if isinstance(one, URLResolver) else [f"/{route}"]


ROUTES = [*routes(get_resolver("awmweb.urls").url_patterns)]
# and those that only some settings include, and sockets
APPS = {config.name.partition(".")[0] for config in apps.get_app_configs()} & {one.name for one in ROOT.iterdir()}
ROUTES += [
    f"/{route}"
    for app in APPS
    for file in (ROOT / app).rglob("*.py")
    for route in re.findall(r"\bpath\(\s*r?\"([^\"]+)\"", file.read_text())
]
WITH_A_SECRET = {
    route[: found.start()]
    for route in ROUTES
    for found in re.finditer(r"<(?:\w+:)?(\w+)>", route)
    if not KNOWN.fullmatch(found[1])
}
ADDRESSES = [
    *(f"{before}{SECRET}" for before in SECRET_ADDRESSES),
    *(f"{before}{SECRET}/?page=2" for before in SECRET_ADDRESSES),
    *(f"/projects/demo{before}{SECRET}" for before in SECRET_ADDRESSES),
    *(f"/{before}{SECRET}" for before in SECRET_ADDRESSES),
    *(f"/%{ord(before[1]):x}{before[2:]}{SECRET}" for before in SECRET_ADDRESSES),
    f"/login?next=%2Fanswer%2F{SECRET}",
    f"/login/provider/callback?code={SECRET}&state={SECRET}",
    f"/projects/demo/episodes/?q={SECRET}",
    f"/projects/demo/episodes/%3Fq={SECRET}",
    f"/api/v1/asks/0123456789abcdefghij/attachments?name={SECRET}.png",
]


def test_every_secret_of_an_address_is_in_the_list():
    assert {"/login/provider/callback", "/login/second", "/ws/queue"} <= set(ROUTES), "some addresses were not read"
    assert set(SECRET_ADDRESSES) == WITH_A_SECRET


@pytest.mark.parametrize("form", settings.LOGGING["formatters"].values(), ids=settings.LOGGING["formatters"])
@pytest.mark.parametrize(
    "address", [one for one in ADDRESSES if "/%" not in one], ids=lambda one: one.replace(SECRET, "")
)
def test_log_of_awmweb_has_neither_secret_nor_query(form, address):
    """Django names the path that it has read, so nothing of it is encoded."""
    line = import_string(form["class"])(form.get("format"), style=form.get("style", "%"))
    for text in (f"Forbidden: {address}", f"opening http://house:8000{address}, then"):
        written = line.format(logging.makeLogRecord({"msg": "%s", "args": (text,), "levelname": "WARNING"}))
        assert SECRET not in written and "[secret]" in written and text.split("/")[0] in written


class Redirecting(BaseHTTPRequestHandler):
    """A web process that answers everything with an address that has a secret, too."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", f"/login?next=%2Fanswer%2F{SECRET}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Write nothing: what the proxies write is looked at."""


@pytest.fixture
def house() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def opens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def statuses(port, trust, addresses, **headers) -> list[int]:
    """What a proxy answers to each address, which is sent as it stands here."""
    found = []
    for address in addresses:
        browser = http.client.HTTPSConnection("localhost", port, context=trust, timeout=60)
        browser.request("GET", address, headers={"Referer": f"https://localhost:{port}{address}", **headers})
        found.append(browser.getresponse().status)
        browser.close()
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_logs_of_documented_proxies_have_no_secret_and_no_query(name, house, tmp_path):
    """Of requests that awmweb answers, of those that it does not answer, and of bodies that are refused."""
    tls, folder = certificate(tmp_path), tmp_path / "proxy"
    folder.mkdir()
    (port, nobody) = free_ports(2)
    with proxying(name, folder, tls, f"127.0.0.1:{house.server_port}", port) as trust:
        until(lambda: opens(port), 60)
        assert statuses(port, trust, ADDRESSES) == [302] * len(ADDRESSES)
    with proxying(name, folder, tls, f"127.0.0.1:{nobody}", port) as trust:
        until(lambda: opens(port), 60)
        assert statuses(port, trust, ADDRESSES) == [502] * len(ADDRESSES)
        statuses(port, trust, ADDRESSES, **{"Content-Length": "99000000"})
    logs = {file.name: file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file()}
    assert [file for file, text in logs.items() if SECRET in text] == []
    written = "".join(logs.values())
    # not an empty log: each request, of both rounds
    assert written.count("/projects/demo/episodes/") >= 4 and written.count("[secret]") >= 4 * len(SECRET_ADDRESSES)
    assert " 502 " in written or '"status":502' in written
    if name == "caddy":
        lines = [json.loads(line) for line in logs["log"].splitlines() if line.startswith("{")]
        assert {"http.log.access", "http.log.error"} <= {line.get("logger") for line in lines}
