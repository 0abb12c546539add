"""What web, workers, beat and `prepare` all import, for the process that they are forked from (`embedded.forking`).

`awmweb.asgi` is not among it: it changes settings for web alone.
"""
# ruff: noqa: E402, F401  # imported to be in memory, and models only once Django is set up

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")

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
import experts.mcp.server
import imports.importing
from awmweb.celery import app

app.loader.import_default_modules()
getproctitle()  # finds the place of the title, which it cannot any more once a fork has changed its environment
