"""PostgreSQL's client programs against one database, embedded or the operator's own: queries, dumps, a snapshot.

Owns how they are called and given the password. Called by `backup`, `reading_back` and `upgrades`.
"""

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from awmweb.embedded import postgres
from awmweb.embedded.paths import EmbeddedError, Paths, postgres_programs

QUERY_VARIABLES = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
# A dump can last longer than a session may idle in a transaction.
SNAPSHOT = """
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL statement_timeout = 0;
SELECT pg_export_snapshot();
"""
# Of the tables whose rows pg_dump writes, named as it names them. Extensions bring theirs along.
COUNT_ROWS = """
SELECT format('SELECT %L || count(*) FROM ONLY %I.%I', format('%I.%I ', nspname, relname), nspname, relname)
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE relkind = 'r' AND nspname !~ '^pg_' AND nspname <> 'information_schema'
   AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
 ORDER BY nspname, relname \\gexec
"""


@dataclass(frozen=True)
class Database:
    """The connection for PostgreSQL's programs. The password is passed in the environment, not in arguments."""

    programs: Path | None
    environment: Mapping[str, str]

    def run(self, program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run one of PostgreSQL's programs against this database."""
        with self._started(program, *arguments, **options) as process:
            output, _ = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def rows(self, query: str) -> list[str]:
        """Return the result of one query, a line per row."""
        done = self.run("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", query, stdout=subprocess.PIPE)
        return [line for line in done.stdout.decode().splitlines() if line]

    def server_version(self) -> str:
        """Return the version of the server, such as 18.4."""
        return self.rows("SHOW server_version")[0]

    def row_counts(self) -> dict[str, int]:
        """Return the number of rows of each table, of one moment."""
        with self.snapshot() as snapshot:
            return snapshot.row_counts()

    @contextmanager
    def snapshot(self) -> Iterator["HeldSnapshot"]:
        """Hold one moment of the database, so that a dump and other queries read the same rows."""
        arguments = ("-XqAt", "-v", "ON_ERROR_STOP=1")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        with self._started("psql", *arguments, **pipes) as session:
            assert session.stdin and session.stdout
            with suppress(BrokenPipeError):
                session.stdin.write(SNAPSHOT.encode())
            if name := session.stdout.readline().decode().strip():  # else psql has ended, and its error is raised
                yield HeldSnapshot(name, session.stdin, session.stdout)

    @contextmanager
    def piped(self, program: str, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a program that reads its input while its output is read."""
        with self._started(program, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            yield process

    @contextmanager
    def _started(self, program: str, *arguments: str, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
        path = str(self.programs / program) if self.programs else program
        environment = {**os.environ, **self.environment}
        with tempfile.TemporaryFile() as complaints:  # an unread pipe could fill
            try:
                process = subprocess.Popen([path, *arguments], env=environment, stderr=complaints, **options)
            except FileNotFoundError as error:
                raise EmbeddedError(
                    f"{program} is not installed. A backup requires PostgreSQL's client programs."
                ) from error
            with process:
                try:
                    yield process
                except BaseException:
                    process.kill()
                    raise
            if process.returncode:
                complaints.seek(0)
                raise EmbeddedError(_why_failed(program, complaints.read().decode(errors="replace").strip()))


def _why_failed(program: str, complaint: str) -> str:
    if os.strerror(errno.ENOSPC) in complaint:
        return f"The disk of the database is full ({program} failed). Free some space there, then try again."
    return f"{program}: {complaint}"


@dataclass(frozen=True)
class HeldSnapshot:
    """One moment of a database, as long as its session lasts."""

    name: str
    questions: IO[bytes]
    answers: IO[bytes]

    def row_counts(self) -> dict[str, int]:
        """Return the number of rows of each table, once: the session ends with it."""
        with suppress(BrokenPipeError):  # the session was lost; how it ended is raised where it was begun
            self.questions.write(COUNT_ROWS.encode())
        self.questions.close()
        lines = (line.decode().rpartition(" ") for line in self.answers)
        return {table: int(count) for table, _, count in lines}


def database(url: str, here: Paths) -> Database:
    """Return the database of a postgres:// address."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    fields = {
        # the colons in the brackets of an IPv6 address come before that of the port
        "PGHOST": host[1:].partition("]")[0] if host.startswith("[") else unquote(host.partition(":")[0]),
        "PGPORT": str(parts.port or 5432),
        "PGUSER": unquote(parts.username or ""),
        "PGPASSWORD": unquote(parts.password or ""),
        "PGDATABASE": unquote(parts.path.lstrip("/")),
    }
    fields |= {QUERY_VARIABLES[key]: value for key, value in parse_qsl(parts.query) if key in QUERY_VARIABLES}
    try:
        programs: Path | None = postgres_programs(here, postgres.MAJOR)
    except EmbeddedError:
        programs = None  # no wheel on this platform: the operator's own programs, from PATH
    return Database(programs, {key: value for key, value in fields.items() if value})
