"""kill -9 of each process while built-in episodes run, at every step of them: none fails, each has the record of an
undisturbed one, and the world that its verifier saw holds every call once.

That is shown by its certificate: the recorded calls, made in a fresh world, lead to the very database that the verifier
read in the world that was killed. `make chaos` runs both tests and prints what was hit.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading

import httpx
import psutil
import pytest

from awmenv.packs import load_pack
from tests.commands import ROOT
from tests.running import product, until

VICTIMS = ["rollouts", "env", "scenario", "web", "valkey", "postgres"]
TASK = ("repairshop_1", 4)
PACE_S = 0.5
GROUP = """
from people.access import system_actor
from runs.launch import launching
policy = launching.policy_named("script:demo", %(pace)s) | {"ask_deadline_s": 3600}
text = launching.task_text("%(scenario)s", %(task)d)
start = lambda delay: launching.LaunchRequest("%(scenario)s", %(task)d, text, policy, expert="plain", delay_s=delay)
run = launching.launch(system_actor("demo"), "%(name)s", [start(place) for place in range(%(count)d)])
print("RUN", run.pk)
"""


class Answering(threading.Thread):
    """An expert who answers each ask from the pack's note, and tries again whatever a kill has cut off."""

    def __init__(self, house):
        super().__init__(daemon=True)
        self.http = house.http(house.token("expert"))
        self.pack = load_pack(ROOT / "packs" / "starter")
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.3):
            with contextlib.suppress(httpx.HTTPError, KeyError):  # a process is gone: it is asked again
                for ask in self.http.get("/asks?status=open").json()["asks"]:
                    self.answer(ask)

    def answer(self, ask):
        lease = self.http.post(f"/asks/{ask['id']}/claim", json={}).json()
        where = self.http.get(f"/episodes/{ask['episode']}").json()
        note = self.pack.about(where["scenario"], where["task_idx"])["expert_note"]
        said = {"lease_token": lease["lease_token"], "text": note, "nonce": ask["id"]}
        self.http.post(f"/assignments/{lease['assignment']}/answer", json=said)


@contextlib.contextmanager
def desk(**settings):
    """A product with an expert who answers, and a client that may launch and read."""
    with product(AWMWEB_DEMO="0", **settings, AWMWEB_HEARTBEAT_S="90") as house:
        answering = Answering(house)
        answering.start()
        with house.http(house.token("launch")) as launch:
            yield house, launch
        answering.ended.set()
        answering.join(60)


def living_children(process):
    with contextlib.suppress(psutil.NoSuchProcess):  # a session may end meanwhile
        return process.children()
    return []


def kill(house, name):
    """kill -9 of a child of the supervisor, or of every scenario's process, and wait until it is back."""
    if name == "scenario":
        # environment server, zygote, template, session: each is the child of the one before
        below = [psutil.Process(house.children()["env"])]
        for _ in range(3):
            below = [child for one in below for child in living_children(one)]
        for one in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        return len(below)
    ended = house.kill(name)
    until(lambda: house.children().get(name, ended) != ended, 90)
    until(house.healthy, 90)
    return 1


def items_of(launch, run):
    return launch.get("/episodes", params={"run": run, "limit": 100}).raise_for_status().json()["items"]


def record_of(launch, episode):
    """What the agent did and whether it came through, without times and ids, which differ from run to run."""
    steps = launch.get(f"/episodes/{episode}/steps", params={"since": 0, "limit": 1000}).raise_for_status().json()
    return [
        (one["seq"], one["kind"], one.get("turn"), one.get("name"), one.get("arguments"), "error" in one)
        for one in steps["steps"]
        if one["kind"] != "verification"
    ]


def outcomes(house, run):
    """Reward type by task and arm, as the verifier found it."""
    query = f"""
from episodes.models import Episode
import json
rows = Episode.objects.filter(run="{run}").values_list("scenario", "task_idx", "arm", "outcomes__reward_type", "fault")
print("FOUND", json.dumps(sorted(map(list, rows), key=str)))
"""
    said = house.manage("shell", "-v", "0", "-c", query).split("FOUND", 1)[1].strip()
    return {(row[0], row[1], row[2]): row[3] or f"fault {row[4]}" for row in json.loads(said)}


def certify(house, episode):
    said = house.manage("certify", "--episode", episode)
    assert "1 of 1 exact" in said, said


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_kills_at_every_step_leave_record_and_world():
    with desk() as (house, launch):

        def start(name, count):
            named = {"scenario": TASK[0], "task": TASK[1], "pace": PACE_S, "name": name, "count": count}
            return house.manage("shell", "-c", GROUP % named).split("RUN", 1)[1].split()[0]

        def ended(run):
            return [one["state"] for one in items_of(launch, run)] and all(
                one["state"] in ("finished", "failed") for one in items_of(launch, run)
            )

        calm = start("undisturbed", 1)
        until(lambda: ended(calm), 120, 0.5)
        expected = record_of(launch, items_of(launch, calm)[0]["id"])
        assert len(expected) > 8
        for victim in VICTIMS:
            run = start(victim, 12)
            # they begin a second apart: when the first is near its end, the others are on the way
            until(lambda run=run: max(one["last_seq"] for one in items_of(launch, run)) >= len(expected) - 2, 120, 0.1)
            hit = sorted(one["last_seq"] for one in items_of(launch, run))
            killed = kill(house, victim)
            until(lambda run=run: ended(run), 300, 0.5)
            for one in items_of(launch, run):
                assert (one["state"], one.get("fault") or "") == ("finished", ""), (victim, one)
                assert record_of(launch, one["id"]) == expected, victim
                certify(house, one["id"])
            assert set(outcomes(house, run).values()) == {"complete"}
            print(f"killed {victim} ({killed}) at steps {hit} of {len(expected)}: one record, exact worlds", flush=True)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_disturbed_run_has_outcomes_of_a_calm_one():
    plan = {
        "tasks": {"scenarios": ["*"]},
        "arms": [{"name": "off"}, {"name": "plain", "expert": "plain"}],
        "policy": "script:demo",
        "parallel": 12,
    }
    with desk() as (house, launch):

        def play(name, disturb):
            run = launch.post("/runs", json={"name": name, "plan": plan}).raise_for_status().json()["id"]
            planned = len(items_of(launch, run))
            for place, victim in enumerate(disturb, 1):
                share = planned * place / (len(disturb) + 2)
                until(lambda share=share: done(run) >= share, 300, 0.1)
                kill(house, victim)
            until(lambda: done(run) == planned, 600, 1)
            return outcomes(house, run)

        def done(run):
            with contextlib.suppress(httpx.HTTPError):
                return sum(one["state"] in ("finished", "failed") for one in items_of(launch, run))
            return 0

        calm = play("calm", [])
        assert {"complete"} < set(calm.values()), "some tasks need the expert, and some are complete"
        disturbed = play("disturbed", ["rollouts", "env", "valkey", "postgres"])
        assert disturbed == calm
        print(f"{len(calm)} episodes, {sorted(calm.values()).count('complete')} complete, the same when disturbed")
