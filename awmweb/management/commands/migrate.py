"""Django's `migrate`, which makes the tables of an empty database as the last migration leaves them.

Migration by migration this takes seconds: Django computes all related models again after each change of one.
"""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.operations import RunPython, RunSQL

PARTLY = ("app_label", "fake", "fake_initial", "plan", "check_unapplied", "run_syncdb", "prune")
"""Options that ask for something other than all migrations."""


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if not any(options.get(name) for name in PARTLY) and not connection.introspection.table_names():
            create_tables(connection)
        super().handle(*args, **options)


def create_tables(connection: BaseDatabaseWrapper) -> None:
    """Create everything in an empty database, all of it or nothing, and record every migration as applied.

    What migrations say in SQL or Python is run at the end: such statements have to hold for the tables of today.
    """
    executor = MigrationExecutor(connection)
    migrations = [one for one, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
    state = executor.loader.project_state()
    with transaction.atomic(using=connection.alias):
        with connection.schema_editor() as editor:
            for model in state.apps.get_models():
                if model._meta.can_migrate(connection):
                    editor.create_model(model)
        with connection.schema_editor() as editor:
            for migration in migrations:
                for operation in migration.operations:
                    if isinstance(operation, RunSQL | RunPython):
                        operation.database_forwards(migration.app_label, editor, state, state)
        for migration in migrations:
            # of one that replaces others these are recorded, and it by the check of replacements
            for app, name in migration.replaces or [(migration.app_label, migration.name)]:
                executor.recorder.record_applied(app, name)
        executor.check_replacements()
