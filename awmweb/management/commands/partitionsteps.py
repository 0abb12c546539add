"""`manage.py partitionsteps`: one partition of steps for each month, and months that leave."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from awmweb.partitions import keeping, moving, tables
from awmweb.partitions.months import month_named
from people.errors import AppError


class Command(BaseCommand):
    help = "Partition the steps by the month of their episode. It goes on where it was killed."

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--status", action="store_true", help="print the partitions; change nothing")
        which.add_argument("--detach", metavar="MONTH", help="take the steps of a month out, such as 2026-01")
        which.add_argument("--undo", action="store_true", help="back to one table, or undo a move that was killed")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["status"]:
                self._status()
            elif options["detach"]:
                self._detach(options["detach"])
            elif options["undo"]:
                self._undo()
            else:
                self._partition()
        except AppError as refused:
            raise CommandError(refused.message) from refused

    def _partition(self) -> None:
        if tables.is_partitioned() and moving.state() is None:
            new = keeping.ensure(timezone.now())
            self.stdout.write(f"The steps are partitioned. New months: {', '.join(map(str, new)) or 'none'}.")
            return
        took = moving.move(timezone.now(), to_partitions=True, say=self._say)
        self.stdout.write(f"Partitioned. The table was locked for {took:.2f} s.")

    def _undo(self) -> None:
        if not tables.is_partitioned() and moving.give_up():
            self.stdout.write("The move is undone.")
            return
        took = moving.move(timezone.now(), to_partitions=False, say=self._say)
        self.stdout.write(f"One table again. It was locked for {took:.2f} s.")

    def _detach(self, text: str) -> None:
        month = month_named(text)
        if month is None:
            raise CommandError(f"{text!r} is no month, such as 2026-01.")
        if not tables.is_partitioned():
            raise CommandError("The steps are not partitioned.")
        done = keeping.detach(month, timezone.now(), self._say)
        self.stdout.write(f"{done.table}: {done.episodes:,} episodes. The table was locked for {done.locked_s:.2f} s.")

    def _status(self) -> None:
        going = moving.state()
        if going is not None:
            where = "partitions" if going.to_partitions else "one table"
            self.stdout.write(f"A move to {where} has begun: {going.copied:,} steps copied. Run the command again.")
        if not tables.is_partitioned():
            self.stdout.write("The steps are in one table.")
            return
        for name, bounds, count, size in tables.partitions():
            self.stdout.write(f"{name:24} {count:>12,} steps {size / 1e6:>10,.0f} MB  {bounds}")
        for name in keeping.detached():
            self.stdout.write(f"{name:24} detached")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
