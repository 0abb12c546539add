"""What a careless or hostile caller sends to the API: the contract's error each time, and the process lives."""

from __future__ import annotations

import json

import pytest

from people.models import new_id

pytestmark = pytest.mark.attack("requests and steps")


@pytest.fixture(scope="module")
def agent(house):
    with house.http(house.token("agent")) as http:
        yield http


@pytest.fixture
def episode(agent):
    return agent.post("/episodes", json={"key": new_id(), "task": "t"}).json()["id"]


def refused(answer):
    body = answer.json()
    assert set(body) == {"error"} and set(body["error"]) == {"code", "message"}, body
    return answer.status_code, body["error"]["code"]


def raw(http, path, body):
    return http.post(path, content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"a": NaN}', b"[" * 200_000, b'{"key": ' + b'{"a":' * 100_000])
def test_what_is_not_json_is_400(agent, body):
    assert refused(raw(agent, "/episodes", body)) == (400, "bad_json")


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b'"text"', b"null"])
def test_json_that_is_no_object_is_refused(agent, body):
    assert refused(raw(agent, "/episodes", body))[0] in (400, 422)


@pytest.mark.parametrize(
    "change",
    [
        {"surprise": 1}, {"task_idx": "1"}, {"task_idx": True}, {"task_idx": -1}, {"task_idx": 2**40}, {"seed": 1.5},
        {"task": ""}, {"task": None}, {"key": "a\x00b"}, {"key": "\ud800"}, {"key": "x" * 201}, {"expert": "maybe"},
        {"tools": {}}, {"policy": "gpt"}, {"run": 7},
    ],
)  # fmt: skip
def test_unknown_fields_and_wrong_types_are_422(agent, change):
    body = json.dumps({"key": new_id(), "task": "t", **change})
    assert refused(raw(agent, "/episodes", body)) == (422, "invalid")


def test_anything_goes_inside_policy_meta_and_details(agent):
    start = {"key": new_id(), "task": "t", "policy": {"any": {"thing": [1, "\ud800\x00"]}}}
    made = raw(agent, "/episodes", json.dumps(start)).json()["id"]
    step = {"seq": 1, "kind": "note", "content": "\ud800\x00", "meta": {"prompt_ids": [1], "x": "\ud83d"}}
    assert raw(agent, f"/episodes/{made}/steps", json.dumps({"steps": [step]})).status_code == 200
    (stored,) = agent.get(f"/episodes/{made}/steps").json()["steps"]
    assert stored["content"] == "\ud800\x00" and stored["meta"] == step["meta"]
    end = {"stop_reason": "done", "outcome": {"reward_type": "mine", "reward": 1, "details": {"x": "\x00\ud800"}}}
    assert raw(agent, f"/episodes/{made}/finish", json.dumps(end)).status_code == 200


def test_gap_conflict_and_a_step_after_the_end(agent, episode):
    where = f"/episodes/{episode}/steps"
    assert refused(agent.post(where, json={"steps": [{"seq": 2, "kind": "note", "content": "x"}]})) == (409, "seq_gap")
    assert agent.post(where, json={"steps": [{"seq": 1, "kind": "note", "content": "x"}]}).status_code == 200
    assert refused(agent.post(where, json={"steps": [{"seq": 1, "kind": "note", "content": "y"}]})) == (
        409,
        "step_conflict",
    )
    assert agent.post(f"/episodes/{episode}/finish", json={"stop_reason": "done"}).status_code == 200
    assert refused(agent.post(where, json={"steps": [{"seq": 2, "kind": "note", "content": "x"}]})) == (
        409,
        "episode_ended",
    )
    ask = {"key": "q", "episode": episode, "seq": 2, "question": "?"}
    assert refused(agent.post("/asks", json=ask))[0] == 409


