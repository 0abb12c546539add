"""`manage.py` as it is started in a shell, settings and all, without a new interpreter for each.

The process that it is forked from has imported libraries, and nothing that reads a setting. For commands of one product
see `commands`, whose process has its settings, too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from tests.commands import ROOT
from tests.warm import CAN_FORK, Warm

WARM = Warm(
    "manage",
    *("mcp.server.lowlevel", "celery.bin.celery", "celery.apps.worker", "kombu.transport.redis", "psycopg_pool"),
    *("boto3", "httpx", "slack_sdk", "markdown_it", "jinja2", "starlette.staticfiles"),
    *("google.protobuf.descriptor_pool", "django.db.models", "django.db.backends.postgresql.base"),
)


def managed(*arguments: str, environment: Mapping[str, str], timeout: float = 300) -> tuple[int, str]:
    """Return the exit code of `manage.py` with these arguments, and all it said, errors included."""
    if not CAN_FORK:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
        )  # fmt: skip
        return done.returncode, done.stdout
    with WARM.start(*arguments, environment=environment) as command:
        return command.wait(timeout), command.stdout.read()
