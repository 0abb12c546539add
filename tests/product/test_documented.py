"""What README.md and docs/ write to be copied runs, as it is written, against one running product.

Only addresses, tokens and the names of files are put in. `tests/documented.py` finds the blocks.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace

import httpx
import pytest
import websockets
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from awmclient.client import HttpDashboard
from awmclient.client.collecting import CollectingDashboard
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.testing import FakeEnv
from awmclient.words.conversation import messages
from awmclient.words.toolcalls import Call
from awmenv.blockers import matched, read_blockers
from awmenv.client import EnvironmentClient
from awmenv.version import version
from episodes.pages.one import HOOK_SNIPPET, MCP_SNIPPET, SNIPPET
from notices.sending import signature
from tests.asking import picture
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.documented import ROOT, proves, run, starting
from tests.running import free_ports, until

DASHBOARD, SERVER = "http://127.0.0.1:8000", "http://127.0.0.1:8100"


@pytest.fixture(scope="module")
def environment(house):
    return f"http://127.0.0.1:{house.environment['AWMENV_PORT']}"


@pytest.fixture(scope="module")
def tokens(house):
    return {scope: house.token(scope) for scope in ("agent", "expert", "launch", "export")}


@pytest.fixture
def desk(house, tokens):
    """Someone who answers every ask of the desk with "Yes." while a test runs."""
    over = threading.Event()

    def answer():
        with house.http(tokens["expert"]) as http:
            while not over.wait(0.2):
                for ask in http.get("/asks?status=open&limit=200").json()["asks"]:
                    claim = http.post(f"/asks/{ask['id']}/claim", json={})
                    if claim.is_success:
                        body = {"lease_token": claim.json()["lease_token"], "text": "Yes.", "nonce": ask["id"]}
                        http.post(f"/assignments/{claim.json()['assignment']}/answer", json=body)

    thread = threading.Thread(target=answer)
    thread.start()
    yield
    over.set()
    thread.join()


@proves("docs/environment-protocol.md", "from awmenv.client", "from openenv.core.generic_client")
async def test_documented_environment_clients_run(block, environment):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        made = await run(block, {}, **{SERVER: environment})
    told = re.findall(r"print\(.*\) +# (.+)", block.text)
    assert said.getvalue().splitlines() == told
    assert "outcome" not in made or made["outcome"].reward_type == "others"


@proves("docs/environment-protocol.md", '> {"type": "reset"')
async def test_documented_messages_get_documented_answers(block, environment):
    """Each answer has the documented type, and its documented words."""
    whole = re.sub(r"\n {2,}", " ", block.text).splitlines()
    async with websockets.connect(f"{environment.replace('http', 'ws')}/ws") as socket:
        for line in whole[:-1]:
            if line.startswith("> "):
                await socket.send(line[2:])
                continue
            answer = await socket.recv()
            for name in ("type", "reward_type", "code", "tool_name", "num_tools", "reward", "done", "step_count"):
                for value in re.findall(rf'"{name}": ("\w+"|[\w.]+)', line):
                    assert re.search(rf'"{name}": ?{re.escape(value)}', answer), (line, answer)
        await socket.send(json.dumps({"type": "close"}))
        with pytest.raises(websockets.ConnectionClosed):
            await socket.recv()


@proves("docs/environment-protocol.md", '> {"type": "batch"')
async def test_documented_batches_get_documented_answers(block, environment):
    lines = re.sub(r"\n {2,}", " ", block.text).splitlines()
    async with websockets.connect(f"{environment.replace('http', 'ws')}/ws") as socket:
        for sent, told in zip(lines[::2], lines[1::2], strict=True):
            await socket.send(sent.removeprefix("> "))
            answer = json.loads(await socket.recv())
            kinds = [answer["type"], *(one["type"] for one in answer["data"]["results"])]
            assert kinds == re.findall(r'"type": "(\w+)"', told)


@proves("docs/environment-protocol.md", "import asyncio")
async def test_documented_group_of_a_batch_is_judged(block, environment):
    made = await run(block, {})
    assert await made["group"](environment) == [0.0] * 8


@proves("docs/packs.md", "from database_changes")
def test_documented_lines_of_a_verifier_tell_changes(block, tmp_path, monkeypatch):
    paths = [tmp_path / "before.db", tmp_path / "after.db"]
    for path, name in zip(paths, ("tea", "coffee"), strict=True):
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT)")
            db.execute("INSERT INTO goods VALUES (1, ?)", (name,))
    monkeypatch.syspath_prepend(ROOT / "packs" / "sources")
    given = {"initial_db_path": str(paths[0]), "final_db_path": str(paths[1])}
    exec(compile(block.text, str(block), "exec"), given)
    assert given["found"]["goods"]["changed"] == {1: {"name": ["tea", "coffee"]}}


@proves("docs/packs.md", '{"scenario": "library_1_blocked"')
def test_documented_registry_is_matched_by_its_question(block):
    row = json.loads(block.text)
    (one,) = read_blockers(row["blockers"], "She has a new telephone number: the right phone.")
    assert matched("Which telephone is it?", [one]) is one and not matched("Which loan is it?", [one])


@proves("docs/curriculum.md", "async with HttpDashboard")
async def test_documented_curriculum_loop_reports_each_step(block, house, tokens):
    made = await run(block, {"HttpDashboard": HttpDashboard, "url": house.url, "token": tokens["agent"]})
    assert len(made["experts"]) == 8 and made["step"] == 29


@proves("docs/protocol.md", "import asyncio")
def test_documented_first_program_is_answered(block, house, tokens, desk, tmp_path):
    file = tmp_path / "agent.py"
    file.write_text(block.text)
    given = {"AWMWEB_URL": house.url, "AWMWEB_TOKEN": tokens["agent"], "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, str(file)], env={**os.environ, **given}, check=True, timeout=120)
    with house.http(tokens["agent"]) as http:
        # the newest: other programs of the docs have a shop, too
        found = next(one for one in http.get("/episodes").json()["items"] if one["environment"] == "my-shop")
        steps = http.get(f"/episodes/{found['id']}/steps").json()["steps"]
    assert found["state"] == "finished" and [one["kind"] for one in steps[:2]] == ["tool_call", "ask"]
    assert steps[1]["advice"]["text"] == "Yes."


@proves("docs/protocol.md", "found = await environment.verify")
async def test_documented_attestation_reaches_the_outcome(block, house, tokens, environment):
    async with EnvironmentClient(environment) as env, HttpDashboard(house.url, tokens["agent"]) as dash:
        await env.reset(scenario="helpdesk_1", task_idx=0)
        episode = await dash.start_episode("t", scenario="helpdesk_1", task_idx=0)
        made = await run(block, {"environment": env, "episode": episode, "answer": "none"})
        await env.done()
    assert made["outcome"]["reward_type"] == "others"


@proves(
    "docs/protocol.md", "async with HttpDashboard(url, launch_token)", "async with HttpDashboard(url, token) as dash:  "
)
async def test_documented_client_lines_run(block, house, tokens, desk):
    made = await run(
        block,
        {
            "HttpDashboard": HttpDashboard, "url": house.url, "token": tokens["agent"],
            "agent_token": tokens["agent"], "launch_token": tokens["launch"],
        },
    )  # fmt: skip
    with house.http(tokens["agent"]) as http:
        recorded = [one["state"] for one in http.get("/episodes", params={"run": made["run"]}).json()["items"]]
    assert recorded == ["finished" if "advice" in made else "running"]


@proves("docs/protocol.md", "advice = await episode.ask")
async def test_documented_approval_is_decided_or_rejected(block, house, tokens, capsys):
    async with HttpDashboard(house.url, tokens["agent"]) as dash:
        episode = await dash.start_episode("Refund order 7", expert="plain")
        quick = replace(block, text=block.text.replace('on_timeout="reject",', 'on_timeout="reject", deadline_s=1,'))
        made = await run(quick, {"episode": episode})
        await episode.finish("done")
    assert made["advice"].by == "timeout"
    assert "1 reject {'order': 7, 'amount': 249.0} no decision before the deadline" in capsys.readouterr().out


class Silent:
    """A policy that has nothing to do."""

    async def act(self, view):
        return Turn(answer="done")


@proves("docs/protocol.md", "dash = CollectingDashboard")
async def test_documented_collecting_records_a_plan(block, house, tokens):
    async with HttpDashboard(house.url, tokens["agent"]) as http:
        policy = Silent()
        names = {"CollectingDashboard": CollectingDashboard, "asyncio": asyncio, "rollout": rollout, "policy": policy}
        await run(block, {**names, "http": http, "plan": [(FakeEnv(), "collected 1"), (FakeEnv(), "collected 2")]})
    with house.http(tokens["agent"]) as http:
        ended = [one for one in http.get("/episodes").json()["items"] if one["task"].startswith("collected ")]
    assert [one["state"] for one in ended] == ["finished"] * 2


@proves("docs/protocol.md", "from awmclient.chat")
async def test_documented_rollout_plays_a_model(block, house, tokens):
    server = OpenAIServer(lambda body: "There is nothing to do.", key="k")
    with answering(server):
        async with HttpDashboard(house.url, tokens["agent"]) as dash:
            names = {"environment": FakeEnv(), "dash": dash, "key": "k"}
            made = await run(block, names, **{"http://127.0.0.1:8001/v1": server.base_url})
    assert made["result"].stop_reason == "done" and len(server.bodies) >= 1


@proves("docs/protocol.md", "from types import SimpleNamespace")
async def test_documented_environment_is_enough_for_a_rollout(block, house, tokens):
    made = await run(block, {})
    policy = Once(Turn(calls=[Call("look_up", {"item": "tea"})]))
    async with HttpDashboard(house.url, tokens["agent"]) as dash:
        ended = await rollout(policy, made["Shop"](), dash, task="shop", scenario="shop", task_idx=1)
    assert (ended.stop_reason, ended.fault) == ("done", None)
    assert [one["result"] for one in ended.steps if one["kind"] == "tool_call"] == [{"left": 0}]


class Once:
    """A policy with one turn before its answer."""

    def __init__(self, first):
        self.turns = [first]

    async def act(self, view):
        return self.turns.pop() if self.turns else Turn(answer="done")


def test_lines_of_connect_record_one_message_a_turn(house, tokens, desk, tmp_path):
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET.format(url=house.url, token=tokens["agent"]))
    subprocess.run([sys.executable, str(file)], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=120)
    with house.http(tokens["agent"]) as http:
        [found] = [one for one in http.get("/episodes").json()["items"] if one["task"] == "Greet the right person"]
        steps = http.get(f"/episodes/{found['id']}/steps").json()["steps"]
    said = [one for one in messages(steps) if one["role"] == "assistant"]
    assert [len(one.get("tool_calls", ())) for one in said] == [1, 1], said
    assert said[0]["content"] == "I do not know the name."


def test_connect_shows_the_mcp_configuration_of_the_docs():
    [block] = starting("docs/mcp.md", "{")
    assert json.loads(MCP_SNIPPET.format(url=DASHBOARD, token="TOKEN")) == json.loads(block.text)


@proves("docs/coding-agents.md", "python3 -m venv")
def test_page_connect_installs_hooks_as_documented(block):
    assert HOOK_SNIPPET.format(url=DASHBOARD, token="TOKEN") == block.text


@proves("docs/experts.md", "key = base64")
def test_documented_check_of_a_webhook_accepts_ours(block):
    secret, body = "whsec_" + base64.b64encode(b"k" * 32).decode(), b"{}"
    headers = {"webhook-id": "d1", "webhook-timestamp": "1780000000"}
    names = {"base64": base64, "hmac": hmac, "secret": secret, "body": body}
    for key, fits in ((secret, True), ("whsec_" + base64.b64encode(b"x" * 32).decode(), False)):
        headers["webhook-signature"] = f"v1,{signature(key, 'd1', '1780000000', body)}"
        with contextlib.nullcontext() if fits else pytest.raises(AssertionError):
            exec(compile(block.text, str(block), "exec"), {**names, "headers": headers})


@proves("docs/mcp.md", "{")
async def test_documented_mcp_configuration_connects(block, house, tokens):
    [server] = json.loads(block.text.replace(DASHBOARD, house.url).replace("TOKEN", tokens["agent"]))[
        "mcpServers"
    ].values()
    async with (
        httpx.AsyncClient(headers=server["headers"], timeout=30) as http,
        streamable_http_client(server["url"], http_client=http) as (read, write, _),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        assert [one.name for one in (await client.list_tools()).tools][:1] == ["ask_expert"]


@proves("docs/protocol.md", "POST /api/v1/asks")
def test_documented_requests_of_an_ask_are_answered(block, house, tokens, desk):
    """The documented order: an ask, polls until it is not open, and the next step."""
    with house.http(tokens["agent"]) as http:
        episode = http.post("/episodes", json={"key": "documented", "task": "t", "expert": "plain"}).json()["id"]
        step = {"kind": "note", "content": "x"}
        http.post(f"/episodes/{episode}/steps", json={"steps": [{**step, "seq": seq} for seq in (1, 2, 3)]})
        ask = ""
        for one in block.requests():
            of_episode = one.path.startswith("/episodes")
            place, body = one.path.replace("…", episode if of_episode else ask), one.body
            if of_episode:
                body = {"steps": [{**step, **body["steps"][0]}]}
            elif body:
                body = {**body, "episode": episode}
            found = http.request(one.method, place, json=body)
            while found.json().get("status") == "open" and '"answered"' in one.told:
                found = http.request(one.method, place)
            assert found.status_code == (one.status or 200), found.text
            ask = ask or found.json()["id"]
            assert one.names_told() <= set(re.findall(r'"(\w+)":', found.text)), found.text


@pytest.fixture(scope="module")
def march(house, tokens):
    """The run `march` of the documents: two episodes of the arm `react`, and what they reported."""
    with house.http(tokens["launch"]) as launch, house.http(tokens["agent"]) as http:
        made = launch.post("/runs", json={"name": "march"}).raise_for_status().json()["id"]
        for number in range(2):
            body = {"key": f"march-{number}", "task": "Merge.", "run": made, "arm": "react", "scenario": "desk_1"}
            body |= {"task_idx": number, "training_step": 1, "policy": {"kind": "model", "model": "m/1"}}
            body["tools"] = [{"name": "merge", "input_schema": {"type": "object"}}]
            episode = http.post("/episodes", json=body).raise_for_status().json()["id"]
            step = {"seq": 1, "kind": "tool_call", "name": "merge", "arguments": {"into": number}, "result": "merged"}
            http.post(f"/episodes/{episode}/steps", json={"steps": [step]}).raise_for_status()
            end = {"stop_reason": "done", "outcome": {"reward_type": "complete", "reward": 1.0}}
            http.post(f"/episodes/{episode}/finish", json=end).raise_for_status()
        http.post(f"/runs/{made}/steps", json={"training_step": 1}).raise_for_status()
    return made


@proves("docs/exports.md", ".venv/bin/python manage.py export --format sft", "$ .venv/bin/python manage.py diff")
def test_documented_exports_are_written(block, house, tokens, march, tmp_path):
    [recipe] = starting("docs/exports.md", "format: sft")
    (tmp_path / "recipe.yaml").write_text(recipe.text)
    names = []
    with house.http(tokens["export"]) as http:
        for advice in ("keep", "drop") if "diff" in block.text else ():
            body = {"format": "sft", "filter": {"run": ["march"]}, "include": ["reported"], "advice": advice}
            made = http.post("/exports", json=body).raise_for_status().json()["id"]
            ended = until(lambda made=made: _ended(http, made), 60)
            names.append(ended["manifest"]["dataset"][:8])
    for command in block.commands():
        given = [names.pop(0) if len(one) == 8 and one.isalnum() else one for one in command]
        house.manage(*given, folder=tmp_path)
    if "export" in block.text.split()[2]:
        assert (tmp_path / "rows.jsonl.manifest.json").exists() and (tmp_path / "dataset" / "data").is_dir()


@proves("docs/exports.md", "from openenv.core.harness")
async def test_documented_lines_read_openenv_records(block, house, march, tmp_path, monkeypatch):
    given = ("--format", "openenv", "--filter", "run=march", "--include", "reported", "--output", "dataset/")
    house.manage("export", *given, folder=tmp_path)
    monkeypatch.chdir(tmp_path)
    assert [one.reward for one in (await run(block, {"json": json}))["records"]] == [1.0, 1.0]


def _ended(http, export):
    view = http.get(f"/exports/{export}").raise_for_status().json()
    return view if view["state"] in ("done", "failed") else None


@proves("docs/exports.md", "POST /api/v1/exports")
def test_documented_requests_of_an_export_are_answered(block, house, tokens, march):
    made = ""
    with house.http(tokens["export"]) as http:
        for one in block.requests():
            found = http.request(one.method, one.path.replace("…", made), json=one.body)
            made = made or found.json()["id"]
            if '"done"' in one.told:
                until(lambda made=made: _ended(http, made), 60)
                found = http.request(one.method, one.path.replace("…", made))
            assert found.status_code == (one.status or 200), found.text
            assert one.names_told() <= set(re.findall(r'"(\w+)":', found.text)), found.text


@proves("docs/import.md", "python manage.py import", "curl")
def test_documented_imports_are_read(block, house, march, tmp_path):
    house.manage("createproject", "lab", check=False)  # once
    for kind, name in (("inspect", "run.eval"), ("openenv", "results.jsonl")):
        house.manage("export", "--format", kind, "--filter", "run=march", "--output", name, folder=tmp_path)
    for command in block.commands():
        assert "Imported 2 episodes from run.eval (Inspect log)" in house.manage(*command, folder=tmp_path)
    for line in block.text.splitlines():
        if line.startswith("curl"):
            given = {"TOKEN": house.token("launch", "lab"), "PATH": os.environ["PATH"]}
            line = line.replace("https://desk.example.org", house.url)
            done = subprocess.run(line, shell=True, cwd=tmp_path, env=given, capture_output=True, text=True, check=True)
            assert set(json.loads(done.stdout)) >= {"id", "state"}, done.stdout


@proves("docs/briefings.md", ".venv/bin/python")
def test_documented_briefings_are_written(block, house, tmp_path):
    [plan] = starting("docs/briefings.md", "name: Do briefings")
    (tmp_path / "plan.yaml").write_text(plan.text)
    (tmp_path / "briefing.txt").write_text("Look first.")
    said = [house.manage(*command, folder=tmp_path) for command in block.commands()]
    assert "written" in said[0] and "Look first." in said[1] and "briefed: helpdesk_1/1" in said[2]


@proves("docs/runs.md", ".venv/bin/python manage.py run --estimate")
def test_documented_run_is_launched_and_steered(block, house, desk, tmp_path):
    [plan] = starting("docs/runs.md", "name: Does advice help?")
    (tmp_path / "plan.yaml").write_text(plan.text)
    made = "RUN"
    for command in block.commands():
        said = house.manage(*[made if one == "RUN" else one for one in command], folder=tmp_path)
        if found := re.search(r"launched (\w+):", said):
            made = found[1]
    house.manage("run", "--cancel", made)
    with house.http(house.token("launch")) as http:
        assert http.get(f"/runs/{made}/comparison").json()["state"] == "cancelled"


@proves(
    "docs/runs.md",
    ".venv/bin/python manage.py build_split", ".venv/bin/python manage.py probe", ".venv/bin/python manage.py report",
)  # fmt: skip
def test_documented_commands_of_runs_run(block, house, march, tmp_path):
    (tmp_path / "other.json").write_text(
        json.dumps({"meta": {}, "train": [["library_1", 0]], "val": [["trucking_1", 1]]})
    )
    placed = {"S": "library_1", "FILE": "probes.jsonl", "RUN": march, "DIR": "written"}
    for line in block.shell():
        [command] = [shlex.split(line.replace("[", "").replace("]", ""), comments=True)[2:]]
        house.manage(*[placed.get(one, one) for one in command], folder=tmp_path)
    assert block.text.count("report ") == 0 or list(tmp_path.iterdir())


@proves("docs/packs.md", "python packs/sources/build.py", "python manage.py loadpack", "$ python manage.py loadpack")
def test_documented_pack_is_built_and_loaded(block, house, bakery):
    """A scenario of the starter pack under another name: built, loaded, changed, replaced and unloaded."""
    for line in block.shell():
        words = shlex.split(line.replace("DIR", "sources", 1).replace("DIR", "bakery"), comments=True)
        if words[1] != "manage.py":
            output = [] if "--output" in words else ["--output", str(bakery / "again")]
            subprocess.run([sys.executable, str(ROOT / words[1]), *words[2:], *output], cwd=bakery, check=True)
            continue
        name, *given = [
            {"sources": "bakery", "NAME": "bakery", "FILE": "checks.json"}.get(one, one) for one in words[2:]
        ]
        if name == "loadpack":
            change(bakery / "bakery")
            given.append("--unchecked")  # the last line checks all of them
        if name == "fetchpack":
            house.manage("loadpack", "bakery", "--unchecked", folder=bakery)  # for the line behind it
            continue  # 1,000 scenarios from the Hub; tests/runs/taskset/test_fetching_packs.py has a Hub of its own
        if block.language == "console":
            house.manage("loadpack", "bakery", "--unchecked", folder=bakery)
            change(bakery / "bakery")
            said = "".join(house.commands.run(name, *given, folder=bakery)[1:])
            assert re.sub(r"[0-9a-f]{4,}…?", "…", block.text.splitlines()[1]) in re.sub(r"[0-9a-f]{4,}…?", "…", said)
            house.manage("unloadpack", "bakery")
        elif name == "checkpack":
            house.manage(name, "bakery", *given, folder=bakery)
            house.manage("unloadpack", "bakery")
        else:
            house.manage(name, *given, folder=bakery)


def change(pack):
    """Make another version of a pack."""
    [row] = [json.loads(line) for line in (pack / "gen_scenario.jsonl").read_text().splitlines()]
    row["description"] += " It is open on Sundays."
    (pack / "gen_scenario.jsonl").write_text(json.dumps(row) + "\n")


@pytest.fixture(scope="module")
def bakery(tmp_path_factory):
    """A folder with sources of one scenario and its pack, which no other test loads."""
    folder = tmp_path_factory.mktemp("packs")
    made = folder / "sources" / "bakery_1"
    shutil.copytree(ROOT / "packs" / "sources" / "library_1", made, ignore=shutil.ignore_patterns("0[1-9]"))
    about = json.loads((made / "scenario.json").read_text())
    (made / "scenario.json").write_text(json.dumps({**about, "name": "bakery_1"}))
    build = [sys.executable, str(ROOT / "packs/sources/build.py"), "--sources", "sources", "--output", "bakery"]
    subprocess.run(build, cwd=folder, check=True)
    return folder


@proves("docs/environment.md", "$ .venv/bin/python -m awmenv.server --packs")
def test_documented_server_starts_and_is_healthy(block, tmp_path):
    [port] = free_ports(1)
    start, ask = [line.replace("8100", str(port)).replace(".venv/bin/python", sys.executable) for line in block.shell()]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(shlex.split(start), cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        said = until(lambda: subprocess.run(shlex.split(ask), capture_output=True, text=True).stdout, 60)
    finally:
        server.terminate()
        server.wait(30)
    told = [re.sub(r"^\S+ \S+ ", "", line) for line in block.text.splitlines() if not line.startswith("$")]
    # the commit is that of the page's writer
    assert said == re.sub(r"\d+\.\d+\.\d+\+\w+", version(), told[1]) and told[0] in (tmp_path / "log").read_text()


@proves("docs/environment.md", "$ .venv/bin/python -m awmenv.server.checkpack")
def test_documented_check_of_databases_reports_each(block):
    [line] = block.shell()
    words = shlex.split(line.replace(".venv/bin/python", sys.executable))
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert block.text.splitlines()[1].partition(", …")[0] in said


@proves("docs/pictures.md", "import base64")
async def test_documented_pictures_are_recorded(block, house, tokens, desk):
    made = await run(block, {"TOKEN": tokens["agent"]}, **{DASHBOARD: house.url})
    await made["look"](picture(width=4))
    with house.http(tokens["export"]) as http:
        (episode,) = http.get("/episodes?q=blue shirt").json()["items"]
        call, asked = http.get(f"/episodes/{episode['id']}/steps").json()["steps"]
        (shown,), (form,) = call["result"]["content"], asked["pictures"]
        assert shown["blob"] == form["blob"] and asked["advice"]["text"] == "Yes."
        assert http.get(f"/blobs/{form['blob']}").content == picture(width=4)


@proves("docs/pictures.md", "POST /api/v1/episodes/E/blobs", '{\n  "kind": "message"')
def test_documented_picture_is_uploaded_and_named(block, house, tokens):
    upload = starting("docs/pictures.md", "POST /api/v1/episodes/E/blobs")[0].requests()[0]
    with house.http(tokens["agent"]) as http:
        episode = http.post("/episodes", json={"key": block.text[:20], "task": "look"}).json()["id"]
        reply = http.post(upload.path.replace("E", episode), content=picture(width=4))
        assert (reply.status_code, set(reply.json())) == (upload.status, upload.names_told())
        if block.language == "json":
            step = json.loads(block.text.replace("DIGEST", reply.json()["blob"]))
            told = http.post(f"/episodes/{episode}/steps", json={"steps": [{"seq": 1, **step}]})
            assert told.status_code == 200, told.text
