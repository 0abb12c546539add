"""Reads of pages and of the API end: statements at a limit of time, searches at a number. A schema is made once."""

from __future__ import annotations

import ninja.main
import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.test import Client

from awmweb import asgi
from awmweb.urls import api
from tests.browsing import as_person
from tests.people_by_name import token


def test_web_process_limits_each_statement():
    assert f"statement_timeout={asgi.STATEMENT_S}s" in settings.DATABASES["default"]["OPTIONS"]["options"]
    about = {name: value for name, value in connection.get_connection_params().items() if name != "cursor_factory"}
    about |= {"options": asgi.OPTIONS["options"], "context": None}
    with psycopg.connect(**about) as own:
        assert own.execute("SHOW statement_timeout").fetchone() == (f"{asgi.STATEMENT_S}s",)


@pytest.fixture
def slow(monkeypatch):
    """A list of episodes that takes longer than its limit."""

    def matching(*_call):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 20")
            cursor.execute("SELECT pg_sleep(10)")

    monkeypatch.setattr("episodes.find.facets.counted", matching)
    monkeypatch.setattr("episodes.api.lists.episodes", matching)


def test_read_that_takes_too_long_says_so(ada, slow):
    answer = as_person(ada).get("/episodes/?q=x")
    assert answer.status_code == 503 and "takes the database too long" in answer.content.decode()


def test_call_that_takes_too_long_says_so(project, slow):
    answer = Client().get("/api/v1/episodes", headers={"Authorization": f"Bearer {token(project, 'export')[1]}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_long")


def test_searches_are_few(ada):
    answer = as_person(ada).get("/episodes/?" + "&".join(f"q=x{number}" for number in range(800)))
    assert answer.status_code < 500 and "At most 10 searches" in answer.content.decode()


def test_schema_is_made_once(monkeypatch):
    made = []
    plain = ninja.main.get_schema
    monkeypatch.setattr(ninja.main, "get_schema", lambda **how: made.append(1) or plain(**how))
    monkeypatch.setattr(api, "_schema", None)
    assert [Client().get("/api/v1/openapi.json").status_code for _ in range(3)] == [200] * 3 and made == [1]


def test_refusals_of_all_calls_share_one_model():
    views = [view for _, router in api._routers for view in router.path_operations.values()]
    refusals = [call.response_models[422] for view in views for call in view.operations]
    assert len(refusals) > 50 and len(set(refusals)) == 1


def test_database_that_is_away_is_not_called_slow(ada, monkeypatch):
    def gone(*_call):
        raise OperationalError("the connection is closed")

    monkeypatch.setattr("episodes.find.facets.counted", gone)
    assert "too long" not in as_person(ada).get("/episodes/?q=x").content.decode()
