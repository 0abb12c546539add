"""Formats that other tools define: ATIF by its schema, OpenAI by its schema, OpenEnv by its own model."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from exports.writers.jsonl import line
from tests.exports.records import FAILED, STEPS, TOOLS, record, walk
from tests.exports.schemas import ATIF, OPENAI, atif_problem

USAGE = {"prompt_tokens": 812, "completion_tokens": 31, "total_tokens": 843}
META = {"prompt_ids": [1, 2], "completion_ids": [3], "logprobs": [-0.5]}
COUNTED = [{**step, "usage": USAGE, "meta": META} if step["seq"] in (3, 8) else step for step in STEPS]


def only(shape, one=None, **options):
    ((row,), _) = walk(shape, one or record(), **options)
    return row


def problems(schema, row):
    return [error.message for error in Draft202012Validator(schema).iter_errors(json.loads(line(row)))]


def test_atif_puts_results_on_the_step_of_their_calls():
    row = only("atif")
    assert problems(ATIF, row) == [] and atif_problem(row) is None
    assert [step["source"] for step in row["steps"]] == ["system", "user", "agent", "agent", "agent", "user", "agent"]
    look = row["steps"][2]
    assert look["message"] == "I look first."
    assert [call["arguments"] for call in look["tool_calls"]] == [{"id": 7}, {"id": "8"}]
    assert [result["content"] for result in look["observation"]["results"]] == ['{"open": true}', "Error: no such id"]
    assert row["steps"][3]["observation"]["results"][0]["extra"] == {"awm": {"part": "advice"}}
    assert [step["extra"]["awm"]["loss"] for step in row["steps"]] == [0, 0, 1, 1, 1, 0, 1]
    assert row["steps"][5]["extra"]["awm"]["part"] == "nudge"
    assert [tool["function"]["name"] for tool in row["agent"]["tool_definitions"]][-1] == "ask_expert"


@pytest.mark.parametrize("shape", ["sft", "steps", "kto", "inspect", "openenv", "atif"])
def test_rows_name_the_version_of_their_scenario(shape):
    row = walk(shape, record(scenario_digest="d" * 64))[0][0]
    extra = row.get("extra") or {}
    about = row if "scenario_digest" in row else row.get("metadata") or extra.get("awm") or extra
    assert about["scenario_digest"] == "d" * 64


def test_atif_says_where_it_comes_from_and_nobodys_name():
    row = only("atif", record(policy={"model": "m/1"}, policy_name="react", checkpoint="step-40"))
    assert row["agent"]["name"] == "react" and row["agent"]["model_name"] == "m/1"
    about = row["extra"]["awm"]
    assert (about["scenario"], about["task_idx"], about["reward"], about["outcome_word"]) == (
        "desk_1",
        3,
        1.0,
        "verified",
    )
    assert "Mina" not in json.dumps(row) and "does not see" not in json.dumps(row)


def test_atif_gives_token_ids_only_without_truncation():
    row = only("atif", record(steps=COUNTED))
    counts = {"prompt_tokens": 812, "completion_tokens": 31}
    assert [step["metrics"] for step in row["steps"] if "metrics" in step] == [counts, counts]
    assert row["final_metrics"] == {"total_prompt_tokens": 1624, "total_completion_tokens": 62, "total_steps": 7}
    open_row = only("atif", record(steps=COUNTED), redact="off")
    assert open_row["steps"][2]["metrics"] == {
        **counts, "prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5],
    }  # fmt: skip
    assert problems(ATIF, open_row) == []
    known = [{**step, "result": {"id": 7}} if step["seq"] == 4 else step for step in COUNTED]
    distilled = only("atif", record(steps=known), redact="off", advice="distil")
    assert "token_ids" not in json.dumps(distilled) and "ask_expert" not in json.dumps(distilled)


def test_atif_observes_actions_without_calls():
    steps = [{"seq": 1, "kind": "action", "action": {"move": "left"}, "observation": {"x": 1}, "turn": 1}]
    row = only("atif", record(steps=steps, tools=[], expert="off"))
    assert problems(ATIF, row) == []
    assert row["steps"][1]["observation"] == {"results": [{"content": '{"x": 1}'}]}


def test_schema_of_atif_refuses_what_the_format_refuses():
    good = only("atif")
    for wrong in (
        {**good, "reward": 1.0},
        {**good, "steps": []},
        {"trajectories": [good]},
        {**good, "steps": [{**good["steps"][0], "tool_calls": []}]},
        {**good, "steps": [{**good["steps"][2], "llm_call_count": 0, "metrics": {}}]},
    ):
        assert problems(ATIF, wrong)
    moved = {**good["steps"][4], "step_id": 1, "observation": {"results": [{"source_call_id": "x", "content": ""}]}}
    assert atif_problem({**good, "steps": [moved]}) and atif_problem({**good, "steps": good["steps"][1:]})


def test_openenvs_own_model_reads_its_records(tmp_path):
    from openenv.core.harness.collect import EpisodeRecord, RolloutSerializer

    steps = [{**step, "done": True} if step["seq"] == 8 else step for step in STEPS]
    rows, _ = walk("openenv", record(steps=steps), record(id="e2", task="Another."), include=["duplicates"])
    (tmp_path / "results.jsonl").write_bytes(b"".join(line(row) for row in rows))
    serializer = RolloutSerializer(tmp_path)
    assert serializer.collected_episode_ids() == {"e1", "e2"}
    back = [EpisodeRecord(**json.loads(text)) for text in serializer.results_path.read_text().splitlines()]
    assert [one.to_dict() for one in back] == rows
    serializer.write_episode(EpisodeRecord(**{**rows[0], "episode_id": "e3"}))
    assert serializer.collected_episode_ids() == {"e1", "e2", "e3"}, "their collector goes on in the same file"
    assert (back[0].reward, back[0].done) == (1.0, True)
    assert [(one["tool_name"], one["arguments"]) for one in back[0].tool_trace] == [
        ("get_ticket", {"id": 7}), ("get_ticket", {"id": "8"}), ("merge", {"into": 7}),
    ]  # fmt: skip
    assert back[0].tool_trace[1]["result"]["error"] == "no such id" and back[0].tool_trace[1]["result"]["data"] is None
    assert back[0].tool_trace[2]["result"]["done"] is True


def test_openenv_has_the_fields_of_the_installed_model():
    import dataclasses

    from openenv.core.harness.collect import EpisodeRecord
    from openenv.core.harness.rollout import ToolResult

    row = only("openenv")
    assert set(row) == {one.name for one in dataclasses.fields(EpisodeRecord)}
    assert set(row["tool_trace"][0]["result"]) == {one.name for one in dataclasses.fields(ToolResult)}


def test_openenv_reward_is_null_for_an_outcome_without_a_number():
    from exports.record import EpisodeResult

    (row,), _ = walk("openenv", record(results={"verified": EpisodeResult("complete", None, "verified")}))
    assert row["reward"] is None and row["verify_metrics"] == {"reward_type": "complete", "word": "verified"}


@pytest.mark.parametrize("shape", ["atif", "openenv", "inspect"])
def test_report_holds_equal_and_failed_episodes(shape):
    rows, counts = walk(shape, record(), record(id="e2"), record(id="e3", results=FAILED))
    assert len(rows) == 3 and not counts.rows_left_out


def test_openai_rows_follow_the_documented_format():
    row = only("openai")
    assert problems(OPENAI, row) == []
    assert [message["weight"] for message in row["messages"] if message["role"] == "assistant"] == [1, 1, 1, 1]
    bare = only("openai", record(tools=[{"name": "look"}], steps=[*STEPS[:3], {**STEPS[-1], "turn": 2}]))
    assert problems(OPENAI, bare) == []
    for wrong in ({**row, "episode_id": "e"}, {**row, "messages": [{**row["messages"][1], "weight": 1}]}):
        assert problems(OPENAI, wrong)


def test_inspect_keeps_authors_and_failed_calls():
    row = only("inspect", record(policy={"model": "m/1"}))
    assert row["id"] == "desk_1:3" and row["uuid"] == "e1"
    assert row["scores"]["awm_verifier"]["value"] == 1.0
    parts = [message["metadata"]["part"] for message in row["messages"]]
    assert parts == [
        "prompt", "prompt", "assistant", "result", "result", "assistant", "advice", "assistant", "result", "nudge",
        "assistant",
    ]  # fmt: skip
    failed = row["messages"][4]
    assert failed["function"] == "get_ticket" and failed["error"] == {"type": "unknown", "message": "no such id"}
    assert row["messages"][5]["tool_calls"] == [
        {"id": "call00003", "function": "ask_expert", "arguments": {"question": "Into which?"}, "type": "function"}
    ]
    assert row["output"]["completion"] == "Merged into 7." and TOOLS[0]["name"] in json.dumps(row["metadata"]["tools"])
