"""Celery: read a file in a child process, and retry files that no worker reads.

A file is untrusted and parsed in a process of its own: parsing can take much memory, and the worker's threads answer
asks.
"""

from __future__ import annotations

import logging
import subprocess
import sys

from celery import shared_task
from django.conf import settings

from imports import importing

log = logging.getLogger(__name__)
READ_S = 1800


@shared_task
def read(import_id: str) -> None:
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "read_import", import_id]
    try:
        done = subprocess.run(command, check=False, cwd=settings.BASE_DIR, timeout=READ_S)
    except subprocess.TimeoutExpired:
        log.warning("import %s took more than %s s and was stopped", import_id, READ_S)
    else:
        if done.returncode:
            log.warning("reading import %s ended with %s", import_id, done.returncode)


@shared_task
def wake() -> None:
    importing.wake_forgotten()
