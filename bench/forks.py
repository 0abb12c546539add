"""The cost of forks: the delay until branches choose, their storage, many together; and how often a fork is wrong.

Prints one JSON object a line: name, value, unit, limit, ratio, conditions with the aim. A model server in this process
answers without delay and notes when it is asked. The limit of storage is what the same steps take as rows. What a fork
says is drawn, not run: 200 what-ifs without an effect at four rates, alone and as the best of three.

Run as `python bench/forks.py`, in under three minutes, or `python bench/forks.py whole` for 24 tasks with five points.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from runs.statistics import campaigned, forked  # noqa: E402
from runs.statistics.campaigned import RootPair  # noqa: E402
from runs.statistics.forked import ForkArm  # noqa: E402
from tests.awmclient.openai_server import OpenAIServer, answering, tool_call  # noqa: E402
from tests.running import Product, product, until  # noqa: E402

CALLS, TRIES, WIDE = 50, 4, 16
READ = ("get_ticket", {"ticket_id": 1025})
WRITE = ("add_comment", {"ticket_id": 1025, "body": "Seen.", "is_public": False})
RATES, WHAT_IFS = (0.1, 0.3, 0.5, 0.8), 200
PATIENCE_S = 1800
SIZE = """
import json
from django.db import connection
from episodes.models import Episode, Step
with connection.cursor() as cursor:
    cursor.execute("select relname, pg_total_relation_size(oid) from pg_class where relname in ('episodes_episode', "
                   "'episodes_step', 'episodes_episodeevent', 'episodes_fork', 'episodes_verifieroutcome')")
    sizes = dict(cursor.fetchall())
rows = {"steps": Step.objects.count(), "branches": Episode.every.filter(origin="branch").count()}
rows["of_branches"] = Step.objects.filter(episode__origin="branch").count()
print("MEASURED", json.dumps({**rows, "all": sum(sizes.values()), "step": sizes["episodes_step"]}))
"""
ENDED = """
import json
from django.db.models import Count, Max, Min
from awmclient.schema import LIVE_STATES
from episodes.models import Episode, VerifierOutcome
branches = Episode.every.filter(origin="branch")
states = {one["state"]: one["n"] for one in branches.values("state").annotate(n=Count("pk")).order_by()}
took = branches.aggregate(a=Min("created_at"), b=Max("ended_at"))
seconds = (took["b"] - took["a"]).total_seconds() if took["a"] and took["b"] else 0
judged = VerifierOutcome.objects.filter(episode__origin="branch").count()
print("MEASURED", json.dumps({"states": states, "seconds": seconds, "judged": judged}))
"""


def report(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    ratio = round(value / limit, 3) if limit else None
    line = {"name": f"forks.{name}", "value": round(value, 4), "unit": unit, "limit": limit and round(limit, 4)}
    about = conditions | {"load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    print(json.dumps({**line, "ratio": ratio, "conditions": about}), flush=True)


def evaluate(web: Product, code: str) -> Any:
    return json.loads(web.manage("shell", "-c", code).split("MEASURED", 1)[1])


def p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


class Model:
    """Makes its calls and then answers; `asked` has the time of each request and how many calls had been made."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, int]] = []

    def reply(self, body: dict[str, Any]) -> dict[str, Any] | str:
        made = sum(bool(one.get("tool_calls")) for one in body["messages"])
        self.asked.append((time.perf_counter(), made))
        if made >= CALLS:
            return "All is seen."
        name, arguments = WRITE if made % 5 == 4 else READ
        return tool_call(name, arguments, f"call_{made}")


def plan(policy: str, tasks: Any, **more: Any) -> dict[str, Any]:
    return {"tasks": tasks, "arms": [{"name": "alone"}], "policy": policy, **more}


def ended_run(loop: Any, name: str, said: dict[str, Any]) -> list[str]:
    """Run a plan to its end; return its episodes."""
    run = loop.post("/runs", json={"name": name, "plan": said}).raise_for_status().json()["id"]
    until(lambda: loop.get(f"/runs/{run}").json()["state"] == "finished", PATIENCE_S, 0.5)
    return [one["id"] for one in loop.get("/episodes", params={"run": run, "limit": 200}).json()["items"]]


def fork(loop: Any, episode: str, step: int, tries: int, change: dict[str, Any] | None = None) -> None:
    body = {"step": step, "change": change or {}, "tries": tries}
    loop.post(f"/episodes/{episode}/fork", json=body).raise_for_status()


def wait_for(web: Product, branches: int) -> dict[str, Any]:
    """Wait until all branches are judged."""

    def done() -> Any:
        found = evaluate(web, ENDED)
        return found if found["judged"] >= branches else None

    found: dict[str, Any] = until(done, PATIENCE_S, 2)
    assert found["states"] == {"finished": branches}, found
    return found


