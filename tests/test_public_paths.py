"""Import paths of `awmclient` and `awmenv` that README, docs and examples name: each leads to a module with that name.

A page is a promise: who copies a line from it must not find that a module has moved. Adapters are read, not imported,
because the frameworks that they are for are not installed here.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.parsed import nodes

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += [ROOT / name / "README.md" for name in ("awmclient", "awmenv")]
PROGRAMS = sorted((ROOT / "examples").rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))
IMPORT = re.compile(r"^ *from (awm(?:client|env)[\w.]*) import ([\w, ]+)", re.MULTILINE)
DOTTED = re.compile(r"(?<!/)\b(awm(?:client|env)(?:\.(?!cdx)[a-zA-Z_]\w*)+)")
FILE = re.compile(r"(?<=`)awm(?:client|env)/[a-z_/]*(?:\.py|/)(?=`)")
READ_ONLY = "awmclient.adapters."
FACES = ("schema", "rollout", "collecting", "chat", "captures", "conversation", "toolcalls", "client")
"""Modules of awmclient that only name what stands elsewhere."""


def paths_in(text: str) -> Iterator[tuple[str, str]]:
    """Return every module with a name of it, empty for the module itself, that a page or program imports or names."""
    for module, names in IMPORT.findall(text):
        yield from ((module, name.split()[0]) for name in names.split(",") if name.strip())
    for dotted in DOTTED.findall(IMPORT.sub("", text)):
        module, _, name = dotted.rpartition(".")
        yield (dotted, "") if is_module(dotted) else (module, name)


def is_module(dotted: str) -> bool:
    path = ROOT / dotted.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def problem_of(module: str, name: str) -> str:
    """Return why this import would fail; empty if it would not."""
    if not is_module(module):
        return f"there is no module {module}"
    if not name or is_module(f"{module}.{name}"):
        return ""
    if module.startswith(READ_ONLY):
        return "" if name in defined_in(module) else f"{module} has no {name}"
    return "" if hasattr(importlib.import_module(module), name) else f"{module} has no {name}"


def defined_in(module: str) -> set[str]:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    parts = nodes(Path(spec.origin).read_text(encoding="utf-8"))
    named = {one.name for one in parts if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    targets = [target for one in parts if isinstance(one, ast.Assign) for target in one.targets]
    return named | {target.id for target in targets if isinstance(target, ast.Name)}


def text_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def named() -> set[tuple[str, str]]:
    texts = [text_of(path) for path in (*PAGES, *PROGRAMS, *NOTEBOOKS)]
    return {one for text in texts for one in paths_in(text)}


@pytest.mark.parametrize("path", [*PAGES, *PROGRAMS, *NOTEBOOKS], ids=lambda path: str(path.relative_to(ROOT)))
def test_import_that_is_documented_works(path: Path) -> None:
    found = {problem_of(module, name) for module, name in paths_in(text_of(path))}
    assert found <= {""}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_file_of_client_or_environment_on_a_page_exists(page: Path) -> None:
    assert [name for name in FILE.findall(page.read_text(encoding="utf-8")) if not (ROOT / name).exists()] == []


def test_public_path_of_the_client_is_documented() -> None:
    """A name that only re-exports is there for pages and examples, and goes with them."""
    assert {f"awmclient.{face}" for face in FACES} <= {module for module, _ in named()}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("from awmclient.client import HttpDashboard", ""),
        ("from awmclient.client import Dashboards", "awmclient.client has no Dashboards"),
        ("from awmclient.gone import one", "there is no module awmclient.gone"),
        ("see `awmclient.gone`", "awmclient has no gone"),
        ("see `awmclient.rollout.rollout`", ""),
        ("see `awmclient.rollout.rolls`", "awmclient.rollout has no rolls"),
        ("from awmclient.adapters.langgraph import Recording, Pauses", ""),
        ("from awmclient.adapters.langgraph import Recorded", "awmclient.adapters.langgraph has no Recorded"),
        ("python -m awmclient.adapters.openenv_collect awm:helpdesk_1", ""),
    ],
)
def test_documented_path_that_is_wrong_is_found(line: str, problem: str) -> None:
    assert {problem_of(module, name) for module, name in paths_in(line)} - {""} == {problem} - {""}
