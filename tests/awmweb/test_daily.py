"""Backups of a schedule: the documented timer, the compose file and the chart run a command that keeps some days."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from awmweb.embedded import EmbeddedError, daily
from awmweb.embedded.client_programs import Database
from tests.awmweb.containers import compose
from tests.awmweb.test_chart import pod_of, rendered
from tests.awmweb.test_commands import again, filled  # noqa: F401  fixtures
from tests.commands import ROOT
from tests.documented import proves, starting
from tests.examples import some_of

FUTURE = "awmweb-2999-01-01.tar"


def unit(start: str) -> configparser.ConfigParser:
    """The documented unit that begins so."""
    [block] = starting("docs/team.md", start)
    parsed = configparser.ConfigParser()
    parsed.optionxform = str
    parsed.read_string(block.text)
    return parsed


def of_systemd() -> list[str]:
    return unit("[Unit]\nAfter=awmweb.service")["Service"]["ExecStart"].split()


def of_compose() -> list[str]:
    passwords = dict.fromkeys(("AWMWEB_DATABASE_PASSWORD", "AWMWEB_QUEUE_PASSWORD"), "x")
    [service] = [compose(ROOT / "docker-compose.yml", passwords)["services"]["backup"]]
    [command] = re.findall(r"if (python [^;]+);", service["command"][-1])
    assert service["volumes"] == ["data:/data", "backups:/backups"]
    return command.split()


def of_chart() -> list[str]:
    [container] = pod_of(rendered(), "backup")["containers"]
    return container["command"]


@pytest.mark.parametrize("scheduled", some_of([of_systemd, of_compose, of_chart]))
def test_command_of_each_schedule_saves_today_and_keeps_its_days(again, own_folder, scheduled):  # noqa: F811
    python, *words = scheduled()
    assert (
        python.rpartition("/")[2] == "python" and words[:2] == ["manage.py", "backup"] and words[3:] == ["--keep", "14"]
    )
    older = [f"awmweb-2026-01-{day:02}.tar" for day in range(1, 21)]
    for name in (*older, FUTURE, "mine.tar", "awmweb-2026-01-02.tar.unfinished"):
        (own_folder / name).write_text("an earlier one")
    said = again("backup", str(own_folder), *words[3:])
    [today] = {path.name for path in own_folder.glob("*.tar")} - {*older, FUTURE, "mine.tar"}
    assert today == time.strftime("awmweb-%Y-%m-%d.tar", time.gmtime()) and said.count("removed") == 7
    with tarfile.open(own_folder / today) as archive:
        assert "manifest.json" in archive.getnames()
    assert {path.name for path in own_folder.iterdir()} == {*older[-13:], today, FUTURE, "mine.tar", ".lock"}


@proves("docs/team.md", "[Unit]\nAfter=awmweb.service", "[Timer]")
@pytest.mark.long
def test_documented_timer_starts_its_service_each_night(block, tmp_path):
    timer = unit("[Timer]")
    assert timer["Timer"]["Persistent"] == "true" and timer["Install"]["WantedBy"] == "timers.target"
    if (checker := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed here")
    here = {"/srv/awmweb/.venv/bin/python": sys.executable, "/srv/awmweb": str(ROOT), "User=awmweb": "User=root"}
    for start, ending in (("[Unit]\nAfter=awmweb.service", "service"), ("[Timer]", "timer")):
        [text] = [one.text for one in starting("docs/team.md", start)]
        for old, new in here.items():
            text = text.replace(old, new)
        (tmp_path / f"awmweb-backup.{ending}").write_text(text)
    file = tmp_path / f"awmweb-backup.{'timer' if block.text.startswith('[Timer]') else 'service'}"
    done = subprocess.run([checker, "verify", "--man=no", file], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    when = [checker, "calendar", "--iterations=2", timer["Timer"]["OnCalendar"]]
    assert subprocess.run(when, capture_output=True, text=True).stdout.count("03:40:00") >= 2


def test_second_backup_at_the_same_time_is_refused(tmp_path):
    with daily.turn(tmp_path), pytest.raises(EmbeddedError, match="Another backup"), daily.turn(tmp_path):
        pass
    with daily.turn(tmp_path) as file:
        assert file.parent == tmp_path


def test_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(EmbeddedError, match=r"cannot be written: Is a directory\."), daily.turn(tmp_path):
        pass


@pytest.mark.parametrize("days", [1, 2, 5])
def test_clock_that_was_behind_or_ahead_takes_no_backup_away(tmp_path, days):
    names = [f"awmweb-2026-11-{day}.tar" for day in (10, 11, 12)]
    for name in names:
        (tmp_path / name).touch()
    behind: Path = tmp_path / "awmweb-1970-01-01.tar"
    behind.touch()
    assert daily.forget(tmp_path, days, behind) == []
    removed = [path.name for path in daily.forget(tmp_path, days, tmp_path / names[1])]
    assert removed == [behind.name, names[0]][: max(0, 3 - days)] and (tmp_path / names[2]).exists()


@pytest.mark.parametrize("wrong", ["0", "-1", "many"])
def test_number_of_days_is_checked(again, own_folder, wrong):  # noqa: F811
    word = f"--keep {wrong}:" if wrong != "many" else "--keep: invalid int value"
    assert word in again("backup", str(own_folder), "--keep", wrong, fails=True)


def test_backup_says_where_it_cannot_write(again, own_folder):  # noqa: F811
    refused = again("backup", str(own_folder / "x.tar"), "--keep", "3", fails=True)
    assert refused.strip().endswith(
        f"--keep 3: {own_folder / 'x.tar'} is not a folder that exists, so it holds no files of days."
    )
    refused = again("backup", "/proc/y.tar", fails=True)
    assert refused.strip().endswith("/proc/y.tar cannot be written: No such file or directory.")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "pg_dump: error: No space left on device",
            r"^The disk of the database is full \(pg_dump failed",
        ),
        ("pg_dump: error: no such role", r"^pg_dump: pg_dump: error: no such role$"),
    ],
)
def test_program_that_finds_no_space_is_one_sentence(tmp_path, said, words):
    program = tmp_path / "pg_dump"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(EmbeddedError, match=words):
        Database(tmp_path, {}).run("pg_dump")
