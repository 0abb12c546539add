"""BFCL v4 multi-turn as a world: graded as its package grades, and served over the protocol (`make test-worlds`)."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import os
import sys
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from awmenv.client import EnvironmentClient
from awmenv.errors import PackError
from awmenv.worlds import bfcl
from tests.awmenv.conftest import start_server

HAS_PACKAGE = importlib.util.find_spec(bfcl.MODULE) is not None
installed = pytest.mark.skipif(not HAS_PACKAGE, reason="bfcl-eval is not installed: make test-worlds")
CHECKER = "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"
_names = itertools.count()
EARLY = {"bfcl_miss_func_49": "1"}
"""Tasks whose ground truth calls a function before the user brings it, and the turn of that call: no agent can."""


def forget():
    """Rows load the package's modules from their own text; the package's own must not stay among them."""
    for name in [name for name in sys.modules if name.partition(".")[0] == bfcl.MODULE]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def package():
    return bfcl.BfclPackage()


def played(rows, script, path):
    """The database after these turns of a script, made by the row's own app."""
    path.unlink(missing_ok=True)
    before = os.environ.get("DATABASE_PATH")
    os.environ["DATABASE_PATH"] = f"sqlite:///{path}"
    try:
        forget()
        module = {"__name__": "world"}
        exec(compile(rows["gen_envs.jsonl"][0]["full_code"], "world", "exec"), module)
        http = TestClient(module["app"])
        for turn in script:
            if "call" in turn:
                answer = http.post(f"/{turn['call']['name']}", json=turn["call"]["arguments"])
                assert answer.status_code == 200, answer.text
        module["engine"].dispose()
    finally:
        os.environ.pop("DATABASE_PATH") if before is None else os.environ.update(DATABASE_PATH=before)
    return str(path)


def ours(rows, path):
    forget()
    module = {"__name__": "verifier"}
    exec(compile(rows["gen_verifier.pure_code.jsonl"][0]["verification"]["code"], "verifier", "exec"), module)
    return module["verify_task_completion"](path, path)["result"] == "complete"


def theirs(task, turns):
    """What the package says of these calls by turn; a missing turn is a run that was cut off."""
    if len(turns) != len(task.truth):
        return False
    forget()
    checker = importlib.import_module(CHECKER)
    said = [[[call] for call in turn] for turn in turns]
    return checker.multi_turn_checker(said, task.truth, task.entry, task.category, f"theirs{next(_names)}")["valid"]


def scripted(package, task):
    """The rows of a task with its script. Where the truth needs a function early, it comes early here, to be graded."""
    rows = bfcl.rows_of(package, task)
    assert ("scripts.jsonl" not in rows) is (task.scenario in EARLY)
    if task.scenario in EARLY:
        [names] = task.entry["missed_function"].values()
        rows = bfcl.rows_of(
            package, replace(task, entry={**task.entry, "missed_function": {EARLY[task.scenario]: names}})
        )
    return rows


def turns_in(script):
    """A script's calls by turn, in the package's words."""
    turns = [[]]
    for name, arguments in ((one["call"]["name"], one["call"]["arguments"]) for one in script if "call" in one):
        if name == "end_turn":
            turns.append([])
            continue
        if name == "call_new_function":
            name, arguments = arguments["name"], arguments["arguments"]
        turns[-1].append(f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})")
    return turns


def spoiled(script, number):
    """Another script: without one of its calls, with one twice, or cut off before its last turn."""
    made = [place for place, one in enumerate(script) if one.get("call", {}).get("name") not in (None, "end_turn")]
    ends = [place for place, one in enumerate(script) if one.get("call", {}).get("name") == "end_turn"]
    if number % 4 == 3 and ends:
        return script[: ends[-1]]
    left = made[number % len(made)]
    if number % 4 == 1:
        return [*script[: left + 1], *script[left:]]
    return [one for place, one in enumerate(script) if place != left]


