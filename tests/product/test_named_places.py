"""A place that a person names for a command and that cannot be read or written is a sentence, never a traceback."""

from __future__ import annotations

import errno

import pytest

import manage
from tests.commands import ROOT
from tests.examples import some_of
from tests.managing import managed

WRITING = {
    "backup": ["saved.tar"],
    "checkpack": ["packs/starter", "--report", "lines.jsonl"],
    "probe": ["--report", "lines.jsonl"],
    "build_split": ["--unit", "scenario", "--seed", "1", "--output", "split.json"],
    "export": ["--format", "raw", "--output", "rows.jsonl"],
}


@pytest.mark.parametrize("command", some_of(WRITING, 2))
def test_place_that_cannot_be_written_is_a_sentence(house, command):
    """In /sys no one can make a file, root included. Of a process as it is started, so that its last line counts."""
    *before, place = WRITING[command]
    code, output = managed(command, *before, f"/sys/{place}", environment=house.environment)
    assert code == 1 and "Traceback" not in output, output
    assert f"/sys/{place}" in output.strip().splitlines()[-1], output


def test_full_target_is_a_sentence(monkeypatch):
    def full(arguments):
        with open("/dev/full", "w") as out:
            out.write("x" * 100_000)

    monkeypatch.setattr(manage, "execute_from_command_line", full)
    with pytest.raises(SystemExit, match="The output cannot be written: No space left on device"):
        manage.run(["manage.py", "report"])


@pytest.mark.parametrize(
    ("file", "arguments", "is_named"),
    [
        ("/backups/a.tar.unfinished", ["/backups/a.tar"], True),
        ("/reports/new/table.csv", ["--output=/reports/new"], True),
        (str(ROOT / "a.jsonl"), ["--report", "a.jsonl"], True),
        ("/var/lib/other", ["/backups/a.tar"], False),
        (str(ROOT / "static" / "site.css"), ["--project", "demo"], False),
        (str(ROOT / "static" / "site.css"), ["."], False),
    ],
)
def test_other_files_of_the_product_stay_faults(monkeypatch, file, arguments, is_named):
    def fails(arguments):
        raise PermissionError(errno.EACCES, "Permission denied", file)

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(manage, "execute_from_command_line", fails)
    with pytest.raises(SystemExit if is_named else PermissionError, match="Permission denied"):
        manage.run(["manage.py", "command", *arguments])
