"""Reads a folder of AWM-1K rows: indexes them by offset, joins them by normalised scenario name, and validates.

Owns the pack format and nothing of running it. Rows are read on demand, so a pack of a thousand scenarios costs only an
index, and with a `cache` the index outlives the process. Called by Django (to show and load packs) and by
`awmenv.server` (to build worlds). Rows are untrusted: none of them is executed here, neither Python nor SQL, and their
memory is bounded before it is used. Whether a scenario's SQL runs is checked in the sandbox (`awmenv.server.checkpack`)
and added to the report by `note_build`.
"""

import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from awmenv import indexes, rows
from awmenv.blockers import BadRegistry, Blocker, blockers_in, read_blockers
from awmenv.errors import PackError, UnknownScenario
from awmenv.health import Health
from awmenv.models import MAX_NOTE, MAX_TASKS, RESERVED_TOOLS, BuildReport, normalise_name, one_line
from awmenv.pack_rows import part_of, sample_statements, schema_statements, shape_problem, text_or_empty
from awmenv.rows import RowPosition

Mode = Literal["code", "sql"]
Level = Literal["error", "warning"]

SCENARIO_FILES = {
    "scenario": "gen_scenario.jsonl",
    "tasks": "gen_tasks.jsonl",
    "db": "gen_db.jsonl",
    "sample": "gen_sample.jsonl",
    "envs": "gen_envs.jsonl",
}
VERIFIER_FILES: dict[Mode, str] = {"sql": "gen_verifier.jsonl", "code": "gen_verifier.pure_code.jsonl"}
SCRIPTS_FILE = "scripts.jsonl"
BLOCKERS_FILE = "blockers.jsonl"
FILES = (*SCENARIO_FILES.values(), *VERIFIER_FILES.values(), SCRIPTS_FILE, BLOCKERS_FILE)
NEEDED = ("tasks", "db", "envs")  # a scenario without these is rejected; the others are gaps

MAX_NAME, MAX_DESCRIPTION = 200, 20_000
MAX_FINDINGS = 50_000

_OPERATION_ID = re.compile(r"""operation_id\s*=\s*["']([^"']{1,200})["']""")


@dataclass(frozen=True)
class Finding:
    """One entry of the load report.

    `level` is error (the row or scenario is left out) or warning (a gap, a repair).
    """

    level: Level
    code: str
    message: str
    file: str = ""
    line: int = 0
    scenario: str = ""


@dataclass
class Report:
    """All findings of loading, in file order.

    `health` is filled by the process that ran the verifiers: by scenario and task, their results.
    """

    findings: list[Finding] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    health: dict[tuple[str, int], Health] = field(default_factory=dict)

    def remark(self, level: Level, code: str, message: str, **where: Any) -> None:
        """Add a finding; above a limit only the fact that there are more."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(level, code, one_line(message, MAX_NOTE), **where))
        elif self.findings[-1].code != "more":
            self.findings.append(Finding("warning", "more", f"only the first {MAX_FINDINGS} findings are listed"))

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
    """The known facts of a scenario without reading its rows again."""

    name: str
    description: str = ""
    task_count: int = 0
    verifiers: dict[int, set[Mode]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    partial: str = ""
    """Its failing SQL statements, if it runs without them; empty also if no one has built it."""

    @property
    def playable(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Verifier:
    """One verifier of one task: its code, and for SQL the judge's raw text."""

    mode: Mode
    code: str
    raw_response: str = ""


