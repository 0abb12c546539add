"""`manage.py up`: start everything and restart what fails. Called by `make run`."""

import json
import os
import sys
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from awmweb.embedded.services import ELSEWHERE, Options


class Command(BaseCommand):
    """Reads the settings, then replaces its process with the supervisor, which needs no Django and stays small."""

    help = "Start PostgreSQL, Valkey, web, workers, beat and the environment server; stop them with Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--without",
            action="append",
            default=[],
            choices=ELSEWHERE,
            help="a service that another machine of this installation runs; can be repeated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        without = tuple(options.get("without", ()))
        if "env" in without and not os.environ.get("AWMENV_URL", "").strip():
            raise CommandError("Without env, set AWMENV_URL to the environment server of another machine.")
        chosen = Options(
            base=str(settings.BASE_DIR),
            var=str(settings.VAR),
            host=settings.AWMWEB_HOST,
            port=settings.AWMWEB_PORT,
            env_host=settings.AWMENV_HOST,
            env_port=settings.AWMENV_PORT,
            public_url=settings.AWMWEB_PUBLIC_URL if os.environ.get("AWMWEB_PUBLIC_URL", "").strip() else "",
            web_processes=settings.AWMWEB_WEB_PROCESSES,
            external_database=bool(os.environ.get("DATABASE_URL", "").strip()),
            external_queue=bool(os.environ.get("REDIS_URL", "").strip()),
            without=without,
            preload="awmweb.preloaded",
        )
        sys.stdout.flush()
        os.chdir(settings.BASE_DIR)
        os.execv(sys.executable, [sys.executable, "-m", "awmweb.embedded.supervisor", json.dumps(asdict(chosen))])
