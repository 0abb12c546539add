"""Rows for supervised fine-tuning: what is in them, that `datasets` loads them, and that real chat templates render
them with the right assistant spans."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from exports.errors import BadRecipe
from exports.formats.conversational import SFT_FEATURES
from exports.recipe import Recipe
from exports.writers.jsonl import line
from tests.exports.records import STEPS, record, walk, with_advice


def sft(one=None, **options):
    ((row,), _) = walk("sft", one or record(), **options)
    return row


def test_turn_is_one_assistant_message_then_its_results():
    row = sft()
    assert [message["role"] for message in row["messages"]] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "tool", "user", "assistant",
    ]  # fmt: skip
    assert row["loss"] == [0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1]
    first = row["messages"][2]
    assert first["content"] == "I look first."
    assert [call["function"]["arguments"] for call in first["tool_calls"]] == [{"id": 7}, {"id": "8"}]
    assert [m["tool_call_id"] for m in row["messages"][3:5]] == [call["id"] for call in first["tool_calls"]]
    assert row["messages"][4]["content"] == "Error: no such id"


def test_ask_is_a_virtual_tool_call_with_advice_as_result():
    row = sft()
    call, result = row["messages"][5], row["messages"][6]
    assert call["content"] == "" and call["tool_calls"][0]["function"] == {
        "name": "ask_expert", "arguments": {"question": "Into which?"},
    }  # fmt: skip
    assert json.loads(result["content"]) == {"status": "advice", "advice": "Into 7."}
    assert [tool["function"]["name"] for tool in row["tools"]] == ["get_ticket", "merge", "ask_expert"]


def test_notes_and_names_of_experts_are_in_no_row():
    text = json.dumps(sft())
    assert "does not see" not in text and "Mina" not in text and "prompt_ids" not in text


def test_a_row_says_where_it_comes_from():
    row = sft()
    told = {"episode_id": "e1", "run": "first", "arm": "expert", "seed": 5, "scenario": "desk_1", "task_idx": 3}
    told |= {"reward": 1.0, "reward_type": "complete", "outcome_word": "verified", "expert_kinds": ["human"]}
    assert {name: row[name] for name in told} == told
    assert set(row) == set(SFT_FEATURES)


def test_the_same_record_gives_the_same_bytes():
    assert line(sft()) == line(sft())


def test_arguments_keep_the_order_in_which_the_agent_wrote_them():
    steps = [{**step, "arguments": {"status": "open", "id": 7}} if step["seq"] == 4 else step for step in STEPS]
    assert '{"status":"open","id":7}' in line(sft(record(steps=steps))).decode()


def test_actions_are_told_as_the_model_read_them():
    steps = [{"seq": 1, "kind": "action", "action": {"move": "left"}, "observation": {"x": 1}, "turn": 1}]
    said = [message["content"] for message in sft(record(steps=steps, tools=[], expert="off"))["messages"]]
    assert said == ["Merge the duplicates.", '{"move": "left"}', '{"x": 1}']


def test_an_episode_without_a_word_of_the_agent_gives_no_row():
    rows, counts = walk("sft", record(steps=STEPS[:2]))
    assert rows == [] and counts.left_out == {"no_conversation": 1}


def test_steps_has_a_row_for_each_turn_with_loss():
    rows, _ = walk("steps")
    assert [row["seq"] for row in rows] == [5, 7, 8, 10]
    assert [len(row["prompt"]) for row in rows] == [2, 5, 7, 10]
    assert all(len(row["completion"]) == 1 and row["completion"][0]["role"] == "assistant" for row in rows)


def test_what_the_loop_could_not_read_carries_no_loss():
    broken = [
        {"seq": 1, "kind": "message", "role": "user", "content": "Go."},
        {"seq": 2, "kind": "message", "role": "assistant", "content": "<tool_call>{", "turn": 1},
        {"seq": 3, "kind": "nudge", "content": "The call cannot be read.", "turn": 1},
        {"seq": 4, "kind": "message", "role": "assistant", "content": "Done.", "turn": 2},
    ]
    row = sft(record(steps=broken))
    assert row["loss"] == [0, 0, 0, 1] and row["tool_protocol"] == "text"


def test_a_turn_that_is_no_answer_carries_no_loss():
    wrote = {"kind": "message", "role": "assistant"}
    steps = [
        {"seq": 1, "kind": "message", "role": "user", "content": "Go."},
        {"seq": 2, **wrote, "content": "I look f", "finish_reason": "length", "turn": 1},
        {"seq": 3, "kind": "nudge", "content": "Be shorter.", "turn": 1},
        {"seq": 4, **wrote, "content": "I look.", "finish_reason": "stop", "turn": 2},
        {"seq": 5, **wrote, "content": "The tick", "finish_reason": "max_tokens", "turn": 3},
        {"seq": 6, **wrote, "content": " ", "finish_reason": "stop", "turn": 4},
    ]
    assert sft(record(steps=steps))["loss"] == [0, 0, 0, 1, 0, 0]


def many_rows():
    """Rows whose arguments differ in shape, which is what trips a reader that infers types."""
    other = [{**s, "arguments": {"id": {"nested": [1, "two", None]}}} if s["seq"] == 4 else s for s in STEPS]
    return [sft(), sft(record(id="e2", steps=other))]


def test_datasets_loads_the_file_with_the_manifests_features(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    from datasets import Features, load_dataset

    file, rows = tmp_path / "rows.jsonl", many_rows()
    file.write_bytes(b"".join(line(row) for row in rows))
    features = Features.from_dict(json.loads(json.dumps(SFT_FEATURES)))
    loaded = load_dataset("json", data_files=str(file), features=features, split="train", cache_dir=str(tmp_path / "c"))
    assert len(loaded) == 2
    for row, back in zip(rows, loaded, strict=True):
        assert back["tools"] == row["tools"] and back["loss"] == row["loss"]
        assert [m["tool_calls"] or [] for m in back["messages"]] == [m.get("tool_calls", []) for m in row["messages"]]
        assert [m["content"] for m in back["messages"]] == [m["content"] for m in row["messages"]]


@pytest.mark.parametrize("name", ["qwen3", "qwen2_5", "deepseekv3", "glm4moe"])
def test_real_template_trains_on_agent_text_only(name):
    from transformers.utils.chat_template_utils import render_jinja_template

    package = find_spec("trl").submodule_search_locations[0]
    template = (Path(package) / "chat_templates" / f"{name}_training.jinja").read_text()
    row = sft()
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


def test_keep_masked_trains_on_everything_but_the_question():
    assert sft(advice="keep_masked")["loss"] == [0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1]


def test_drop_keeps_episodes_without_asks_only():
    rows, counts = walk("sft", advice="drop")
    assert rows == [] and counts.left_out == {"asked": 1}
    alone = [step for step in STEPS if step["kind"] != "ask"]
    row = sft(record(steps=alone), advice="drop")
    assert [tool["function"]["name"] for tool in row["tools"]] == ["get_ticket", "merge"]


def test_distil_drops_the_ask_and_trains_on_known_values():
    steps = [{**step, "result": {"id": 7}} if step["seq"] == 4 else step for step in STEPS]
    row = sft(record(steps=steps), advice="distil")
    text = json.dumps(row["messages"])
    assert "ask_expert" not in text and "Into which?" not in text and "Into 7." not in text
    assert row["loss"] == [0, 0, 0, 0, 0, 1, 0, 0, 1], "the failed look before the answer carries no loss"


@pytest.mark.parametrize(
    ("before", "after", "is_known"),
    [
        ({"id": 47}, {"ok": True}, True),
        ({"ids": [471, 47.5, "a47"]}, {"ok": True}, False),
        ({"ids": [471, 47]}, {"ok": True}, True),
        ({"open": True}, {"id": 47}, False),
    ],
)
def test_distil_knows_values_that_came_back_before_a_call(before, after, is_known):
    said = {4: {"result": before}, 8: {"arguments": {"into": 47}, "result": after}}
    rows, counts = walk("sft", record(steps=[{**step, **said.get(step["seq"], {})} for step in STEPS]), advice="distil")
    assert bool(rows) is is_known and counts.left_out == ({} if is_known else {"ungrounded": 1})


def test_distil_leaves_out_what_only_the_advice_could_know():
    steps = [{**step, "arguments": {"into": 4711}} if step["seq"] == 8 else step for step in with_advice(text="4711")]
    rows, counts = walk("sft", record(steps=steps), advice="distil")
    assert rows == [] and counts.left_out == {"ungrounded": 1}
    assert len(walk("sft", record(steps=steps), advice="distil", include=["ungrounded"])[0]) == 1


@pytest.mark.parametrize("said", ["The expert says into 7.", "I used ask_expert for this."])
def test_distil_leaves_out_an_agent_that_speaks_of_the_expert(said):
    steps = [{**step, "content": said} if step["seq"] == 10 else step for step in STEPS]
    assert walk("sft", record(steps=steps), advice="distil")[1].left_out == {"mentions_expert": 1}


def branch_of(root="e1", **more):
    said = {"id": "b1", "origin": "branch", "root": root, "branch_seq": 8, "knowledge": "hindsight", "expert": "plain"}
    return record(**said | more)


def test_branch_is_learned_after_its_beginning_where_included():
    assert walk("sft", branch_of())[1].left_out == {"branch": 1}
    row = sft(branch_of(), include=["branches"])
    assert (row["root_id"], row["privilege"], row["origin"]) == ("e1", "hindsight", "branch")
    whole = sft()
    assert (whole["root_id"], whole["privilege"]) == ("e1", "")
    assert row["messages"] == whole["messages"], "the agent reads all of it"
    said = list(zip(whole["messages"], whole["loss"], row["loss"], strict=True))
    learned = [one["content"] for one, before, after in said if before and after]
    assert learned == ["Merged into 7."] and not any(after for _, before, after in said if not before)
    assert walk("sft", branch_of(branch_seq=10), include=["branches"])[1].left_out == {"no_turn_left": 1}


def test_root_and_its_branches_give_one_success():
    steps = [{**step, "content": "Other words."} if step["seq"] == 10 else step for step in STEPS]
    branches = [branch_of(id="b1", steps=steps), branch_of(id="b2"), branch_of(id="b3", root="e2")]
    rows, counts = walk("sft", record(), *branches, include=["branches"])
    assert [row["episode_id"] for row in rows] == ["e1"]
    assert counts.left_out == {"one_per_root": 2, "duplicate": 1}
    rows, _ = walk("sft", branches[0], branches[2], include=["branches"])
    assert [row["episode_id"] for row in rows] == ["b1", "b3"], "of two roots"


def test_branch_that_saw_the_verifier_is_informed():
    said = branch_of(knowledge="sees_verifier")
    assert walk("sft", said, include=["branches"])[1].left_out == {"informed": 1}


def test_branches_are_for_sft_and_weights_for_pairs():
    for said in ({"format": "steps", "include": ["branches"]}, {"format": "sft", "weights": "worth"}):
        with pytest.raises(BadRecipe, match="branches requires|only pairs"):
            Recipe.read(said)
    assert Recipe.read({"format": "dpo", "weights": "none"}).digest == Recipe.read({"format": "dpo"}).digest
