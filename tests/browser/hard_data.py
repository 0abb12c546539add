"""A project that is hard to lay out: long episodes, words and names without a blank, and a full queue of all kinds.

Called by the test that looks at every page at all sizes.
"""

from __future__ import annotations

import json

from tests.browser.long_episode import long_episode
from tests.running import Product, until

WORD = "DonaudampfschifffahrtsgesellschaftskapitaenswitwenrentenamtX"
"""Sixty letters."""
NAME = "the-best-of-all-names-that-have-40-signs"
OPEN = 30
"""Asks that wait."""
OPTIONS = [{"id": f"row_{number}", "label": f"{WORD} {number}"} for number in range(12)]
CALL = {"id": "1", "name": "create_refund", "arguments": {"amount": 1234567.89, "reason": WORD, "lines": [WORD] * 3}}
FORM = {
    "type": "object",
    "required": ["contact"],
    "properties": {
        "contact": {"type": "string", "title": WORD},
        "amount": {"type": "number", "title": "Amount"},
        "by": {"type": "string", "format": "date"},
    },
}
KINDS = (
    {},
    {"kind": "choice", "options": OPTIONS},
    {"kind": "approval", "calls": [CALL], "on_timeout": "reject"},
    {"kind": "approval", "calls": [CALL, {**CALL, "id": "2"}], "on_timeout": "reject"},
    {"kind": "form", "response_schema": FORM},
)
ARMS = ({"name": f"{NAME[:-2]}-0", "policy": "script:negative"}, {"name": f"{NAME[:-2]}-1", "policy": "script:oracle"})
PLAN = {"name": f"Does {WORD} help?", "tasks": {"limit": 3}, "seeds": 2, "arms": ARMS}


def sent(client, path: str, body: dict) -> dict:
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def step(seq: int) -> dict:
    """Thoughts, calls, errors and changes of rows in turn, all with words that do not break by themselves."""
    if seq % 4 == 1:
        return {"seq": seq, "kind": "message", "role": "assistant", "content": f"{WORD} has 1234567.89 to pay."}
    call = {"seq": seq, "kind": "tool_call", "name": "update_ticket", "arguments": {"id": seq, "note": WORD}}
    if seq % 4 == 2:
        return {**call, "error": f"no {WORD}"}
    changed = [{"key": 10**9 + seq, "before": {WORD[:40]: 1234567.89}, "after": {WORD[:40]: WORD}}]
    return {**call, "result": [{"id": seq, "subject": WORD}], "state_diff": {"tickets": {"changed": changed}}}


def played(loop, key: str, steps: int) -> str:
    start = {"key": key, "task": f"Assign {WORD} to {NAME}.", "scenario": "desk_1", "task_idx": 0, "expert": "plain"}
    episode = sent(loop, "/episodes", start)["id"]
    for first in range(1, steps + 1, 50):
        batch = [step(seq) for seq in range(first, min(first + 50, steps + 1))]
        sent(loop, f"/episodes/{episode}/steps", {"steps": batch})
    outcome = {"reward_type": "complete", "reward": 1.0}
    sent(loop, f"/episodes/{episode}/finish", {"stop_reason": "done", "outcome": outcome})
    return episode


def waits(loop, number: int) -> str:
    """An episode with a few steps whose agent asks."""
    start = {"key": f"waits {number}", "task": f"{WORD} {number}", "expert": "plain", "scenario": "desk_1"}
    episode = sent(loop, "/episodes", {**start, "task_idx": number % 3})["id"]
    sent(loop, f"/episodes/{episode}/steps", {"steps": [step(seq) for seq in range(1, 5)]})
    words = f"Which {WORD}? " * (1 + number % 4 * 8)
    ask = {"key": "a", "episode": episode, "seq": 5, "question": f"{words}{number}", "deadline_s": 3000 + number}
    return sent(loop, "/asks", {**ask, "context": json.dumps(step(3)), **KINDS[number % len(KINDS)]})["id"]


def seeded(house: Product) -> tuple[Product, list[str]]:
    """The project, and the addresses of what is in it."""
    place = house.with_project(NAME)
    with place.http(place.token("agent")) as loop:
        episodes = [played(loop, f"{NAME} {number}", steps) for number, steps in enumerate((150, 9))]
        asks = [waits(loop, number) for number in range(OPEN)]
    with place.http(place.token("launch")) as launcher:
        run = sent(launcher, "/runs", {"name": PLAN["name"], "plan": PLAN})["id"]
        until(lambda: launcher.get(f"/runs/{run}").json()["state"] == "finished", 180)
        forked = launcher.get("/episodes", params={"run": run, "outcome": "others"}).json()["items"][0]["id"]
        calls = launcher.get(f"/episodes/{forked}/steps").json()["steps"]
        at = next(step["seq"] for step in calls if step["kind"] == "tool_call")
        fork = sent(launcher, f"/episodes/{forked}/fork", {"step": at, "tries": 2})["id"]
        change = {"change": {"words": WORD}, "at": "times", "query": f"?run={run}", "tries": 1}
        campaign = sent(launcher, "/campaigns", change)["id"]
    ended = [f"/episodes/{episode}/{view}" for episode in (*episodes, forked) for view in ("", "replay/")]
    both = "&".join(f"episode={episode}" for episode in episodes)
    return place, [
        *ended,
        f"/episodes/{long_episode(place, 150, NAME)}/",
        *(f"/asks/{ask}/" for ask in asks[: len(KINDS)]),
        f"/episodes/compare/?{both}",
        f"/runs/{run}/",
        f"/forks/{fork}/",
        f"/episodes/{forked}/tree",
        f"/episodes/{forked}/fork?step={at}",
        f"/campaigns/{campaign}/",
    ]
