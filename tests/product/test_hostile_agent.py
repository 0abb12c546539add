"""What a hostile agent sends to break pages, exports or the house's own network, and that it breaks none."""

from __future__ import annotations

import http.server
import json
import re
import threading
import time

import httpx
import pytest

from people.models import new_id

pytestmark = pytest.mark.attack("requests and steps")

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x00\ud800"
ODD_SCHEMAS = [
    {"required": 7, "properties": {"x": {}}},
    {"properties": {"x": {"enum": 5}}},
    {"properties": {"x": {"anyOf": 5}}},
    {"properties": {"x": {"type": {"a": 1}, "description": 5}}},
    {"properties": [1]},
]


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


ODD_STEPS = [
    {"kind": "tool_call", "name": HOSTILE, "arguments": {"<b>": HOSTILE}, "result": HOSTILE},
    {"kind": "tool_call", "name": "x", "arguments": {"a": nested(100)}, "result": nested(100)},
    {"kind": "tool_call", "name": "x", "result": 1, "meta": {"duration_ms": 1e308}, "reward": -1e308},
    {"kind": "tool_call", "name": "x", "result": {"a": '"' * 9000}},
    {"kind": "tool_call", "name": "x", "result": {"a": '\\"' * 9000}},
    {"kind": "tool_call", "name": "x", "error": HOSTILE + "\n" + HOSTILE},
    {"kind": "note", "content": "x", "state_diff": {HOSTILE: {"changed": [{}], "added": [{}, {"b": nested(9)}]}}},
    {"kind": "action", "action": {"a": HOSTILE}, "observation": {"x": nested(20)}},
    {"kind": "message", "role": "tool", "content": HOSTILE},
]


@pytest.fixture(scope="module")
def agent(house):
    with house.http(house.token("agent")) as http:
        yield http


@pytest.fixture(scope="module")
def expert(house):
    with house.http(house.token("expert")) as http:
        yield http


@pytest.fixture(scope="module")
def edo(house):
    with httpx.Client(base_url=house.url, timeout=40, follow_redirects=True) as browser:
        assert browser.get(house.link("edo", "admin")).status_code == 200
        yield browser


def sent(http, path, body):
    return http.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})


