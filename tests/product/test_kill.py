"""kill -9 of each child in turn while episodes run: the house recovers by itself, and acknowledged steps are there."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

from people.models import new_id
from tests.running import product, until

VICTIMS = ["web", "worker", "rollouts", "beat", "env", "valkey", "postgres"]


class Writer(threading.Thread):
    """A loop that appends one step after the other, repeats what was not acknowledged, and remembers what was."""

    def __init__(self, house, token):
        super().__init__(daemon=True)
        self.http = house.http(token)
        self.episode = self.http.post("/episodes", json={"key": new_id(), "task": "t"}).json()["id"]
        self.acknowledged = 0
        self.through = threading.Event()

    def run(self):
        while not self.through.is_set():
            seq = self.acknowledged + 1
            step = {"seq": seq, "kind": "note", "content": f"step {seq}"}
            try:
                answer = self.http.post(f"/episodes/{self.episode}/steps", json={"steps": [step]})
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            if answer.status_code == 200:
                self.acknowledged = answer.json()["acknowledged"]
            elif answer.status_code not in (500, 502, 503):
                raise AssertionError(answer.text)

    def stored(self):
        steps, since = [], 0
        while page := self.http.get(f"/episodes/{self.episode}/steps?since={since}&limit=2000").json()["steps"]:
            steps += page
            since = page[-1]["seq"]
        return steps


def environment_answers(house):
    try:
        return httpx.get(f"http://127.0.0.1:{house.environment['AWMENV_PORT']}/health").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_every_child_may_die_and_nothing_acknowledged_is_lost():
    with product(AWMWEB_DEMO="1") as house:
        writers = [Writer(house, house.token("agent")) for _ in range(2)]
        for writer in writers:
            writer.start()
        for name in VICTIMS:
            before = [writer.acknowledged for writer in writers]
            dead = house.kill(name)
            until(lambda name=name, dead=dead: house.children().get(name, dead) != dead, 90)
            until(house.healthy, 90)
            until(lambda before=before: all(w.acknowledged > b for w, b in zip(writers, before, strict=True)), 90)
        for writer in writers:
            writer.through.set()
            writer.join(60)
            assert not writer.is_alive()
        for writer in writers:
            steps = writer.stored()
            assert [step["seq"] for step in steps] == list(range(1, len(steps) + 1))
            assert len(steps) >= writer.acknowledged > len(VICTIMS)
        with house.http(house.token("expert")) as expert:
            until(lambda: expert.get("/asks?status=open").status_code == 200, 60)
        until(lambda: environment_answers(house), 90)  # without it the rollout would only wait
        ended = "Episode.objects.filter(origin='builtin', state__in=['queued', 'running']).count()"
        query = f"from episodes.models import Episode; print({ended})"
        until(lambda: house.manage("shell", "-v", "0", "-c", query).strip() == "0", 150, 2)
        faults = "list(Episode.objects.exclude(fault='').values_list('scenario', 'fault', 'fault_detail'))"
        said = house.manage("shell", "-v", "0", "-c", f"from episodes.models import Episode; print({faults})").strip()
        assert said == "[]", "each attempt was taken over by another one"
        house.manage("rollout", "--scenario", "helpdesk_1", "--task-idx", "0", "--policy", "script:oracle")
        complete = "Episode.objects.filter(state='finished', outcomes__reward=1).count()"
        last = f"from episodes.models import Episode; print({complete})"
        until(lambda: house.manage("shell", "-v", "0", "-c", last).strip() not in ("", "0"), 90, 1)
