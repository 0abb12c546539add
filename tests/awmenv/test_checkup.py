# ruff: noqa: E501 - one case a line reads best here
"""The health of verifiers: what is tried, what is said of it, and that it is tried once per content, behind the walls."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from awmenv.client import EnvironmentClient
from awmenv.health import Form, Health
from awmenv.packs import Pack, load_pack
from awmenv.server.session import checkup
from awmenv.server.session.checkup import Checkup
from awmenv.server.session.shared import World
from awmenv.server.settings import Judge, Settings
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.awmenv.conftest import ROOT, TINY, OpenFolders, Server
from tests.awmenv.hostile_packs import pack

CODE = "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n    "
SQL = "def verify_task(initial_db_path, final_db_path):\n    "
OTHERS, COMPLETE = CODE + "return {'result': 'others'}\n", CODE + "return {'result': 'complete'}\n"
EVIDENCE = SQL + "return {'rows': 0, 'status': 'complete', 'success': True}\n"
COUNT = "import sqlite3\n    n = sqlite3.connect(final_db_path).execute('select count(*) from t').fetchone()[0]\n    "

CASES = {
    "honest": (OTHERS, EVIDENCE, []),
    "reads_the_rows": (CODE + COUNT + "return {'result': 'others', 'ok': 1 / n}", SQL + COUNT + "return {'n': 1 / n}", []),
    "one_form_only": (OTHERS, None, []),
    "no_python": ("def verify_task_completion(:", EVIDENCE, ["the code form does not compile"]),
    "null_byte": ("\0", EVIDENCE, ["the code form does not compile"]),
    "sql_raises": (OTHERS, SQL + "return 1 / 0", ["the SQL form does not run on the unmodified database"]),
    "raises_at_import": ("raise SyntaxError('no')", None, ["the code form does not run on the unmodified database"]),
    "hangs": (CODE + "while True: pass", EVIDENCE, ["the code form does not run on the unmodified database"]),
    "no_verdict": (CODE + "return {'result': 'maybe'}", None, ["the code form does not run on the unmodified database"]),
    "always_complete": (COMPLETE, EVIDENCE, ["returns complete on the unmodified database"]),
    "both_complete": (COMPLETE, SQL + "return {'result': 'complete'}", ["returns complete on the unmodified database"]),
    "disagree": (OTHERS, SQL + "return {'task_completed': True}", ["code and SQL disagree on the unmodified database"]),
    "hides_an_error": (
        CODE + "try:\n        open('/nowhere')\n    except Exception as e:\n        return {'result': 'others', 'error': str(e)}",
        EVIDENCE,
        ["the code form swallows an error"],
    ),
    "several": ("(", SQL + "return 5", ["the code form does not compile", "the SQL form does not run on the unmodified database"]),
}  # fmt: skip


def add(folder: Path, name: str, code: str | None, sql: str | None, kind: str = "normal", **more: Any) -> None:
    """A scenario of one task with these verifiers; its app would not load, because a checkup needs none."""
    pack(folder, "raise SystemExit", name, inserts=["INSERT INTO t VALUES (7)"], **more)
    rows = {
        "gen_verifier.pure_code": {"scenario": name, "task_idx": 0, "verification": {"code": code or ""}},
        "gen_verifier": {"scenario": name, "task_idx": 0, "verification": {"code": sql or "", "raw_response": "{}"}},
        "scripts": {"scenario": name, "task_idx": 0, "about": {"kind": kind}, "scripts": {}},
    }
    for file, row in rows.items():
        with (folder / f"{file}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")


GUESSED = {
    "digit": ("'complete' if '3' in str(final_answer) else 'others'", ("digits",)),
    "any_words": ("'complete' if final_answer else 'others'", ("digits", "a call in words", "one word", "the task")),
    "right_words": ("'complete' if final_answer == 'Three items.' else 'others'", ()),
    "nothing": ("'complete'", ()),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: OpenFolders) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("checkup")
    for name, (code, sql, _) in CASES.items():
        add(folder / "pack", name, code, sql)
    for name, (result, _) in GUESSED.items():
        add(folder / "pack", f"guess_{name}", CODE + f"return {{'result': {result}}}", None)
    add(folder / "pack", "meant_so", COMPLETE, EVIDENCE, "passes_untouched")
    add(folder / "pack", "not_so", OTHERS, EVIDENCE, "passes_untouched")
    running = World(Settings(packs=(folder / "pack",), run_dir=str(folder), verifier_timeout_s=2))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def rows(world: World) -> Pack:
    return world.library.packs[0]


def doctor(world: World, cache: Path | None = None) -> Checkup:
    return Checkup(world.scenarios, world.verifiers, cache, workers=world.workers)


@pytest.mark.parametrize("name", CASES)
async def test_verifier_check_runs_on_the_unmodified_database(world: World, rows: Pack, name: str) -> None:
    health = (await doctor(world).of(rows, name, [0]))[0]
    assert health.remarks == CASES[name][2], health
    assert bool(health.words) == bool(CASES[name][2])
    assert Health.from_wire(json.loads(json.dumps(health.wire()))) == health


async def test_doing_nothing_may_be_the_task(world: World, rows: Pack) -> None:
    assert (await doctor(world).of(rows, "meant_so", [0]))[0].remarks == []
    assert (await doctor(world).of(rows, "not_so", [0]))[
        0
    ].words == "verifier: returns others although the task needs no change"


async def test_the_same_content_is_tried_once_and_other_content_anew(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path / "pack", "shop_1", OTHERS, EVIDENCE)
    first = (await doctor(world, tmp_path / "cache").of(load_pack(tmp_path / "pack"), "shop_1", [0]))[0]
    monkeypatch.setattr(checkup, "verdict", lambda *_, **__: {"execution_status": "error", "error_message": "tried"})
    again = doctor(world, tmp_path / "cache")
    assert (await again.of(load_pack(tmp_path / "pack"), "shop_1", [0]))[0] == first
    add(tmp_path / "other", "shop_1", OTHERS + "# changed\n", EVIDENCE)
    assert (await again.of(load_pack(tmp_path / "other"), "shop_1", [0]))[0].code.error == "tried"
    for _ in range(100):
        if not list(world.workplace.path.glob("*untouched*")):
            break
        await asyncio.sleep(0.05)
    assert list(world.workplace.path.glob("*untouched*")) == []


async def test_a_verifier_that_hangs_keeps_no_other_scenario_waiting(world: World, rows: Pack) -> None:
    """It takes two seconds here; the others are asked for after it, and are through before it."""
    one, order = doctor(world), list[str]()

    async def check(name: str) -> None:
        await one.of(rows, name, [0])
        order.append(name)

    await asyncio.gather(check("hangs"), check("honest"), check("one_form_only"), check("several"))
    assert order[-1] == "hangs"


async def test_a_database_that_cannot_be_built_leaves_nothing_to_tell(world: World, tmp_path: Path) -> None:
    add(tmp_path, "shop_1", COMPLETE, None)
    add(tmp_path, "shop_2", COMPLETE, None)
    text = (tmp_path / "gen_db.jsonl").read_text().replace("CREATE TABLE t", "CREATE TABEL t", 1)
    (tmp_path / "gen_db.jsonl").write_text(text)
    found = (await doctor(world).of(load_pack(tmp_path), "shop_1", [0]))[0]
    assert "could not be built" in found.unchecked and found.remarks == []
    assert (await doctor(world).of(load_pack(tmp_path), "shop_2", [0]))[0].remarks


@pytest.mark.parametrize(
    ("said", "remarks"),
    [
        ('{"classification": "complete"}', ["code and SQL disagree on the unmodified database"]),
        ('{"classification": "incomplete"}', []),
        ("hm", []),
    ],
)
async def test_judge_checks_evidence_and_its_failure_is_no_result(
    world: World, rows: Pack, tmp_path: Path, said: str, remarks: list[str]
) -> None:
    without = (await doctor(world, tmp_path).of(rows, "honest", [0]))[0]
    endpoint = OpenAIServer(lambda body: said)
    with answering(endpoint):
        judge = Judge(endpoint.base_url, model="m", timeout_s=5)
        for _time in range(2):
            one = Checkup(world.scenarios, world.verifiers, tmp_path, workers=world.workers, judge=judge)
            found = (await one.of(rows, "honest", [0]))[0]
            assert (found.remarks, found.sql.judged) == (remarks, said != "hm")
        assert len(endpoint.bodies) == (2 if said == "hm" else 1), "a ruling is paid for once"
    assert (await doctor(world, tmp_path).of(rows, "honest", [0]))[0] == (found if said != "hm" else without)


async def test_check_without_sandbox_runs_and_records_nothing(
    world: World, rows: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = doctor(world, tmp_path)
    for zygote in (world.scenarios.zygote, world.verifiers.zygote):
        monkeypatch.setattr(zygote, "tier", "none")
        assert "sandbox_missing" in (await one.ask(rows, "always_complete", 0)).unchecked
        monkeypatch.undo()
    assert (await one.ask(rows, "always_complete", 0)).remarks == ["returns complete on the unmodified database"]


@pytest.mark.parametrize(
    "wire", [None, 5, {}, {"code": 1, "sql": 2}, {"code": {"state": "x"}, "sql": {"state": "runs"}}]
)
def test_what_is_no_record_says_nothing(wire: Any) -> None:
    assert Health.from_wire(wire) is None


def test_a_record_comes_back_from_the_wire_as_it_was() -> None:
    health = Health(Form("runs", "others", "e", True), Form("fails", "", "x"), True, "why", ("digits",))
    assert Health.from_wire(health.wire()) == health
    assert Health.from_wire(Health().wire()) == Health()


def test_words_of_what_was_tried() -> None:
    health = Health(Form("runs", "complete"), Form("runs", "others", judged=True))
    assert health.words == "verifier: code and SQL disagree on the unmodified database"
    assert health.explanation == (
        "Run on the unmodified database: The code form returns complete. The SQL form returns evidence that the judge rated others."
    )


async def test_people_get_the_health_with_the_verdict_and_agents_never(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        started = await env.reset(scenario="notes_1", task_idx=0, state_diff=True)
        called = await env.call_tool("list_notes")
        assert "health" not in started.metadata and "health" not in called.metadata
        health = Health.from_wire((await env.verify()).metadata["health"])
        assert health is not None and (health.code.says, health.sql.state, health.remarks) == ("others", "runs", [])
        await env.reset(scenario="notes_1", task_idx=0)
        assert "health" not in (await env.verify()).metadata


def test_pack_check_runs_in_its_process_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "awmenv.server.checkpack", "--packs", str(TINY)]
    environment = {**os.environ, "AWMENV_RUN_DIR": str(tmp_path), "AWMENV_CACHE_DIR": str(tmp_path / "cache")}
    said = [subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True) for _ in range(2)]
    assert sorted(said[0].stdout.splitlines()) == sorted(said[1].stdout.splitlines()), said[0].stderr
    first, *found = [json.loads(line) for line in said[0].stdout.splitlines()]
    tasks = [one for one in found if "task_idx" in one]
    assert first == {"tasks": 3} and {(one["scenario"], one["task_idx"]) for one in tasks} == {
        ("notes_1", 0), ("notes_1", 1), ("lamps_1", 0),
    }  # fmt: skip
    assert oct((tmp_path / "cache").stat().st_mode)[-2:] == "00"


async def test_answers_without_work_that_a_verifier_accepts_are_named(world: World, tmp_path: Path) -> None:
    [checked] = world.library.packs
    about = {"workers": world.workers, "at_a_time": 2}
    plain = Checkup(world.scenarios, world.verifiers, tmp_path, **about)
    guessing = Checkup(world.scenarios, world.verifiers, tmp_path, guesses=True, **about)
    for name, (_, accepted) in GUESSED.items():
        before = (await plain.of(checked, f"guess_{name}", [0]))[0]
        health = (await guessing.of(checked, f"guess_{name}", [0]))[0]
        assert (before.guessed, health.guessed) == (None, accepted), name
        assert Health.from_wire(json.loads(json.dumps(health.wire()))) == health
        assert any("accepts an answer without work" in remark for remark in health.remarks) == bool(accepted)
    kept = (await guessing.of(checked, "guess_digit", [0]))[0]
    assert kept.words == "verifier: the code form accepts an answer without work: digits"
