"""Reads a folder of AWM-1K rows: indexes them by offset, joins them by normalised scenario name, validates, and reports
row by row.

Owns the pack format and nothing of running it. Rows are read when asked for, so a pack of a thousand scenarios costs an
index and no more, and with a `cache` the index outlives the process. Called by Django (to show and load packs) and by
`awmenv.server` (to build worlds). It executes no Python of a pack; SQL is tried only in memory, behind an authorizer
and limits, and only where `check_sql` asks for it.
"""

import itertools
import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Self

from awmenv import indexes, seeding
from awmenv.errors import PackError, UnknownScenario
from awmenv.health import Health
from awmenv.models import RESERVED_TOOLS, normalise_name

Mode = Literal["code", "sql"]

SCENARIO_FILES = {
    "scenario": "gen_scenario.jsonl",
    "tasks": "gen_tasks.jsonl",
    "db": "gen_db.jsonl",
    "sample": "gen_sample.jsonl",
    "envs": "gen_envs.jsonl",
}
VERIFIER_FILES: dict[Mode, str] = {"sql": "gen_verifier.jsonl", "code": "gen_verifier.pure_code.jsonl"}
SCRIPTS_FILE = "scripts.jsonl"
FILES = (*SCENARIO_FILES.values(), *VERIFIER_FILES.values(), SCRIPTS_FILE)
NEEDED = ("tasks", "db", "envs")  # without these a scenario cannot be played; the others are gaps
MAX_ROW_BYTES = 32 * 1024 * 1024

_OPERATION_ID = re.compile(r"""operation_id\s*=\s*["']([^"']{1,200})["']""")


@dataclass(frozen=True)
class Finding:
    """One remark of the load report.

    `level` is error (the row or scenario is left out) or warning (a gap, a repair).
    """

    level: Literal["error", "warning"]
    code: str
    message: str
    file: str = ""
    line: int = 0
    scenario: str = ""


@dataclass
class Report:
    """Everything that was noticed while loading, in file order.

    `health` is filled by whoever had the verifiers run: by scenario and task, what came of it.
    """

    findings: list[Finding] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    health: dict[tuple[str, int], Health] = field(default_factory=dict)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "warning"]

    def of(self, scenario: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.scenario == normalise_name(scenario)]


