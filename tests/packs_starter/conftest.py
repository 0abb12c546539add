"""The starter pack's rows, its databases, and what every script of it did, played once for all tests here.

Everything reaches the tests as a fixture: `task` is each task of the pack in turn, `scenario` each scenario's name.
"""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAY = Path(__file__).with_name("play.py")
Turns = list[dict[str, Any]]


def rows(file: str) -> list[dict[str, Any]]:
    path = ROOT / "packs" / "starter" / file
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass
class Played:
    """What one script did: the answers of the app, the last words, the database it left."""

    final: Path
    turns: Turns
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def answer(self) -> str | None:
        return next((turn["answer"] for turn in self.turns if "answer" in turn), None)

    @property
    def errors(self) -> list[int]:
        return [result["status"] for result in self.results if result["status"] >= 400]


@dataclass
class Task:
    """One task of the pack with its verifiers; the code is ours, so it runs right here."""

    scenario: str
    idx: int
    about: dict[str, Any]
    scripts: dict[str, Turns]
    code_verifier: str
    sql_verifier: str
    initial: Path = Path()
    played: dict[str, Played] = field(default_factory=dict)

    @property
    def asks(self) -> bool:
        return any("ask" in turn for turn in self.scripts.get("demo", []))

    def plan(self) -> dict[str, Turns]:
        """Every way the scripts are played; a demo with a question once with the expert's words and once without."""
        plan = {name: turns for name, turns in self.scripts.items() if name != "demo"}
        if "demo" in self.scripts:
            plan["demo"] = spoken(self.scripts["demo"], self.about["expert_note"])
        if self.asks:
            plan["demo without advice"] = spoken(self.scripts["demo"], "")
        return plan

    def verify(self, final: Path, answer: str | None = None) -> str:
        space: dict[str, Any] = {}
        exec(self.code_verifier, space)
        verdict = space["verify_task_completion"](str(self.initial), str(final), answer)
        assert set(verdict) == {"result"}
        return verdict["result"]

    def evidence(self, final: Path) -> dict[str, Any]:
        space: dict[str, Any] = {}
        exec(self.sql_verifier, space)
        return space["verify_task"](str(self.initial), str(final))


def replaced(value: Any, heard: dict[str, str]) -> Any:
    """`{{name}}` becomes what was heard under that name, a number if it is one."""
    if isinstance(value, dict):
        return {key: replaced(item, heard) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, heard) for item in value]
    name = value[2:-2] if isinstance(value, str) and value.startswith("{{") and value.endswith("}}") else None
    if name not in heard:
        return value
    try:
        return json.loads(heard[name])
    except json.JSONDecodeError:
        return heard[name]


def spoken(turns: Turns, advice: str) -> Turns:
    """The turns an agent takes if every question of the script gets this advice (empty: no advice came)."""
    taken: Turns = []
    for turn in turns:
        taken.append(turn)
        if "ask" in turn:
            found = {name: re.search(pattern, advice) for name, pattern in turn.get("listen", {}).items()}
            heard = {name: match[1] for name, match in found.items() if match}
            follows = bool(advice) and len(heard) == len(found)
            branch = turn["advised"] if follows else turn["unadvised"]
            return taken + spoken(replaced(branch, heard), advice)
    return taken


def make_database(scenario: str, path: Path) -> None:
    """The database of a fresh session, statement by statement as the rows have them."""
    schema = next(row for row in rows("gen_db.jsonl") if row["scenario"] == scenario)["db_schema"]["tables"]
    sample = next(row for row in rows("gen_sample.jsonl") if row["scenario"] == scenario)["sample_data"]["tables"]
    database = sqlite3.connect(path)
    with database:
        for table in schema:
            for statement in (table["ddl"], *table["indexes"]):
                database.execute(statement)
        for table in sample:
            for statement in table["insert_statements"]:
                database.execute(statement)
    database.close()


