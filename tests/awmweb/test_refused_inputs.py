"""Inputs that once broke a page or a call: each is refused with a word, or answered."""

from __future__ import annotations

import base64

import pytest
from django.test import Client

from exports.models import Export
from tests.browsing import as_person
from tests.exports.pages.test_export_pages import built, episode, store
from tests.people_by_name import token

__all__ = ["store"]
pytestmark = pytest.mark.attack("inputs")
LISTS = ("/episodes/", "/exports/", "/exports/preview", "/api/v1/episodes")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
@pytest.mark.parametrize("name", ["since", "until"])
def test_moment_beyond_the_database_is_refused(ada, name, moment):
    page = as_person(ada)
    assert {where: page.get(where, {name: moment}).status_code < 500 for where in LISTS} == dict.fromkeys(LISTS, True)
    cursor = base64.urlsafe_b64encode(f"{moment} x".encode()).decode()
    assert page.get("/api/v1/episodes", {"cursor": cursor}).status_code == 422


@pytest.mark.parametrize("wanted", ["0-{0}", "{0}-", "-{0}", "0-²"])
def test_range_of_thousands_of_digits_is_no_range(ada, store, wanted):
    episode(ada, "a")
    answer = as_person(ada).get(
        f"/exports/{built(ada).pk}/download", headers={"Range": f"bytes={wanted.format('9' * 5000)}"}
    )
    assert answer.status_code in (200, 206)


def test_annotation_needs_a_value(ada, project):
    one, secret = episode(ada, "a"), token(project, "review")[1]
    answer = Client().post(
        f"/api/v1/episodes/{one.pk}/annotations",
        {"label": "good", "value": None},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 422 and "needs a value" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "more",
    [
        '"filter": {"run": ["\\ud800"]}', '"license": "\\u0000"', '"filter": {"\\u0000": ["x"]}',
        '"patterns": [{"name": "a", "regex": "aa\\u0000"}]',
    ],
)  # fmt: skip
def test_recipe_that_no_column_holds_is_refused(project, more):
    secret = token(project, "export")[1]
    body = f'{{"format": "sft", {more}}}'
    headers = {"Authorization": f"Bearer {secret}"}
    answer = Client().post("/api/v1/exports", body, content_type="application/json", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_recipe")


@pytest.mark.parametrize(
    "more",
    [
        "license: 2024-01-01",
        "pairs_per_task: .nan",
        f"pairs_per_task: {'9' * 5000}",
        "? [a]\n: b",
        "1: 2",
        "a: !!binary x",
    ],
)
def test_yaml_of_other_types_breaks_no_page(ada, more):
    page = as_person(ada)
    assert page.get("/exports/", {"format": "sft", "more": more}).status_code < 500
    assert page.post("/exports/recipe", {"yaml": f"format: sft\n{more}"}).status_code < 500


def test_what_was_deleted_since_it_was_found_is_not_found(ada, project, monkeypatch):
    def deleted(*_call, **_more):
        raise Export.DoesNotExist

    monkeypatch.setattr("exports.jobs.requesting.exports_of", deleted)
    assert as_person(ada).get("/exports/").status_code == 404
    secret = token(project, "export")[1]
    answer = Client().get("/api/v1/exports", headers={"Authorization": f"Bearer {secret}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