@dataclass
class Scenario:
    """What is known of a scenario without reading its rows again."""

    name: str
    description: str = ""
    task_count: int = 0
    verifiers: dict[int, set[Mode]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def playable(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Verifier:
    """One verifier of one task: its code, and for SQL the judge's raw text."""

    mode: Mode
    code: str
    raw_response: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    file: str
    offset: int
    length: int
    line: int


class Pack:
    """One folder of rows. `scenarios` holds the playable ones, `rejected` the others with their reasons in `report`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report = Report()
        self.known: dict[str, Scenario] = {}
        self._rows: dict[tuple[str, str], _Place] = {}
        self._verifiers: dict[tuple[str, int, Mode], _Place] = {}
        self._scripts: dict[tuple[str, int], _Place] = {}

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def scenarios(self) -> dict[str, Scenario]:
        return {name: scenario for name, scenario in sorted(self.known.items()) if scenario.playable}

    @property
    def rejected(self) -> dict[str, Scenario]:
        return {name: scenario for name, scenario in sorted(self.known.items()) if not scenario.playable}

    def scenario(self, name: str) -> Scenario:
        found = self.known.get(normalise_name(name))
        if found is None:
            raise UnknownScenario(f"Scenario '{name}' not found")
        return found

    def tasks(self, scenario: str) -> list[str]:
        """The tasks' texts in order."""
        row = self._row("tasks", scenario)
        return [task for task in row.get("tasks", []) if isinstance(task, str)] if row else []

    def schema(self, scenario: str) -> dict[str, Any]:
        return _part(self._row("db", scenario), "db_schema")

    def sample(self, scenario: str) -> dict[str, Any]:
        return _part(self._row("sample", scenario), "sample_data")

    def statements(self, scenario: str) -> list[tuple[str, str]]:
        """Every (table, SQL statement) that builds the scenario's database, in order."""
        return [
            *seeding.schema_statements(self.schema(scenario)),
            *seeding.sample_statements(self.sample(scenario)),
        ]

    def app_code(self, scenario: str) -> str:
        row = self._row("envs", scenario)
        code = row.get("full_code") if row else None
        return code if isinstance(code, str) else ""

    def has_verifier(self, scenario: str, task_idx: int) -> dict[str, bool] | None:
        """{"sql": bool, "code": bool}, or None if the task has none at all."""
        modes = self.scenario(scenario).verifiers.get(task_idx, set())
        return {"sql": "sql" in modes, "code": "code" in modes} if modes else None

    def verifier(self, scenario: str, task_idx: int, mode: Mode) -> Verifier | None:
        place = self._verifiers.get((normalise_name(scenario), task_idx, mode))
        if place is None:
            return None
        verification = _part(self._read(place), "verification")
        code = verification.get("code")
        raw = verification.get("raw_response")
        return Verifier(mode, code if isinstance(code, str) else "", raw if isinstance(raw, str) else "")

    def scripts(self, scenario: str, task_idx: int) -> dict[str, list[dict[str, Any]]]:
        """Scripted policies of a task by name (oracle, negative, demo); empty where the pack brings none."""
        return _part(self._script_row(scenario, task_idx), "scripts")

    def about(self, scenario: str, task_idx: int) -> dict[str, Any]:
        """What the pack's authors say about a task (level, needs_expert, kind, expert_note).

        Empty where they say nothing.
        """
        return _part(self._script_row(scenario, task_idx), "about")

    def index(self) -> dict[str, Any]:
        """All that `load_pack` found, as JSON; `from_index` reads it back."""
        return {
            "known": [
                [
                    one.name,
                    one.description,
                    one.task_count,
                    [[n, sorted(m)] for n, m in one.verifiers.items()],
                    one.problems,
                ]
                for one in self.known.values()
            ],
            "rows": [[*key, *astuple(place)] for key, place in self._rows.items()],
            "verifiers": [[*key, *astuple(place)] for key, place in self._verifiers.items()],
            "scripts": [[*key, *astuple(place)] for key, place in self._scripts.items()],
            "findings": [astuple(finding) for finding in self.report.findings],
            "counts": self.report.rows,
        }

    @classmethod
    def from_index(cls, folder: Path, index: dict[str, Any]) -> Self:
        pack = cls(folder)
        for name, description, count, verifiers, problems in index["known"]:
            modes = {task_idx: set(found) for task_idx, found in verifiers}
            pack.known[name] = Scenario(name, description, count, modes, problems)
        pack._rows = {(kind, name): _Place(*place) for kind, name, *place in index["rows"]}
        pack._verifiers = {(name, idx, mode): _Place(*place) for name, idx, mode, *place in index["verifiers"]}
        pack._scripts = {(name, idx): _Place(*place) for name, idx, *place in index["scripts"]}
        pack.report = Report([Finding(*finding) for finding in index["findings"]], index["counts"])
        return pack

    def _script_row(self, scenario: str, task_idx: int) -> dict[str, Any] | None:
        place = self._scripts.get((normalise_name(scenario), task_idx))
        return self._read(place) if place else None

    def _row(self, kind: str, scenario: str) -> dict[str, Any] | None:
        place = self._rows.get((kind, normalise_name(scenario)))
        return self._read(place) if place else None

    def _read(self, place: _Place) -> dict[str, Any]:
        with (self.folder / place.file).open("rb") as stream:
            stream.seek(place.offset)
            line = stream.read(place.length)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise PackError(f"{place.file} line {place.line} changed since it was indexed") from error
        if not isinstance(row, dict):
            raise PackError(f"{place.file} line {place.line} changed since it was indexed")
        return row


def state_of(folder: Path) -> indexes.Prints:
    """Another value whenever a file of the pack was changed."""
    return indexes.prints(folder, FILES)


def load_pack(folder: Path | str, *, check_sql: bool = False, cache: Path | None = None) -> Pack:
    """Index and validate a folder. Broken rows end up in `pack.report`; only a folder that is no pack at all raises.

    With `cache`, a folder of ours, an index that was made of the same files is read instead of the files.
    """
    root = Path(folder)
    files = [*SCENARIO_FILES.values(), *VERIFIER_FILES.values()]
    if not root.is_dir() or not any((root / name).is_file() for name in files):
        raise PackError(f"{root} holds none of {', '.join(files)}")
    state = state_of(root)  # taken first: what changes while it is read makes the index void
    kept = indexes.read(cache, root, state) if cache else None
    pack = Pack.from_index(root, kept) if kept else _read_pack(root)
    if cache and not kept:
        indexes.write(cache, root, state, pack.index())
    if check_sql:
        _Loader(pack).try_sql()
    return pack


def _read_pack(root: Path) -> Pack:
    pack = Pack(root)
    loader = _Loader(pack)
    for kind, name in SCENARIO_FILES.items():
        loader.scenario_file(kind, name)
    for mode, name in VERIFIER_FILES.items():
        loader.verifier_file(mode, name)
    loader.scripts_file()
    loader.join()
    return pack


def _lines(stream: IO[bytes], file: str) -> Iterator[tuple[bytes, _Place]]:
    """Every line that is not blank, with its place; of one that is too long only its beginning is ever held."""
    offset = 0
    for number in itertools.count(1):
        line = stream.readline(MAX_ROW_BYTES + 1)
        length = len(line)
        last = line
        while len(last) > MAX_ROW_BYTES and not last.endswith(b"\n"):
            last = stream.readline(MAX_ROW_BYTES + 1)
            length += len(last)
        if not line:
            return
        if line.strip():
            yield line, _Place(file, offset, length, number)
        offset += length


class _Loader:
    """One pass over the files of a pack; writes into the pack it fills."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self.report = pack.report

    def remark(self, level: Literal["error", "warning"], code: str, message: str, **where: Any) -> None:
        self.report.findings.append(Finding(level, code, message, **where))

    def rows(self, file: str, key: str) -> Iterator[tuple[str, dict[str, Any], _Place]]:
        """(normalised name, row, place) of every good line; the bad ones are reported and skipped."""
        path = self.pack.folder / file
        if not path.is_file():
            self.remark("warning", "missing_file", f"{file} is not in the folder", file=file)
            return
        count = 0
        with path.open("rb") as stream:
            for line, place in _lines(stream, file):
                row = self._parse(line, place)
                if row is None:
                    continue
                name = row.get(key)
                if not isinstance(name, str) or not normalise_name(name):
                    self.remark("error", "no_name", f"the row has no '{key}'", file=file, line=place.line)
                    continue
                count += 1
                yield normalise_name(name), row, place
        self.report.rows[file] = count

    def _parse(self, line: bytes, place: _Place) -> dict[str, Any] | None:
        where = {"file": place.file, "line": place.line}
        if place.length > MAX_ROW_BYTES:
            self.remark("error", "too_long", f"the row is longer than {MAX_ROW_BYTES} bytes", **where)
            return None
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.remark("error", "bad_json", f"not JSON: {error}", **where)
            return None
        if not isinstance(row, dict):
            self.remark("error", "bad_json", "not a JSON object", **where)
            return None
        return row

    def known(self, name: str) -> Scenario:
        return self.pack.known.setdefault(name, Scenario(name))

    def scenario_file(self, kind: str, file: str) -> None:
        for name, row, place in self.rows(file, "name" if kind == "scenario" else "scenario"):
            where = {"file": file, "line": place.line, "scenario": name}
            if (kind, name) in self.pack._rows:
                self.remark("warning", "duplicate", "a second row for this scenario is ignored", **where)
                continue
            problem = _shape_problem(kind, row)
            if problem:
                self.remark("error", "bad_shape", problem, **where)
                continue
            self.pack._rows[kind, name] = place
            scenario = self.known(name)
            if kind == "scenario":
                scenario.description = str(row.get("description", ""))
            elif kind == "tasks":
                scenario.task_count = len(row["tasks"])
            elif kind == "envs":
                self._reserved(scenario, row["full_code"], where)

    def _reserved(self, scenario: Scenario, code: str, where: dict[str, Any]) -> None:
        taken = sorted(set(_OPERATION_ID.findall(code)) & RESERVED_TOOLS)
        if taken:
            message = f"reserved tool name: {', '.join(taken)}"
            scenario.problems.append(message)
            self.remark("error", "reserved_tool", message, **where)

    def verifier_file(self, mode: Mode, file: str) -> None:
        for name, row, place in self.rows(file, "scenario"):
            where = {"file": file, "line": place.line, "scenario": name}
            task_idx = row.get("task_idx")
            code = _part(row, "verification").get("code")
            if not isinstance(task_idx, int) or isinstance(task_idx, bool) or task_idx < 0:
                self.remark("error", "bad_shape", "task_idx is not a number", **where)
            elif not isinstance(code, str) or not code.strip():
                self.remark("warning", "missing_verifier", f"task {task_idx}: the {mode} verifier has no code", **where)
            elif (name, task_idx, mode) in self.pack._verifiers:
                self.remark("warning", "duplicate", f"a second {mode} verifier for task {task_idx} is ignored", **where)
            else:
                self.pack._verifiers[name, task_idx, mode] = place
                self.known(name).verifiers.setdefault(task_idx, set()).add(mode)

    def scripts_file(self) -> None:
        if not (self.pack.folder / SCRIPTS_FILE).is_file():
            return
        for name, row, place in self.rows(SCRIPTS_FILE, "scenario"):
            task_idx = row.get("task_idx")
            if isinstance(task_idx, int):
                self.pack._scripts[name, task_idx] = place

    def join(self) -> None:
        """Say what is missing where: a scenario without the needed rows is rejected, other gaps are warnings."""
        for name, scenario in sorted(self.pack.known.items()):
            for kind, file in SCENARIO_FILES.items():
                if (kind, name) in self.pack._rows:
                    continue
                if kind in NEEDED:
                    scenario.problems.append(f"no row in {file}")
                level: Literal["error", "warning"] = "error" if kind in NEEDED else "warning"
                self.remark(level, "gap", f"no row in {file}", file=file, scenario=name)
            for task_idx in range(scenario.task_count):
                if "code" not in scenario.verifiers.get(task_idx, set()):
                    self.remark(
                        "warning", "missing_verifier", f"task {task_idx} has no code verifier",
                        file=VERIFIER_FILES["code"], scenario=name,
                    )  # fmt: skip
            for task_idx in sorted(idx for idx in scenario.verifiers if idx >= scenario.task_count):
                self.remark("warning", "gap", f"a verifier for task {task_idx}, which does not exist", scenario=name)

    def try_sql(self) -> None:
        """Build each playable scenario's database in memory; a failing statement rejects the scenario."""
        for name, scenario in self.pack.scenarios.items():
            report = _try_build(self.pack.statements(name))
            for message in report.repaired:
                self.remark("warning", "sql_repaired", message, scenario=name)
            for message in report.failed:
                self.remark("error", "sql_failed", message, scenario=name)
            if report.failed:
                scenario.problems.append(f"{len(report.failed)} SQL statements fail, first {report.failed[0]}")


_SQL_DENIED = {
    sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_CREATE_VTABLE,
}  # fmt: skip


def _try_build(statements: list[tuple[str, str]]) -> seeding.BuildReport:
    connection = sqlite3.connect(":memory:")
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 16_000_000)
        connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action in _SQL_DENIED else sqlite3.SQLITE_OK
        )
        budget = iter(range(2000))
        connection.set_progress_handler(lambda: 0 if next(budget, None) is not None else 1, 50_000)
        return seeding.build(connection, statements)
    except (sqlite3.Error, MemoryError) as error:
        return seeding.BuildReport(failed=[str(error)])
    finally:
        connection.close()


def _part(row: dict[str, Any] | None, key: str) -> dict[str, Any]:
    part = row.get(key) if row else None
    return part if isinstance(part, dict) else {}


def _shape_problem(kind: str, row: dict[str, Any]) -> str | None:
    """Why a row of this kind cannot be used, or None."""
    if kind == "tasks":
        tasks = row.get("tasks")
        good = isinstance(tasks, list) and tasks and all(isinstance(task, str) and task.strip() for task in tasks)
        return None if good else "'tasks' is not a list of texts"
    if kind == "db":
        return None if isinstance(_part(row, "db_schema").get("tables"), list) else "'db_schema.tables' is not a list"
    if kind == "sample":
        return (
            None if isinstance(_part(row, "sample_data").get("tables"), list) else "'sample_data.tables' is not a list"
        )
    if kind == "envs":
        code = row.get("full_code")
        return None if isinstance(code, str) and code.strip() else "'full_code' is empty"
    return None
