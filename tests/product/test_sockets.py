"""The live sockets: everything after `since`, then what comes; who may listen; nothing is ever written through them."""

from __future__ import annotations

import json

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from people.models import new_id


@pytest.fixture(scope="module")
def agent_token(house):
    return house.token("agent")


@pytest.fixture
def agent(house, agent_token):
    with house.http(agent_token) as http:
        yield http


@pytest.fixture
def episode(agent):
    return agent.post("/episodes", json={"key": new_id(), "task": "t", "expert": "plain"}).json()["id"]


def append(agent, episode, *numbers):
    steps = [{"seq": n, "kind": "note", "content": f"step {n}"} for n in numbers]
    assert agent.post(f"/episodes/{episode}/steps", json={"steps": steps}).status_code == 200


def listen(house, path, token=None, **headers):
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return connect(house.websocket + path, additional_headers=headers)


def numbers_until(socket, last):
    seen = []
    while not seen or seen[-1] != last:
        frame = json.loads(socket.recv(timeout=30))
        if frame["type"] == "steps":
            seen += [step["seq"] for step in frame["steps"]]
    return seen


def test_socket_that_asks_for_it_hears_a_beat(house, agent, agent_token, episode):
    """An open socket that is silent can be told from one whose network swallows everything."""
    path = f"/ws/episodes/{episode}?since=0"
    with listen(house, f"{path}&beat=1", agent_token) as asks, listen(house, path, agent_token) as other:
        while json.loads(asks.recv(timeout=30)) != {"type": "beat"}:
            pass
        append(agent, episode, 1)
        heard = []
        while not heard or not heard[-1].get("steps"):
            heard.append(json.loads(other.recv(timeout=30)))
        assert "beat" not in [frame["type"] for frame in heard]


def test_what_is_stored_comes_first_then_what_comes(house, agent, agent_token, episode):
    append(agent, episode, 1, 2, 3)
    with listen(house, f"/ws/episodes/{episode}?since=1", agent_token) as socket:
        assert numbers_until(socket, 3) == [2, 3]
        append(agent, episode, 4)
        append(agent, episode, 5)
        later = numbers_until(socket, 5)
        assert [seq for seq in later if seq > 3] == [4, 5], "a hint of the steps before can still be on its way"


def test_agents_hear_steps_without_rendered_html(house, agent, agent_token, episode):
    append(agent, episode, 1)
    path = f"/ws/episodes/{episode}?pictures=1"
    with listen(house, path, house.token("export")) as page, listen(house, path, agent_token) as loop:
        first = json.loads(page.recv(timeout=30))
        assert (first["type"], first["last"], first["html"]) == ("pictures", 1, "")
        append(agent, episode, 2)
        while not (frame := json.loads(page.recv(timeout=30))).get("html"):
            pass
        assert frame["last"] == 2 and 'id="step-2"' in frame["html"]
        assert numbers_until(loop, 2) == [1, 2]


def test_an_ask_step_is_sent_again_with_its_advice(house, agent, agent_token, episode):
    expert_token = house.token("expert")
    with listen(house, f"/ws/episodes/{episode}", agent_token) as socket, house.http(expert_token) as expert:
        body = {"key": "q", "episode": episode, "seq": 1, "question": "Which?"}
        ask = agent.post("/asks", json=body).json()["id"]
        lease = expert.post(f"/asks/{ask}/claim").json()
        answer = {"lease_token": lease["lease_token"], "text": "That one.", "nonce": "n"}
        expert.post(f"/assignments/{lease['assignment']}/answer", json=answer)
        steps = []
        while not any(step.get("advice") for step in steps):
            frame = json.loads(socket.recv(timeout=30))
            steps += frame["steps"] if frame["type"] == "steps" else []
        assert {step["seq"] for step in steps} == {1} and steps[-1]["advice"]["text"] == "That one."


def test_the_queue_socket_tells_of_new_asks_but_not_to_agents(house, agent, agent_token, episode):
    with listen(house, "/ws/queue", house.token("expert")) as socket:
        assert json.loads(socket.recv(timeout=30))["type"] == "queue"
        ask = agent.post("/asks", json={"key": "q", "episode": episode, "seq": 1, "question": "?"}).json()["id"]
        frames = []
        while not any(frame["type"] == "ask" and frame["ask"] == ask for frame in frames):
            frames.append(json.loads(socket.recv(timeout=30)))
    with listen(house, "/ws/queue", agent_token) as socket, pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=30)
    assert closed.value.rcvd.code == 4403


@pytest.mark.parametrize("kind", ["none", "wrong", "foreign"])
def test_a_stranger_hears_nothing(house, episode, kind):
    house.manage("shell", "-c", "from people.record.members import ensure_project as e; e('far', 'Far')")
    token = {"none": None, "wrong": "awm_nonsense", "foreign": house.token("agent", "far")}[kind]
    if token is None:
        with pytest.raises(InvalidStatus):
            listen(house, f"/ws/episodes/{episode}")
        return
    with listen(house, f"/ws/episodes/{episode}", token) as socket, pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=30)
    assert closed.value.rcvd.code == {"wrong": 4401, "foreign": 4404}[kind]


def test_a_cookie_socket_needs_our_origin(house, episode):
    with httpx.Client(follow_redirects=True, timeout=40) as browser:
        browser.get(house.link("ada", "admin"))
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    with listen(house, f"/ws/episodes/{episode}", Cookie=cookie, Origin=house.url) as socket:
        assert json.loads(socket.recv(timeout=30))["type"] in ("steps", "gap")
    for origin in ({"Origin": "https://evil.example"}, {}):
        with pytest.raises(InvalidStatus):
            listen(house, f"/ws/episodes/{episode}", Cookie=cookie, **origin)


def test_a_socket_never_takes_a_write(house, agent, agent_token, episode):
    with listen(house, f"/ws/episodes/{episode}", agent_token) as socket:
        socket.send(json.dumps({"type": "steps", "steps": [{"seq": 1, "kind": "note", "content": "x"}]}))
        socket.send(b"\x00\xff")
        append(agent, episode, 1)
        assert numbers_until(socket, 1) == [1]
    assert len(agent.get(f"/episodes/{episode}/steps").json()["steps"]) == 1
