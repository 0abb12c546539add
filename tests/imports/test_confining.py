"""What reading a file may take of its process, by command and in a worker's child, and that nothing of it stays."""

from __future__ import annotations

import json
import resource
import signal

import pytest

from imports import confining, readers
from imports.errors import FileRefused
from imports.models import Import
from imports.record import importing
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


def test_file_that_takes_much_memory_is_refused(ada, tmp_path, monkeypatch, before):
    monkeypatch.setattr(confining, "MEMORY_BYTES", 8 * 1024**2)
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({**OPENAI, "audio": "x" * 40_000_000}))
    with pytest.raises(FileRefused, match="Reading it takes more than 8 MB of memory."):
        importing.take(ada, path)
    assert Import.objects.get().state == "refused"
    assert now() == before
    # the process goes on as before
    path.write_text(json.dumps(OPENAI))
    monkeypatch.undo()
    assert importing.take(ada, path).episodes == 1


def test_file_that_takes_much_time_is_refused(ada, tmp_path, monkeypatch, before):
    def endless(_path, _wanted):
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
    monkeypatch.setattr(confining, "MEMORY_BYTES", 8 * 1024**2)
    large = json.dumps({**OPENAI, "audio": "x" * 20_000_000}).encode()
    given = importing.request(ada, "rows.json", "", [large])
    assert importing.carry_out(given.pk)
    given.refresh_from_db()
    assert (given.state, given.problem) == ("refused", "Reading it takes more than 8 MB of memory.")
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
