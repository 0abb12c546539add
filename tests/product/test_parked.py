"""More waiting episodes than threads: play goes on, they survive every process, and finish when they are answered."""

from __future__ import annotations

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


@pytest.mark.slow
def test_waiting_episodes_hold_up_nobody_and_survive_kills():
    with product(AWMWEB_DEMO="0", AWMWEB_PARK_AFTER_S="5") as house:
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
