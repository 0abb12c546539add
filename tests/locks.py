"""Whether a statement of another connection waits for a lock, so that a test need not wait by the clock."""

from __future__ import annotations

from django.db import connection


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])
