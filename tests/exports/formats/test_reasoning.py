"""What a model thought, in rows: kept, kept without loss, or left out."""

from __future__ import annotations

import pytest

from exports.assembly.building import Walk
from exports.errors import BadRecipe
from exports.formats import FORMATS
from exports.recipe import KINDS, Recipe
from exports.rules import tokenizing
from exports.rules.leakage import Ground
from exports.rules.quotations import VerifierWords
from tests.exports.records import STEPS, record, walk
from tests.exports.rules.test_token_ids import learned, tokenizer_in, tokens

LOOK, ANSWER = "Seven or eight?\nLook first.", "It is merged."
THOUGHT = [
    {**step, "reasoning": {"text": {3: LOOK, 10: ANSWER}[step["seq"]], "form": "field"}}
    if step["seq"] in (3, 10)
    else step
    for step in STEPS
]
# as templates of thinking models do: only what was thought since the last message of the user, stripped
QWEN = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% generation %}{% if loop.index0 > ns.last and m.reasoning_content is string %}"
    "<think>\n{{ m.reasoning_content.strip('\n') }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<|im_end|>{% endgeneration %}"
    "{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    tokenizer_in(folder / "qwen", QWEN)
    return folder


def thoughts(messages):
    return [one["reasoning_content"] for one in messages if one.get("reasoning_content")]


def test_conversations_hold_reasoning_unless_it_is_dropped():
    for name in ("sft", "openai"):
        ((row,), _) = walk(name, record(steps=THOUGHT))
        assert thoughts(row["messages"]) == [LOOK, ANSWER]
        ((row,), _) = walk(name, record(steps=THOUGHT), reasoning="drop")
        assert thoughts(row["messages"]) == []


def test_loss_of_reasoning_is_told_apart():
    ((row,), _) = walk("sft", record(steps=THOUGHT))
    assert row["reasoning_loss"] == [1 if "reasoning_content" in one else 0 for one in row["messages"]]
    ((row,), _) = walk("sft", record(steps=THOUGHT), reasoning="keep_masked")
    assert thoughts(row["messages"]) and not any(row["reasoning_loss"]) and any(row["loss"])


@pytest.mark.parametrize(
    ("policy", "sent"),
    [
        ({"awmweb": "model"}, []),
        ({"awmweb": "model", "reasoning": "last_turn"}, []),
        ({"awmweb": "model", "reasoning": "all"}, [LOOK]),
        ({}, [LOOK]),
    ],
)
def test_prompt_of_a_turn_holds_what_its_endpoint_got(policy, sent):
    rows, _ = walk("steps", record(steps=THOUGHT, policy=policy))
    assert thoughts(rows[-1]["prompt"]) == sent and thoughts(rows[-1]["completion"]) == [ANSWER]
    assert thoughts(rows[0]["completion"]) == [LOOK]


def test_tokens_are_those_that_the_model_wrote(root):
    ((row,), _) = tokens(root, record(steps=THOUGHT), name="qwen")
    assert learned(root, row, "qwen").endswith("<think>\nIt is merged.\n</think>\n\nMerged into 7.<|im_end|>")


def test_masked_reasoning_is_read_and_not_learned(root):
    ((row,), _) = tokens(root, record(steps=THOUGHT), name="qwen", reasoning="keep_masked")
    text = tokenizing.load(root, "qwen").tokens.decode(row["input_ids"], skip_special_tokens=False)
    assert "<think>\nIt is merged.\n</think>" in text
    assert "merged." not in learned(root, row, "qwen") and "Merged into 7." in learned(root, row, "qwen")
    ((plain,), _) = tokens(root, record(steps=THOUGHT), name="qwen")
    assert plain["input_ids"] == row["input_ids"]


def test_viewers_formats_show_reasoning_apart():
    ((row,), _) = walk("atif", record(steps=THOUGHT))
    assert [step["reasoning_content"] for step in row["steps"] if "reasoning_content" in step] == [LOOK, ANSWER]
    ((row,), _) = walk("inspect", record(steps=THOUGHT))
    last = row["messages"][-1]["content"]
    assert last == [{"type": "reasoning", "reasoning": ANSWER}, {"type": "text", "text": "Merged into 7."}]
    assert row["output"]["completion"] == "Merged into 7."


def test_advice_mode_that_cuts_advice_cuts_reasoning():
    steps = [
        {**step, "reasoning": {"text": "7, they say", "form": "field"}} if step["seq"] == 10 else step for step in STEPS
    ]
    ((row,), _) = walk("sft", record(steps=steps), advice="distil", include=["ungrounded"])
    assert "they say" not in str(row)


def test_reasoning_that_names_the_expert_keeps_an_episode_out():
    solo = [step for step in THOUGHT if step["kind"] != "ask"]
    solo[2] = {**solo[2], "reasoning": {"text": "I could ask the expert.", "form": "field"}}
    assert walk("sft", record(steps=solo), advice="drop")[1].left_out["mentions_expert"] == 1
    assert walk("sft", record(steps=solo), advice="drop", reasoning="drop")[1].rows == 1


def test_reasoning_that_quotes_the_verifier_keeps_an_episode_out():
    quote = "if final open tickets were greater than initial ones return others"
    steps = [{**step, "reasoning": {"text": quote, "form": "field"}} if step["seq"] == 10 else step for step in STEPS]
    for choice, left_out in (("keep", 1), ("drop", 0)):
        ground = Ground(
            Recipe.read({"format": "sft", "reasoning": choice}), verifier_of=lambda _: VerifierWords([quote])
        )
        walking = Walk(FORMATS["sft"], ground)
        list(walking.rows([record(steps=steps)]))
        assert walking.counts.left_out["verifier_text"] == left_out


def test_preferences_hold_no_reasoning():
    rows, _ = walk("kto", record(steps=THOUGHT))
    assert rows and "reasoning" not in str(rows) and LOOK not in str(rows)


def test_recipe_takes_what_its_format_can():
    with pytest.raises(BadRecipe, match="reasoning: keep_masked requires one of the formats sft, steps, tokens"):
        Recipe.read({"format": "openai", "reasoning": "keep_masked"})
    with pytest.raises(BadRecipe, match="reasoning: keep requires"):
        Recipe.read({"format": "dpo", "reasoning": "keep"})
    assert {name for name, kind in KINDS.items() if kind.reasoning} == {
        "sft", "steps", "tokens", "openai", "atif", "inspect",
    }  # fmt: skip
    assert "reasoning" not in Recipe.read({"format": "sft"}).canonical
