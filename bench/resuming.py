"""The delay until an agent continues: after an answer, parked or not, and after its worker was killed.

Values: from an answer to the recorded result of the agent's next call, for an episode that waits on its thread and for
one that was parked, both answered one at a time; the same from an approval to the recorded result of the call that was
approved; and from the return of a rollouts worker that was killed with -9 under 16 live episodes until each has
continued. The limit of an answer is one call of the API that commits once, in the same run; that of an approval is its
aim. Prints one JSON object a line. Run as `python bench/resuming.py`, or with `approvals [ROUNDS]` for those alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.running import Product, product, until  # noqa: E402

ROUNDS, LIVE = 30, 16
PARK_AFTER_S = 2
APPROVAL_S = {"waiting": 0.15, "parked": 1.0}
GATED = {"approve": ["assign_ticket"]}
ASKING, WORKING = ("helpdesk_1", 1), ("repairshop_1", 5)
LAUNCH = """
from people.access import system_actor
from runs.launch import launching
policy = launching.policy_named("%s", %s) | {"ask_deadline_s": 3600} | %s
start = launching.LaunchRequest("%s", %d, launching.task_text("%s", %d), policy, expert="%s")
print("RUN", launching.launch(system_actor("demo"), "%s", [start] * %d).pk)
"""
WENT_ON = """
import json
from experts.models import Ask
ask = Ask.objects.get(pk="%s")
on = ask.episode.steps.filter(seq=ask.seq + 1).values_list("at", flat=True).first()
print("MEASURED", json.dumps(on and (on - ask.closed_at).total_seconds()))
"""
FIRST_AFTER = """
import json
from datetime import UTC, datetime
from django.db.models import Min, Q
from episodes.models import Episode
since = datetime.fromtimestamp(%f, UTC)
rows = Episode.objects.filter(run="%s").annotate(on=Min("steps__at", filter=Q(steps__at__gt=since)))
print("MEASURED", json.dumps([[one.state, one.attempt, one.on and one.on.timestamp()] for one in rows]))
"""


def report(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    line = {"name": f"resuming.{name}", "value": round(value, 4), "unit": unit, "limit": limit and round(limit, 4)}
    about = {**conditions, "load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    print(json.dumps({**line, "ratio": round(value / limit, 2) if limit else None, "conditions": about}), flush=True)


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def evaluate(web: Product, code: str) -> Any:
    return json.loads(web.manage("shell", "-v", "0", "-c", code).split("MEASURED", 1)[1])


def launch(
    web: Product, task: tuple[str, int], name: str, policy: str, count: int, pace_s: float = 0.0, **more: object
) -> str:
    expert = "plain" if task == ASKING else "off"
    code = LAUNCH % (policy, pace_s, more, *task, *task, expert, name, count)
    return web.manage("shell", "-v", "0", "-c", code).split("RUN", 1)[1].split()[0]


def answered(
    web: Product, loop: httpx.Client, expert: httpx.Client, state: str, number: int, *, gated: bool = False
) -> float:
    """Return seconds from the answer to an episode in this state until its next step is recorded.

    `gated`: the answer is the approval of a call, and the next step that call.
    """
    script, more = ("script:oracle", GATED) if gated else ("script:demo", {})
    launch(web, ASKING, f"{state} {number}", script, 1, **more)
    [ask] = until(lambda: expert.get("/asks?status=open").json()["asks"], 120)
    until(lambda: loop.get(f"/episodes/{ask['episode']}").json()["state"] == state, 120)
    lease = expert.post(f"/asks/{ask['id']}/claim", json={}).raise_for_status().json()
    said = {"lease_token": lease["lease_token"], "text": "" if gated else "Priya.", "nonce": ask["id"]}
    if gated:
        said["decision"] = {"calls": [{"id": one["id"], "verdict": "approve"} for one in ask["typed"]["calls"]]}
    expert.post(f"/assignments/{lease['assignment']}/answer", json=said).raise_for_status()
    until(lambda: loop.get(f"/episodes/{ask['episode']}").json()["state"] == "finished", 120)
    return float(evaluate(web, WENT_ON % ask["id"]))


def committed(loop: httpx.Client) -> float:
    """Return seconds of one call that commits once."""
    episode = loop.post("/episodes", json={"key": "bench", "task": "bench"}).raise_for_status().json()["id"]
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        loop.post(f"/episodes/{episode}/heartbeat").raise_for_status()
        times.append(time.perf_counter() - began)
    return p95(times)


def killed(web: Product, loop: httpx.Client) -> None:
    """Kill the worker of 16 live episodes; all of them continue once it is back, and none fails."""
    run = launch(web, WORKING, "killed", "script:oracle", LIVE, pace_s=2.0)

    def items() -> list[dict[str, Any]]:
        return list(loop.get("/episodes", params={"run": run, "limit": 100}).raise_for_status().json()["items"])

    until(lambda: len([one for one in items() if one["last_seq"] >= 3]) == LIVE, 240)
    live = sum(one["state"] == "running" for one in items())
    ended = web.kill("rollouts")
    until(lambda: web.children().get("rollouts", ended) != ended, 60, 0.01)
    returned = time.time()
    until(lambda: all(one["state"] in ("finished", "failed") for one in items()), 300, 1)
    found = evaluate(web, FIRST_AFTER % (returned, run))
    assert live == LIVE == len([one for one in found if one[0] == "finished" and one[1] == 2]), found
    last = max(on for _, _, on in found) - returned
    report("killed_worker", last, "s", None, aim=10, since="its process is back", live=live, failed=0)


def approvals(web: Product, loop: httpx.Client, expert: httpx.Client, rounds: int) -> None:
    answered(web, loop, expert, "waiting", -2, gated=True)
    for state, limit in APPROVAL_S.items():
        times = [answered(web, loop, expert, state, number, gated=True) for number in range(rounds)]
        median = round(sorted(times)[len(times) // 2], 4)
        about = {"median": median, "rounds": rounds, "limit_is": "aim", "until": "its result is recorded"}
        report(f"approval_to_resumed_call_p95_{state}", p95(times), "s", limit, **about)


def main() -> None:
    part, *rest = [*sys.argv[1:], "", ""]
    with product(AWMWEB_DEMO="0", AWMWEB_PARK_AFTER_S=str(PARK_AFTER_S)) as web:
        loop, expert = web.http(web.token("launch")), web.http(web.token("expert"))
        if part == "approvals":
            approvals(web, loop, expert, int(rest[0] or ROUNDS))
            return
        agent = web.http(web.token("agent"))
        answered(web, loop, expert, "waiting", -1)  # the scenario is loaded then
        limit = committed(agent)
        for state, aim in (("waiting", 0.1), ("parked", 1)):
            times = [answered(web, loop, expert, state, number) for number in range(ROUNDS)]
            median = round(sorted(times)[len(times) // 2], 4)
            about = {"aim": aim, "median": median, "rounds": ROUNDS, "limit_is": "one call that commits once, p95"}
            report(f"answer_to_next_call_{state}", p95(times), "s", limit, until="its result is recorded", **about)
        approvals(web, loop, expert, ROUNDS)
        killed(web, loop)


if __name__ == "__main__":
    main()
