"""Builds `packs/starter` (AWM-1K rows) from the readable scenario folders beside this file.

Owns the way from `packs/sources/<scenario>/` to the JSONL files and refuses a folder that is not complete. Leaves what
a scenario means to its author, and proving scripts against verifiers to `tests/packs_starter`. Called by hand after
every change to a scenario: `python packs/sources/build.py`. Needs nothing but the standard library.
"""

import argparse
import ast
import json
import re
import sqlite3
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parent
STARTER = SOURCES.parent / "starter"
FILES = (
    "gen_scenario.jsonl",
    "gen_tasks.jsonl",
    "gen_db.jsonl",
    "gen_sample.jsonl",
    "gen_envs.jsonl",
    "gen_verifier.jsonl",
    "gen_verifier.pure_code.jsonl",
    "scripts.jsonl",
    "blockers.jsonl",
)
LEVELS = ("easy", "medium", "hard")
KINDS = ("normal", "passes_untouched", "answer_only")
SHARED_IMPORT = re.compile(r"^(?P<indent>[ ]*)from database_changes import [\w, ]+\n", re.MULTILINE)

Row = dict[str, Any]


class SourceError(Exception):
    """A scenario folder that cannot become rows; the message names the file and the reason."""


def read_text(path: Path) -> str:
    """The file's text with exactly one newline at its end."""
    try:
        text = path.read_text(encoding="utf-8").strip("\n")
    except FileNotFoundError:
        raise SourceError(f"{path}: the file is missing") from None
    if not text.strip():
        raise SourceError(f"{path}: the file is empty")
    return text + "\n"


def read_object(path: Path) -> Row:
    """The file's JSON object."""
    try:
        value = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise SourceError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise SourceError(f"{path}: expected a JSON object")
    return value


def statements(path: Path) -> Iterator[tuple[str, str]]:
    """Each SQL statement with the comment that stands right above it (empty if there is none)."""
    comment: list[str] = []
    pending = ""
    for line in read_text(path).splitlines():
        if not pending and line.startswith("--"):
            comment.append(line.removeprefix("--").strip())
        elif pending or line.strip():
            pending = f"{pending}\n{line}" if pending else line
            if sqlite3.complete_statement(pending):
                yield " ".join(comment), pending.strip()
                comment, pending = [], ""
    if pending:
        raise SourceError(f"{path}: the last statement has no end: {pending[:80]!r}")


def read_schema(path: Path) -> list[Row]:
    """One entry per table: name, DDL and the indexes written after it."""
    tables: list[Row] = []
    for _, sql in statements(path):
        if table := re.match(r"CREATE TABLE (\w+)", sql):
            tables.append({"name": table[1], "ddl": sql, "indexes": []})
        elif tables and re.match(rf"CREATE (UNIQUE )?INDEX \w+\s+ON {tables[-1]['name']}\s*\(", sql):
            tables[-1]["indexes"].append(sql)
        else:
            raise SourceError(f"{path}: neither a table nor an index of the table above it: {sql[:80]!r}")
    return tables


def read_sample(path: Path) -> list[Row]:
    """One entry per table in order of first appearance; the comment above a table's first row is its reasoning."""
    tables: dict[str, Row] = {}
    for comment, sql in statements(path):
        insert = re.match(r"INSERT INTO (\w+)", sql)
        if insert is None:
            raise SourceError(f"{path}: not an INSERT INTO: {sql[:80]!r}")
        entry = tables.setdefault(insert[1], {"table_name": insert[1], "reasoning": comment, "insert_statements": []})
        entry["insert_statements"].append(sql)
    return list(tables.values())


def check_database(scenario: Path, tables: list[Row], samples: list[Row]) -> None:
    """Every statement runs in SQLite as it stands, and no row points at a row that is not there."""
    database = sqlite3.connect(":memory:")
    try:
        for table in tables:
            for sql in (table["ddl"], *table["indexes"]):
                run(database, scenario / "schema.sql", sql)
        for sample in samples:
            for sql in sample["insert_statements"]:
                run(database, scenario / "sample.sql", sql)
        dangling = database.execute("PRAGMA foreign_key_check").fetchall()
    finally:
        database.close()
    if dangling:
        raise SourceError(f"{scenario / 'sample.sql'}: rows that point nowhere (table, row, parent): {dangling}")


