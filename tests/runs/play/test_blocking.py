"""`block`: tasks with blockers are proven on a server, unloaded in every case, and written as a pack that loads."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal

import pytest
from django.core.management import CommandError, call_command

from awmenv.client import EnvironmentClient
from awmenv.models import Observation
from awmenv.packs import load_pack
from episodes.stored.packs import VERSIONS, loaded_folder
from runs.play import blocking
from runs.taskset.blocks import BlockedTask, Fact
from tests.awmenv.conftest import PROGRAM, TINY, OpenFolders, start_server

HEAD = "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n    import sqlite3\n"
ROWS = HEAD + (
    "    new = {row for row in sqlite3.connect(final_db_path).execute('SELECT title, body FROM notes')}\n"
    "    new -= {row for row in sqlite3.connect(initial_db_path).execute('SELECT title, body FROM notes')}\n"
)
CODES = {
    "named": ROWS + "    return {'result': 'complete' if any(row[0] == 'Call 04711' for row in new) else 'others'}\n",
    "lenient": ROWS + "    return {'result': 'complete' if new or 'Shop 1234' == '' else 'others'}\n",
}
TASKS = {"named": "Write a note titled 'Call 04711'.", "lenient": "Write a note titled 'Shop 1234'."}
KEY = secrets.token_hex(32)


@pytest.fixture(scope="module")
def place():
    """A pack of three tasks with a fact each: in the world already, one that the verifier checks, and one that it does
    not; a folder for loaded packs, and a server of both."""
    folders = OpenFolders()
    root = folders.mktemp("block")
    made = shutil.copytree(TINY, root / "packs" / "tiny")
    tasks = [*TASKS.values(), "Write a note titled 'Bread'."]
    rows = [{"scenario": "notes_1", "tasks": tasks}, {"scenario": "lamps_1", "tasks": ["Switch all lamps off."]}]
    write(made / "gen_tasks.jsonl", rows)
    codes = [*CODES.values(), CODES["lenient"].replace("Shop 1234", "Bread")]
    verifiers = [
        {"scenario": "notes_1", "task_idx": idx, "verification": {"code": one}} for idx, one in enumerate(codes)
    ]
    write(made / "gen_verifier.pure_code.jsonl", verifiers)
    write(made / "gen_verifier.jsonl", [])
    titles = ["Call 04711", "Shop 1234", "Bread"]
    scripts = [
        {"scenario": "notes_1", "task_idx": idx, "about": {}, "scripts": {"oracle": [
            {"call": {"name": "create_note", "arguments": {"title": title}}}, {"answer": "Done."},
        ]}}
        for idx, title in enumerate(titles)
    ]  # fmt: skip
    write(made / "scripts.jsonl", scripts)
    key = root / "key"
    key.write_text(KEY)
    (root / "var" / "packs").mkdir(parents=True, mode=0o755)
    program = (*PROGRAM, "--packs-in", str(root / "var" / "packs"))
    server = start_server(folders.mktemp("awmenv"), made, program=program, AWMENV_ATTEST_KEY_FILE=str(key))
    yield root, server
    server.stop()
    folders.remove()


def write(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(autouse=True)
def environment(place, settings):
    root, server = place
    settings.PACKS_DIR, settings.VAR, settings.AWMENV_URL = root / "packs", root / "var", server.url
    settings.ATTEST_KEY = KEY


def left_behind():
    places = loaded_folder(), loaded_folder() / VERSIONS
    return [one.name for place in places for one in place.glob("block-*")]


def test_block_writes_proven_tasks_and_says_why_not_others(tmp_path, capsys):
    folder = tmp_path / "notes_blocked"
    call_command("block", scenario=["notes_1"], output=folder, per_fact=2)
    said = capsys.readouterr().out
    assert "tried 4 of 4 candidates" in said
    assert "of 1 task or value:\n    1: the world's rows or read tools hold the value\n" in said
    assert "not proven: 2 candidates:\n    2: attempts without the fact pass\n" in said
    assert f"Proven: 2 of 4 candidates, now tasks of 1 scenario in {folder};" in said
    assert said.endswith(f"manage.py loadpack {folder}\n")
    pack = load_pack(folder)
    assert not pack.report.errors and list(pack.scenarios) == ["notes_1_blocked"] and left_behind() == []
    assert pack.tasks("notes_1_blocked") == ["Write a note titled the right title."] * 2
    facts = [pack.blockers("notes_1_blocked", idx)[0].fact for idx in range(2)]
    assert len(set(facts)) == 2 and "Call 04711" not in facts
    again = tmp_path / "again"
    call_command("block", scenario=["notes_1"], output=again, per_fact=2)
    assert [file.read_bytes() for file in sorted(again.iterdir())] == [
        file.read_bytes() for file in sorted(folder.iterdir())
    ], "the same seed makes the same pack"
    with pytest.raises(CommandError, match="exists. Name a new folder"):
        call_command("block", scenario=["notes_1"], output=folder)


async def test_attempt_that_is_told_the_fact_refuses_the_task(monkeypatch):
    said = ["", " the note is called call 58130 "]

    async def played(*_):
        return blocking._Session(False, said, [False, False])

    monkeypatch.setattr(blocking, "_play", played)
    monkeypatch.setattr(blocking.probing, "ATTEMPTS", {})
    fact = Fact("notes_1", 0, "title", "create_note", "Call 04711", 0)
    task = BlockedTask(fact, "Call 58130", "Write the note.", [], {})
    about = ("notes_1", 0, task, blocking._Readable("", {}), blocking.MadeTasks())
    assert await blocking._attempted(*about) == "a result of an attempt without the fact holds the value"
    said[1] = " the note is called call 58131 "
    assert await blocking._attempted(*about) == ""


def test_candidates_are_unloaded_after_an_interrupt(tmp_path, monkeypatch):
    asked = []

    async def interrupted(*_):
        # of both candidates the first: the second signal would end the loop before it can clean up
        if not asked:
            asked.append(left_behind())
            signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(blocking, "_disproof", interrupted)
    # a shell that starts the tests in the background has Ctrl-C ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            call_command("block", scenario=["notes_1"], output=tmp_path / "new", per_fact=1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked[0] and left_behind() == [] and not (tmp_path / "new").exists()


def test_environment_says_nothing_of_a_registry(tmp_path, monkeypatch, settings):
    seen: list[str] = []

    async def listened(scenario, idx, task, *_):
        async with EnvironmentClient(settings.AWMENV_URL) as client:
            said = [await client.reset(scenario=scenario, task_idx=idx), await client.list_tools()]
            said += [await client.list_scenarios(), await client.state()]
            said += [await client.call_tool("list_notes", {}), await client.verify("Done.")]
        seen.extend(f"{one.__dict__ if isinstance(one, Observation) else one}" for one in said)
        registry = task.rows["blockers.jsonl"]["blockers"][0]
        words = [str(task.value), registry["answer"], registry["missing"], registry["questions"][0]]
        return next((word for word in words for one in seen if word in one), "")

    monkeypatch.setattr(blocking, "_disproof", listened)
    call_command("block", scenario=["notes_1"], output=tmp_path / "new", per_fact=1)
    assert len(load_pack(tmp_path / "new").tasks("notes_1_blocked")) == 2 and "right title" in "".join(seen)


def test_block_without_a_server_or_scenario_says_so(settings, tmp_path):
    with pytest.raises(CommandError, match="No loaded pack contains"):
        call_command("block", scenario=["nowhere_1"], output=tmp_path / "new")
    settings.AWMENV_URL = "http://127.0.0.1:9"
    with pytest.raises(CommandError, match="Cannot reach the environment server"):
        call_command("block", scenario=["notes_1"], output=tmp_path / "new")
    for wrong in (0, 1001):
        with pytest.raises(CommandError, match="--per-fact is 1 to 1000"):
            call_command("block", scenario=["notes_1"], output=tmp_path / "new", per_fact=wrong)
