"""Conversational rows: what is in them, that `datasets` loads them, and that real chat templates render them with the
right assistant spans."""

from __future__ import annotations

import io
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from awmclient.schema import Advice, AskOpen, EpisodeStart, Finish, Outcome, StepBatch, ToolCall, ToolSpec, Trajectory
from episodes import recording, trajectory
from experts import advising, queue
from exports import exporting
from exports.formats import sft
from exports.leakage import reason_against
from people.errors import Forbidden, Invalid
from tests.browsing import as_person

TOOLS = [
    ToolSpec(name="get_ticket", description="One ticket.", input_schema={"type": "object", "properties": {"id": {}}}),
    ToolSpec(name="merge", description="Merge two.", input_schema={"type": "object", "properties": {"into": {}}}),
]
STEPS = [
    {"seq": 1, "kind": "message", "role": "system", "content": "You act in an environment."},
    {"seq": 2, "kind": "message", "role": "user", "content": "Merge the duplicates."},
    {"seq": 3, "kind": "message", "role": "assistant", "content": "I look first.", "turn": 1},
    {"seq": 4, "kind": "tool_call", "name": "get_ticket", "arguments": {"id": 7}, "result": {"open": True}, "turn": 1},
    {"seq": 5, "kind": "tool_call", "name": "get_ticket", "arguments": {"id": "8"}, "error": "no such id", "turn": 1},
    {"seq": 6, "kind": "note", "content": "the agent does not see this", "meta": {"prompt_ids": [1]}},
    {"seq": 7, "kind": "ask", "question": "Into which?", "advice": {"text": "Into 7.", "source": "human"}, "turn": 2},
    {"seq": 8, "kind": "tool_call", "name": "merge", "arguments": {"into": 7}, "result": {"ok": True}, "turn": 3},
    {"seq": 9, "kind": "nudge", "content": "Finish if you are through."},
    {"seq": 10, "kind": "message", "role": "assistant", "content": "Merged into 7.", "turn": 4},
    {"seq": 11, "kind": "verification", "reward_type": "complete", "details": {"secret": "verifier text"}},
]


def value(**more):
    fields = {
        "episode": "e1", "project": "lab", "state": "finished", "task": "Merge the duplicates.", "tools": TOOLS,
        "expert": "plain", "steps": STEPS, "outcome": {"reward_type": "complete", "reward": 1.0}, **more,
    }  # fmt: skip
    return Trajectory.model_validate(fields)


def test_a_turn_is_one_assistant_message_with_its_calls_and_then_their_results():
    (row,) = sft.rows(value())
    assert [message["role"] for message in row["messages"]] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "tool", "user", "assistant",
    ]  # fmt: skip
    first = row["messages"][2]
    assert first["content"] == "I look first."
    assert [call["function"]["arguments"] for call in first["tool_calls"]] == [{"id": 7}, {"id": "8"}]
    assert [m["tool_call_id"] for m in row["messages"][3:5]] == [call["id"] for call in first["tool_calls"]]
    assert row["messages"][4]["content"] == "no such id"


def test_an_ask_is_a_call_of_the_virtual_tool_and_the_advice_its_result():
    (row,) = sft.rows(value())
    call, result = row["messages"][5], row["messages"][6]
    assert call["content"] == "" and call["tool_calls"][0]["function"] == {
        "name": "ask_expert", "arguments": {"question": "Into which?"},
    }  # fmt: skip
    assert json.loads(result["content"]) == {"status": "advice", "advice": "Into 7."}
    assert [tool["function"]["name"] for tool in row["tools"]] == ["get_ticket", "merge", "ask_expert"]


def test_verification_notes_and_the_verifiers_words_are_in_no_row():
    (row,) = sft.rows(value())
    assert "verifier text" not in json.dumps(row) and "does not see" not in json.dumps(row)
    assert row["reward"] == 1.0 and row["reward_type"] == "complete"


def test_the_same_trajectory_gives_the_same_bytes():
    assert [json.dumps(row) for row in sft.rows(value())] == [json.dumps(row) for row in sft.rows(value())]


def test_an_episode_of_plain_actions_is_no_conversation():
    steps = [{"seq": 1, "kind": "action", "action": {"move": "left"}, "observation": {}}]
    assert list(sft.rows(value(steps=steps))) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"outcome": None}, "not_verified"),
        (
            {"outcome": None, "reported": {"reward_type": "complete", "reward": 1.0, "source": "reported"}},
            "not_verified",
        ),
        ({"outcome": {"reward_type": "others", "reward": 0.0}}, "not_complete"),
        ({"split": "val"}, "held_out"),
        ({"tools": [{"name": "verify"}]}, "control_tool"),
        ({}, None),
    ],
)
def test_a_row_is_refused_for_a_stated_reason(change, reason):
    assert reason_against(value(**change)) == reason


def test_advice_by_somebody_who_saw_the_verifier_keeps_the_episode_out():
    informed = Advice(text="x", source="human", privilege="sees_verifier").model_dump()
    steps = [{**step, "advice": informed} if step["kind"] == "ask" else step for step in STEPS]
    assert reason_against(value(steps=steps)) == "verifier_informed"


def many_rows():
    """Rows whose arguments differ in shape, which is what trips a reader that infers types."""
    other = [
        {**step, "arguments": {"id": {"nested": [1, "two", None]}}} if step["seq"] == 4 else step for step in STEPS
    ]
    return [*sft.rows(value()), *sft.rows(value(episode="e2", steps=other))]


