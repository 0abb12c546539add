"""Pages while the database is unavailable: the reason, and a status that a proxy understands."""

from __future__ import annotations

import pytest
from django.db import InterfaceError, OperationalError

import awmweb.urls  # noqa: F401  whoever loaded it first under the patch below would keep it
from people import access
from tests.browsing import as_person, html


@pytest.mark.parametrize("fault", [OperationalError, InterfaceError])
def test_a_page_says_that_the_database_is_away(ada, monkeypatch, fault):
    client = as_person(ada)

    def gone(*args):
        raise fault("connection refused")

    monkeypatch.setattr(access, "chosen_membership", gone)
    page = client.get("/")
    assert page.status_code == 503 and page["Retry-After"]
    assert "The database is unavailable" in html(page) and "connection refused" not in html(page)