class Pack:
    """One folder of rows. `scenarios` holds the playable ones, `rejected` the others with their reasons in `report`.

    A loaded pack is a `link` to the folder of its version. `folder` is that folder, so that a pack that was read before
    its replacement keeps its rows.
    """

    def __init__(self, folder: Path) -> None:
        self.link = folder
        self.folder = folder.resolve()
        self.report = Report()
        self.builds: dict[str, BuildReport] = {}
        self.known: dict[str, Scenario] = {}
        self._rows: dict[tuple[str, str], RowPosition] = {}
        self._verifiers: dict[tuple[str, int, Mode], RowPosition] = {}
        self._scripts: dict[tuple[str, int], RowPosition] = {}
        self._blockers: dict[tuple[str, int], RowPosition] = {}

    @property
    def name(self) -> str:
        return self.link.name or self.folder.name

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """The version of each scenario: a digest over all of its rows in all files."""
        lines: dict[str, list[str]] = {name: [] for name in self.known}
        for places in (self._rows, self._verifiers, self._scripts, self._blockers):
            for key, place in places.items():
                name = key[1] if places is self._rows else key[0]
                if name in lines:
                    lines[name].append(f"{place.file} {place.sha256}\n")
        # Sorted, so that the order of rows in a file does not count.
        return {name: hashlib.sha256("".join(sorted(found)).encode()).hexdigest() for name, found in lines.items()}

    @property
    def digest(self) -> str:
        """The version of the pack: a digest over those of its scenarios."""
        return hashlib.sha256("".join(f"{one}\n" for one in sorted(self.digests.items())).encode()).hexdigest()

    @property
    def scenarios(self) -> dict[str, Scenario]:
        return {name: scenario for name, scenario in sorted(self.known.items()) if scenario.playable}

    @property
    def rejected(self) -> dict[str, Scenario]:
        return {name: scenario for name, scenario in sorted(self.known.items()) if not scenario.playable}

    def scenario(self, name: str) -> Scenario:
        scenario = self.known.get(normalise_name(name))
        if scenario is None:
            raise UnknownScenario(f"Scenario '{name}' not found")
        return scenario

    def tasks(self, scenario: str) -> list[str]:
        """Return the tasks' texts in order."""
        row = self._row("tasks", scenario)
        return [task for task in row.get("tasks", []) if isinstance(task, str)] if row else []

    def schema(self, scenario: str) -> dict[str, Any]:
        return part_of(self._row("db", scenario), "db_schema")

    def sample(self, scenario: str) -> dict[str, Any]:
        return part_of(self._row("sample", scenario), "sample_data")

    def statements(self, scenario: str) -> list[tuple[str, str]]:
        """Return every (table, SQL statement) that builds the scenario's database, in order."""
        return [*schema_statements(self.schema(scenario)), *sample_statements(self.sample(scenario))]

    def note_build(self, scenario: str, built: BuildReport, *, playable: bool) -> None:
        """Add to the report how the scenario's database was built in the sandbox.

        With failures the scenario is partial if it is `playable` all the same, otherwise rejected.
        """
        for message in built.repaired:
            self.report.remark("warning", "sql_repaired", message, scenario=scenario)
        for message in built.failed:
            level: Level = "warning" if playable else "error"
            self.report.remark(level, "sql_skipped" if playable else "sql_failed", message, scenario=scenario)
        if not built.ok and not playable:
            self.known[scenario].problems.append(built.summary)
        elif not built.ok:
            self.known[scenario].partial = built.summary
            self.report.remark("warning", "partial", f"the scenario is partial: {built.summary}", scenario=scenario)
        self.builds[scenario] = built

    def keep_builds(self, cache: Path) -> None:
        """Store the build results of playable scenarios beside the index, for later loads with this cache."""
        builds = {name: built.wire() for name, built in self.builds.items() if self.known[name].playable}
        indexes.write(cache, self.folder, state_of(self.folder), builds, "builds")

    def _recall_builds(self, kept: dict[str, Any]) -> None:
        for name, wire in kept.items():
            built = BuildReport.from_wire(wire)
            if built is not None and name in self.known:
                self.builds[name] = built
                self.known[name].partial = built.summary

    def app_code(self, scenario: str) -> str:
        row = self._row("envs", scenario)
        code = row.get("full_code") if row else None
        return code if isinstance(code, str) else ""

    def has_verifier(self, scenario: str, task_idx: int) -> dict[str, bool] | None:
        """Return {"sql": bool, "code": bool}, or None if the task has none at all."""
        modes = self.scenario(scenario).verifiers.get(task_idx, set())
        return {"sql": "sql" in modes, "code": "code" in modes} if modes else None

    def verifier(self, scenario: str, task_idx: int, mode: Mode) -> Verifier | None:
        place = self._verifiers.get((normalise_name(scenario), task_idx, mode))
        if place is None:
            return None
        verification = part_of(self._read(place), "verification")
        code = verification.get("code")
        raw = verification.get("raw_response")
        return Verifier(mode, code if isinstance(code, str) else "", raw if isinstance(raw, str) else "")

    def scripts(self, scenario: str, task_idx: int) -> dict[str, list[dict[str, Any]]]:
        """Return scripted policies of a task by name (oracle, negative, demo); empty if the pack has none."""
        return part_of(self._script_row(scenario, task_idx), "scripts")

    def about(self, scenario: str, task_idx: int) -> dict[str, Any]:
        """Return the authors' notes on a task (level, needs_expert, kind, expert_note); empty without any."""
        return part_of(self._script_row(scenario, task_idx), "about")

    def blockers(self, scenario: str, task_idx: int) -> list[Blocker]:
        """Return the registry of a task: what is missing in it. Empty if the pack has none."""
        place = self._blockers.get((normalise_name(scenario), task_idx))
        # the text was compared when the file was read
        return blockers_in(self._read(place).get("blockers"), self.tasks(scenario)[task_idx]) if place else []

    def index(self) -> dict[str, Any]:
        """Return everything that `load_pack` found, as JSON; `from_index` reads it back."""
        return {
            "known": [
                [
                    scenario.name,
                    scenario.description,
                    scenario.task_count,
                    [[n, sorted(m)] for n, m in scenario.verifiers.items()],
                    scenario.problems,
                ]
                for scenario in self.known.values()
            ],
            "rows": [[*key, *astuple(place)] for key, place in self._rows.items()],
            "verifiers": [[*key, *astuple(place)] for key, place in self._verifiers.items()],
            "scripts": [[*key, *astuple(place)] for key, place in self._scripts.items()],
            "blockers": [[*key, *astuple(place)] for key, place in self._blockers.items()],
            "findings": [astuple(finding) for finding in self.report.findings],
            "counts": self.report.rows,
        }

    @classmethod
    def from_index(cls, folder: Path, index: dict[str, Any]) -> Self:
        pack = cls(folder)
        for name, description, count, verifiers, problems in index["known"]:
            modes = {task_idx: set(found) for task_idx, found in verifiers}
            pack.known[name] = Scenario(name, description, count, modes, problems)
        pack._rows = {(kind, name): RowPosition(*place) for kind, name, *place in index["rows"]}
        pack._verifiers = {(name, idx, mode): RowPosition(*place) for name, idx, mode, *place in index["verifiers"]}
        pack._scripts = {(name, idx): RowPosition(*place) for name, idx, *place in index["scripts"]}
        pack._blockers = {(name, idx): RowPosition(*place) for name, idx, *place in index["blockers"]}
        pack.report = Report([Finding(*finding) for finding in index["findings"]], index["counts"])
        return pack

    def row(self, kind: str, scenario: str) -> dict[str, Any] | None:
        """Return the scenario's row of the file of this kind in `SCENARIO_FILES`, unchanged."""
        return self._row(kind, scenario)

    def _script_row(self, scenario: str, task_idx: int) -> dict[str, Any] | None:
        place = self._scripts.get((normalise_name(scenario), task_idx))
        return self._read(place) if place else None

    def _row(self, kind: str, scenario: str) -> dict[str, Any] | None:
        place = self._rows.get((kind, normalise_name(scenario)))
        return self._read(place) if place else None

    def _read(self, place: RowPosition) -> dict[str, Any]:
        try:
            return rows.read(self.folder, place)
        except rows.BadRow as error:
            raise PackError(f"{place.file} line {place.line} changed since it was indexed") from error


