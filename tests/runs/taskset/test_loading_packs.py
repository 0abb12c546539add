"""Taking in a folder of rows: whole or not at all, with a report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from awmenv.packs import load_pack
from episodes.stored import packs
from runs.taskset import checking
from tests.running import ROOT

TINY = ROOT / "tests" / "packs" / "tiny"


@pytest.fixture
def var(settings, tmp_path):
    settings.VAR = tmp_path
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data folder in which the tiny pack was loaded."""
    folder = tmp_path_factory.mktemp("made")
    with override_settings(VAR=folder):
        call_command("loadpack", str(TINY), "--unchecked")
    return folder


@pytest.fixture
def loaded(made, var):
    """A copy of it."""
    return shutil.copytree(made, var, symlinks=True, dirs_exist_ok=True)


def test_a_good_folder_is_found_afterwards(var, capsys):
    call_command("loadpack", str(TINY))
    said = capsys.readouterr().out
    assert "2 scenarios" in said
    assert said.splitlines()[-1] == f"Nothing is running on {var}. The next start loads them."
    assert {pack.name for pack in packs.packs()} == {"starter", "tiny"}
    with pytest.raises(CommandError, match="exists"):
        call_command("loadpack", str(TINY))


def test_invalid_row_is_reported_by_line_and_others_are_loaded(var, tmp_path, capsys):
    folder = tmp_path / "broken"
    shutil.copytree(TINY, folder)
    with (folder / "gen_tasks.jsonl").open("a") as rows:
        rows.write("{ this is no JSON\n")
    call_command("loadpack", str(folder), "--unchecked")
    said = capsys.readouterr().out
    assert "gen_tasks.jsonl:3" in said and "2 scenarios" in said


