"""Taking in a folder of rows: whole or not at all, with a report."""

from __future__ import annotations

import json
import shutil

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from episodes import packs
from tests.running import ROOT

TINY = ROOT / "tests" / "packs" / "tiny"


@pytest.fixture
def var(settings, tmp_path):
    settings.VAR = tmp_path
    return tmp_path


def test_a_good_folder_is_found_afterwards(var, capsys):
    call_command("loadpack", str(TINY))
    assert "2 scenarios" in capsys.readouterr().out
    assert {pack.name for pack in packs.packs()} == {"starter", "tiny"}
    with pytest.raises(CommandError, match="already"):
        call_command("loadpack", str(TINY))


def test_a_broken_row_is_reported_by_file_and_line_and_the_rest_is_taken(var, tmp_path, capsys):
    folder = tmp_path / "broken"
    shutil.copytree(TINY, folder)
    with (folder / "gen_tasks.jsonl").open("a") as rows:
        rows.write("{ this is no JSON\n")
    call_command("loadpack", str(folder))
    said = capsys.readouterr().out
    assert "gen_tasks.jsonl:3" in said and "2 scenarios" in said


def test_a_scenario_whose_tool_has_a_reserved_name_is_rejected(var, tmp_path, capsys):
    folder = tmp_path / "reserved"
    shutil.copytree(TINY, folder)
    rows = [json.loads(line) for line in (folder / "gen_envs.jsonl").read_text().splitlines()]
    rows[0]["full_code"] += '\n@app.get("/ask", operation_id="ask_expert")\ndef ask(): return 1\n'
    (folder / "gen_envs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    call_command("loadpack", str(folder))
    said = capsys.readouterr().out
    assert "1 scenarios" in said and "1 rejected" in said and "ask_expert" in said


def test_a_folder_without_playable_rows_is_refused_and_leaves_nothing(var, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "gen_scenario.jsonl").write_text('{"name": "x", "description": ""}\n')
    with pytest.raises(CommandError, match="can be played"):
        call_command("loadpack", str(folder))
    assert not list((var / "packs").glob("*"))