def state_of(folder: Path) -> indexes.Prints:
    """Return a value that changes whenever a file of the pack changes."""
    return indexes.prints(folder, FILES)


def load_pack(folder: Path | str, *, cache: Path | None = None) -> Pack:
    """Index and validate a folder.

    Broken rows are findings in `pack.report`; only a folder that is no pack at all raises. With `cache`, a private
    folder, an index made from the same files is read instead of the files.
    """
    root = Path(folder)
    files = [*SCENARIO_FILES.values(), *VERIFIER_FILES.values()]
    if not root.is_dir() or not any((root / name).is_file() for name in files):
        raise PackError(f"{root} contains none of {', '.join(files)}")
    state = state_of(root)  # computed first: a change during reading invalidates the index
    kept = indexes.read(cache, root, state) if cache else None
    pack = Pack.from_index(root, kept) if kept else _read_pack(root)
    if cache and not kept:
        indexes.write(cache, root, state, pack.index())
    if cache:
        pack._recall_builds(indexes.read(cache, root, state, "builds") or {})
    return pack


def _read_pack(root: Path) -> Pack:
    pack = Pack(root)
    loader = _PackLoader(pack)
    for kind, name in SCENARIO_FILES.items():
        loader.scenario_file(kind, name)
    for mode, name in VERIFIER_FILES.items():
        loader.verifier_file(mode, name)
    loader.scripts_file()
    loader.blockers_file()
    loader.join()
    return pack


