"""What reading a file may take of its process, by command and in a worker's child, and that nothing of it stays."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import threading

import pytest

from imports import confining, readers
from imports.errors import FileRefused
from imports.models import Import
from imports.record import importing
from tests.commands import ROOT
from tests.imports.files import OPENAI

pytestmark = pytest.mark.django_db
LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_CPU)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.VAR = tmp_path


@pytest.fixture
def before():
    return [resource.getrlimit(one) for one in LIMITS], signal.getsignal(signal.SIGXCPU)


def now():
    return [resource.getrlimit(one) for one in LIMITS], signal.getsignal(signal.SIGXCPU)


READS = """
import resource, sys
from pathlib import Path
import django
django.setup()
from imports import confining, readers
confining.MEMORY_BYTES = 8 * 1024**2
before = resource.getrlimit(resource.RLIMIT_AS)
try:
    with confining.confined():
        list(readers.read(Path(sys.argv[1])))
except readers.BadFile as error:
    print(error)
print(resource.getrlimit(resource.RLIMIT_AS) == before, len(bytes(40_000_000)))
"""


def test_reading_takes_a_bounded_memory(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({**OPENAI, "audio": "x" * 40_000_000}))
    # in a process of its own: where other threads find no memory, libraries in C can end the process
    command = [sys.executable, "-c", READS, str(path)]
    read = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert read.stdout.splitlines() == ["Reading it takes more than 8 MB of memory.", "True 40000000"]


def test_file_that_takes_much_memory_is_refused(ada, tmp_path, monkeypatch, before):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(OPENAI))
    with monkeypatch.context() as patched:
        patched.setattr(readers, "read", out_of_memory)
        with pytest.raises(FileRefused, match="Reading it takes more than 1,536 MB of memory."):
            importing.take(ada, path)
    assert Import.objects.get().state == "refused"
    assert now() == before
    # the process goes on as before
    assert importing.take(ada, path).episodes == 1


def out_of_memory(*_options):
    raise MemoryError
    yield


def test_file_that_takes_much_time_is_refused(ada, tmp_path, monkeypatch, before):
    def endless(*_options):
        while True:
            pass
        yield

    monkeypatch.setattr(confining, "PROCESSOR_S", 1)
    monkeypatch.setattr(readers, "read", endless)
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(OPENAI))
    with pytest.raises(FileRefused, match="minutes of processor time"):
        importing.take(ada, path)
    assert now() == before


def test_worker_reads_within_the_same_limits(ada, monkeypatch, before):
    monkeypatch.setattr(readers, "read", out_of_memory)
    given = importing.request(ada, "rows.json", "", [json.dumps(OPENAI).encode()])
    assert importing.carry_out(given.pk)
    given.refresh_from_db()
    assert (given.state, given.problem) == ("refused", "Reading it takes more than 1,536 MB of memory.")
    assert now() == before


def test_two_threads_leave_no_limit_behind(before):
    inside, goes_on = threading.Event(), threading.Event()

    def reads():
        with confining.confined():
            inside.set()
            goes_on.wait(60)

    with confining.confined():
        other = threading.Thread(target=reads)
        other.start()
        inside.wait(0.5)  # it takes its turn after this one; without turns it would end after it
    goes_on.set()
    other.join()
    assert now() == before


def test_tighter_limit_of_the_machine_stays(before):
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    tight = 100_000
    resource.setrlimit(resource.RLIMIT_CPU, (tight, hard))
    try:
        with confining.confined():
            assert resource.getrlimit(resource.RLIMIT_CPU)[0] < tight
        assert resource.getrlimit(resource.RLIMIT_CPU)[0] == tight
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