@pytest.fixture
def failing(tmp_path):
    """The tiny pack with one statement that fails."""
    folder = shutil.copytree(TINY, tmp_path / "failing")
    rows = [json.loads(line) for line in (folder / "gen_sample.jsonl").read_text().splitlines()]
    lamps = next(row for row in rows if row["scenario"] == "lamps_1")["sample_data"]["tables"][0]
    lamps["insert_statements"].append("INSERT INTO nowhere VALUES ('\x1b[31m')")
    (folder / "gen_sample.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_failing_sql_makes_its_scenario_partial_with_reasons(var, failing, capsys):
    call_command("loadpack", str(failing))
    said = capsys.readouterr().out
    assert "warning notes_1: notes: backslash-escaped quotes" in said
    assert "warning lamps_1: lamps: no such table: nowhere" in said and "\x1b" not in said
    assert "warning lamps_1: the scenario is partial: 1 of 3 SQL statements fail, first lamps: no such table" in said
    assert f"2 scenarios in {var}/packs/failing, 1 partial, 0 rejected" in said
    assert "Checked the verifiers of 3 tasks: 0 with warnings" in said
    (found,) = [pack for pack in packs.packs() if pack.name == "failing"]
    assert found.scenarios["lamps_1"].partial.startswith("1 of 3") and not found.scenarios["notes_1"].partial


def test_partial_scenarios_are_rejected_by_setting(var, failing, capsys, monkeypatch):
    monkeypatch.setenv("AWMENV_PARTIAL", "0")
    call_command("loadpack", str(failing), "--unchecked")
    said = capsys.readouterr().out
    assert "error lamps_1: lamps: no such table: nowhere" in said
    assert f"1 scenario in {var}/packs/failing, 1 rejected" in said


def test_pack_whose_databases_all_fail_is_refused(var, tmp_path):
    folder = shutil.copytree(TINY, tmp_path / "failing")
    text = (folder / "gen_db.jsonl").read_text().replace("CREATE TABLE", "CREATE TABEL")
    (folder / "gen_db.jsonl").write_text(text)
    with pytest.raises(CommandError, match="can run.*syntax error"):
        call_command("loadpack", str(folder))
    assert not list((var / "packs").glob("*"))


def spoil(folder, scenario, code):
    """Another code form for the first task of a scenario."""
    file = folder / "gen_verifier.pure_code.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    next(row for row in rows if row["scenario"] == scenario)["verification"]["code"] = code
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_loading_names_the_verifiers_that_cannot_be_relied_on(var, tmp_path, capsys):
    folder = shutil.copytree(TINY, tmp_path / "ill")
    spoil(folder, "lamps_1", "def verify_task_completion(a, b, c=None):\n    return {'result': 'complete'}\n")
    spoil(folder, "notes_1", "def verify_task_completion(:")
    call_command("loadpack", str(folder))
    said = capsys.readouterr().out
    assert "lamps_1/0 verifier: returns complete on the unmodified database" in said
    assert "notes_1/0 verifier: the code form does not compile" in said
    assert "Checked the verifiers of 3 tasks: 2 with warnings" in said
    call_command("checkpack", "ill", report=tmp_path / "report.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    health = {(row["scenario"], row["task_idx"]): row["health"]["remarks"] for row in rows if "health" in row}
    assert health == {
        ("lamps_1", 0): ["returns complete on the unmodified database"],
        ("notes_1", 0): ["the code form does not compile"],
        ("notes_1", 1): ["the code form accepts an answer without work: digits"],
    }
    assert [row["code"] for row in rows if "code" in row] == ["sql_repaired"]


def test_check_process_has_no_secrets_and_keeps_the_pack(var, monkeypatch, capsys):
    seen = []

    class Refusing(subprocess.Popen):
        def __init__(self, command, **options):
            seen.append(options["env"])
            super().__init__([sys.executable, "-c", "raise SystemExit('checkpack: sandbox_missing')"], **options)

    monkeypatch.setattr(checking.subprocess, "Popen", Refusing)
    monkeypatch.setenv("DATABASE_URL", "postgres://awmweb:secret@h/x")
    monkeypatch.setenv("AWMWEB_EXPERT_API_KEY", "secret")
    call_command("loadpack", str(TINY))
    said = capsys.readouterr().out
    assert "warning: The SQL was not checked. 0 of 0 databases were built. checkpack: sandbox_missing" in said
    assert "The verifiers were not checked: 0 of 0 tasks were checked. checkpack: sandbox_missing" in said
    assert (var / "packs" / "tiny").is_dir()
    assert len(seen) == 2, "one for the databases, one for the verifiers"
    assert [name for one in seen for name in one if name.startswith(("DATABASE", "AWMWEB_", "REDIS"))] == []


def test_a_pack_that_is_not_there_cannot_be_checked(var):
    with pytest.raises(CommandError, match="no pack or folder named bakery; loaded packs: starter"):
        call_command("checkpack", "bakery")


def test_a_scenario_whose_tool_has_a_reserved_name_is_rejected(var, tmp_path, capsys):
    folder = tmp_path / "reserved"
    shutil.copytree(TINY, folder)
    rows = [json.loads(line) for line in (folder / "gen_envs.jsonl").read_text().splitlines()]
    rows[0]["full_code"] += '\n@app.get("/ask", operation_id="ask_expert")\ndef ask(): return 1\n'
    (folder / "gen_envs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    call_command("loadpack", str(folder), "--unchecked")
    said = capsys.readouterr().out
    assert "1 scenario in" in said and "1 rejected" in said and "ask_expert" in said


def test_folder_without_playable_rows_is_refused_cleanly(var, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "gen_scenario.jsonl").write_text('{"name": "x", "description": ""}\n')
    with pytest.raises(CommandError, match="can run"):
        call_command("loadpack", str(folder))
    assert not list((var / "packs").glob("*"))


def test_checkpack_checks_an_unloaded_folder_with_code_only(var, tmp_path, capsys):
    folder = shutil.copytree(TINY, tmp_path / "own")
    (folder / "gen_verifier.jsonl").unlink()
    call_command("checkpack", str(folder))
    assert "Checked the verifiers of 3 tasks" in capsys.readouterr().out
    assert {pack.name for pack in packs.packs()} == {"starter"}
    with pytest.raises(CommandError, match="no pack or folder named nowhere"):
        call_command("checkpack", "nowhere")


def changed(tmp_path, name, *change):
    """A copy of the tiny pack with other texts."""
    folder = shutil.copytree(TINY, tmp_path / name)
    for file in folder.glob("*.jsonl"):
        file.write_text(file.read_text().replace(*change))
    return folder


def test_second_version_is_refused_with_both_digests(loaded, tmp_path):
    second = changed(tmp_path, "second", "Switch all lamps off.", "Switch all lamps on.")
    old, new = (load_pack(folder).digest[:16] for folder in (TINY, second))
    with pytest.raises(CommandError, match=f"exists in version {old}; this folder is version {new}. Pass --replace"):
        call_command("loadpack", str(second), "--name", "tiny")
    theirs, mine = (load_pack(folder).digests["lamps_1"][:16] for folder in (TINY, second))
    with pytest.raises(CommandError, match=f"'tiny': it has lamps_1 in version {theirs}, this folder has .* {mine}"):
        call_command("loadpack", str(second), "--name", "other")
    with pytest.raises(CommandError, match=f"exists in this version, {old}"):
        call_command("loadpack", str(TINY))
    assert packs.find_pack("lamps_1").tasks("lamps_1") == ["Switch all lamps off."]
    assert sorted(path.name for path in (loaded / "packs").glob("[!.]*")) == ["tiny"]


def test_replacing_a_pack_by_the_same_version_changes_nothing(loaded, capsys):
    version = load_pack(TINY).digest[:16]
    call_command("loadpack", str(TINY), "--replace")
    assert capsys.readouterr().out == f"A pack named 'tiny' exists in this version, {version}. Nothing to replace.\n"


def test_replaced_pack_keeps_its_version_for_old_episodes(loaded, tmp_path, capsys):
    before = packs.find_pack("lamps_1").digests["lamps_1"]
    verifier = packs.verifier_text("lamps_1", 0)
    second = changed(tmp_path, "second", "result", "results")
    call_command("loadpack", str(second), "--name", "tiny", "--replace", "--unchecked")
    assert f"version {load_pack(second).digest[:16]}" in capsys.readouterr().out
    assert packs.find_pack("lamps_1").digests["lamps_1"] != before
    assert packs.verifier_text("lamps_1", 0) != verifier == packs.verifier_text("lamps_1", 0, before)
    assert packs.verifier_text("lamps_1", 0, "0" * 64) == ""


def test_pack_of_an_earlier_awmweb_is_replaced(var, tmp_path):
    (var / "packs").mkdir()
    shutil.copytree(TINY, var / "packs" / "tiny")
    before = packs.find_pack("lamps_1").digests["lamps_1"]
    second = changed(tmp_path, "second", "Switch all lamps off.", "Switch all lamps on.")
    call_command("loadpack", str(second), "--name", "tiny", "--replace", "--unchecked")
    assert packs.find_pack("lamps_1").tasks("lamps_1") == ["Switch all lamps on."]
    assert packs.find_version("lamps_1", before).tasks("lamps_1") == ["Switch all lamps off."]


def test_unloaded_pack_is_gone_and_can_be_loaded_again(loaded, capsys):
    version = packs.find_pack("lamps_1").digest[:16]
    call_command("unloadpack", "tiny")
    said = capsys.readouterr().out
    stay = f"The rows stay in {loaded}/packs/.versions/"
    assert said.startswith(f"Unloaded 2 scenarios of tiny, version {version}.\n{stay}")
    assert packs.find_pack("lamps_1") is None
    with pytest.raises(CommandError, match="No pack named 'tiny' is loaded; loaded packs: starter"):
        call_command("unloadpack", "tiny")
    call_command("loadpack", str(TINY), "--unchecked")
    assert packs.find_pack("lamps_1").name == "tiny"


@pytest.mark.parametrize("name", ["starter", "../packs/tiny", ".versions", ""])
def test_pack_that_is_not_loaded_cannot_be_unloaded(loaded, name):
    with pytest.raises(CommandError):
        call_command("unloadpack", name)
    assert packs.find_pack("lamps_1").name == "tiny"


def test_packs_of_the_product_stay(var, tmp_path):
    with pytest.raises(CommandError, match="comes with awmweb and cannot be replaced"):
        call_command("loadpack", str(TINY), "--name", "starter", "--replace")
    with pytest.raises(CommandError, match="Leave out --replace"):
        call_command("loadpack", str(TINY), "--replace")


def test_app_that_does_not_load_is_rejected(var, tmp_path, capsys):
    folder = shutil.copytree(TINY, tmp_path / "broken")
    rows = [json.loads(line) for line in (folder / "gen_envs.jsonl").read_text().splitlines()]
    next(row for row in rows if row["scenario"] == "lamps_1")["full_code"] += "\nimport no_such_module\n"
    (folder / "gen_envs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    call_command("checkpack", str(folder))
    assert "error lamps_1: its app does not load: " in capsys.readouterr().out
    call_command("loadpack", str(folder), "--unchecked")
    said = capsys.readouterr().out
    assert "error lamps_1: its app does not load: " in said and "no_such_module" in said
    assert "1 scenario in" in said and "1 rejected" in said


def test_scripts_that_cannot_work_are_reported(var, tmp_path, capsys):
    folder = shutil.copytree(TINY, tmp_path / "scripted")
    ask = {"ask": {"question": "?"}, "listen": {"rate": "(\\d+"}, "unadvised": [{"call": {"name": "fly"}}]}
    row = {"scenario": "notes_1", "task_idx": 0, "scripts": {"demo": [{"call": {"name": "swim"}}, ask]}}
    (folder / "scripts.jsonl").write_text(json.dumps(row) + "\n")
    call_command("loadpack", str(folder), "--unchecked")
    said = capsys.readouterr().out
    assert "error scripts.jsonl notes_1: task 0, script demo: the scenario has no tool swim" in said
    assert "task 0, script demo: the scenario has no tool fly" in said
    assert "task 0, script demo: listen.rate: it is not a regular expression: missing )" in said
