"""Celery: two queues with separate workers, so that a waiting rollout cannot starve the expert it waits for.

The database is the record of all work; a task only notifies and takes IDs.
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