class _PackLoader:
    """One pass over the files of a pack; writes into the pack it fills."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self.report = pack.report
        self.remark = pack.report.remark

    def rows(self, file: str, key: str) -> Iterator[tuple[str, dict[str, Any], RowPosition]]:
        """Yield (normalised name, row, place) of every good line; the bad ones are reported and skipped."""
        if not (self.pack.folder / file).is_file():
            self.remark("warning", "missing_file", f"{file} is not in the folder", file=file)
            return
        count = 0
        for place, row in rows.places(self.pack.folder, file):
            if isinstance(row, rows.BadRow):
                self.remark("error", row.code, str(row), file=file, line=place.line)
                continue
            name = row.get(key)
            if not isinstance(name, str) or len(name) > MAX_NAME or not normalise_name(name):
                message = f"the row has no '{key}' of at most {MAX_NAME} characters"
                self.remark("error", "no_name", message, file=file, line=place.line)
                continue
            count += 1
            yield normalise_name(name), row, place
        self.report.rows[file] = count

    def known(self, name: str) -> Scenario:
        return self.pack.known.setdefault(name, Scenario(name))

    def scenario_file(self, kind: str, file: str) -> None:
        for name, row, place in self.rows(file, "name" if kind == "scenario" else "scenario"):
            where = {"file": file, "line": place.line, "scenario": name}
            if (kind, name) in self.pack._rows:
                self.remark("warning", "duplicate", "a second row for this scenario is ignored", **where)
                continue
            problem = shape_problem(kind, row)
            if problem:
                self.remark("error", "bad_shape", problem, **where)
                continue
            self.pack._rows[kind, name] = place
            scenario = self.known(name)
            if kind == "scenario":
                scenario.description = text_or_empty(row.get("description"))[:MAX_DESCRIPTION]
            elif kind == "tasks":
                scenario.task_count = len(row["tasks"])
            elif kind == "envs":
                self._reserved(scenario, row["full_code"], where)

    def _reserved(self, scenario: Scenario, code: str, where: dict[str, Any]) -> None:
        taken = sorted(name for name in set(_OPERATION_ID.findall(code)) if name.strip().casefold() in RESERVED_TOOLS)
        if taken:
            message = f"reserved tool name: {', '.join(taken)}"
            scenario.problems.append(message)
            self.remark("error", "reserved_tool", message, **where)

    def verifier_file(self, mode: Mode, file: str) -> None:
        for name, row, place in self.rows(file, "scenario"):
            where = {"file": file, "line": place.line, "scenario": name}
            task_idx = row.get("task_idx")
            code = part_of(row, "verification").get("code")
            if type(task_idx) is not int or not 0 <= task_idx < MAX_TASKS:
                self.remark("error", "bad_shape", f"task_idx is not a number from 0 to {MAX_TASKS - 1}", **where)
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
            if type(task_idx) is int and 0 <= task_idx < MAX_TASKS:
                self.pack._scripts[name, task_idx] = place

    def blockers_file(self) -> None:
        """Read the registries. A task's second row is refused, and one whose task has its fact or asks for it."""
        if not (self.pack.folder / BLOCKERS_FILE).is_file():
            return
        tasks: dict[str, list[str]] = {}
        for name, row, place in self.rows(BLOCKERS_FILE, "scenario"):
            where = {"file": BLOCKERS_FILE, "line": place.line, "scenario": name}
            task_idx = row.get("task_idx")
            if name not in tasks:
                tasks[name] = self.pack.tasks(name)
            if type(task_idx) is not int or not 0 <= task_idx < len(tasks[name]):
                self.remark("error", "bad_shape", "task_idx is not the number of a task of the scenario", **where)
            elif (name, task_idx) in self.pack._blockers:
                message = f"a second registry for task {task_idx} is refused"
                self.remark("error", "duplicate", message, **where)
            else:
                try:
                    read_blockers(row.get("blockers"), tasks[name][task_idx])
                except BadRegistry as bad:
                    self.remark("error", "bad_blockers", f"task {task_idx}: {bad}", **where)
                else:
                    self.pack._blockers[name, task_idx] = place

    def join(self) -> None:
        """Report missing rows: a scenario without required rows is rejected, other gaps are warnings."""
        for name, scenario in sorted(self.pack.known.items()):
            for kind, file in SCENARIO_FILES.items():
                if (kind, name) in self.pack._rows:
                    continue
                if kind in NEEDED:
                    scenario.problems.append(f"no row in {file}")
                level: Level = "error" if kind in NEEDED else "warning"
                self.remark(level, "gap", f"no row in {file}", file=file, scenario=name)
            for task_idx in range(scenario.task_count):
                if "code" not in scenario.verifiers.get(task_idx, set()):
                    self.remark(
                        "warning", "missing_verifier", f"task {task_idx} has no code verifier",
                        file=VERIFIER_FILES["code"], scenario=name,
                    )  # fmt: skip
            for task_idx in sorted(idx for idx in scenario.verifiers if idx >= scenario.task_count):
                self.remark("warning", "gap", f"a verifier for task {task_idx}, which does not exist", scenario=name)
