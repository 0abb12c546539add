"""The page about the environment server: one that stands, one below its minimum, one of others, one that is away."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.test import Client

from runs.play import environment
from tests.browsing import as_person, html
from tests.running import free_ports

STRICT = {"tier": "strict", "min_tier": "strict", "sessions": 2, "max_sessions": 1000, "probes": {"no_network": True}}
WEAK = {**STRICT, "tier": "none", "probes": {"landlock": False, "no_network": False}}


@pytest.fixture
def stats(settings):
    """What a server at AWMENV_URL says of itself, over real HTTP; None has it know no such address."""
    said = {"body": STRICT}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = {"status": "healthy", "version": "<1>"} if self.path == "/health" else said["body"]
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *args):
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.AWMENV_URL = f"ws://127.0.0.1:{server.server_port}/ws"
    yield said
    server.shutdown()
    server.server_close()


def page(actor):
    answer = as_person(actor).get("/environment/")
    assert answer.status_code == 200
    return html(answer)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (STRICT, "Pack code runs at sandbox level strict."),
        (WEAK, "Pack code is blocked: sandbox level none is below the minimum, strict."),
        ({**WEAK, "tier": "degraded", "min_tier": "degraded"}, "Pack code runs at sandbox level degraded."),
        (None, "The environment server does not report a sandbox level."),
        ([1], "The environment server does not report a sandbox level."),
    ],
)
def test_environment_page_shows_the_sandbox_level(stats, rita, body, words):
    stats["body"] = body
    said = page(rita)
    assert words in said and "sandbox_missing" in said and "&lt;1&gt;" in said
    assert ("failed: opening sockets is blocked" in said) == (
        isinstance(body, dict) and not body["probes"]["no_network"]
    )


@pytest.mark.parametrize("url", ["ws://127.0.0.1:{}/ws", "http://127.0.0.1:{}", "nonsense"])
def test_environment_page_names_an_unreachable_server(settings, rita, url):
    settings.AWMENV_URL = url.format(free_ports(1)[0])
    said = page(rita)
    assert "The environment server does not respond." in said and "stay queued" in said


def test_a_stranger_is_sent_to_the_door(db):
    assert Client().get("/environment/").status_code == 302


@pytest.mark.parametrize("given", ["ws://h:1/ws", "http://h:1", "http://h:1/", "h:1"])
def test_the_address_is_that_of_the_socket_without_its_path(settings, given):
    settings.AWMENV_URL = given
    assert environment.address() == "http://h:1"
