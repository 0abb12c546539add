"""Refuse models that differ from their migrations, without a database: `makemigrations --check` waits for one.

Called by `make check`.
"""

from __future__ import annotations

import os
import sys

import django


def missing() -> list[str]:
    """Return each change of a model that no migration makes."""
    from django.apps import apps
    from django.db.migrations.autodetector import MigrationAutodetector
    from django.db.migrations.loader import MigrationLoader
    from django.db.migrations.state import ProjectState

    loader = MigrationLoader(None)
    changes = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps)).changes(graph=loader.graph)
    found = [(app, one) for app, several in sorted(changes.items()) for made in several for one in made.operations]
    conflicts = [f"{app}: {', '.join(names)} are both the newest" for app, names in loader.detect_conflicts().items()]
    return [*conflicts, *(f"{app}: {one.describe()}" for app, one in found)]


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    django.setup()
    if found := missing():
        sys.exit("Run manage.py makemigrations. Models without a migration:\n" + "\n".join(found))


if __name__ == "__main__":
    main()