def run(database: sqlite3.Connection, path: Path, sql: str) -> None:
    """Run one statement, naming its file if SQLite refuses it."""
    try:
        database.execute(sql)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise SourceError(f"{path}: {error}: {sql[:160]!r}") from None


def check_code(path: Path, code: str) -> None:
    """The code compiles as it stands in its row."""
    try:
        compile(code, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise SourceError(f"{path}:{error.lineno}: {error.msg}") from None


def read_code(path: Path) -> str:
    """Python text that compiles. Real rows end without a newline, so ours do too."""
    code = read_text(path).rstrip("\n")
    check_code(path, code)
    return code


def without_docstring(code: str) -> str:
    """The module's body below its docstring, with single blank lines, fit to stand inside a function."""
    first = ast.parse(code).body[0]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(code.splitlines()[first.end_lineno :]).strip("\n"))


def read_verifier(path: Path, sources: Path) -> str:
    """A verifier that stands alone: its import of `database_changes` is replaced by that module's body."""
    code = read_code(path)
    if SHARED_IMPORT.search(code) is None:
        return code
    helper = sources / "database_changes.py"
    body = without_docstring(read_code(helper if helper.exists() else SOURCES / "database_changes.py"))
    code = SHARED_IMPORT.sub(lambda found: textwrap.indent(body, found["indent"]) + "\n", code)
    check_code(path, code)
    return code


def read_about(path: Path) -> Row:
    """The facts about a task that tests, the demo and the documentation use."""
    about = read_object(path)
    if set(about) - {"blockers"} != {"level", "needs_expert", "kind", "expert_note"}:
        raise SourceError(f"{path}: expected the keys level, needs_expert, kind and expert_note, and perhaps blockers")
    if about["needs_expert"] is False and "blockers" in about:
        raise SourceError(f"{path}: a task that needs no expert has no blockers")
    if about["level"] not in LEVELS or about["kind"] not in KINDS or not isinstance(about["needs_expert"], bool):
        raise SourceError(f"{path}: level is one of {LEVELS}, kind one of {KINDS}, needs_expert a boolean")
    if about["needs_expert"] != bool(about["expert_note"]):
        raise SourceError(f"{path}: expert_note says what only the expert knows, and is empty if nobody needs to ask")
    return about


def read_scripts(path: Path) -> Row:
    """The task's scripts; what a turn does is proven by running them."""
    scripts = read_object(path)
    if not {"oracle", "negative"} <= set(scripts) <= {"oracle", "negative", "demo"}:
        raise SourceError(f"{path}: expected oracle, negative and perhaps demo, found {sorted(scripts)}")
    for name, turns in scripts.items():
        check_turns(path, name, turns)
    return scripts


def check_turns(path: Path, name: str, turns: Any) -> None:
    """Every turn does exactly one thing, and what an ask leads to is made of turns as well."""
    if not isinstance(turns, list) or not turns:
        raise SourceError(f"{path}: {name} is not a list of turns")
    for turn in turns:
        if not isinstance(turn, dict) or len({"call", "ask", "answer"} & set(turn)) != 1:
            raise SourceError(f"{path}: {name}: a turn has one of call, ask and answer: {turn!r}")
        for branch in ("advised", "unadvised", "after"):
            if branch in turn:
                check_turns(path, f"{name}, {branch}", turn[branch])


