"""Numbers on the wire that are wider than a column: each is found, or refused by name, and none is an error."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from awmclient.schema import EpisodeStart
from episodes.find import lists
from episodes.find.selection import _WHOLE
from episodes.record import recording
from people.errors import Invalid
from people.models import TokenScope
from tests.browsing import as_person
from tests.people.test_scopes import document
from tests.people_by_name import token

WIDE = (2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**40)


def bounds_of(name: str) -> tuple[int, int]:
    """Return what the record format takes in a field."""
    shape = EpisodeStart.model_json_schema()["properties"][name]
    (whole,) = [one for one in shape["anyOf"] if one["type"] == "integer"]
    return whole["minimum"], whole["maximum"]


@pytest.mark.django_db
@pytest.mark.parametrize("name", _WHOLE)
def test_every_number_that_is_stored_is_found(ada, name):
    for number in (*bounds_of(name), 7):
        one, _ = recording.start_episode(ada, EpisodeStart(key=f"{name}{number}", task="Merge.", **{name: number}))
        (row,) = lists.episodes(ada, {name: [str(number)]}, "", 50).items
        assert row.id == one.pk


@pytest.mark.django_db
@pytest.mark.parametrize("name", [*_WHOLE, "length"])
@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "9" * 5000, "٣", "1e3", "--1", ""])
def test_number_that_no_column_holds_is_named(ada, name, number):
    with pytest.raises(Invalid, match=f"Unknown filter value: {name}="):
        lists.episodes(ada, {name: [f"{number}-{number}" if name == "length" else number or "x"]}, "", 50)


def unbounded(node: Any, place: str, above: frozenset[str] = frozenset()) -> list[str]:
    """Return the whole numbers below a part of the API's document that have no largest value."""
    if isinstance(node, list):
        return [one for part in node for one in unbounded(part, place, above)]
    if not isinstance(node, dict):
        return []
    if "$ref" in node:
        name = node["$ref"].split("/")[-1]
        return [] if name in above else unbounded(document()["components"]["schemas"][name], place, above | {name})
    bare = node.get("type") == "integer" and not {"maximum", "exclusiveMaximum", "enum", "const"} & node.keys()
    return [place] * bare + [one for part in node.values() for one in unbounded(part, place, above)]


def test_every_number_that_is_taken_has_a_largest_value():
    """A column has one, whatever a client sends. Without it in the document, no client can know it."""
    found = []
    for path, calls in document()["paths"].items():
        for method, call in calls.items():
            for part in call.get("parameters", ()):
                found += unbounded(part["schema"], f"{method} {path} {part['name']}")
            found += unbounded(call.get("requestBody", {}).get("content", {}), f"{method} {path}")
    # a step behind the last one is not found, however far behind
    assert found == ["get /api/v1/episodes/{episode_id}/steps/{seq} seq"]


@pytest.mark.django_db
@pytest.mark.parametrize("number", WIDE)
def test_no_number_in_an_address_is_an_error(project, number):
    _, secret = token(project, TokenScope.LAUNCH)
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    for path, calls in document()["paths"].items():
        for part in calls.get("get", {}).get("parameters", ()):
            if part["schema"].get("type") == "integer":
                address = path.replace("{" + part["name"] + "}", str(number)).replace("{", "").replace("}", "")
                answer = client.get(f"{address}?{part['name']}={number}&scenario=desk_1")
                assert answer.status_code < 500, (address, part["name"])


@pytest.mark.django_db
@pytest.mark.parametrize("number", WIDE)
def test_no_number_in_a_filter_is_an_error(ada, number):
    client = as_person(ada)
    for name in _WHOLE:
        assert client.get(f"/episodes/?{name}={number}").status_code < 500
    for address in (f"/briefings/desk_1/{number}/", f"/verifiers/desk_1/{number}/"):
        if number >= 0:
            assert client.get(address).status_code < 500
