"""An approval of two people whose web process is killed with -9: each decision counts once, and none is lost."""

from __future__ import annotations

import json
import threading
import time

import pytest

from people.models import new_id
from tests.chaos.desk_actors import until_heard
from tests.running import until

REFUND = {"id": "1", "name": "issue_refund", "arguments": {"order": 7, "amount": 40}}
STORED = """
import json
from experts.models import Advice, Ask, AskEvent, QuorumDecision
ask = Ask.objects.get(pk={pk!r})
counted = list(QuorumDecision.objects.filter(ask=ask).order_by("pk").values_list("author", "verdict", "counts"))
verbs = list(AskEvent.objects.filter(ask=ask, verb__in=["counted", "answered"]).order_by("pk").values_list("verb"))
print(json.dumps([ask.status, counted, verbs, Advice.objects.filter(ask=ask).count()]))
"""


@pytest.fixture(scope="module")
def place(two_webs):
    return two_webs.with_project("shared-approval")


@pytest.fixture(scope="module")
def people(place):
    """Edo and Mina, each by a token of their own."""
    with place.http(place.own_token("edo")) as edo, place.http(place.own_token("mina")) as mina:
        yield edo, mina


@pytest.fixture
def waiting(place):
    """An approval of two people, how its agent looks at it, and what the agent hears, which waits in a thread."""
    with place.http(place.token("agent")) as agent:
        plan = {"key": new_id(), "task": "refund order 7", "expert": "plain"}
        episode = until_heard(agent, "POST", "/episodes", plan).json()["id"]
        body = {"key": "q", "episode": episode, "seq": 1, "question": "May I refund order 7?", "deadline_s": 600}
        typed = {"kind": "approval", "calls": [REFUND], "quorum": {"of": 2}, "on_timeout": "reject"}
        ask = until_heard(agent, "POST", "/asks", {**body, **typed}).json()["id"]
        over, heard = threading.Event(), []

        def wait() -> None:
            view = {"status": "open"}
            while view["status"] == "open" and not over.is_set():
                view = until_heard(agent, "GET", f"/asks/{ask}?wait=2").json()
            heard.append(view)

        thread = threading.Thread(target=wait)
        thread.start()
        yield ask, lambda: until_heard(agent, "GET", f"/asks/{ask}").json(), heard
        over.set()
        thread.join(60)


def kill_web(place):
    """kill -9 of all web processes; returns what waits for the next ones."""
    dead = place.kill("web")

    def back():
        until(lambda: place.children().get("web", dead) != dead, 60)
        until(place.healthy, 60)

    return back


def send(person, ask, after_s=None, place=None):
    """Claim and approve, repeated until it is heard. With `after_s` web is killed so long after the answer was sent."""
    lease = until_heard(person, "POST", f"/asks/{ask}/claim", {}).json()
    body = {"lease_token": lease["lease_token"], "text": "", "nonce": "press"}
    body["decision"] = {"calls": [{"id": "1", "verdict": "approve"}]}
    heard = []
    path = f"/assignments/{lease['assignment']}/answer"
    sending = threading.Thread(target=lambda: heard.append(until_heard(person, "POST", path, body)))
    sending.start()
    if after_s is not None:
        time.sleep(after_s)
        kill_web(place)()
    sending.join(90)
    assert [one.status_code for one in heard] == [200], heard[0].text


def decided(view):
    return [one["by"] for one in view["decided"]]


def stored(place, ask):
    return json.loads(place.manage("shell", "-v", "0", "-c", STORED.format(pk=ask)).strip().splitlines()[-1])


BOTH = ["answered", [["edo", "approve", True], ["mina", "approve", True]], [["counted"], ["answered"]], 2]


def test_kill_between_two_decisions_keeps_the_first(place, people, waiting):
    (edo, mina), (ask, look, heard) = people, waiting
    send(edo, ask)
    kill_web(place)()
    assert decided(look()) == ["edo"] and not heard
    send(mina, ask)
    (view,) = until(lambda: heard, 60)
    assert (view["status"], view["advice"]["decision"]["calls"][0]["verdict"]) == ("answered", "approve")
    assert stored(place, ask) == BOTH


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.03])
def test_kill_right_after_a_decision_counts_it_once(place, people, waiting, after_s):
    (edo, mina), (ask, look, heard) = people, waiting
    send(edo, ask, after_s, place)
    assert decided(look()) == ["edo"] and not heard
    send(mina, ask, after_s, place)
    (view,) = until(lambda: heard, 60)
    assert decided(view) == ["edo", "mina"]
    assert stored(place, ask) == BOTH