def task_rows(scenario: str, idx: int, folder: Path, sources: Path) -> dict[str, Row]:
    """The rows of one task, by file."""
    task = read_text(folder / "task.txt").strip()
    sql_code = read_verifier(folder / "verify_sql.py", sources)
    raw = {"reasoning": "", **read_object(folder / "sql_raw.json"), "python_code": sql_code}
    if missing := {"success_criteria", "failure_criteria"} - set(raw):
        raise SourceError(f"{folder / 'sql_raw.json'}: missing {sorted(missing)}")
    raw_order = ("reasoning", "python_code", "success_criteria", "failure_criteria")
    head = {"scenario": scenario, "task_idx": idx}
    about = read_about(folder / "about.json")
    # what the loader of packs refuses, tests refuse: this file needs nothing but the standard library
    blockers = about.pop("blockers", None)
    return {
        **({"blockers.jsonl": {**head, "blockers": blockers}} if blockers else {}),
        "gen_verifier.jsonl": {
            **head,
            "task": task,
            "verification": {
                "code": sql_code,
                "raw_response": json.dumps({key: raw[key] for key in raw_order}, ensure_ascii=False),
            },
        },
        "gen_verifier.pure_code.jsonl": {
            **head,
            "task": task,
            "verification": {"code": read_verifier(folder / "verify_code.py", sources), "raw_response": ""},
        },
        "scripts.jsonl": {
            **head,
            "about": about,
            "scripts": read_scripts(folder / "scripts.json"),
        },
    }


def task_folders(scenario: Path) -> list[Path]:
    """The folders tasks/00, tasks/01, ... without a gap."""
    folders = sorted(path for path in (scenario / "tasks").glob("*") if path.is_dir() and path.name != "__pycache__")
    if not folders or [path.name for path in folders] != [f"{idx:02d}" for idx in range(len(folders))]:
        raise SourceError(f"{scenario / 'tasks'}: expected folders 00, 01, ... and found {[p.name for p in folders]}")
    return folders


def scenario_rows(scenario: Path) -> dict[str, list[Row]]:
    """All rows of one scenario, by file."""
    name = scenario.name
    described = read_object(scenario / "scenario.json")
    if described.get("name") != name or not described.get("description"):
        raise SourceError(f"{scenario / 'scenario.json'}: needs a description, and the folder's name as its name")
    tables, samples = read_schema(scenario / "schema.sql"), read_sample(scenario / "sample.sql")
    check_database(scenario, tables, samples)
    db_path = f"./outputs/databases/{name}.db"
    folders = task_folders(scenario)
    tasks = [task_rows(name, idx, folder, scenario.parent) for idx, folder in enumerate(folders)]
    goals = [row["gen_verifier.jsonl"]["task"] for row in tasks]
    inserts = sum(len(sample["insert_statements"]) for sample in samples)
    return {
        "gen_scenario.jsonl": [{key: described[key] for key in ("name", "description", "schemas") if key in described}],
        "gen_tasks.jsonl": [{"scenario": name, "tasks": goals}],
        "gen_db.jsonl": [{"scenario": name, "db_schema": {"tables": tables}, "db_path": db_path}],
        "gen_sample.jsonl": [
            {
                "scenario": name,
                "tables_count": len(samples),
                "inserts_count": inserts,
                "sample_data": {"tables": samples},
            }
        ],
        "gen_envs.jsonl": [{"scenario": name, "db_path": db_path, "full_code": read_code(scenario / "app.py")}],
        **{file: [row[file] for row in tasks if file in row] for file in FILES[5:]},
    }


def build(sources: Path) -> dict[str, str]:
    """The text of every file of the pack, from all scenario folders in order of their names."""
    scenarios = sorted(path.parent for path in sources.glob("*/scenario.json"))
    if not scenarios:
        raise SourceError(f"{sources}: no folder with a scenario.json")
    lines: dict[str, list[str]] = {file: [] for file in FILES}
    for scenario in scenarios:
        for file, rows in scenario_rows(scenario).items():
            lines[file] += [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    return {file: "".join(rows) for file, rows in lines.items()}


def main(arguments: list[str] | None = None) -> int:
    """Build, then write: a broken folder leaves the files on disk as they were."""
    parser = argparse.ArgumentParser(description="Build the pack's JSONL files from the scenario folders.")
    parser.add_argument("--sources", type=Path, default=SOURCES, help="folder of scenario folders")
    parser.add_argument("--output", type=Path, default=STARTER, help="folder to write the pack to")
    options = parser.parse_args(arguments)
    try:
        files = build(options.sources)
    except SourceError as error:
        print(f"not built: {error}", file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (options.output / file).write_text(text, encoding="utf-8", newline="\n")
        print(f"{options.output / file}: {text.count(chr(10))} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
