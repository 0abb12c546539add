"""Help desks drawn from seeds, as source folders of a pack: names, numbers, amounts and rows differ, the tools do not.

Owns the tasks, their verifiers, their demonstrations and what only the expert knows. Building the rows is left to
`packs/sources/build.py`.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "packs" / "sources" / "database_changes.py"
FIRST = [
    *("Ada", "Ben", "Cora", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jon", "Kira"),
    *("Leo", "Mona", "Nils", "Olga", "Paul", "Rosa", "Sven", "Tara", "Udo", "Vera", "Wim"),
]
ITEMS = [
    *("grinder", "kettle", "mug", "filter", "scale", "pump"),
    *("tray", "lamp", "tamper", "jug", "valve", "hose"),
]
AGENTS = [
    *("kim", "lou", "max", "nia"),
    *("oli", "pat", "rex", "sam"),
]
SYLLABLES = [
    *("ba", "be", "bo", "da", "de", "do", "fa", "fe", "ga", "go", "ka", "ke", "ko", "la", "le", "lo", "ma"),
    *("me", "mo", "na", "ne", "no", "ra", "re", "ro", "sa", "se", "so", "ta", "te", "to", "va", "ve", "vo"),
]
TABLES, IDS = ("customers", "tickets", "orders"), (100, 200)
FAMILIES = ("count", "close", "refund", "assign", "agreed")
"""`agreed` needs a fact that only the expert has; the other four do not."""
UNGUESSED = ("which", "close", "refund", "assign", "agreed")
"""The same without `count`, whose answer is 1 to 3: a third of all guesses pass, and so does a call that is written as
text with such a number. `make train-demo` keeps it, because its model from nothing learns it first."""
DEMONSTRATED = ("alone", "asked", "alone", "offered")
"""How the tasks of a family that do not need the expert are demonstrated, in turn: without one, with a needless ask, or
with one who is not asked. A learner of these asks about as often where it need not as it does not."""
ON_RECORD, NO_ONE = "it is on record", "of whom"
"""What the expert says where the desk itself has the fact, and to a question without a customer's name."""
SCHEMA = """\
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE tickets (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, item TEXT NOT NULL, status TEXT NOT NULL, agent TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, item TEXT NOT NULL, amount INTEGER NOT NULL, refunded INTEGER NOT NULL);
"""  # noqa: E501
VERIFIER = '''\
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """Exactly the expected rows changed, and the answer has the numbers that were asked for."""
    import re

    from database_changes import changes

    found, wanted = changes(initial_db_path, final_db_path), {numbers}
    said = wanted is None or re.findall(r"\\d+", final_answer or "") == [str(one) for one in wanted]
    return {{"result": "complete" if said and found == {expected} else "others"}}
'''
EVIDENCE = '''\
def verify_task(initial_db_path, final_db_path):
    """Everything that changed."""
    from database_changes import changes

    return {"changes": changes(initial_db_path, final_db_path)}
'''

Turn = dict[str, Any]


@dataclass
class Task:
    """One task of a world: what the agent is told, what has to change, and how it is done."""

    family: str
    text: str
    turns: list[Turn]
    expected: dict[str, dict[int, dict[str, list[Any]]]] = field(default_factory=dict)
    numbers: list[int] | None = None
    note: str = ""
    name: str = ""
    demo: str = "asked"

    @property
    def needs(self) -> bool:
        """Whether the task needs a fact that only the expert has."""
        return bool(self.note)

    def set_demo(self, demo: str) -> None:
        """Demonstrate a task that does not need the expert in this way. A needless ask is before the first change."""
        self.demo = demo
        if demo == "asked":
            rest = self.turns[2:]
            ask = {"ask": {"question": f"what is known of {self.name}"}, "listen": {}}
            self.turns = [*self.turns[:2], {**ask, "advised": rest, "unadvised": rest, "after": rest}]


