"""An empty database gets its tables at once. They are those that the migrations make one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.core.management.commands.migrate import Command as OneByOne
from django.db import connection, connections

NAMES = ("at_once", "one_by_one")
FACTS = {
    "columns": """
        SELECT table_name, rank() OVER (PARTITION BY table_name ORDER BY ordinal_position), column_name, data_type,
               character_maximum_length, is_nullable, column_default, is_identity, collation_name
          FROM information_schema.columns WHERE table_schema = 'public'""",
    # by definition: Django names some by the operation that made them
    "constraints": """
        SELECT conrelid::regclass::text, contype::text, pg_get_constraintdef(oid) FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",
    "indexes": """
        SELECT tablename, regexp_replace(indexdef, 'INDEX \\S+ ON', 'INDEX ON') FROM pg_indexes
         WHERE schemaname = 'public'""",
    "named indexes": """
        SELECT indexname FROM pg_indexes WHERE schemaname = 'public' AND indexname !~ '(_key|_uniq|_[0-9a-f]{8}.*)$'""",
    "triggers": """
        SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal""",
    "functions": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace""",
    "migrations": "SELECT app, name FROM django_migrations",
    "content types": "SELECT app_label, model FROM django_content_type",
    "permissions": """
        SELECT app_label, model, codename
          FROM auth_permission JOIN django_content_type type ON type.id = content_type_id""",
}
"""What of a database is compared."""


@pytest.fixture(scope="module")
def made(django_db_setup, django_db_blocker) -> Iterator[dict[str, dict[str, set[tuple]]]]:
    """The facts of a database that was made at once, and of one that was made by one migration after the other."""
    found = {}
    with django_db_blocker.unblock():
        for name in NAMES:
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {name}")
            connections.databases[name] = {**connection.settings_dict, "NAME": name}
        try:
            call_command("migrate", database="at_once", verbosity=0)
            call_command(OneByOne(), database="one_by_one", verbosity=0)
            for name in NAMES:
                with connections[name].cursor() as cursor:
                    found[name] = {fact: set(cursor.execute(sql).fetchall()) for fact, sql in FACTS.items()}
            yield found
        finally:
            for name in NAMES:
                connections[name].close()
                connections[name].close_pool()
                del connections[name], connections.databases[name]
                with connection.cursor() as cursor:
                    cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("fact", FACTS)
def test_tables_made_at_once_are_those_of_the_migrations(made, fact):
    at_once, one_by_one = (made[name][fact] for name in NAMES)
    assert one_by_one and sorted(map(str, at_once ^ one_by_one)) == []
