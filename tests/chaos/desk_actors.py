"""Processes that ask and answer over HTTP and write down what they did and heard, one JSON line an act.

Run as `python -m tests.chaos.desk_actors asker|answerer URL TOKEN FILE SECONDS`; a killed one leaves the lines that it
wrote before. An asker repeats every question with its key until it is heard, waits for it and gives the receipt; an
answerer claims what it finds but for every fourth question, and sends many answers twice.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import httpx

DEADLINE_S = 2
NO_ONE = "Nobody knows?"
ROUND_S = 0.05


class Diary:
    def __init__(self, file: str) -> None:
        self.out = Path(file).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115  open as long as the process

    def note(self, **said: object) -> None:
        self.out.write(json.dumps({"at": time.time(), **said}) + "\n")


def until_heard(http: httpx.Client, method: str, path: str, body: object = None, timeout: float = 30) -> httpx.Response:
    """Say the same again until the house has answered."""
    while True:
        try:
            answer = http.request(method, path, json=body, timeout=timeout)
        except httpx.HTTPError:
            answer = None
        if answer is not None and answer.status_code not in (429, 500, 502, 503):
            return answer
        time.sleep(ROUND_S)


def ask(http: httpx.Client, diary: Diary, end: float) -> None:
    name, number = f"asker{random.getrandbits(40)}", 0
    start = {"key": name, "task": name, "expert": "plain"}
    episode = until_heard(http, "POST", "/episodes", start).json()["id"]
    while time.time() < end:
        number += 1
        words = f"{name} {number}?" if number % 4 else NO_ONE
        question = {"key": f"q{number}", "episode": episode, "seq": number, "question": words}
        began = time.time()
        view = until_heard(http, "POST", "/asks", question | {"deadline_s": DEADLINE_S}).json()
        took = time.time() - began
        diary.note(act="asked", ask=view["id"], deadline_at=view["deadline_at"], took=took)
        while view["status"] == "open":
            view = until_heard(http, "GET", f"/asks/{view['id']}?wait=5").json()
        diary.note(act="heard", ask=view["id"], status=view["status"], text=view.get("advice", {}).get("text"))
        read = until_heard(http, "POST", f"/asks/{view['id']}/consumed", {}).json()
        diary.note(act="read", ask=view["id"], text=read.get("advice", {}).get("text"))


def answer(http: httpx.Client, diary: Diary, end: float) -> None:
    name, number = f"answerer{random.getrandbits(40)}", 0
    while time.time() < end:
        listed = until_heard(http, "GET", "/asks?status=open").json()["asks"]
        found = [one for one in listed if one["question"] != NO_ONE]
        if not found:
            time.sleep(ROUND_S)
            continue
        one = random.choice(found)["id"]
        claim = until_heard(http, "POST", f"/asks/{one}/claim", {})
        if claim.status_code != 200:
            continue
        lease, number = claim.json(), number + 1
        diary.note(act="claimed", ask=one, token=lease["lease_token"])
        time.sleep(random.random() * 0.4)
        body = {"lease_token": lease["lease_token"], "text": f"{name}/{number}", "nonce": f"{name}/{number}"}
        place = f"/assignments/{lease['assignment']}"
        if random.random() < 0.1:
            done = until_heard(http, "POST", f"{place}/release", {"lease_token": lease["lease_token"]})
            diary.note(act="released", ask=one, status=done.status_code)
            continue
        for _ in range(random.choice((1, 2))):
            done = until_heard(http, "POST", f"{place}/answer", body)
            diary.note(act="answered", ask=one, text=body["text"], status=done.status_code)


def main(role: str, url: str, token: str, file: str, seconds: str) -> None:
    head = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{url}/api/v1", headers=head, trust_env=False) as http:
        {"asker": ask, "answerer": answer}[role](http, Diary(file), time.time() + float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
