"""A full disk is only full: the supervisor waits, says so once, and everything is back with the space.

The disk is a small one of memory (tmpfs), which only root can mount; what needs no such disk runs for everyone.
"""

from __future__ import annotations

import os
import subprocess
import time

import psutil
import psycopg
import pytest
import redis

from awmweb.embedded import space
from awmweb.embedded.paths import data_paths, replace_file, urls
from tests.awmweb.accounts import as_self, wait_until
from tests.awmweb.test_supervisor import NAMES, run

__all__ = ["run"]
DISK = "300m"
FULL = """
import os
from pathlib import Path
from awmweb.embedded import space
from awmweb.embedded.paths import EmbeddedError
from awmweb.embedded.servers import running
space.SCARCE = 1 << 62
try:
    with running(Path(os.environ["AWMWEB_VAR"])):
        print("up")
except EmbeddedError as error:
    print(error)
"""


@pytest.fixture
def small_disk(person):
    """A disk of its own for the folder of a person."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", person.folder], check=True)
    yield person.folder
    subprocess.run(["umount", "--lazy", person.folder], check=True)


def fill(folder):
    """Take all space that is left, and return the file that has it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as out:
        for size in (1 << 20, 4096):
            while True:
                try:
                    out.write(b"x" * size)
                except OSError as error:
                    assert error.errno in space.FULL
                    break
    return filler


@as_self
def test_everything_is_back_when_a_full_disk_has_space(small_disk, run):
    run.person.have_started_before()
    run.start().until_ready()
    where = urls(run.person.var)
    with psycopg.connect(where.database, autocommit=True) as database:
        database.execute("create table kept (fact text)")
        database.execute("insert into kept values ('acknowledged')")
    redis.Redis.from_url(where.redis).set("kept", "acknowledged")
    time.sleep(1.1)  # what Valkey may lose by its setting
    filler = fill(small_disk)
    killed = {run.pids()[name] for name in ("worker", "web", "valkey", "postgres")}
    for pid in killed:
        psutil.Process(pid).kill()
    wait_until(lambda: "Free some space: awmweb continues by itself" in run.output, 60, "word of the full disk")
    wait_until(lambda: "postgres exited" in run.output and "worker exited" in run.output, 60, "the exits")
    ends = time.monotonic() + 8  # several attempts of each, none of which can be written down
    wait_until(lambda: time.monotonic() > ends or run.process.poll() is not None)
    assert run.process.poll() is None, run.output
    assert run.output.count("is full") == 1
    assert "keeps failing" not in run.output and "cannot be written" not in run.output
    filler.unlink()
    wait_until(lambda: "has space again" in run.output, 60, "word of the space")
    # until all can be written, the file has the processes of before
    wait_until(lambda: set(run.pids()) == NAMES and not killed & set(run.pids().values()), 120, "all processes")
    assert all(psutil.pid_exists(pid) for pid in run.pids().values())
    with psycopg.connect(where.database) as database:
        assert database.execute("select fact from kept").fetchall() == [("acknowledged",)]
    assert redis.Redis.from_url(where.redis).get("kept") == b"acknowledged"
    assert not list(data_paths(run.person.var).home.glob("valkey.unreadable-*"))
    assert not list(run.person.var.glob("tmp*"))
    assert run.stop() < 20 and run.process.returncode == 0


@as_self
def test_a_start_on_a_full_disk_waits_for_space(small_disk, run):
    run.person.have_started_before()
    filler = fill(small_disk)
    run.start()
    wait_until(lambda: "awmweb starts when 32 MB are free" in run.output, 60, "word of the full disk")
    assert run.process.poll() is None
    filler.unlink()
    run.until_ready()
    assert run.output.count("is full") == 1


@as_self
def test_file_that_cannot_be_written_is_written_later(run):
    """A folder in its place stands for any reason, such as a disk that is read-only for a while."""
    run.person.have_started_before()
    run.start().until_ready()
    file = run.person.var / "children.json"
    before = run.pids()
    file.unlink()
    file.mkdir()
    psutil.Process(before["worker"]).kill()
    wait_until(lambda: "worker restarted" in run.output, 60, "news of the worker")
    psutil.Process(before["beat"]).kill()
    wait_until(lambda: "beat restarted" in run.output, 60, "news of beat")
    assert run.output.count("children.json cannot be written") == 1
    file.rmdir()
    wait_until(lambda: file.is_file(), 60, "the file")
    assert set(run.pids()) == NAMES and run.pids()["worker"] != before["worker"]


def test_write_that_fails_leaves_the_earlier_file_and_no_other(small_file):
    folder, file = small_file
    with pytest.raises(OSError):
        replace_file(file, "x" * 200_000)
    assert file.read_text() == "before" and list(folder.iterdir()) == [file]


@pytest.fixture
def small_file(tmp_path):
    """A file of a process that may write 64 kB to each: the kernel refuses the rest of a longer one."""
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = tmp_path / "settings.json"
    replace_file(file, "before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    yield tmp_path, file
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


@as_self
def test_queue_is_not_set_aside_while_its_disk_is_full(person):
    """Valkey may end there, too, and its files are as good as before."""
    person.have_started_before()
    log = next((person.var / "valkey" / "appendonlydir").glob("*.incr.aof"))
    log.write_bytes(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\nthis is not a command\r\n*1\r\n$4\r\nPING\r\n")
    output = person.run(FULL)
    assert "Valkey did not start" in output and not list(person.var.glob("valkey.unreadable-*"))
