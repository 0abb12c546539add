"""Celery: two queues with separate workers, so that a waiting rollout cannot starve the expert it waits for.

The database is the record of all work; a task only notifies and takes IDs.
"""

from __future__ import annotations

import gc
import os

from celery import Celery
from celery.signals import worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
# these checks load every page, which workers do not need; `make check` runs them
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("awmweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_ready.connect
def collect_garbage_less(**_: object) -> None:
    """Exclude imported objects from garbage collection, and collect less often.

    A step creates thousands of objects, few of them in cycles.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
