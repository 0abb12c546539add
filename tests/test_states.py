"""The tables of states against the code: every function that writes a state column is named, or called by one that is.

Reads syntax trees, without a database. `tests/runs/test_moves.py` compares the tables with what happens to rows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from django.db import models

from people import access
from people.states import Move
from tests.moves import column
from tools.states import MACHINES, PAGE, written

ROOT = Path(__file__).resolve().parent.parent
APPS = ("people", "episodes", "experts", "runs", "exports", "imports", "curriculum", "reviews", "awmweb")
OTHERS = {
    "runs.play.probing": "the state of a probe's result, which is made with it",
    "episodes.record.appending._place": "the state of a value that a batch is checked with",
}
"""Writes of a `state` that are not the column of a machine."""

OF_LEASES_ONLY = {"people.record.leasing.renew", "people.record.leasing.held_with"}
"""Functions of a slot that change no state."""


@dataclass
class Function:
    """What a function calls, and where it writes a state."""

    calls: set[str] = field(default_factory=set)
    writes: list[int] = field(default_factory=list)


class Reader(ast.NodeVisitor):
    """The functions of one module by dotted name, with calls and names as dotted names."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.module, self.names, self.found, self.at = module, dict[str, str](), dict[str, Function](), module
        self.statements = set[str]()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.names[node.name] = f"{module}.{node.name}"
            elif isinstance(node, ast.ImportFrom):
                self.names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            elif isinstance(node, ast.Assign) and _sets_state(node.value):
                self.statements |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.at = f"{module}.{node.name}"
                self.visit(node)

    def _function(self) -> Function:
        return self.found.setdefault(self.at, Function())

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._function().calls.add(self.names.get(node.id, f"{self.module}.{node.id}"))
            if node.id in self.statements:
                self._function().writes.append(node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store) and node.attr in ("state", "status"):
            self._function().writes.append(node.lineno)
        elif isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            called = f"{self.names.get(node.value.id, node.value.id)}.{node.attr}"
            self._function().calls.add(called)
            if called.startswith("people.record.leasing.") and called not in OF_LEASES_ONLY:
                self._function().writes.append(node.lineno)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        makes = called.rpartition(".")[2] in ("update", "create") or called in {one.__name__ for one in MACHINES}
        if makes and any(_is_state(one) for one in node.keywords):
            self._function().writes.append(node.lineno)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in ("state", "status") and "State." in ast.unparse(value):
                self._function().writes.append(node.lineno)
        self.generic_visit(node)


def _is_state(keyword: ast.keyword) -> bool:
    freed = keyword.arg is None and ast.unparse(keyword.value).endswith("FREED")
    return freed or keyword.arg in ("state", "status")


def _sets_state(node: ast.AST) -> bool:
    """Tell a statement in SQL that writes a state column."""
    text = "".join(one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return bool(re.search(r"\bUPDATE\b.*?\bSET\b(?:(?!\bWHERE\b|\bFROM wanted\b).)*\bsta(te|tus) = ", text, re.DOTALL))


@cache
def read(root: Path = ROOT) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for path in (path for app in APPS for path in sorted((root / app).rglob("*.py")) if "migrations" not in path.parts):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found |= Reader(module, ast.parse(path.read_text(encoding="utf-8"))).found
    return found


def unnamed(found: dict[str, Function], named: set[str]) -> list[str]:
    """Return the functions that write a state and can be reached without a named one."""

    def callers(name: str) -> list[str]:
        return [one for one, what in found.items() if name in what.calls and one != name]

    def is_held(name: str, seen: frozenset[str]) -> bool:
        if name in named or name in seen or name in OTHERS or name.rpartition(".")[0] in OTHERS:
            return True
        above = callers(name)
        return bool(above) and all(is_held(one, seen | {name}) for one in above)

    app_of = {name.split(".")[0] for name in named}
    return sorted(
        f"{name}:{what.writes[0]}"
        for name, what in found.items()
        if what.writes and name.split(".")[0] in app_of and not is_held(name, frozenset())
    )


NAMED = {one.by for moves in MACHINES.values() for one in moves}


def test_every_function_that_writes_a_state_is_named():
    assert len([name for name, what in read().items() if what.writes]) >= 25
    assert unnamed(read(), NAMED) == []


@pytest.mark.parametrize(
    "text",
    [
        "def wild(row):\n    row.state = 'running'\n",
        "def wild(row):\n    Episode.objects.filter(pk=row).update(state=EpisodeState.RUNNING)\n",
        "def wild(row):\n    changed = {'state': EpisodeState.RUNNING}\n",
        "SET = 'UPDATE e SET worker = 1, state = 2 WHERE id = 1'\ndef wild(cursor):\n    cursor.execute(SET)\n",
        "def wild(row):\n    _set(row)\ndef _set(row):\n    row.state = 'running'\n",
    ],
)
def test_writer_that_no_table_names_is_found(tmp_path, text):
    (tmp_path / "episodes").mkdir()
    (tmp_path / "episodes" / "more.py").write_text(text)
    assert [name.rpartition(":")[0] for name in unnamed(read(tmp_path), NAMED)] in (
        ["episodes.more.wild"],
        ["episodes.more._set"],
    )


@pytest.mark.parametrize("name", OTHERS)
def test_exception_of_the_walk_is_still_needed(name):
    assert any(what.writes for one, what in read().items() if one == name or one.startswith(f"{name}."))


def _moves() -> Iterator[tuple[type[models.Model], Move]]:
    yield from ((model, one) for model, moves in MACHINES.items() for one in moves)


@pytest.mark.parametrize(
    ("model", "move"), list(_moves()), ids=lambda one: getattr(one, "by", getattr(one, "__name__", ""))
)
def test_row_names_states_a_function_and_its_right(model, move):
    states = {value for value, _ in model._meta.get_field(column(model)).choices}
    assert {*move.before.split(), *move.after.split()} <= states and len(move.after.split()) == 1
    assert move.by in read()
    if right := re.match(r"may_\w+", move.who):
        assert hasattr(access, right[0]) and demands(move.by, right[0])


def demands(name: str, right: str) -> bool:
    """Return whether a function demands a right, itself or by what it calls."""
    found, seen, todo = read(), set(), [name]
    while todo:
        at = todo.pop()
        if at == f"people.access.{right}":
            return True
        if at not in seen:
            seen.add(at)
            todo += found[at].calls if at in found else ()
    return False


def test_tables_of_the_page_are_those_of_the_models():
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "write them with: python -m tools.states"


def test_every_state_of_a_machine_is_reached_by_a_row():
    for model, moves in MACHINES.items():
        states = {value for value, _ in model._meta.get_field(column(model)).choices}
        assert {one.after for one in moves} == states, model.__name__
