"""The embedded PostgreSQL: its data folder, start, recovery, and the check that its settings are durable.

Owns the database's data folder, and inside the database only the product's role and its empty database. Called by
`servers`, and by `backup` for the client programs.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from awmweb.embedded.paths import (
    ADMIN_USER,
    DATABASE_NAME,
    DATABASE_USER,
    Account,
    EmbeddedError,
    Paths,
    Secrets,
    account,
    named_account,
    own_folder,
    postgres_programs,
)
from awmweb.embedded.processes import ChildProcess, Spec, birth, identity, last_lines, wait_until_ended

NAME = "postgres"
MAJOR = 18
OLDEST = 17
"""Of servers of the operator's own: an older one does not load what pg_dump of the present major version writes."""
START_SECONDS = 300  # replaying a long write-ahead log takes its time
ENVIRONMENT = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "TZ": "UTC"}

INITDB = [
    *("-U", ADMIN_USER, "--auth=scram-sha-256", "--data-checksums", "--encoding=UTF8"),
    *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),  # sorts the same on every platform
]
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on"}

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "200",
    # Small when idle: pages of shared memory count once they are used.
    "shared_buffers": "96MB",
    "io_method": "sync",
    "jit": "off",
    # Nothing replicates or archives the log, so it has only what a recovery needs.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_worker_processes": "2",
    "max_parallel_workers": "0",
    "max_parallel_workers_per_gather": "0",  # plans must not expect workers: there are none
    "max_logical_replication_workers": "0",
    "autovacuum_max_workers": "2",
    "autovacuum_worker_slots": "4",
    "autovacuum_naptime": "30s",
    "max_wal_size": "512MB",
    "log_checkpoints": "off",
    "idle_in_transaction_session_timeout": "10min",
    "timezone": "UTC",
}

ROLE_AND_DATABASE = """
SELECT format('CREATE ROLE %I LOGIN CREATEDB PASSWORD %L', :'role', :'password')
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \\gexec
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'role')
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \\gexec
"""


def start(here: Paths, passwords: Secrets) -> ChildProcess:
    """Start the server from any state of its folder, and return when it accepts durable queries.

    1. refuse a folder of another major version without changes; 2. create the data folder on a first start; 3. stop
    leftover servers; 4. start and wait; 5. create role and database; 6. refuse settings that lose commits.
    """
    check_version(here)
    programs = postgres_programs(here, MAJOR)
    if not here.database.exists():
        _initialise(here, programs, passwords)
    _check_owner(here)
    end_leftovers(here)
    own_folder(here.sockets, account(here), 0o700)
    child = _launch(here, programs)
    try:
        _wait_ready(child, here)
        _psql(here, programs, (ADMIN_USER, passwords.admin, "postgres"), ROLE_AND_DATABASE, _names(passwords))
        _assert_durable(here, programs, passwords)
    except BaseException:
        child.stop(5)
        raise
    return child


