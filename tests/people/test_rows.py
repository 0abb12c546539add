"""Rows that a statement in words returns."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from episodes.models import Episode
from people.rows import ModelRows

pytestmark = pytest.mark.django_db


@pytest.fixture
def stored(project):
    world = {"said": "\x00 \ud800", "rows": [1]}
    return Episode.objects.create(project=project, key="one", task="Greet", tools=[{"name": "a"}], world=world)


def test_a_row_is_what_the_orm_reads(stored):
    row = ModelRows(Episode)
    found = row.first(f"SELECT {row.columns()} FROM episodes_episode WHERE id = %s", [stored.pk])
    known = Episode.objects.get(pk=stored.pk)
    for field in Episode._meta.concrete_fields:
        assert getattr(found, field.attname) == getattr(known, field.attname), field.name


def test_what_is_left_out_is_read_when_asked_for(stored):
    row = ModelRows(Episode, without={"tools"})
    statement = f"SELECT {row.columns('episode')}, 7 FROM episodes_episode AS episode WHERE id = %(id)s"
    found = row.first(statement, {"id": stored.pk})
    assert found.get_deferred_fields() == {"tools"} and row.width == len(Episode._meta.concrete_fields) - 1
    with CaptureQueriesContext(connection) as asked:
        assert found.tools == [{"name": "a"}]
    assert len(asked) == 1


def test_no_row_is_none(stored):
    row = ModelRows(Episode, only={"id"})
    assert row.first(f"SELECT {row.columns()} FROM episodes_episode WHERE id = 'another'", []) is None
