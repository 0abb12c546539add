"""`manage.py read_traces`: the process in which the worker has traces read; it takes them from its standard input."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from imports import trace_process


class Command(BaseCommand):
    help = "Read traces from standard input. Called by the worker."
    requires_system_checks: list[str] = []  # they load every page

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("cpu_s", type=int)
        parser.add_argument("memory_bytes", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        # whatever else writes to standard output must not be taken for an answer
        with os.fdopen(os.dup(1), "wb") as answers:
            os.dup2(2, 1)
            trace_process.serve(sys.stdin.buffer, answers, options["cpu_s"], options["memory_bytes"])