def check_version(here: Paths) -> None:
    """Refuse a data folder of another PostgreSQL major version without changing it."""
    try:
        major = (here.database / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise EmbeddedError(f"{here.database} belongs to another user. Start awmweb as that user.") from error
    if major != str(MAJOR):
        raise EmbeddedError(
            f"{here.database} was written by PostgreSQL {major}, and this version of awmweb brings PostgreSQL {MAJOR}. "
            "No data was changed. To upgrade: run `python manage.py backup FILE` with the version of awmweb that wrote "
            "it. Then run `python manage.py restore FILE` with this version and AWMWEB_VAR set to an empty folder."
        )


def refuse_older(version: str) -> None:
    """Refuse a server of the operator's own, such as `15.14 (Debian 15.14-0+deb12u1)`, that could not load a backup."""
    major = re.match(r"\d+", version)
    if not major or int(major[0]) < OLDEST:
        raise EmbeddedError(
            f"DATABASE_URL names PostgreSQL {version}. awmweb needs {OLDEST} or newer: older ones restore no backup. "
            "No data was changed. To move: save what is there with `python manage.py backup FILE`. Then set "
            f"DATABASE_URL to an empty database of PostgreSQL {MAJOR} and AWMWEB_VAR to an empty folder, and run "
            "`python manage.py restore FILE`."
        )


def end_leftovers(here: Paths) -> None:
    """End servers and backends of an earlier start on this folder, which would conflict with new ones."""
    # Fast shutdown, then immediate shutdown, then kill, each only if something is left.
    if _signal_and_wait(here, signal.SIGINT, 15) and _signal_and_wait(here, signal.SIGQUIT, 3):
        _signal_and_wait(here, signal.SIGKILL, 5)
    if not list(_survivors(here)):
        # In a container the pid is soon reused, and PostgreSQL would treat the new process as a running server.
        (here.database / "postmaster.pid").unlink(missing_ok=True)


def versions(programs: Path) -> str:
    """Return the full version of the server program."""
    answer = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.split()[-1]


def _initialise(here: Paths, programs: Path, passwords: Secrets) -> None:
    """Create the data folder under another name and rename it when it is complete."""
    who = account(here)
    named = named_account() if who else None  # initdb refuses IDs without a name, the server accepts them
    fresh = here.database.with_name("postgres.new")
    shutil.rmtree(fresh, ignore_errors=True)
    own_folder(fresh, named, 0o700)
    handle, password_file = tempfile.mkstemp(dir=here.home)
    try:
        with os.fdopen(handle, "w") as out:
            # In a file, because arguments are visible to every user of the machine.
            out.write(passwords.admin + "\n")
        _give(Path(password_file), named)
        done = subprocess.run(
            [programs / "initdb", "-D", fresh, f"--pwfile={password_file}", *INITDB],
            cwd=here.home,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
            **identity(named),
        )
    finally:
        os.unlink(password_file)
    if done.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        raise EmbeddedError(f"The database could not be created in {here.home}:\n{done.stderr.strip()}")
    # initdb allows TCP, too; here the private socket with a password is the only way in.
    (fresh / "pg_hba.conf").write_text("local all all scram-sha-256\n")
    for path in (fresh, *fresh.rglob("*")):
        _give(path, who)
    fresh.rename(here.database)


def _give(path: Path, who: Account | None) -> None:
    if who:
        os.chown(path, who.uid, who.gid, follow_symlinks=False)


def _check_owner(here: Paths) -> None:
    owner = here.database.stat().st_uid
    if os.geteuid() not in {0, owner}:
        raise EmbeddedError(
            f"{here.database} belongs to user ID {owner}. Start awmweb as that user, or set another AWMWEB_VAR."
        )


def _launch(here: Paths, programs: Path) -> ChildProcess:
    command = [str(programs / "postgres"), "-D", str(here.database)]
    settings = SETTINGS | {"unix_socket_directories": str(here.sockets), "cluster_name": _cluster(here)}
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    log = here.logs / "postgres.log"
    return ChildProcess.start(
        Spec(NAME, command, log, here.home, ENVIRONMENT, account(here), signal.SIGINT, orphan_signal=signal.SIGINT)
    )


def _wait_ready(child: ChildProcess, here: Paths) -> None:
    """Wait for the status that the server writes into the last line of its pid file."""
    end = time.monotonic() + START_SECONDS
    while child.running and time.monotonic() < end:
        try:
            lines = (here.database / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            lines = []
        if len(lines) > 7 and lines[0] == str(child.process.pid) and lines[7].strip() == "ready":
            return
        time.sleep(0.01)
    log = here.logs / "postgres.log"
    raise EmbeddedError("PostgreSQL did not start. Its log ends:\n  " + "\n  ".join(last_lines(log)) + f"\n  ({log})")


def _names(passwords: Secrets) -> str:
    """Return variables for psql on its standard input: arguments are visible to every user of the machine."""
    return f"\\set role {DATABASE_USER}\n\\set database {DATABASE_NAME}\n\\set password {passwords.database}\n"


def _psql(here: Paths, programs: Path, login: tuple[str, str, str], sql: str, variables: str = "") -> str:
    user, password, database = login
    done = subprocess.run(
        [programs / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", here.sockets, "-U", user, "-d", database],
        input=variables + sql,
        env=ENVIRONMENT | {"PGPASSWORD": password, "PGCONNECT_TIMEOUT": "20"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise EmbeddedError(f"The embedded database could not be set up: {done.stderr.strip()}")
    return done.stdout


def _assert_durable(here: Paths, programs: Path, passwords: Secrets) -> None:
    """Check durability as the product's role: a role or a database can have settings of its own."""
    fields = "||' '||".join(f"'{name}='||current_setting('{name}')" for name in DURABLE)
    answer = _psql(here, programs, (DATABASE_USER, passwords.database, DATABASE_NAME), f"SELECT {fields};")
    wrong = sorted(set(answer.split()) - {f"{name}={value}" for name, value in DURABLE.items()})
    if wrong:
        listed = ", ".join(wrong)
        raise EmbeddedError(
            f"The database could lose acknowledged work ({listed}). Undo the ALTER ROLE or ALTER DATABASE."
        )


def _cluster(here: Paths) -> str:
    # Backends show this name instead of their command line, so it must be of this folder alone.
    return f"awmweb-{here.database.stat().st_ino}"


def _signal_and_wait(here: Paths, number: int, patience: float) -> bool:
    """Signal every survivor and wait; true if some are still there."""
    left = [(pid, birth(pid)) for pid in _survivors(here)]
    for pid, _ in left:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    end = time.monotonic() + patience
    return not all(wait_until_ended(pid, born, max(0.0, end - time.monotonic())) for pid, born in left)


def _survivors(here: Paths) -> Iterator[int]:
    """Yield processes of this data folder, found by their command line, which needs no privilege to read."""
    owner = here.database.stat().st_uid
    start, title = f"-D {here.database} ", f"postgres: {_cluster(here)}:"
    for pid, uid, command in _processes():
        if uid == owner and (start in command or command.startswith(title)):
            yield pid


def _processes() -> Iterator[tuple[int, int, str]]:
    if Path("/proc/self/cmdline").exists():
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    yield int(entry.name), entry.stat().st_uid, command
                except (FileNotFoundError, ProcessLookupError):
                    continue
        return
    table = subprocess.run(["ps", "-axo", "pid=,uid=,command="], capture_output=True, text=True, check=True).stdout
    for line in table.splitlines():
        pid, uid, command = line.split(None, 2)
        yield int(pid), int(uid), command
