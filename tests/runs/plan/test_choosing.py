"""The choice of an environment server among several: by room, the one from before, another one when it is lost."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from runs.plan import choosing, servers
from runs.play import environment
from tests.browsing import as_person, html
from tests.running import free_ports


class Server:
    """An environment server's `/stats` over real HTTP, with a count of how often it was asked."""

    def __init__(self, sessions, most):
        self.body, self.asked = {"sessions": sessions, "max_sessions": most}, 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += self.path == "/stats"
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(outer.body).encode())

            def log_message(self, *args):
                """Silent."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"ws://127.0.0.1:{self.http.server_port}/ws"

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def some(settings, monkeypatch):
    """Makes servers with these sessions and limits, and names them in the settings."""
    monkeypatch.setattr(choosing, "_rooms", choosing.Rooms())
    made = []

    def make(*rooms):
        made.extend(Server(*room) for room in rooms)
        settings.AWMENV_URL = ", ".join(one.url for one in made)
        return made

    yield make
    for one in made:
        one.http.shutdown()
        one.http.server_close()


def test_server_with_the_most_room_is_chosen(some):
    _, roomy = some((90, 100), (5, 100))
    assert servers.profile("awm").url == roomy.url


def test_servers_of_different_sizes_get_their_shares(some):
    small, large = some((0, 20), (0, 80))
    chosen = Counter(choosing.with_room() for _ in range(50))
    assert (chosen[small.url], chosen[large.url]) == (10, 40)
    assert (small.asked, large.asked) == (1, 1), "what a server said holds for a moment"


def test_equal_servers_fill_evenly_without_asking_again(some):
    one, other = some((3, 100), (3, 100))
    assert Counter(choosing.with_room() for _ in range(40)) == {one.url: 20, other.url: 20}


def test_server_of_before_is_kept_while_it_has_room(some, monkeypatch):
    full, roomy = some((99, 100), (0, 100))
    assert servers.profile("awm", full.url).url == full.url
    assert servers.profile("awm", full.url).url == roomy.url, "its last session is taken"
    monkeypatch.setattr(choosing, "KNOWN_S", 0.0)
    full.body["sessions"] = 10
    assert servers.profile("awm", full.url).url == full.url
    assert servers.profile("awm", "ws://elsewhere:1/ws").url == roomy.url


def test_silent_server_is_left_out_and_found_again(some, settings, monkeypatch):
    (here,) = some((50, 100))
    away = f"ws://127.0.0.1:{free_ports(1)[0]}/ws"
    settings.AWMENV_URL = f"{away},{here.url}"
    assert {choosing.with_room(before=away) for _ in range(5)} == {here.url}
    monkeypatch.setattr(choosing, "SILENT_S", 0.0)
    settings.AWMENV_URL = away
    assert choosing.with_room() == away, "a single one is not asked"


def test_lost_server_is_not_chosen_for_some_seconds(some, monkeypatch):
    lost, other = some((0, 100), (90, 100))
    assert choosing.with_room() == lost.url
    assert {choosing.with_room(lost=lost.url) for _ in range(3)} == {other.url}
    assert choosing.with_room() == other.url
    monkeypatch.setattr(choosing, "SILENT_S", 0.0)
    assert choosing.with_room() == lost.url


def test_first_server_is_named_if_none_responds(settings, monkeypatch):
    monkeypatch.setattr(choosing, "_rooms", choosing.Rooms())
    settings.AWMENV_URL = ",".join(f"ws://127.0.0.1:{port}/ws" for port in free_ports(2))
    assert choosing.with_room() == choosing.urls()[0]


def test_server_that_says_no_limit_is_the_last_choice(some):
    silent, known = some((0, 100), (99, 100))
    silent.body = {"tier": "none"}
    assert choosing.with_room() == known.url and choosing.with_room() == silent.url


def looked_up(monkeypatch, **names):
    """Answer for these names with addresses, and count the look-ups."""
    asked = []

    def getaddrinfo(host, port, *_about):
        asked.append(host)
        if host not in names:
            raise OSError("no such name")
        return [(0, 0, 0, "", (address, port)) for address in names[host]]

    monkeypatch.setattr(choosing.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(choosing, "_names", choosing.Names())
    return asked


def test_name_with_several_addresses_is_several_servers(settings, monkeypatch):
    asked = looked_up(monkeypatch, env=["10.0.0.7", "10.0.0.5", "10.0.0.7"], one=["10.0.0.9"])
    settings.AWMENV_URL = "ws://env:8100/ws,ws://one:8100/ws,ws://none:8100/ws,wss://env:443/ws,env:8101"
    expected = ["ws://10.0.0.5:8100/ws", "ws://10.0.0.7:8100/ws", "ws://one:8100/ws", "ws://none:8100/ws"]
    expected += ["wss://env:443/ws", "http://10.0.0.5:8101", "http://10.0.0.7:8101"]
    assert choosing.urls() == expected and choosing.urls() == expected
    assert asked == ["env", "one", "none", "env"], "a certificate is for a name, and a name is kept for some seconds"


@pytest.mark.django_db(transaction=True)
def test_environment_page_lists_each_server(some, settings, rita):
    one, other = some((2, 1000), (7, 1500))
    away = free_ports(1)[0]
    settings.AWMENV_URL = f"ws://127.0.0.1:{away}/ws,{one.url},{other.url}"
    words = html(as_person(rita).get("/environment/"))
    assert environment.status().address == f"http://127.0.0.1:{one.http.server_port}"
    for said in (f"http://127.0.0.1:{away}", "does not respond", "2 of 1,000 sessions", "7 of 1,500 sessions"):
        assert said in words