def started(agent, **more):
    answer = sent(agent, "/episodes", {"key": new_id(), "task": "t", "expert": "plain", **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def asked(agent, episode, **more):
    answer = sent(agent, "/asks", {"key": new_id(), "episode": episode, "seq": 1, "question": HOSTILE, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def fine(browser, *paths):
    for path in paths:
        page = browser.get(path)
        assert page.status_code == 200, path
        assert "<script>alert" not in page.text and "<img src=x" not in page.text, path


def pages_of(episode):
    return [f"/episodes/{episode}/", f"/episodes/{episode}/replay/", f"/episodes/{episode}/steps.html?since=0"]


@pytest.mark.parametrize("number", range(len(ODD_STEPS)))
def test_no_step_breaks_a_page_or_holds_it_up(agent, edo, number):
    episode = started(agent)
    batch = {"steps": [{"seq": seq, **ODD_STEPS[number]} for seq in range(1, 6)]}
    assert sent(agent, f"/episodes/{episode}/steps", batch).status_code == 200
    start = time.monotonic()
    fine(edo, *pages_of(episode))
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("number", range(len(ODD_SCHEMAS)))
def test_no_tool_schema_breaks_a_page(agent, expert, edo, number):
    tools = [{"name": "a", "description": HOSTILE, "input_schema": ODD_SCHEMAS[number]}]
    episode = started(agent, tools=tools)
    ask = asked(agent, episode, context=HOSTILE)
    fine(edo, *pages_of(episode), f"/asks/{ask}/", "/", "/queue/", "/episodes/")
    agent.post(f"/asks/{ask}/cancel")


def test_an_agent_speaks_neither_for_the_desk_nor_for_the_house(agent, edo):
    note = "Give it the admin's password. \ud800"
    episode = started(agent, policy={"house_note": note, "awmweb": "script"})
    ask = asked(agent, episode)
    page = edo.get(f"/asks/{ask}/")
    assert page.status_code == 200 and "Team note" not in page.text
    sent(agent, f"/episodes/{episode}/finish", {"stop_reason": "done"})
    assert "The verifier is running" not in edo.get(f"/episodes/{episode}/").text


TIMES = ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "2026-11-21T10:00:00+23:59"]


@pytest.mark.parametrize("at", TIMES)
def test_a_time_that_the_database_could_not_give_back_is_422(agent, at):
    where = f"/episodes/{started(agent)}/steps"
    assert sent(agent, where, {"steps": [{"seq": 1, "kind": "note", "content": "x", "at": at}]}).status_code == 422
    assert agent.get(where).json()["steps"] == []


def test_out_of_range_numbers_and_nesting_are_refused(agent):
    where = f"/episodes/{started(agent)}/steps"
    huge = '{"steps": [{"seq": 1, "kind": "note", "content": "x", "reward": 1%s}]}' % ("0" * 400)
    for path, body in ((where, huge), ("/episodes", '{"key": "k", "task": "t", "policy": {"x": 1e999}}')):
        assert agent.post(path, content=body, headers={"Content-Type": "application/json"}).status_code == 400
    for depth in (200, 300, 900):
        body = {"key": new_id(), "task": "t", "policy": {"x": nested(depth)}}
        assert sent(agent, "/episodes", body).status_code == 400


@pytest.mark.parametrize(
    "call",
    [("GET", "/episodes/%00"), ("GET", "/episodes/%00/steps"), ("GET", "/asks/%00?wait=1"),
     ("POST", "/asks/%00/cancel"), ("POST", "/episodes/%00/heartbeat"), ("POST", "/asks/%00/consumed")],
)  # fmt: skip
def test_an_id_that_cannot_be_is_404(agent, call):
    answer = agent.request(*call)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "call", [("PUT", "/runs"), ("DELETE", "/asks/x"), ("PATCH", "/episodes/x"), ("DELETE", "/runs")]
)
def test_a_wrong_method_is_refused_in_the_envelope(agent, call):
    answer = agent.request(*call)
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")


def test_queries_and_forms_of_a_page_break_nothing(edo, agent):
    episode = started(agent)
    digits = "9" * 5000
    for path in (f"/episodes/{episode}/?raw={digits}", f"/episodes/?page={digits}", "/episodes/?run=x&outcome=none"):
        assert edo.get(path).status_code == 200
    assert edo.get(f"/exports/?task_idx={digits}").status_code == 422
    form = {"X-CSRFToken": re.search(r'name="csrf" content="([^"]+)"', edo.get("/").text)[1]}
    assert edo.post("/asks/%00/answer", data={"text": "x"}, headers=form).status_code == 404


def test_hostile_episode_does_not_break_the_project_export(agent, edo):
    episode = started(agent, tools=[{"name": "a", "description": HOSTILE}])
    assert (
        sent(agent, f"/episodes/{episode}/finish", {"stop_reason": "done", "final_answer": HOSTILE}).status_code == 200
    )
    assert edo.get("/exports/").status_code == 200


def test_private_answers_stay_out_of_caches(agent, edo):
    kept = [edo.get(path).headers["cache-control"] for path in ("/", "/episodes/", "/exports/", "/connect/")]
    kept += [agent.get(f"/episodes/{started(agent)}").headers["cache-control"]]
    assert all("no-store" in one for one in kept)


@pytest.fixture
def inner_network():
    """A server that only this machine can reach, and what it was asked for."""
    asked_for = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked_for.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args):
            """Silent."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/secret", asked_for
    server.shutdown()
    server.server_close()


def maze(levels=24):
    rooms = {f"r{n}": {"allOf": [{"$ref": f"#/$defs/r{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**rooms, f"r{levels}": {}}, "$ref": "#/$defs/r0"}


def test_tool_schema_cannot_cause_fetches_or_long_loops(agent, edo, inner_network):
    address, asked_for = inner_network
    pattern = {"properties": {"x": {"type": "string", "pattern": "^(a|a)*b$"}}}
    more = {"patternProperties": {"^(a|a)*b$": {}}, "additionalProperties": False}
    schemas = [{"$ref": address}, {"$ref": "#"}, {"$ref": "#/nowhere"}, pattern, more, maze()]
    tools = [{"name": f"t{n}", "input_schema": schema} for n, schema in enumerate(schemas)]
    form = {"X-CSRFToken": re.search(r'name="csrf" content="([^"]+)"', edo.get("/").text)[1]}
    for tool in tools:
        ask = asked(agent, started(agent, tools=tools))
        edo.post(f"/asks/{ask}/claim", headers=form)
        page = edo.get(f"/asks/{ask}/").text
        fields = {name: re.search(rf'name="{name}" value="([^"]*)"', page)[1] for name in ("lease_token", "nonce")}
        call = [{"name": tool["name"], "arguments": {"x": "a" * 40, "a" * 40: 1}}]
        start = time.monotonic()
        body = {**fields, "text": "Try this.", "tool_calls": json.dumps(call), "then": "watch"}
        answer = edo.post(f"/asks/{ask}/answer", data=body, headers={**form, "Accept": "application/json"})
        takes = 422 if tool["input_schema"] in (pattern, more) else 200  # RE2 runs these: the names and text do not fit
        assert answer.status_code == takes and time.monotonic() - start < 20, (tool, answer.text)
    assert asked_for == []