@installed
@pytest.mark.parametrize("category", bfcl.CATEGORIES)
def test_every_task_is_graded_as_by_its_package(package, tmp_path, category):
    checked = 0
    for number, task in enumerate(package.tasks(category)):
        rows = scripted(package, task)
        script = rows["scripts.jsonl"][0]["scripts"]["oracle"]
        assert ours(rows, played(rows, script, tmp_path / "a.db")) is theirs(task, task.truth) is True, task.scenario
        other = spoiled(script, number)
        # what is left of a spoiled script can still be right
        assert ours(rows, played(rows, other, tmp_path / "b.db")) is theirs(task, turns_in(other)), task.scenario
        checked += 1
    assert checked == 200
    forget()


@installed
def test_script_of_the_truth_has_all_its_calls(package):
    """Arguments by position get their names, and their values stay."""
    for task in package.tasks("miss_func"):
        script = scripted(package, task)["scripts.jsonl"][0]["scripts"]["oracle"]
        made = [[ast.parse(call).body[0].value for call in turn] for turn in turns_in(script)]
        truth = [[ast.parse(call.strip()).body[0].value for call in turn] for turn in task.truth]
        assert [[one.func.id for one in turn] for turn in made] == [[one.func.id for one in turn] for turn in truth]
        for mine, given in zip(itertools.chain(*made), itertools.chain(*truth), strict=True):
            values = [ast.literal_eval(one) for one in (*given.args, *(word.value for word in given.keywords))]
            assert [ast.literal_eval(word.value) for word in mine.keywords] == values


@installed
async def test_served_world_is_played_turn_by_turn(tmp_path, folder_for_anyone):
    folder = folder_for_anyone / "bfcl"
    manifest = bfcl.write(folder, most=1)
    assert manifest["license"] == "Apache-2.0" and "Apache-2.0" in (folder / "README.md").read_text()
    scripts = [json.loads(line) for line in (folder / "scripts.jsonl").read_text().splitlines()]
    server = start_server(folder_for_anyone / "run", folder)
    try:
        for row in scripts:
            async with EnvironmentClient(server.url) as env:
                begun = await env.reset(scenario=row["scenario"], task_idx=0)
                assert begun.has_verifier and "end_turn" in (begun.task or "")
                tools = {tool.name for tool in await env.list_tools()}
                assert ("call_new_function" in tools) is ("miss_func" in row["scenario"])
                seen = []
                for turn in row["scripts"]["oracle"]:
                    if "call" in turn:
                        found = await env.call_tool(turn["call"]["name"], turn["call"]["arguments"])
                        assert found.error is None, found.error
                        seen += [found.tool_result] if turn["call"]["name"] == "end_turn" else []
                assert all('"user"' in one for one in seen)
                assert ('"new_functions"' in "".join(seen)) is ("miss_func" in row["scenario"])
                outcome = await env.verify(final_answer="Done.")
                assert (outcome.reward_type, outcome.reward) == ("complete", 1.0), outcome.verify_result
            async with EnvironmentClient(server.url) as env:
                await env.reset(scenario=row["scenario"], task_idx=0)
                assert (await env.verify(final_answer="Done.")).reward_type == "others"
    finally:
        server.stop()


@pytest.fixture
def folder_for_anyone():
    """A folder that the sandbox's users may pass through."""
    from tests.awmenv.conftest import OpenFolders

    folders = OpenFolders()
    yield folders.mktemp("worlds")
    folders.remove()


def test_world_without_its_package_names_the_requirements(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PackError, match="pip install --no-deps -r requirements-worlds.txt"):
        bfcl.write(tmp_path)


def test_package_types_become_json_schema():
    given = {
        "type": "dict",
        "properties": {
            "type": {"type": "string", "description": "of a ticket", "default": "x"},
            "at": {"type": "tuple", "items": {"type": "float"}},
            "any": {"type": "any"},
        },
        "required": ["type"],
    }
    assert bfcl._schema(given) == {
        "type": "object",
        "properties": {
            "type": {"type": "string", "description": "of a ticket"},
            "at": {"type": "array", "items": {"type": "number"}},
            "any": {},
        },
        "required": ["type"],
    }