class World:
    """A desk with one customer for each task. The same seed gives the same desk."""

    def __init__(self, seed: int, families: tuple[str, ...], tasks: int) -> None:
        self.name = f"desk_{seed}"
        self._chance = random.Random(seed)  # noqa: S311
        self._numbers = {table: self._chance.sample(range(*IDS), 3 * tasks) for table in TABLES}
        self.rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}
        names: set[str] = set()
        while len(names) < tasks:
            names.add(f"{self._chance.choice(FIRST)} {last_name(self._chance)}")
        self.tasks = [self._task(families[at % len(families)], name) for at, name in enumerate(sorted(names))]
        for at, (task, name) in enumerate(zip(self.tasks, sorted(names), strict=True)):
            task.name = name
            if not task.needs:
                task.set_demo(DEMONSTRATED[at // len(families) % len(DEMONSTRATED)])
        self._notes = {task.name: task.note or ON_RECORD for task in self.tasks}

    def answer(self, question: str) -> str:
        """Answer as the expert, who knows what was agreed with whom, and that all else is on record."""
        asked = question.rstrip("?. ")
        return next((note for name, note in self._notes.items() if asked.endswith(name)), NO_ONE)

    def _task(self, family: str, name: str) -> Task:
        customer = self._numbers["customers"].pop()
        self.rows["customers"].append((customer, name))
        wares = self._chance.sample(ITEMS, 3)
        tickets = sorted(self._numbers["tickets"].pop() for _ in range(self._chance.randint(1, 3)))
        stati = [self._chance.choice(("open", "open", "closed")) for _ in tickets]
        stati[self._chance.randrange(len(stati))] = "open"
        rows = list(zip(tickets, wares, stati, strict=False))
        self.rows["tickets"] += [(ticket, customer, ware, status, "none") for ticket, ware, status in rows]
        bought = wares[: 1 + customer % 2]
        orders = [(self._numbers["orders"].pop(), ware, self._chance.randint(10, 99)) for ware in bought]
        self.rows["orders"] += [(order, customer, ware, amount, 0) for order, ware, amount in orders]
        find = called("find_customer", text=name)
        look, open_ones = called("list_tickets", customer_id=customer), [row[0] for row in rows if row[2] == "open"]
        if family == "count":
            count = len(open_ones)
            turns = [find, look, {"answer": str(count)}]
            return Task(family, f"How many open tickets has {name}?", turns, numbers=[count])
        if family == "which":
            turns = [find, look, {"answer": ", ".join(map(str, open_ones))}]
            return Task(family, f"Give the numbers of all open tickets of {name}", turns, numbers=open_ones)
        if family == "close":
            turns = [find, look, *(called("close_ticket", ticket_id=one) for one in open_ones), {"answer": "done"}]
            changed = {one: {"status": ["open", "closed"]} for one in open_ones}
            return Task(family, f"Close every open ticket of {name}", turns, {"tickets": changed})
        if family == "assign":
            (ticket, ware, _), agent = self._chance.choice(rows), self._chance.choice(AGENTS)
            turns = [find, look, called("assign_ticket", ticket_id=ticket, agent=agent), {"answer": "done"}]
            text = f"Assign the {ware} ticket of {name} to {agent}"
            return Task(family, text, turns, {"tickets": {ticket: {"agent": ["none", agent]}}})
        order, ware, amount = self._chance.choice(orders)
        look = called("list_orders", customer_id=customer)
        if family == "refund":
            pay = called("refund_order", order_id=order, amount=amount)
            changed = {"orders": {order: {"refunded": [0, amount]}}}
            return Task(family, f"Refund the {ware} of {name} in full", [find, look, pay, {"answer": "done"}], changed)
        agreed = self._chance.randint(10, amount)
        pay = called("refund_order", order_id=order, amount="{{amount}}")
        ask = {
            "ask": {"question": f"how much was agreed with {name}"},
            "listen": {"amount": r"(\d+)"},
            "advised": [pay, {"answer": "done"}],
            "unadvised": [{"answer": "it is unknown"}],
            "after": [{"answer": "done"}],
        }
        changed = {"orders": {order: {"refunded": [0, agreed]}}}
        text, note = f"Refund what we agreed on for the {ware} of {name}", f"we agreed on {agreed}"
        return Task(family, text, [find, look, ask], changed, note=note)

    def write(self, sources: Path) -> None:
        """Write the world as a source folder of a pack."""
        folder = sources / self.name
        folder.mkdir(parents=True)
        shutil.copy(HERE / "app.py", folder / "app.py")
        described = {"name": self.name, "description": "A help desk drawn from a seed."}
        (folder / "scenario.json").write_text(json.dumps(described))
        (folder / "schema.sql").write_text(SCHEMA)
        statements = [
            f"INSERT INTO {table} VALUES ({', '.join(repr(value) for value in row)});"
            for table, rows in self.rows.items()
            for row in rows
        ]
        (folder / "sample.sql").write_text("\n".join(statements) + "\n")
        for at, task in enumerate(self.tasks):
            _write_task(folder / "tasks" / f"{at:02d}", task)


def _write_task(folder: Path, task: Task) -> None:
    folder.mkdir(parents=True)
    changed = {table: {"added": [], "removed": [], "changed": rows} for table, rows in task.expected.items()}
    kind = "answer_only" if task.numbers is not None else "normal"
    about = {"level": "easy", "needs_expert": bool(task.note), "kind": kind, "expert_note": task.note}
    about |= {"blockers": [_blocker(task)]} if task.note else {}
    scripts = {"oracle": task.turns, "negative": [{"answer": "I do not know"}], "demo": task.turns}
    criteria = {"success_criteria": "The expected rows changed.", "failure_criteria": "Anything else."}
    files = {
        "task.txt": task.text,
        "verify_code.py": VERIFIER.format(numbers=task.numbers, expected=changed),
        "verify_sql.py": EVIDENCE,
        "about.json": json.dumps(about),
        "scripts.json": json.dumps(scripts),
        "sql_raw.json": json.dumps(criteria),
    }
    for name, text in files.items():
        (folder / name).write_text(text)


def _blocker(task: Task) -> dict[str, Any]:
    """Return what is missing in a task, for a simulated human."""
    about = {"id": "amount", "missing": "The amount that was agreed on.", "holder": "The person who took the call"}
    asked = {"terms": [["agreed", "agree", "agreement"]], "questions": [f"how much was agreed with {task.name}"]}
    return {**about, **asked, "answer": task.note}


def called(name: str, **arguments: Any) -> Turn:
    return {"call": {"name": name, "arguments": arguments}}


def last_name(chance: random.Random) -> str:
    return "".join(chance.choice(SYLLABLES) for _ in range(3)).capitalize()


def write_worlds(sources: Path, worlds: list[World]) -> None:
    """Write all worlds, and what their verifiers share, below `sources`."""
    sources.mkdir(parents=True)
    shutil.copy(SHARED, sources / SHARED.name)
    for world in worlds:
        world.write(sources)
