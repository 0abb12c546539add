"""Pages while the database is unavailable: the reason, and a status that a proxy understands."""

from __future__ import annotations

import errno

import pytest
from django.db import InterfaceError, OperationalError
from psycopg.errors import DiskFull

import awmweb.urls  # noqa: F401  whoever loaded it first under the patch below would keep it
from awmweb.embedded import space
from people import access, http
from tests.browsing import as_person, html


def gone(*args):
    raise OperationalError("connection refused")


@pytest.mark.parametrize("path", ["/nowhere/", "/login/once/"])
def test_page_that_is_not_there_is_unavailable_for_a_person(ada, monkeypatch, path):
    client = as_person(ada)
    client.raise_request_exception = False
    monkeypatch.setattr("awmweb.views.chosen_membership", gone)
    page = client.get(path)
    assert page.status_code == 503 and page["Retry-After"]
    assert "The database is unavailable" in html(page)


def test_fault_of_ours_is_a_server_error(ada, monkeypatch):
    client = as_person(ada)
    client.raise_request_exception = False
    monkeypatch.setattr("awmweb.views.chosen_membership", lambda *args: {}["nothing"])
    page = client.get("/nowhere/")
    assert page.status_code == 500 and "Something went wrong" in html(page)


@pytest.mark.parametrize("fault", [OperationalError, InterfaceError])
def test_a_page_says_that_the_database_is_away(ada, monkeypatch, fault):
    client = as_person(ada)

    def refused(*args):
        raise fault("connection refused")

    monkeypatch.setattr(access, "chosen_membership", refused)
    page = client.get("/")
    assert page.status_code == 503 and page["Retry-After"]
    assert "The database is unavailable" in html(page) and "connection refused" not in html(page)


def no_space_in_database(*args):
    raise OperationalError("could not extend file") from DiskFull("could not extend file")


def no_space_for_file(*args):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("fault", [no_space_in_database, no_space_for_file])
def test_full_disk_is_named_on_pages_and_in_the_api(ada, monkeypatch, fault):
    client = as_person(ada)
    client.raise_request_exception = False
    for module in (access, http):
        monkeypatch.setattr(module, "chosen_membership", fault)
    page = client.get("/")
    assert page.status_code == 503 and page["Retry-After"]
    assert "The disk of the server is full" in html(page) and "No space left" not in html(page)
    refused = client.get("/api/v1/runs")
    assert refused.status_code == 503 and refused["Retry-After"]
    assert refused.json()["error"]["code"] == "no_space"


def test_database_that_is_away_on_a_full_disk_waits_for_space(ada, monkeypatch):
    monkeypatch.setattr(space, "SCARCE", 1 << 62)
    monkeypatch.setattr(access, "chosen_membership", gone)
    assert "The disk of the server is full" in html(as_person(ada).get("/"))