def test_datasets_loads_the_file_with_the_manifests_features(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    from datasets import Features, load_dataset

    file = tmp_path / "list-keys.jsonl"
    rows = many_rows()
    file.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))
    features = Features.from_dict(json.loads(json.dumps(sft.FEATURES)))
    loaded = load_dataset("json", data_files=str(file), features=features, split="train", cache_dir=str(tmp_path / "c"))
    assert len(loaded) == 2
    for row, back in zip(rows, loaded, strict=True):
        assert back["tools"] == row["tools"]
        assert [m["tool_calls"] or [] for m in back["messages"]] == [m.get("tool_calls", []) for m in row["messages"]]
        assert [m["content"] for m in back["messages"]] == [m["content"] for m in row["messages"]]


@pytest.mark.parametrize("name", ["qwen3", "qwen2_5", "deepseekv3", "glm4moe"])
def test_a_real_template_trains_on_what_the_agent_said_and_on_nothing_else(name):
    from transformers.utils.chat_template_utils import render_jinja_template

    package = find_spec("trl").submodule_search_locations[0]
    template = (Path(package) / "chat_templates" / f"{name}_training.jinja").read_text()
    (row,) = sft.rows(value())
    (text,), (spans,) = render_jinja_template(
        conversations=[row["messages"]], tools=row["tools"], chat_template=template, return_assistant_tokens_mask=True
    )
    trained = "".join(text[start:end] for start, end in spans)
    assert len(spans) == 4
    for said in ("I look first.", "Merged into 7.", "into", "Into which?"):
        assert said in trained, said
    for seen in ("Into 7.", "no such id", "Finish if you are through.", "Merge the duplicates."):
        assert seen in text and seen not in trained, seen
    assert "null" not in trained


@pytest.fixture
def played(ada, edo):
    """An episode through the real writes: an ask, an answer, an outcome."""
    plan = EpisodeStart(key="k", task="Merge the duplicates.", tools=TOOLS, expert="plain", scenario="desk", task_idx=1)
    episode, _ = recording.start_episode(ada, plan)
    first = {"seq": 1, "kind": "message", "role": "user", "content": "Merge the duplicates."}
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": [first]}).steps)
    ask, _ = queue.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=2, question="Into \ud800which? \\u0000 \x00"))
    lease = queue.claim(edo, ask.pk)
    advising.answer(
        edo, lease.assignment_id, lease.lease_token, "Into 7.", "n", [ToolCall(name="merge", arguments={"into": 7})]
    )
    last = {"seq": 3, "kind": "message", "role": "assistant", "content": "Done."}
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": [last]}).steps)
    recording.finish(ada, episode.pk, Finish(stop_reason="done"))
    recording.record_outcome(ada, episode.pk, Outcome(reward_type="complete", reward=1.0))
    return episode


def exported(actor, **filters):
    out = io.BytesIO()
    manifest = exporting.write(actor, "sft", filters, out)
    return out.getvalue(), manifest


def test_an_export_holds_the_verified_episodes_and_counts_the_others_by_reason(ada, played):
    recording.start_episode(ada, EpisodeStart(key="live", task="still running"))
    lost, _ = recording.start_episode(ada, EpisodeStart(key="lost", task="broke"))
    recording.fail(ada, lost.pk, "environment", "gone")
    data, manifest = exported(ada)
    (row,) = [json.loads(line) for line in data.decode("utf-8").splitlines()]
    assert row["episode_id"] == played.pk and row["expert_kinds"] == ["human"] and row["task_idx"] == 1
    assert (manifest.episodes, manifest.rows, dict(manifest.left_out)) == (2, 1, {"not_verified": 1})
    assert exported(ada)[0] == data


def test_an_empty_export_is_an_empty_file(ada):
    data, manifest = exported(ada)
    assert (data, manifest.rows) == (b"", 0)


def test_strangers_viewers_and_unknown_filters_get_nothing(ada, rita, max_, played):
    assert exported(max_)[0] == b""
    with pytest.raises(Forbidden):
        exported(rita)
    with pytest.raises(Invalid):
        exported(ada, surprise="1")
    with pytest.raises(Invalid):
        exported(ada, task_idx="x")


def test_a_trajectory_is_built_from_what_is_stored(ada, played):
    built = trajectory.build(played)
    assert [step.kind for step in built.steps] == ["message", "ask", "message", "verification"]
    assert built.outcome is not None and built.outcome.reward == 1.0


def test_the_download_is_what_the_command_writes(ada, played, tmp_path):
    from django.core.management import call_command

    answer = as_person(ada).get("/exports/sft/download")
    content = b"".join(answer.streaming_content)
    file = tmp_path / "out.jsonl"
    call_command("export", "--format", "sft", "--project", "lab", "--output", str(file), verbosity=0)
    assert answer.status_code == 200 and content == file.read_bytes() != b""
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["rows"] == 1 and manifest["features"]["messages"]


def test_what_no_reader_takes_becomes_question_marks(ada, played):
    data, _ = exported(ada)
    (row,) = [json.loads(line) for line in data.decode("utf-8").splitlines()]
    asked = next(call for message in row["messages"] for call in message.get("tool_calls", []))
    assert asked["function"]["arguments"]["question"] == "Into ?which? \\u0000 ?"
