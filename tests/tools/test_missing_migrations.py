"""Models without a migration are found without a database, and nothing else is printed."""

from __future__ import annotations

import os
import subprocess
import sys

from django.db import models

from people.models import Project
from tests.running import ROOT
from tools import missing_migrations


def test_check_of_migrations_needs_no_database_and_says_nothing(tmp_path):
    """`makemigrations --check` waits for the database and prints ten lines if there is none."""
    command = [sys.executable, "-W", "error", "-m", "tools.missing_migrations"]
    environ = {**os.environ, "AWMWEB_VAR": str(tmp_path), "DATABASE_URL": "", "REDIS_URL": ""}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_field_without_a_migration_is_named():
    field = models.BooleanField(default=False)
    field.contribute_to_class(Project, "is_new")
    try:
        assert missing_migrations.missing() == ["people: Add field is_new to project"]
    finally:
        Project._meta.local_fields.remove(field)
        Project._meta._expire_cache()
        del Project.is_new
