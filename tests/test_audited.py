"""Every write that a page or a call of the API comes to: it has a line in the audit trail, or a reason why not."""

from __future__ import annotations

import ast
import inspect
import re

from django.urls import get_resolver

from awmweb.urls import api
from people.record.audit import UNRECORDED
from tests.calls import FUNCTIONS, Place, reached, tops_of
from tests.commands import ROOT
from tests.test_layers import is_write_room

RECORD = Place("people.record.audit", "record")
ABOVE = ("awmweb.erasing.", "awmweb.demo.", "awmweb.retention.rules.", "awmweb.retention.kinds.")
LATE = ("people.pages.provider", "people.pages.second_factor")
"""Pages whose addresses are there only with their settings; allauth calls the classes of the first."""
SAVES = {"save", "create", "bulk_create", "get_or_create", "update_or_create", "delete", "_raw_delete", "bulk_update"}
SQL = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM)\s")


def pages(resolver, before=""):
    """The addresses of pages, each with its view. Some views take GET alone; they come to no write."""
    for one in resolver.url_patterns:
        address = before + str(one.pattern)
        if hasattr(one, "url_patterns"):
            yield from pages(one, address)
        elif not address.startswith("api/"):
            view = inspect.unwrap(one.callback)
            yield f"/{address}", Place(view.__module__, view.__name__)


def calls():
    """The calls of the API that are no GET, as in its OpenAPI document."""
    by_id = {
        operation.view_func.__module__.replace(".", "_") + "_" + operation.view_func.__name__: operation
        for _, router in api._routers
        for view in router.path_operations.values()
        for operation in view.operations
    }
    for address, methods in api.get_openapi_schema()["paths"].items():
        for method in {*methods} - {"get"}:
            view = inspect.unwrap(by_id[methods[method]["operationId"]].view_func)
            yield f"{method.upper()} {address}", Place(view.__module__, view.__name__)


def is_in_room(place):
    above = f"{place.module}.".startswith(ABOVE)
    return place.module != RECORD.module and (above or is_write_room(place.module))


def changes_rows(place):
    """Whether a body calls the ORM to change rows, or has SQL that does. A model is a thing, not a deed."""
    if ".models" in place.module:
        return False
    for node in ast.walk(tops_of(place.module).get(place.name, ast.Pass())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value):
            return True
        # an `update` of a dictionary has its values in place
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if called in SAVES or (called == "update" and not node.args and node.keywords):
            return True
    return False


def is_write(place):
    body = tops_of(place.module).get(place.name)
    return isinstance(body, (*FUNCTIONS, ast.Call)) and any(changes_rows(one) for one in reached(place))


def writes():
    """The writes that addresses come to, each with these."""
    both = [*pages(get_resolver()), *calls()]
    both += [(f"/{place}", place) for module in LATE for name in tops_of(module) if (place := Place(module, name))]
    found: dict[Place, list[str]] = {}
    for address, view in both:
        for one in reached(view, is_in_room):
            if is_in_room(one) and is_write(one):
                found.setdefault(one, []).append(address)
    assert len(both) > 190 and len(found) > 90
    return found


def test_every_write_has_an_audit_line_or_a_reason():
    silent = {str(one): to for one, to in writes().items() if RECORD not in set(reached(one))}
    stated = [name for names in UNRECORDED.values() for name in names.split()]
    assert len(stated) == len(set(stated))
    assert {name: to for name, to in silent.items() if name not in stated} == {}
    assert set(stated) - {*silent} == set(), "writes that have a line, or that no address comes to"


def test_reasons_without_an_audit_line_are_documented():
    text = " ".join((ROOT / "docs" / "team.md").read_text(encoding="utf-8").split())
    assert [reason for reason in UNRECORDED if f"| {reason} |" not in text] == []