Jobs = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def run_jobs() -> Iterator[Jobs]:
    """Play jobs in a process that has loaded the apps before."""
    with subprocess.Popen([sys.executable, str(PLAY)], stdin=-1, stdout=-1, text=True) as player:
        assert player.stdin and player.stdout

        def run(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
            player.stdin.write(json.dumps(jobs) + "\n")
            player.stdin.flush()
            return json.loads(player.stdout.readline())

        yield run


def read_tasks() -> dict[tuple[str, int], Task]:
    code = {(row["scenario"], row["task_idx"]): row["verification"] for row in rows("gen_verifier.pure_code.jsonl")}
    sql = {(row["scenario"], row["task_idx"]): row["verification"] for row in rows("gen_verifier.jsonl")}
    keys = {(row["scenario"], row["task_idx"]): row for row in rows("scripts.jsonl")}
    return {
        key: Task(*key, row["about"], row["scripts"], code[key]["code"], sql[key]["code"]) for key, row in keys.items()
    }


CHOICES: dict[str, Callable[[Task], bool]] = {
    "demo_task": lambda task: "demo" in task.scripts,
    "asking_task": lambda task: task.asks,
    "quiet_task": lambda task: "demo" in task.scripts and not task.asks,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "task_key" in metafunc.fixturenames:
        found = read_tasks()
        chosen = next((choose for name, choose in CHOICES.items() if name in metafunc.fixturenames), bool)
        keys = sorted(key for key, task in found.items() if chosen(task))
        metafunc.parametrize("task_key", keys, ids=[f"{name}/{idx}" for name, idx in keys])
    if "scenario" in metafunc.fixturenames:
        metafunc.parametrize("scenario", [row["name"] for row in rows("gen_scenario.jsonl")])


@pytest.fixture(scope="session")
def apps() -> dict[str, str]:
    return {row["scenario"]: row["full_code"] for row in rows("gen_envs.jsonl")}


@pytest.fixture(scope="session")
def initial(tmp_path_factory: pytest.TempPathFactory, apps: dict[str, str]) -> dict[str, Path]:
    """The untouched database of every scenario."""
    folder = tmp_path_factory.mktemp("initial")
    for scenario in apps:
        make_database(scenario, folder / f"{scenario}.db")
    return {scenario: folder / f"{scenario}.db" for scenario in apps}


@pytest.fixture(scope="session")
def tasks(
    initial: dict[str, Path], apps: dict[str, str], run_jobs: Jobs, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, int], Task]:
    """Every task with all its scripts played, each once on a fresh copy of the database."""
    folder, found = tmp_path_factory.mktemp("final"), read_tasks()
    plays, jobs = [], []
    for task in found.values():
        task.initial = initial[task.scenario]
        for name, turns in task.plan().items():
            final = folder / f"{task.scenario} {task.idx} {name}.db"
            shutil.copy(task.initial, final)
            task.played[name] = Played(final, turns)
            plays.append(task.played[name])
            calls = [turn["call"] for turn in turns if "call" in turn]
            jobs.append({"code": apps[task.scenario], "database": str(final), "calls": calls})
    for one, outcome in zip(plays, run_jobs(jobs), strict=True):
        one.results = outcome["results"]
    return found


@pytest.fixture
def task(tasks: dict[tuple[str, int], Task], task_key: tuple[str, int]) -> Task:
    return tasks[task_key]


@pytest.fixture
def demo_task(task: Task) -> Task:
    """Each task with a demo."""
    return task


@pytest.fixture
def asking_task(task: Task) -> Task:
    """Each task whose demo asks the expert."""
    return task


@pytest.fixture
def quiet_task(task: Task) -> Task:
    """Each task whose demo asks nobody."""
    return task


@pytest.fixture
def play(apps: dict[str, str], initial: dict[str, Path], run_jobs: Jobs, tmp_path: Path) -> Any:
    """Calls of our choice on a fresh copy; without calls: the tools the app offers."""

    def run(scenario: str, calls: Turns) -> dict[str, Any]:
        final = tmp_path / "final.db"
        shutil.copy(initial[scenario], final)
        return run_jobs([{"code": apps[scenario], "database": str(final), "calls": calls}])[0]

    return run
