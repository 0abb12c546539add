"""The database's backend: statements with more parameters than PostgreSQL takes, and connections that it has closed."""

from __future__ import annotations

import pytest
from django.db import connection
from psycopg import Connection, OperationalError

from people.models import Project
from people.postgres.base import PARAMETERS_MAX, check_line
from tests.running import until


@pytest.mark.django_db
@pytest.mark.parametrize("count", [PARAMETERS_MAX, PARAMETERS_MAX + 1, 70_000])
def test_statement_takes_any_number_of_parameters(project, count):
    names = [project.slug, *(f"100% {number}" for number in range(count - 1))]
    assert list(Project.objects.filter(slug__in=names)) == [project]


@pytest.mark.django_db(transaction=True)
def test_closed_line_is_found_without_a_statement():
    params = connection.get_connection_params()
    with Connection.connect(**params, autocommit=True) as line:
        line.execute("SET application_name = 'before'")
        check_line(line)
        [[last]] = line.execute("SELECT pid FROM pg_stat_activity WHERE pid = pg_backend_pid()").fetchall()
        with connection.cursor() as cursor:
            cursor.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", [last])
            before = cursor.fetchone()
            check_line(line)
            cursor.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", [last])
            assert cursor.fetchone() == before
            cursor.execute("SELECT pg_terminate_backend(%s)", [last])

        def refused():
            try:
                check_line(line)
            except OperationalError:
                return True
            return False

        until(refused, 60)


@pytest.mark.django_db(transaction=True)
def test_request_after_a_restart_gets_another_connection():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [first] = cursor.fetchone()
    connection.close()  # back into the pool
    with Connection.connect(**connection.get_connection_params(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [first])
        until(lambda: not other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [first]).fetchall(), 60)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone()[0] != first
