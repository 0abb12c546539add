"""The stream of the running product: large steps, a slow socket, tokens, and two web processes and their end."""

from __future__ import annotations

import itertools
import json
import socket
from contextlib import ExitStack

import httpx
import psutil
import pytest
from websockets.sync.client import connect

from people.models import new_id
from tests.chaos import test_matrix
from tests.running import until

LARGE = 200_000


@pytest.fixture(scope="module")
def token(house):
    return house.token("agent")


@pytest.fixture
def agent(house, token):
    with house.http(token) as http:
        yield http


def start(http):
    return http.post("/episodes", json={"key": new_id(), "task": "t"}).raise_for_status().json()["id"]


def append(http, episode, *numbers, content="small"):
    steps = [{"seq": n, "kind": "note", "content": content} for n in numbers]
    return http.post(f"/episodes/{episode}/steps", json={"steps": steps})


def listen(house, episode, token, **options):
    where = f"{house.websocket}/ws/episodes/{episode}"
    return connect(where, additional_headers={"Authorization": f"Bearer {token}"}, **options)


def steps_until(live, last):
    seen = []
    while not seen or seen[-1]["seq"] < last:
        frame = json.loads(live.recv(timeout=30))
        seen += frame["steps"] if frame["type"] == "steps" else []
    return seen


def test_agent_socket_gets_large_step_truncated_and_fetches_it(house, agent, token):
    episode = start(agent)
    append(agent, episode, 1, content="early " * LARGE)
    with listen(house, episode, token) as live:
        append(agent, episode, 2, content="late " * LARGE)
        stored, late = steps_until(live, 2)
    for step, word in ((stored, "early "), (late, "late ")):
        assert step["cut"]["fields"] == ["content"] and step["cut"]["size"] > len(word) * LARGE
        assert (word * LARGE).startswith(step["content"]) and len(step["content"]) < 10_000
        whole = agent.get(f"/episodes/{episode}/steps/{step['seq']}").json()
        assert whole["content"] == word * LARGE and "cut" not in whole and whole["at"] == step["at"]
    assert [len(step["content"]) for step in agent.get(f"/episodes/{episode}/steps").json()["steps"]] == [
        6 * LARGE,
        5 * LARGE,
    ]


@pytest.mark.parametrize("seq", ["0", "3", "-1", "99999999999999999999", "x"])
def test_a_step_that_is_not_there_is_refused_in_the_envelope(agent, seq):
    episode = start(agent)
    append(agent, episode, 1, 2)
    answer = agent.get(f"/episodes/{episode}/steps/{seq}")
    assert answer.status_code in (404, 422) and set(answer.json()) == {"error"}


def test_frames_stay_below_the_client_limit(house, agent, token):
    """The usual limit of a reader is a megabyte."""
    episode = start(agent)
    append(agent, episode, *range(1, 61), content="y" * 30_000).raise_for_status()
    with listen(house, episode, token) as live:
        assert [step["seq"] for step in steps_until(live, 60)] == list(range(1, 61))
        append(agent, episode, *range(61, 121), content="y" * 30_000).raise_for_status()
        late = steps_until(live, 120)  # those that it has already may be told once more before
        assert [step["seq"] for step in late[-60:]] == list(range(61, 121))


def test_slow_socket_gets_gap_and_memory_stays_bounded(house, agent, token):
    episode = start(agent)
    web = psutil.Process(house.children()["web"])
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect(("127.0.0.1", int(house.url.rpartition(":")[2])))
    with listen(house, episode, token, sock=line, max_queue=1, max_size=None, compression=None) as live:
        before, seq = web.memory_info().rss, 0
        for _ in range(50):
            numbers = range(seq + 1, seq + 21)
            append(agent, episode, *numbers, content="y" * 30_000).raise_for_status()
            seq += 20
        grown = web.memory_info().rss - before
        kinds = []
        while "gap" not in kinds:
            kinds.append(json.loads(live.recv(timeout=30))["type"])
        append(agent, episode, seq + 1)
        assert steps_until(live, seq + 1)[-1]["seq"] == seq + 1
    assert grown < 60_000_000, f"{grown} bytes for a socket that does not read, of 30 MB sent"


def test_revoked_token_cannot_write_after_5_s(house):
    secret = house.token("agent")
    with house.http(secret) as http:
        episode = start(http)
        assert append(http, episode, 1).status_code == 200
        house.manage(
            "shell", "-c",
            "from people.models import ApiToken as T; from people.record.members import digest, revoke_token;"
            f"from people.access import system; t = T.objects.get(digest=digest('{secret}'));"
            "revoke_token(system(t.project), t.pk)",
        )  # fmt: skip
        seqs = itertools.count(2)
        until(lambda: append(http, episode, next(seqs)).status_code == 401, 5 * house.patience)


def test_a_person_appends_through_the_same_rules(house, agent):
    """Without a bearer the call is Django's, with its CSRF check."""
    episode = start(agent)
    with httpx.Client(follow_redirects=True, base_url=house.url, timeout=40) as browser:
        browser.get(house.link("ada", "admin"))
        body = {"steps": [{"seq": 1, "kind": "note", "content": "by hand"}]}
        refused = browser.post(f"/api/v1/episodes/{episode}/steps", json=body)
        assert refused.status_code == 403
        csrf = next(value for name, value in browser.cookies.items() if "csrf" in name)
        taken = browser.post(
            f"/api/v1/episodes/{episode}/steps", json=body, headers={"X-CSRFToken": csrf, "Origin": house.url}
        )
        assert taken.json() == {"acknowledged": 1}


def test_two_web_processes_behind_one_port_are_one_product(two_webs):
    two = two_webs.with_project("streaming")
    token = two.token("agent")
    workers = [psutil.Process(two.children()[name]) for name in ("web", "web-2")]
    with two.http(token) as http:
        episode = start(http)
        with ExitStack() as stack:
            sockets = []
            while len(sockets) < 12 or not all(watched(one, sockets) for one in workers):
                assert len(sockets) < 200, "all sockets of 200 came to one process"
                # a client with a full queue answers no ping, and on a busy machine signs of life may take long
                live = listen(two, episode, token, max_queue=None, ping_interval=None)
                sockets.append(stack.enter_context(live))
            for seq in range(1, 11):
                with two.http(token) as other:
                    assert append(other, episode, seq).json() == {"acknowledged": seq}
            for live in sockets:
                heard: set[int] = set()  # two processes tell them, so a later one can come first
                while len(heard) < 10:
                    frame = json.loads(live.recv(timeout=30))
                    heard |= {step["seq"] for step in frame.get("steps", [])}
                assert heard == set(range(1, 11))


def watched(process, sockets):
    """Whether one of these ended up at this process."""
    ours = {live.socket.getsockname()[1] for live in sockets}
    return any(one.raddr and one.raddr.port in ours for one in process.net_connections("tcp"))


def test_killed_processes_lose_no_step_for_writer_or_watcher(two_webs):
    """Last, as nothing of this product survives."""
    victims, writers = ["one web process", "valkey", "postgres"], [{}, {"twice": True}]
    test_matrix.disturb(two_webs.with_project("killed"), victims, writers, 1)
