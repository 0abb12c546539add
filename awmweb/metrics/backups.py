"""Reads when `manage.py backup` last wrote a file, from the data folder of this web process."""

from __future__ import annotations

from django.conf import settings

from awmweb.embedded import backup
from awmweb.metrics.stored import Figure


def read() -> list[Figure]:
    """Return the moment of the last backup, wherever its file is; those before upgrades do not count."""
    words = "When manage.py backup last wrote a file that it read back, in seconds since 1970; 0: never."
    return [Figure("awmweb_backup_timestamp_seconds", words, (), {(): backup.last_at(settings.VAR)})]
