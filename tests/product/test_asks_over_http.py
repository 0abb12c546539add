"""Asks as an agent's loop and an expert's client live through them, against the running product."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from people.models import new_id
from tests.running import ROOT, until


@pytest.fixture(scope="module")
def agent(house):
    with house.http(house.token("agent")) as http:
        yield http


@pytest.fixture(scope="module")
def expert(house):
    with house.http(house.token("expert")) as http:
        yield http


def started(agent, **more):
    body = {"key": new_id(), "task": "merge the tickets", "expert": "plain", **more}
    return agent.post("/episodes", json=body).json()["id"]


def asked(agent, episode, seq=1, **more):
    body = {"key": new_id(), "episode": episode, "seq": seq, "question": "Into which one?", **more}
    answer = agent.post("/asks", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def answered(expert, ask, text="Into the oldest."):
    lease = expert.post(f"/asks/{ask}/claim").json()
    body = {"lease_token": lease["lease_token"], "text": text, "nonce": new_id()}
    return expert.post(f"/assignments/{lease['assignment']}/answer", json=body)


def test_a_waiting_poll_returns_as_soon_as_the_answer_is_in(agent, expert):
    ask = asked(agent, started(agent))
    seen = {}

    def wait():
        seen["answer"] = agent.get(f"/asks/{ask}?wait=25").json()
        seen["at"] = time.monotonic()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert [one["id"] for one in expert.get("/asks?status=open&limit=200").json()["asks"] if one["id"] == ask] == [ask]
    assert answered(expert, ask).status_code == 200
    sent = time.monotonic()
    waiter.join(30)
    assert seen["answer"]["status"] == "answered"
    assert seen["answer"]["advice"]["text"] == "Into the oldest." and seen["answer"]["advice"]["source"] == "human"
    assert seen["at"] - sent < 20, "it waited to its own end"


def test_a_poll_that_waits_settles_the_deadline_itself(agent):
    ask = asked(agent, started(agent), deadline_s=1)
    began = time.monotonic()
    view = agent.get(f"/asks/{ask}?wait=25").json()
    assert time.monotonic() - began < 20, "it waited to its own end"
    assert (view["status"], view["reason"]) == ("fell_back", "deadline")
    assert view["advice"]["text"] == "" and view["advice"]["source"] == "fallback"


def test_an_answer_after_the_deadline_is_409_too_late(agent, expert):
    ask = asked(agent, started(agent), deadline_s=6)  # time enough to claim it
    lease = expert.post(f"/asks/{ask}/claim").json()
    agent.get(f"/asks/{ask}?wait=25")
    body = {"lease_token": lease["lease_token"], "text": "slow", "nonce": "n"}
    late = expert.post(f"/assignments/{lease['assignment']}/answer", json=body)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "too_late")


def test_delivery_and_consumption_stand_beside_the_status(agent, expert):
    ask = asked(agent, started(agent))
    answered(expert, ask)
    assert expert.get(f"/asks/{ask}").json().get("delivered_at") is None
    assert agent.get(f"/asks/{ask}").json()["delivered_at"]
    assert agent.post(f"/asks/{ask}/consumed").json()["consumed_at"]


def test_silent_episode_is_lost_reopens_and_a_polling_one_lives(agent, expert, house):
    """Both were silent for most of the time that they may; a wait is what one of them sends."""
    episode, polling = started(agent), started(agent)
    ask, polled = asked(agent, episode, deadline_s=600), asked(agent, polling, deadline_s=600)
    house.ages(episode, polling, seconds=400)
    assert agent.get(f"/asks/{polled}?wait=1").json()["status"] == "open"
    house.ages(episode, polling, seconds=300)
    until(lambda: expert.get(f"/episodes/{episode}").json()["state"] == "failed", 60)
    assert expert.get(f"/episodes/{polling}").json()["state"] == "waiting"
    view = agent.get(f"/asks/{ask}").json()
    assert (view["status"], view["reason"]) == ("cancelled", "episode_ended")
    step = {"seq": 2, "kind": "note", "content": "I was only slow"}
    assert agent.post(f"/episodes/{episode}/steps", json={"steps": [step]}).json() == {"acknowledged": 2}
    assert agent.get(f"/episodes/{episode}").json()["state"] == "running"


def test_waiting_polls_hold_no_thread_or_connection(agent, house):
    import asyncio

    import httpx
    import psutil

    ask = asked(agent, started(agent), deadline_s=60)
    token = agent.headers["Authorization"]
    web, port = psutil.Process(house.children()["web"]), int(house.environment["AWMWEB_PORT"])

    async def polls():
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(
            base_url=house.url, headers={"Authorization": token}, limits=limits, timeout=60
        ) as http:
            waiting = [asyncio.create_task(http.get(f"/api/v1/asks/{ask}?wait=4", timeout=60)) for _ in range(100)]
            threads, most = [], 0
            while not all(one.done() for one in waiting):
                threads.append(web.num_threads())
                most = max(most, sum(line.laddr.port == port for line in web.net_connections("tcp")))
                await asyncio.sleep(0.1)
            return max(threads), most, [one.result().json()["status"] for one in waiting]

    threads, most, answers = asyncio.run(polls())
    assert answers == ["open"] * 100
    assert threads < 50 < most


def test_docs_expert_script_answers_only_known_questions(agent, house):
    stuck, asker = started(agent), started(agent)
    other = asked(agent, stuck, question="Into which ticket?")
    known = asked(agent, asker, question="How many coffees shall I order?")
    setting = {"AWMWEB_URL": house.url, "AWMWEB_TOKEN": house.token("expert"), "AWMWEB_ANSWERS": "1"}
    script = [sys.executable, str(ROOT / "examples" / "own_expert.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(script, env={**os.environ, **setting}, **pipes) as running:
        until(lambda: running.poll() is not None, seconds=60, every=1)
        said, complained = running.communicate()
    assert running.returncode == 0 and known in said, complained
    advice = agent.get(f"/asks/{known}").json()["advice"]
    assert advice["text"] == "Twelve, the shelf holds no more." and advice["author"].startswith("token ")
    assert agent.get(f"/asks/{other}").json()["status"] == "open"
