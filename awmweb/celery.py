"""Celery: two queues with workers of their own, so that a rollout that waits cannot starve the expert it waits for.

The database is the record of all work; a task only wakes somebody up and takes ids.
"""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
# these checks load every page, and workers draw none; `make check` runs them
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("awmweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
