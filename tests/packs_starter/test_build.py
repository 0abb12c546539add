"""The committed pack is what the sources say, in the row format of AWM-1K, and a broken source is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES, STARTER = ROOT / "packs" / "sources", ROOT / "packs" / "starter"
KEYS = {
    "gen_scenario.jsonl": ["name", "description"],
    "gen_tasks.jsonl": ["scenario", "tasks"],
    "gen_db.jsonl": ["scenario", "db_schema", "db_path"],
    "gen_sample.jsonl": ["scenario", "tables_count", "inserts_count", "sample_data"],
    "gen_envs.jsonl": ["scenario", "db_path", "full_code"],
    "gen_verifier.jsonl": ["scenario", "task_idx", "task", "verification"],
    "gen_verifier.pure_code.jsonl": ["scenario", "task_idx", "task", "verification"],
    "scripts.jsonl": ["scenario", "task_idx", "about", "scripts"],
    "blockers.jsonl": ["scenario", "task_idx", "blockers"],
}


def build(output: Path, sources: Path = SOURCES) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SOURCES / "build.py"), "--sources", str(sources), "--output", str(output)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def copy(tmp_path):
    """A copy of the help desk's source that a test may break."""
    folder = tmp_path / "sources"
    shutil.copytree(SOURCES / "helpdesk_1", folder / "helpdesk_1")
    shutil.copy(SOURCES / "database_changes.py", folder)
    return folder


def test_the_committed_files_equal_a_fresh_build(tmp_path):
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(KEYS)
    for file in KEYS:
        assert (tmp_path / file).read_bytes() == (STARTER / file).read_bytes(), f"{file}: run packs/sources/build.py"


@pytest.mark.parametrize("file", KEYS)
def test_rows_have_the_keys_of_the_format_in_order(file):
    for line in (STARTER / file).read_text(encoding="utf-8").splitlines():
        assert list(json.loads(line)) == KEYS[file]


def test_a_verifier_row_carries_its_criteria_as_json_text():
    for line in (STARTER / "gen_verifier.jsonl").read_text(encoding="utf-8").splitlines():
        verification = json.loads(line)["verification"]
        raw = json.loads(verification["raw_response"])
        assert list(raw) == ["reasoning", "python_code", "success_criteria", "failure_criteria"]
        assert raw["python_code"] == verification["code"]
        assert all(raw.values())


def test_verifiers_import_only_what_upstream_lets_them():
    for file in ("gen_verifier.jsonl", "gen_verifier.pure_code.jsonl"):
        for line in (STARTER / file).read_text(encoding="utf-8").splitlines():
            code = json.loads(line)["verification"]["code"]
            imported = {
                each.split()[1] for each in map(str.strip, code.splitlines()) if each.startswith(("import ", "from "))
            }
            assert imported <= {"sqlite3", "re", "json", "datetime"}


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("sample.sql", "INSERT INTO tags", "UPDATE tags", "not an INSERT INTO"),
        ("sample.sql", "VALUES (2, 'water-leak')", "VALUES (1, 'water-leak')", "UNIQUE"),
        ("sample.sql", "VALUES (1, 1003, 4)", "VALUES (1, 1003, 44)", "point nowhere"),
        ("schema.sql", "CREATE INDEX idx_agents_group ON agents", "CREATE INDEX idx_agents_group ON tags", "index"),
        ("app.py", "async def", "async deff", "app.py:"),
        ("tasks/03/verify_code.py", "import re", "import", "verify_code.py:"),
        ("tasks/01/scripts.json", '"negative"', '"positive"', "expected oracle"),
        ("tasks/01/about.json", '"medium"', '"moderate"', "level"),
        ("tasks/00/about.json", '"expert_note": ""', '"expert_note": "psst"', "expert_note"),
    ],
)
def test_invalid_source_is_refused_by_name_without_writing(copy, tmp_path, file, old, new, words):
    path = copy / "helpdesk_1" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    done = build(tmp_path / "output", copy)
    assert done.returncode == 1
    assert words in done.stderr
    assert Path(file).name in done.stderr
    assert not (tmp_path / "output").exists()


def test_a_task_folder_that_is_left_out_is_noticed(copy, tmp_path):
    shutil.rmtree(copy / "helpdesk_1" / "tasks" / "02")
    done = build(tmp_path / "output", copy)
    assert done.returncode == 1
    assert "00, 01" in done.stderr
