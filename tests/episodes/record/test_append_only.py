"""Rows that are only added: the modules that change stored ones are those of docs/architecture.md, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from episodes.models.steps import AppendOnly
from tests.parsed import nodes
from tests.running import ROOT
from tests.test_layers import APPS

SETS = {"update", "bulk_update"}


def only_added(model: type = AppendOnly) -> Iterator[type]:
    for one in model.__subclasses__():
        if not one._meta.abstract:
            yield one
        yield from only_added(one)


MODELS = {one.__name__ for one in only_added()}
TABLES = {one._meta.db_table for one in only_added()}
SQL = re.compile(rf"\bUPDATE ({'|'.join(TABLES)})\b")


def words_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def rows_in(function: ast.AST) -> set[str]:
    """The local names of a function that hold rows which are only added, and the models themselves."""
    known = set(MODELS)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and words_in(node.value) & known:
            known |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    return known


def changes(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    if SQL.search(text):
        return True
    for function in nodes(text):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            known = rows_in(function)
            for node in ast.walk(function):
                called = node.func if isinstance(node, ast.Call) else None
                if isinstance(called, ast.Attribute) and called.attr in SETS and first_of(called.value) in known:
                    return True
    return False


def first_of(node: ast.AST) -> str:
    """The name at which a chain of calls and attributes begins."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def test_page_names_every_module_that_changes_stored_rows():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("### Stored rows that change\n")[2].partition("\n\nDecisions")[0]
    named = re.findall(r"^\| `([\w/]+\.py)` \|", table, re.MULTILINE)
    found = [path for app in (*APPS, "awmweb") for path in (ROOT / app).rglob("*.py") if "migrations" not in path.parts]
    assert sorted(named) == sorted(str(path.relative_to(ROOT)) for path in found if changes(path))
    assert len(MODELS) > 20 and "Step" in MODELS