def choices(rounds: int) -> None:
    """Fork an episode of a model at its step 50, and measure until each branch has asked the model."""
    model = Model()
    server = OpenAIServer(model.reply)
    with answering(server), product(AWMWEB_AGENT_BASE_URL=server.base_url, AWMWEB_AGENT_MODEL="bench") as web:
        with web.http(web.token("launch")) as loop:
            (episode,) = ended_run(loop, "long", plan("model", ["helpdesk_1/1"], max_steps=CALLS + 5))
            calls = [
                one for one in loop.get(f"/episodes/{episode}/steps").json()["steps"] if one["kind"] == "tool_call"
            ]
            step, delays, acted = calls[CALLS - 1]["seq"], [], []
            for number in range(1, rounds + 1):
                model.asked.clear()
                began = time.perf_counter()
                fork(loop, episode, step, TRIES, {"words": "Look once more."})
                until(lambda: len([at for at, made in model.asked if made == CALLS - 1]) == 2 * TRIES, 60, 0.01)
                first = [at for at, made in model.asked if made == CALLS - 1]
                delays += [at - began for at in first]
                wait_for(web, number * 2 * TRIES)
                acted += [at - began for at, made in model.asked if made == CALLS]
            about = {"branches": 2 * TRIES, "step": step, "calls_before": CALLS - 1, "rounds": rounds}
            about["since"] = "the request to fork"
            report("first_choice_p95", p95(delays), "s", None, aim=1, **about)
            # the world of a branch is restored while its model chooses; this one answers without delay
            report("first_call_p95", p95(acted), "s", None, until="the model has the result of its call", **about)
            before = evaluate(web, SIZE)
            fork(loop, episode, step, WIDE, {"words": "Look once more."})
            wait_for(web, rounds * 2 * TRIES + 2 * WIDE)
            after = evaluate(web, SIZE)
        grown = {name: after[name] - before[name] for name in after}
        rows = grown["of_branches"] * after["step"] / after["steps"]
        each = grown["branches"] * 1024
        about = {"branches": grown["branches"], "steps_each": round(grown["of_branches"] / grown["branches"], 1)}
        aim = "10 % more than the steps of branches as rows"
        report("storage", grown["all"] / each, "KiB each", rows / each, aim=aim, **about)


def many(tasks: int, points: int) -> None:
    """Fork episodes of oracles at several points, and measure until the last branch has ended."""
    with product() as web, web.http(web.token("launch")) as loop:
        episodes = ended_run(loop, "oracles", plan("script:oracle", {"limit": tasks}))
        branches, began = 0, time.perf_counter()
        for episode in episodes:
            steps = loop.get(f"/episodes/{episode}/steps").json()["steps"]
            acts = [one["seq"] for one in steps if one["kind"] == "tool_call"]
            for step in [acts[len(acts) * point // points] for point in range(points)]:
                fork(loop, episode, step, TRIES)
                branches += 2 * TRIES
        asked = time.perf_counter() - began
        found = wait_for(web, branches)
        about = {"tasks": len(episodes), "points": points, "branches": branches, "asking_s": round(asked, 1)}
        is_whole = (len(episodes), points) == (24, 5)
        report("many", found["seconds"], "s", None, aim=600 if is_whole else "600 s for 24 tasks x 5 points", **about)
        report("many_rate", branches / found["seconds"], "branches/s", None, aim="1.6 for all in 10 minutes", **about)


def campaign(chance: random.Random) -> list[RootPair]:
    """Draw the branches of a campaign whose change does nothing."""

    def arm(rate: float) -> ForkArm:
        return ForkArm(4, 4, sum(chance.random() < rate for _ in range(4)))

    rates = [chance.choice((*RATES, 0.0)) for _ in range(24)]
    return [
        RootPair(f"{root}", f"kind {root % 4}", at, arm(rate), arm(rate))
        for root, rate in enumerate(rates)
        for at in (0, 10, 25, 50, 75)
    ]


def truths() -> None:
    """Draw what-ifs without an effect and with one, and count what their sentences say."""
    chance = random.Random(38)

    def won(rate: float) -> int:
        return sum(chance.random() < rate for _ in range(8))

    def verdict(treated: int, control: int, forks: int) -> str:
        arms, share = (ForkArm(8, 8, treated), ForkArm(8, 8, control)), forked.FIRST / forks
        return forked.finding(*arms, "", "", forks=forks, share=share).verdict

    for changes in (1, 3):
        shares = []
        for rate in RATES:
            controls = [won(rate) for _ in range(WHAT_IFS)]
            better = [any(verdict(won(rate), one, changes) == "better" for _ in range(changes)) for one in controls]
            shares.append(sum(better) / WHAT_IFS)
        name = "called_better" if changes == 1 else f"called_better_best_of_{changes}"
        report(name, max(shares), "share", None, aim=0.05, what_ifs=WHAT_IFS, rates=RATES, branches_per_arm=8)
    wrong = sum(any(cell.verdict for cell in campaigned.finding(campaign(chance)).cells) for _ in range(WHAT_IFS))
    about = {"campaigns": WHAT_IFS, "roots": 24, "times": 5, "kinds": 4, "branches_per_arm": 4}
    report("campaign_says_anything", wrong / WHAT_IFS, "share", None, aim=0.05, **about)
    found = sum(verdict(won(0.95), won(0.1), 1) == "better" for _ in range(WHAT_IFS)) / WHAT_IFS
    report("true_effect_found", found, "share", None, aim=0.9, what_ifs=WHAT_IFS, rates=(0.95, 0.1), branches_per_arm=8)


if __name__ == "__main__":
    is_whole = "whole" in sys.argv[1:]
    truths()
    choices(4 if is_whole else 2)
    many(*((24, 5) if is_whole else (4, 2)))
