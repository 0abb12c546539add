"""Traces of a whole product at a collector: one across web, worker and environment server, and no word of anyone's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from awmenv.spans import is_address
from tests.awmclient.openai_server import OpenAIServer, answering, tool_call
from tests.documented import proves
from tests.product.test_models import oracle
from tests.running import ROOT, product, until

PLAY = "runs.tasks.play"
CANARY = "Zq7canary"
KEY = "collector-key-0123456789"
WORDS = {"question": f"Which agent? {CANARY}", "context": CANARY}
PLAN = {
    "tasks": {"scenarios": ["helpdesk_1"], "limit": 1},
    "policy": "model",
    "arms": [{"name": "helped", "expert": "plain"}],
}


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP as a collector does, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[bytes] = []
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[dict]:
        found = []
        for body in list(self.bodies):
            for of_process in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = {one.key: one.value.string_value for one in of_process.resource.attributes}["service.name"]
                for scope in of_process.scope_spans:
                    found += [as_row(service, one) for one in scope.spans]
        return found


class Handler(BaseHTTPRequestHandler):
    """One export."""

    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            self.server.bodies.append(body)
            self.server.keys.add(self.headers.get("x-key"))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def as_row(service, span):
    about = {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
    ids = {"id": span.span_id.hex(), "parent": span.parent_span_id.hex(), "trace": span.trace_id.hex()}
    links = [one.trace_id.hex() for one in span.links]
    return {"service": service.removeprefix("awmweb-"), "name": span.name, **ids, "links": links, "about": about}


def agent(body):
    """Asks first, calls a tool that is not there, then plays the oracle; each turn has words of its own."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    if turn == 0:
        return tool_call("ask_expert", WORDS) | {"content": CANARY}
    if turn == 1:
        return tool_call(f"tool_{CANARY}", {"q": CANARY}) | {"content": CANARY}
    said = oracle({"messages": [one for one in body["messages"] if one["role"] == "assistant"][2:]})
    return said if isinstance(said, str) else said | {"content": CANARY}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def seen(collector):
    """What the collector has after an episode that asked, and requests with secrets in their addresses."""
    endpoint = OpenAIServer(agent)
    with answering(endpoint):
        model = {"AWMWEB_AGENT_BASE_URL": endpoint.base_url, "AWMWEB_AGENT_MODEL": "tiny"}
        traced = {"AWMWEB_TRACES_TO": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={KEY}"}
        with product(**model, **traced, AWMWEB_LOG_FORMAT="json") as house:
            said = played(house)
            refused = until(lambda: refusals(house), 60)[0]
            until(lambda: arrived(collector.spans(), refused["request"]), 60)
            yield {"spans": collector.spans, **said, "house": house}


def played(house):
    tokens = {scope: house.token(scope) for scope in ("launch", "expert")}
    launch, expert = house.http(tokens["launch"]), house.http(tokens["expert"])
    run = launch.post("/runs", json={"name": "traced", "plan": PLAN}).raise_for_status().json()["id"]
    ask = until(lambda: expert.get("/asks?status=open").json()["asks"], 60, 0.5)[0]
    lease = expert.post(f"/asks/{ask['id']}/claim", json={}).raise_for_status().json()
    said = {"lease_token": lease["lease_token"], "text": f"Priya. {CANARY}", "nonce": "n"}
    expert.post(f"/assignments/{lease['assignment']}/answer", json=said).raise_for_status()
    done = until(
        lambda: [one for one in launch.get("/episodes").json()["items"] if one["state"] == "finished"], 60, 0.5
    )
    link = house.link("lou", "viewer")
    with httpx.Client(base_url=house.url, follow_redirects=True) as browser:
        browser.get(link)
        browser.get("/episodes/", params={"q": CANARY})
        browser.get(f"/{CANARY}/")
    return {
        "run": run,
        "ask": ask["id"],
        "episode": done[0]["id"],
        "secrets": [*tokens.values(), link.rpartition("/")[2]],
    }


def refusals(house):
    """The lines in the log of the web process on the address that it does not have."""
    lines = (house.var / "logs" / "web.log").read_text().splitlines(keepends=True)
    whole = [json.loads(line) for line in lines if line[0] == "{" and line[-1] == "\n"]
    return [one for one in whole if CANARY in one["message"]]


def arrived(spans, request):
    """Whether each process sent the last of what was done: they send in batches, seconds later.

    The last of the web process is known by its id: the name of its span is that of `/`, too.
    """
    last = {("rollouts", f"task {PLAY}"), ("env", "done")}
    sent = {(one["service"], one["name"]) for one in spans}
    return last <= sent and request in {one["about"].get("awmweb.request") for one in spans}


def named(spans, service, name):
    return [one for one in spans if one["service"] == service and one["name"] == name]


def test_episode_is_one_trace_across_three_processes(seen):
    spans = seen["spans"]()
    (request,) = named(spans, "web", "POST api/v1/runs")
    (task,) = named(spans, "rollouts", f"task {PLAY}")
    (episode,) = named(spans, "rollouts", "episode")
    assert (task["parent"], episode["parent"], request["parent"]) == (request["id"], task["id"], "")
    trace = [one for one in spans if one["trace"] == request["trace"]]
    assert {"turn", "choose", "environment reset", "environment call_tool"} <= {one["name"] for one in trace}
    assert {one["name"] for one in trace if one["service"] == "env"} >= {"reset", "list_tools", "call_tool", "verify"}
    assert {one["parent"] for one in trace} - {one["id"] for one in trace} == {""}, "a parent is missing"
    about = episode["about"]
    assert (about["awmweb.episode"], about["awmweb.run"]) == (seen["episode"], seen["run"])
    assert about["awmweb.project"] == "demo"
    (claim,) = [one for one in spans if one["about"].get("awmweb.ask") == seen["ask"] and "claim" in one["name"]]
    assert len(claim["about"]["awmweb.request"]) == 32 and claim["about"]["http.response.status_code"] == 200
    (wait,) = named(trace, "rollouts", "wait for advice")
    assert wait["about"] == {"awmweb.ask": seen["ask"]}
    turns = [one["about"]["awmweb.turn"] for one in trace if one["name"] == "choose"]
    assert sorted(turns) == list(range(1, len(turns) + 1)) and len(turns) > 2


def test_spans_hold_no_word_and_no_secret(seen, collector):
    routes = {"GET login/once/<str:secret>", "GET episodes/", "GET"}
    assert routes <= {one["name"] for one in seen["spans"]()}
    sent = b"".join(collector.bodies)
    assert [word for word in (CANARY, KEY, "Priya", "complete", *seen["secrets"]) if word.encode() in sent] == []


@proves("docs/production.md", "make install-extras")
def test_documented_lines_install_and_set_what_this_has(seen, collector, block):
    install, start = block.text.splitlines()
    made = subprocess.run([*install.split(), "-n"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "cat requirements-extras.lock" in made and "-r .venv/wanted.txt" in made
    name, _, address = start.removesuffix(" make run").partition("=")
    assert seen["house"].environment[name] == collector.url and is_address(address)


def test_collector_is_sent_the_operators_headers(seen, collector):
    assert collector.keys == {KEY}


def test_json_line_names_the_trace_of_its_request(seen):
    (refused,) = refusals(seen["house"])
    (span,) = [one for one in seen["spans"]() if one["about"].get("awmweb.request") == refused["request"]]
    assert span["trace"] == refused["trace_id"]


def test_each_episode_of_a_run_has_a_trace_with_a_link(seen):
    """Those that follow: a run of thousands would be one trace."""
    plan = {"tasks": {"limit": 4}, "policy": "script:oracle", "arms": [{"name": "only"}], "parallel": 1}
    with seen["house"].http(seen["secrets"][0]) as launch:
        run = launch.post("/runs", json={"name": "many", "plan": plan}).raise_for_status().json()["id"]

    def episodes():
        return [one for one in named(seen["spans"](), "rollouts", "episode") if one["about"].get("awmweb.run") == run]

    until(lambda: len(episodes()) == 4, 90, 0.5)
    traces = {one["trace"] for one in episodes()}
    assert len(traces) == 4

    def followers():
        roots = [one for one in seen["spans"]() if one["trace"] in traces and not one["parent"]]
        return [one for one in roots if one["service"] == "rollouts"]

    until(lambda: len(followers()) == 3, 30)
    assert all(len(one["links"]) == 1 for one in followers()), followers()


def test_dataset_code_has_no_key_of_the_collector(seen):
    given = [one.environ() for one, part in seen["house"].processes().items() if part == "env"]
    (server,) = [one for one in given if "AWMENV_TRACES_TO" in one]
    assert KEY in server["OTEL_EXPORTER_OTLP_HEADERS"] and "DATABASE_URL" not in server
    assert len(given) > 2 and [one for one in given if one is not server and KEY in str(one)] == []


def test_last_spans_are_sent_at_the_end_of_a_process(seen):
    house = seen["house"]
    with house.http(seen["secrets"][0]) as launch:
        launch.get(f"/runs/{seen['run']}/comparison").raise_for_status()
    os.kill(house.children()["web"], signal.SIGTERM)
    name = "GET api/v1/runs/<run_id>/comparison"
    (span,) = until(lambda: named(seen["spans"](), "web", name), 60)
    assert span["about"]["awmweb.run"] == seen["run"]
    until(house.healthy, 60)
