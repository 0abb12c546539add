"""The product's own functions as they name each other: what an address can come to, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from tests.parsed import nodes
from tests.test_layers import PACKAGES, Tree, _source

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Place:
    """A function, class or value at the top of a module."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@cache
def tops_of(module: str) -> dict[str, ast.AST]:
    """What a module defines at its top: functions, classes and values, by name."""
    found: dict[str, ast.AST] = {}
    for node in ast.iter_child_nodes(_tree(module)[0]):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    return found


def _tree(module: str) -> list[ast.AST]:
    path = Tree.read().modules.get(module)
    return nodes(path.read_text(encoding="utf-8")) if path else [ast.Module([], [])]


@cache
def _imports_of(module: str) -> dict[str, Place]:
    """What the names of a module's imports mean; a module itself has no name in it."""
    modules = Tree.read().modules
    package = module if modules[module].name == "__init__.py" else module.rpartition(".")[0]
    found = {}
    for node in _tree(module):
        if isinstance(node, ast.ImportFrom) and _source(node, package).split(".")[0] in PACKAGES:
            source = _source(node, package)
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                meant = Place(whole, "") if whole in modules else Place(source, alias.name)
                found[alias.asname or alias.name] = meant
    return found


@cache
def named_by(place: Place) -> frozenset[Place]:
    """What of the product the body of a function, class or value names."""
    tops, imported = tops_of(place.module), _imports_of(place.module)
    found = set()
    for node in ast.walk(tops[place.name]) if place.name in tops else ():
        if isinstance(node, ast.Name) and node.id in imported and imported[node.id].name:
            found.add(imported[node.id])
        elif isinstance(node, ast.Name) and node.id in tops and node.id not in imported:
            found.add(Place(place.module, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            meant = imported.get(node.value.id)
            if meant is not None and not meant.name:
                found.add(Place(meant.module, node.attr))
    return frozenset(one for one in found if one.module in Tree.read().modules)


def reached(start: Place, ends_at: Callable[[Place], bool] = lambda _: False) -> Iterator[Place]:
    """All that is named from here, directly or by what is named; what `ends_at` holds for is not followed."""
    waiting, seen = [start], {start}
    while waiting:
        here = waiting.pop()
        yield here
        fresh = named_by(here) - seen if here == start or not ends_at(here) else frozenset[Place]()
        seen |= fresh
        waiting += fresh
