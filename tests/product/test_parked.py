"""More waiting episodes than threads: play goes on, they survive every process, and finish when they are answered.
The product that parks them soon has a public address as well, and colleagues get in by it."""

from __future__ import annotations

import httpx
import pytest

from tests.running import product, until

WAITING = 18  # the rollouts worker has 16 threads
LAUNCH = """
from people.access import system_actor
from runs.launch import launching
asking = launching.policy_named("script:demo") | {"ask_deadline_s": 2592000}
start = lambda idx, policy, expert: launching.LaunchRequest(
    "helpdesk_1", idx, launching.task_text("helpdesk_1", idx), policy, expert=expert)
launching.launch(system_actor("demo"), "asking", [start(1, asking, "plain")] * %d)
launching.launch(system_actor("demo"), "alone", [start(0, launching.policy_named("script:oracle"), "off")])
"""


@pytest.fixture(scope="module")
def house():
    public = {"AWMWEB_HOST": "0.0.0.0", "AWMWEB_PUBLIC_URL": "https://desk.example.org"}
    with product(AWMWEB_PARK_AFTER_S="5", **public) as running:
        yield running


def test_login_works_by_the_public_address_only(house):
    assert house.login.startswith("https://desk.example.org/login/once/")
    path = house.login.removeprefix("https://desk.example.org")
    port = house.environment["AWMWEB_PORT"]
    via = {"Host": "desk.example.org", "X-Forwarded-Proto": "https"}
    welcome = httpx.get(f"http://127.0.0.1:{port}{path}", headers=via)
    assert welcome.status_code == 302
    cookie = welcome.headers["set-cookie"]
    assert cookie.startswith("__Host-") and "Secure" in cookie and "HttpOnly" in cookie
    wrong = httpx.get(f"http://127.0.0.1:{port}/login", headers={"Host": "evil.example"})
    assert wrong.status_code == 400
    assert "frame-ancestors 'none'" in httpx.get(f"http://127.0.0.1:{port}/login").headers["content-security-policy"]


@pytest.mark.long
@pytest.mark.slow
def test_waiting_episodes_hold_up_nobody_and_survive_kills(house):
    house.manage("shell", "-c", LAUNCH % WAITING)
    launch, expert = house.http(house.token("launch")), house.http(house.token("expert"))

    def states():
        items = launch.get("/episodes?limit=100").json()["items"]
        return sorted(one["state"] for one in items)

    until(lambda: states() == ["finished", *["parked"] * WAITING], 120, 0.5)
    for name in ("rollouts", "env", "valkey"):
        dead = house.kill(name)
        until(lambda name=name, dead=dead: house.children().get(name, dead) != dead, 90)
    until(house.healthy, 90)
    assert states() == ["finished", *["parked"] * WAITING]
    for ask in expert.get("/asks?status=open").json()["asks"]:
        lease = expert.post(f"/asks/{ask['id']}/claim", json={}).json()
        said = {"lease_token": lease["lease_token"], "text": "Priya.", "nonce": "n"}
        assert expert.post(f"/assignments/{lease['assignment']}/answer", json=said).status_code == 200
    until(lambda: states() == ["finished"] * (WAITING + 1), 120, 0.5)
    outcomes = "from episodes.models import VerifierOutcome as V; print(V.objects.filter(reward=1).count())"
    until(lambda: f"{WAITING + 1}\n" in house.manage("shell", "-c", outcomes), 90, 1)
