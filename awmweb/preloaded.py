"""What web, workers, beat and `prepare` all import, for the process that they are forked from (`embedded.forking`).

`awmweb.asgi` is not among it: it changes settings for web alone.
"""
# ruff: noqa: E402, F401  # imported to be in memory, and models only once Django is set up

from __future__ import annotations

import os
import sys
from types import ModuleType

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")


def _leave_out_shells() -> None:
    """Keep the libraries of two command lines out of memory, seven megabytes that no service uses.

    httpx does without its own where rich is missing, and celery asks for a shell of `celery amqp`.
    """
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    shell = ModuleType("click_repl")
    shell.register_repl = lambda _group: None  # type: ignore[attr-defined]
    sys.modules.setdefault("click_repl", shell)


_leave_out_shells()

import celery.apps.beat
import celery.apps.worker
import celery.bin.beat
import celery.bin.celery
import celery.bin.worker
import celery.concurrency.thread
import celery.worker.consumer
import channels.auth
import channels.routing
import channels.security.websocket
import django
import django.core.handlers.asgi
import kombu.transport.redis
import starlette.middleware.gzip
import starlette.staticfiles
import uvicorn.loops.uvloop
import uvicorn.main
import uvicorn.protocols.http.httptools_impl
from setproctitle import getproctitle
from setproctitle import setproctitle as entitle

django.setup(set_prefix=False)

import awmweb.urls
import episodes.live.consumers
import episodes.live.intake
import episodes.live.wire
import experts.consumers
import experts.mcp.desk
import experts.mcp.server
import imports.record.importing
from awmweb.celery import app

app.loader.import_default_modules()
getproctitle()  # finds the place of the title, which it cannot any more once a fork has changed its environment
