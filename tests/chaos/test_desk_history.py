"""A concurrent history of the desk: processes ask and answer while others are killed with -9; what everybody wrote down
is checked afterwards for one legal order."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path

import pytest

from tests.chaos.desk_actors import DEADLINE_S
from tests.running import ROOT, product, until

ASKERS, ANSWERERS = 3, 3
LATE_S = 1.0
"""How long after its deadline an asker may know, beyond what the house needs for any answer on this machine."""


class Crew:
    """The processes, and the diary of each."""

    def __init__(self, house, folder, seconds):
        self.files = []
        self.processes = []
        self.seconds = seconds
        tokens = {"asker": house.token("agent"), "answerer": house.token("expert")}
        for number, role in enumerate(["asker"] * ASKERS + ["answerer"] * ANSWERERS):
            self.files.append(folder / f"{role}{number}.jsonl")
            command = [
                "-m",
                "tests.chaos.desk_actors",
                role,
                house.url,
                tokens[role],
                str(self.files[-1]),
                str(seconds),
            ]
            self.processes.append(subprocess.Popen([sys.executable, *command], cwd=ROOT))

    def kill(self, number):
        self.processes[number].send_signal(signal.SIGKILL)

    def wait(self):
        for process in self.processes:
            process.wait(self.seconds + 60)

    def lines(self, act):
        """A killed writer's last line may be cut."""
        said = itertools.chain.from_iterable(path.read_text().splitlines() for path in self.files if path.exists())
        return [line for line in map(readable, said) if line.get("act") == act]


def readable(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}


def history(house, seconds, victims, folder):
    """Kill one process after another while the crew is at work, an asker and an answerer among them."""
    crew, outages = Crew(house, folder, seconds), []
    pause = seconds / (len(victims) + 2)
    for name in victims:
        time.sleep(pause)
        began, dead = time.time(), house.kill(name)
        until(lambda name=name, dead=dead: house.children().get(name, dead) != dead, 60)
        until(house.healthy, 60)
        outages.append((began, time.time()))
    crew.kill(0)
    crew.kill(ASKERS)
    crew.wait()
    return crew, outages


def check(crew, events, asks, outages):
    """One legal order: who claimed let go before the next one claimed, one answer was accepted, the asker heard that
    very answer, what was read never changed, and whoever waited knew in time."""
    accepted = defaultdict(set)
    for line in crew.lines("answered"):
        if line["status"] == 200:
            accepted[line["ask"]].add(line["text"])
    for ask, log in events.items():
        legal(log, ask)
    for ask, texts in accepted.items():
        assert len(texts) == 1 and asks[ask]["status"] == "answered" and {asks[ask]["text"]} == texts, ask
    for line in crew.lines("heard") + crew.lines("read"):
        assert line["text"] == asks[line["ask"]]["text"], line
    return lateness(crew, outages), slowest(crew, outages)


def legal(log, ask):
    holder, ended = "", False
    for verb, actor in log:
        assert not ended, f"{ask}: {verb} after its end"
        if verb == "claimed":
            assert holder in ("", actor), f"{ask}: {actor} claimed what {holder} held"
            holder = actor
        elif verb in ("released", "declined"):
            assert holder == actor
            holder = ""
        elif verb == "answered":
            assert holder == actor
            ended = True
        elif verb in ("fell_back", "cancelled"):
            ended = True


def lateness(crew, outages):
    """How long after its deadline each asker knew, where the house was there at that moment."""
    due = {line["ask"]: datetime.fromisoformat(line["deadline_at"]).timestamp() for line in crew.lines("asked")}
    late = {}
    for line in crew.lines("heard"):
        deadline = due[line["ask"]]
        if there(deadline, deadline, outages):
            late[line["ask"]] = line["at"] - deadline
    return max(late.values(), default=0.0)


def slowest(crew, outages):
    """The longest that a plain request took; nobody may expect to know of a deadline sooner."""
    took = [line["took"] for line in crew.lines("asked") if there(line["at"] - line["took"], line["at"], outages)]
    return max(took, default=0.0)


def there(first, last, outages):
    """Whether the house was there all the time between."""
    return not any(began - 0.5 <= last and first <= end + 0.5 for began, end in outages)


READ = """
import json
from experts.models import Ask, AskEvent
events, asks = {}, {}
for ask, verb, actor in AskEvent.objects.order_by("pk").values_list("ask", "verb", "actor"):
    events.setdefault(ask, []).append((verb, actor))
for ask in Ask.objects.select_related("accepted"):
    asks[ask.pk] = {"status": ask.status, "text": ask.accepted.text if ask.accepted else None}
print("ROWS" + json.dumps([events, asks]))
"""


def rows(house):
    """The house's own record, read by a process of its own."""
    printed = house.manage("shell", "-v", "0", "-c", READ)
    return json.loads(next(line for line in printed.splitlines() if line.startswith("ROWS"))[4:])


def run(victims, seconds, folder: Path):
    with product(AWMWEB_HEARTBEAT_S="60") as house:
        crew, outages = history(house, seconds * house.patience, victims, folder)
        until(lambda: all(ask["status"] != "open" for ask in rows(house)[1].values()), DEADLINE_S + 30, 1)
        events, asks = rows(house)
    late, slow = check(crew, events, asks, outages)
    counts = Counter(ask["status"] for ask in asks.values())
    print(
        f"{len(asks)} asks {dict(counts)}, {len(crew.lines('claimed'))} claims, "
        f"worst {late:.2f} s after a deadline, slowest plain answer {slow:.2f} s"
    )
    assert len(asks) > 10 and counts["answered"] > 5
    assert late < LATE_S + slow


@pytest.mark.chaos
def test_history_is_linearizable_with_killed_processes(tmp_path):
    run(["web", "valkey"], 9, tmp_path)


@pytest.mark.chaos
def test_a_long_history_is_legal_whatever_is_killed(tmp_path):
    run(["web", "valkey", "postgres", "worker", "web"], 60, tmp_path)
