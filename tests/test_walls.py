"""Who may run a database engine, read from syntax trees: SQLite can be turned against the process that opens a hostile
file or runs a hostile statement, so that rows of packs and files of sessions are opened in sandboxed children only.

A module that uses an engine is named here with the reason, or the test fails. Runs without a database.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parsed import nodes
from tests.test_layers import PACKAGES, ROOT

ENGINES = {
    *("sqlite3", "_sqlite3", "pysqlite3", "aiosqlite", "apsw", "sqlite_utils", "duckdb", "_duckdb"),
    *("sqlalchemy", "sqlmodel", "peewee", "pandas", "polars"),
}
CHILDREN = {
    "awmenv/server/world/host.py": "forked by the scenario zygote; confined before it reads a row or runs an app",
    "awmenv/server/world/seeding.py": "builds and recovers databases, for host",
    "awmenv/server/world/rehearsal.py": "the zygote's own app on its own rows, before anything of a pack is there",
    "awmenv/server/verify/runner.py": "forked by the verifier zygote; confined before it reads a request's databases",
    "awmenv/server/verify/diffing.py": "compares databases, for runner",
    "awmenv/server/verify/listing.py": "reads the first rows of a database, for runner",
    "awmenv/server/world/worldclock.py": "a scenario's clock in its SQL, for host",
}
STARTERS = {
    "awmenv/server/sandbox/zygote.py": "imports them after its exec, to fork them",
    "bench/environment.py": "the starter pack's first scenario, in a process of the benchmark's own",
    "bench/training.py": "the same, beside rollouts on the server",
}
OTHERS = {
    "bench/errata.py": "a verifier of the benchmark's own, as text, which the server runs behind the walls",
    "bench/worlds/neighbor.py": "code of packs of the benchmark's own, as text, which the server runs behind the walls",
    "awmenv/server/session/checkup.py": "its own records, by parameters: no statement and no file comes from a pack",
    "examples/train_demo/app.py": "the app of the example's pack, which the server runs behind the walls",
    "exports/explain/comparing.py": "keys of rows, by parameters, in a temporary database: no pack sends a statement",
    "awmenv/server/sandbox/preloading.py": "names of modules for the zygotes; imports none by itself",
    "packs/sources/build.py": "an author's tool: CREATE and INSERT of folders of their own",
    "packs/sources/database_changes.py": "text that becomes part of verifiers, which run behind the walls",
}
_PROGRAM = re.compile(r"\bawmenv\.server(?:\.\w+)+")
_WORD = re.compile(r"(?:^|[\s.,:/'\"(])(" + "|".join(ENGINES) + r")(?:$|[\s.,:;/'\")(])")


def sources(root: Path) -> Iterator[Path]:
    """Every Python file of the product, its tools and examples; scenarios of packs are content."""
    for package in (*PACKAGES, "bench", "examples"):
        yield from sorted((root / package).rglob("*.py"))
    yield from sorted((root / "packs" / "sources").glob("*.py"))
    yield from root.glob("*.py")


def uses_engine(text: str) -> bool:
    """Imports one, or names one in a text that could become an import, a command line or a Django backend."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    said = {id(node.body[0].value) for node in nodes(text) if isinstance(node, documented) and _docstring(node)}
    for node in nodes(text):
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] in ENGINES for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ENGINES:
            return True
        word = node.value if isinstance(node, ast.Constant) and id(node) not in said else None
        if isinstance(word, str) and _WORD.search(word):
            return True
    return False


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return bool(node.body) and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)


def named(text: str) -> set[str]:
    """Modules that are imported, or named by a text: for `import_module`, or as a program for another interpreter."""
    found = set()
    for node in nodes(text):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value, *_PROGRAM.findall(node.value)}
            for folder, inside in re.findall(r"from (awmenv\.server(?:\.\w+)*) import ([\w, ]+)", node.value):
                found |= {f"{folder}.{name.strip()}" for name in inside.split(",")}
    return found


def users(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in sources(root) if uses_engine(path.read_text("utf-8"))}


def starters(root: Path, children: set[str]) -> set[str]:
    """Files that import one of the children."""
    modules = {child.removesuffix(".py").replace("/", ".") for child in children}
    found = {path: named(path.read_text("utf-8")) for path in sources(root)}
    return {str(path.relative_to(root)) for path, names in found.items() if names & modules}


def test_engines_are_used_where_a_reason_says_so() -> None:
    assert users(ROOT) == {*CHILDREN, *OTHERS}


def test_sandboxed_modules_are_imported_by_children_only() -> None:
    assert starters(ROOT, set(CHILDREN)) - set(CHILDREN) == set(STARTERS)


@pytest.mark.parametrize(
    "code",
    [
        "import sqlite3",
        "def late():\n    import sqlite3.dbapi2 as engine",
        "from sqlalchemy.orm import Session",
        "import importlib\nimportlib.import_module('sqlite3')",
        "__import__('apsw')",
        "NAMES = '''json sqlite3\nre'''",
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3'}}",
        "import subprocess\nsubprocess.run(['sqlite3', 'world.db'])",
        "import subprocess\nsubprocess.run('/usr/bin/sqlite3 world.db', shell=True)",
    ],
)
def test_engine_is_found_however_it_is_named(tmp_path: Path, code: str) -> None:
    (tmp_path / "curriculum").mkdir()
    (tmp_path / "curriculum" / "sneaky.py").write_text(f'"""Never uses sqlite3."""\n{code}\n')
    (tmp_path / "curriculum" / "honest.py").write_text('"""Reads sqlite3 rows."""\nimport json  # not sqlite3\n')
    assert users(tmp_path) == {"curriculum/sneaky.py"}


@pytest.mark.parametrize(
    "code",
    [
        "from awmenv.server.world import host",
        "import awmenv.server.world.host as x",
        "from awmenv.server.world.host import App",
        "import importlib\nm = 'awmenv.server.world.host'",
        "PROGRAM = 'import sys\\nfrom awmenv.server.world import tools, host'",
    ],
)
def test_import_of_a_child_is_found_however_it_is_written(tmp_path: Path, code: str) -> None:
    (tmp_path / "awmenv").mkdir()
    (tmp_path / "awmenv" / "sneaky.py").write_text(code)
    assert starters(tmp_path, set(CHILDREN)) == {"awmenv/sneaky.py"}