@pytest.mark.parametrize("kind", ["ask", "verification", "reward", None, 7])
def test_steps_of_the_servers_own_kinds_are_422(agent, episode, kind):
    step = {"seq": 1, "kind": kind, "question": "?", "reward_type": "complete"}
    assert refused(agent.post(f"/episodes/{episode}/steps", json={"steps": [step]})) == (422, "invalid")


def test_another_projects_objects_are_404_and_another_scope_403(house, agent, episode):
    house.manage("shell", "-c", "from people.record.members import ensure_project as e; e('far', 'Far')")
    with house.http(house.token("agent", "far")) as stranger:
        assert refused(stranger.get(f"/episodes/{episode}")) == (404, "not_found")
        assert refused(stranger.post(f"/episodes/{episode}/heartbeat")) == (404, "not_found")
        assert refused(stranger.post("/episodes", json={"key": "k", "task": "t", "run": new_id()})) == (
            404,
            "not_found",
        )
    with house.http(house.token("export")) as exporter:
        assert refused(exporter.post(f"/episodes/{episode}/heartbeat")) == (403, "scope")
    assert refused(agent.get("/asks")) == (403, "scope")


def test_without_a_valid_token_it_is_401(house):
    for token in (None, "nonsense", "awm_" + "x" * 43):
        with house.http(token) as nobody:
            assert refused(nobody.get("/asks")) == (401, "unauthenticated")
            assert refused(nobody.get("/asks/whatever?wait=1")) == (401, "unauthenticated")


def test_an_oversized_body_is_413_and_an_unknown_call_404(agent, episode):
    big = json.dumps({"key": "k", "task": "t", "policy": {"x": "y" * (2 * 1024 * 1024)}})
    assert refused(raw(agent, "/episodes", big)) == (413, "too_large")
    huge = json.dumps({"steps": [{"seq": 1, "kind": "note", "content": "y" * (9 * 1024 * 1024)}]})
    assert refused(raw(agent, f"/episodes/{episode}/steps", huge)) == (413, "too_large")
    batch = {"steps": [{"seq": n, "kind": "note", "content": "y" * 1024 * 1024} for n in (1, 2, 3)]}
    assert refused(agent.post(f"/episodes/{episode}/steps", json=batch)) == (413, "too_large")
    assert refused(agent.get("/nothing"))[0] == 404
    assert agent.get(f"/episodes/{episode}").json()["last_seq"] == 0


@pytest.mark.parametrize("path", ["/api/v1/runs", "/login", "/api/v1/asks/one"])
def test_a_body_without_an_end_is_413_whoever_it_was_meant_for(house, agent, path):
    """In pieces, so that nobody knows before how long it gets."""
    method = "GET" if "asks" in path else "POST"
    pieces = (b"y" * 1024 * 1024 for _ in range(20))
    answer = agent.build_request(method, house.url + path, content=pieces)
    assert refused(agent.send(answer)) == (413, "too_large")


def test_a_single_step_of_several_megabytes_is_taken_whole(agent, episode):
    step = {"seq": 1, "kind": "tool_call", "name": "dump", "arguments": {}, "result": "z" * (5 * 1024 * 1024)}
    assert agent.post(f"/episodes/{episode}/steps", json={"steps": [step]}).json() == {"acknowledged": 1}
    assert len(agent.get(f"/episodes/{episode}/steps").json()["steps"][0]["result"]) == 5 * 1024 * 1024


@pytest.mark.parametrize("query", ["since=-1", "since=x", "limit=0", "limit=99999999999", "since=1e3"])
def test_a_bad_query_is_422(agent, episode, query):
    assert refused(agent.get(f"/episodes/{episode}/steps?{query}")) == (422, "invalid")


@pytest.mark.parametrize("wait", ["26", "-1", "x", "1e9"])
def test_a_bad_wait_is_422(agent, episode, wait):
    body = {"key": "q", "episode": episode, "seq": 1, "question": "?"}
    assert refused(agent.post("/asks", json=body)) == (409, "expert_off")
    assert refused(agent.get(f"/asks/{new_id()}?wait={wait}"))[0] in (404, 422)
