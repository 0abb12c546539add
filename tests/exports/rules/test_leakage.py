"""The rules that keep episodes and rows out, one test for each that fails without its rule."""

from __future__ import annotations

import json
import re

import pytest

from exports.assembly.building import Walk
from exports.formats import FORMATS
from exports.recipe import KINDS, BadRecipe, Recipe
from exports.record import EpisodeResult
from exports.rules.leakage import Ground, NearTasks
from exports.rules.quotations import VerifierWords
from exports.rules.redaction import Redactor, marks_in
from exports.writers import jsonl
from tests.exports.records import FAILED, STEPS, record, walk, with_advice

REPORTED = {"reported": EpisodeResult("complete", 1.0, "reported")}
UNTOUCHED = {"verified": EpisodeResult("complete", 1.0, "verified", passes_untouched=True)}
CODE = "def verify(initial, final):\n    rows = final.execute('select count(*) from merges where status = 7')\n"


PART = {"type": "image", "blob": "a" * 64, "media_type": "image/png", "width": 4, "height": 4, "alt": "An empty cart"}


def shown(place, name):
    """The steps, with one that has two pictures and no word."""
    return [
        {**step, name: "", "pictures": [PART, {**PART, "alt": None}]} if n == place else step
        for n, step in enumerate(STEPS)
    ]


REASONS = (
    ("change", "reason"),
    [
        ({"results": {}}, "not_verified"),
        ({"results": REPORTED}, "reported_only"),
        ({"results": FAILED}, "not_complete"),
        ({"results": {"verified": EpisodeResult("judge_error", 0.0, "verified")}}, "infrastructure_failure"),
        ({"state": "failed", "fault": "environment"}, "infrastructure_failure"),
        ({"state": "cancelled"}, "cancelled"),
        ({"split": "val"}, "held_out"),
        ({"split": "Validation"}, "held_out"),
        ({"split": "dev"}, "held_out"),
        ({"is_evaluation": True}, "evaluation"),
        ({"origin": "branch"}, "branch"),
        ({"tools": [{"name": "Verify"}]}, "control_tool"),
        ({"steps": [*STEPS, {"seq": 11, "kind": "tool_call", "name": "done", "arguments": {}}]}, "control_tool"),
        ({"steps": shown(1, "content")}, "pictures"),
        ({"steps": shown(6, "question")}, "pictures"),
        ({"steps": with_advice(privilege="sees_verifier")}, "informed"),
        ({"stop_reason": "gave_up"}, "gave_up"),
        ({"results": UNTOUCHED}, "passes_untouched"),
        ({"is_partial": True}, "partial"),
        ({"ruling": "too_lenient"}, "ruled"),
        ({"verdict": "reject"}, "rejected"),
        ({"verdict": "accept"}, None),
        ({}, None),
    ],
)


@pytest.mark.parametrize(*REASONS)
def test_an_episode_is_left_out_for_a_stated_reason(change, reason):
    rows, counts = walk("sft", record(**change))
    assert counts.left_out == ({reason: 1} if reason else {}) and len(rows) == (reason is None)


@pytest.mark.parametrize(
    ("include", "change"),
    [
        ("reported", {"results": REPORTED}),
        ("gave_up", {"stop_reason": "gave_up"}),
        ("passes_untouched", {"results": UNTOUCHED}),
        ("informed", {"steps": with_advice(privilege="sees_verifier")}),
        ("partial", {"is_partial": True}),
        ("ruled", {"ruling": "too_lenient"}),
        ("rejected", {"verdict": "reject"}),
    ],
)
def test_what_is_opted_into_is_exported(include, change):
    assert len(walk("sft", record(**change), include=[include])[0]) == 1


def mark_of(shape, row):
    about = {"raw": row, "inspect": row.get("metadata"), "openenv": row.get("extra")}
    return about[shape]["not_for_training"] if shape != "atif" else row["extra"]["awm"]["not_for_training"]


@pytest.mark.parametrize(*REASONS)
@pytest.mark.parametrize("shape", [name for name, one in KINDS.items() if not one.trains])
def test_format_that_reports_keeps_and_marks_every_episode(shape, change, reason):
    rows, counts = walk(shape, record(**change), record(id="e2", **change))
    assert [mark_of(shape, row) or None for row in rows] == [reason, reason] and not counts.left_out


@pytest.mark.parametrize("shape", [name for name, one in KINDS.items() if not one.trains])
def test_report_keeps_episodes_without_a_turn(shape):
    rows, _ = walk(shape, record(steps=[], results={}, state="failed", fault="environment", stop_reason="error"))
    assert len(rows) == 1
    verifier = VerifierWords([CODE])
    walking = Walk(FORMATS[shape], Ground(Recipe.read({"format": shape}), verifier_of=lambda _record: verifier))
    quoting = record(steps=[{**step, "result": CODE} if step["seq"] == 8 else step for step in STEPS])
    (row,) = walking.rows([quoting])
    assert mark_of(shape, row.value) == "verifier_text" and "status = 7" not in row.line.decode()


def test_project_split_holds_out_tasks_over_loop_claims():
    rows, counts = walk("sft", record(split="train"), held_out={"desk_1/3"})
    assert rows == [] and counts.left_out == {"held_out": 1}


def test_a_task_nearly_that_of_a_held_out_one_is_left_out():
    text = "Merge the two newest duplicate tickets of the customer Dockside and close the older one"
    near = NearTasks([text])
    assert near.holds_like(text.replace("Dockside", "dockside,")) and near.holds_like(f"{text} now")
    assert not near.holds_like("Merge the two newest duplicate tickets") and not near.holds_like("Ship order 7")
    walking = Walk(FORMATS["sft"], Ground(Recipe.read({"format": "sft"}), near=near))
    assert list(walking.rows([record(task=text)])) == [] and walking.counts.left_out == {"near_held_out": 1}


def test_task_text_repeated_by_verifier_excludes_nothing():
    told = 'Answer with exactly these words: "Your usual contact is on it and will call you today."'
    code = "answers == ['Your usual contact is on it and will call you today.']"
    verifier = VerifierWords([code], known=[told])
    ground = Ground(Recipe.read({"format": "sft"}), verifier_of=lambda _record: verifier)
    assert len(list(Walk(FORMATS["sft"], ground).rows([record(task=told, final_answer=code)]))) == 1
    assert VerifierWords([code]).quotation_in(told)


@pytest.mark.parametrize("shape", [name for name, one in KINDS.items() if one.trains])
def test_training_formats_never_take_evaluation_episodes(shape):
    more = {"tokenizer": "x"} if shape == "tokens" else {}
    with pytest.raises(BadRecipe, match="evaluation requires a format for viewers"):
        Recipe.read({"format": shape, "include": ["evaluation"], **more})
    assert list(KINDS) == list(FORMATS)


@pytest.mark.parametrize("shape", ["atif", "raw", "inspect", "openenv", "openai"])
def test_parquet_is_refused_for_rows_without_columns(shape):
    with pytest.raises(BadRecipe, match=f"parquet: {shape} rows are no table. Use one of sft, steps, "):
        Recipe.read({"format": shape, "parquet": True})
    assert {name for name, one in KINDS.items() if one.is_table} == {n for n, f in FORMATS.items() if f.features}


@pytest.mark.parametrize("field", ["result", "error", "arguments"])
def test_verifier_text_anywhere_excludes_the_episode(field):
    quoted = f"It does this: {CODE.upper()}"
    value = {"text": [quoted]} if field == "arguments" else quoted
    steps = [{**step, field: value} if step["seq"] == 8 else step for step in STEPS]
    verifier = VerifierWords([CODE])
    walking = Walk(FORMATS["sft"], Ground(Recipe.read({"format": "sft"}), verifier_of=lambda _record: verifier))
    assert list(walking.rows([record(steps=steps)])) == [] and walking.counts.left_out == {"verifier_text": 1}
    assert len(list(walking.rows([record()]))) == 1


def test_the_same_conversation_twice_is_one_row_unless_asked_for():
    pair = [record(), record(id="e2", seed=6)]
    rows, counts = walk("sft", *pair)
    assert [row["episode_id"] for row in rows] == ["e1"] and counts.left_out == {"duplicate": 1}
    assert len(walk("sft", *pair, include=["duplicates"])[0]) == 2


def test_no_row_holds_an_outcome_in_its_messages():
    rows, _ = walk("sft", record(steps=[*STEPS, {"seq": 11, "kind": "verification", "details": {"x": "the secret"}}]))
    assert "the secret" not in json.dumps(rows)


@pytest.mark.parametrize("shape", ["sft", "steps", "dpo", "kto", "openai", "prompts", "ask_decision", "raw"])
def test_half_a_pair_and_a_null_character_break_no_format(shape):
    odd = "a\ud800\x00b"
    steps = [{**step, "content": odd} if step["kind"] == "message" else step for step in STEPS]
    rows, counts = walk(shape, record(task=odd, final_answer=odd, steps=steps))
    assert counts.episodes == 1 and (rows or shape == "dpo" or counts.left_out)
    assert Redactor(Recipe.read({"format": shape})).redact(odd) == odd


@pytest.mark.parametrize("regex", ['^"?secret', r'\A"?secret', 'secret"?$', r'secret"?\Z', "(?i)SECRET", r"\bsecret"])
def test_texts_together_are_redacted_as_each_alone(regex):
    said = ["a secret", "secret b", "secret", "none", "", "secrets and AKIAIOSFODNN7EXAMPLE", "line\nsecret"]
    texts = [json.dumps(text) for text in said]
    recipe = Recipe.read({"format": "raw", "patterns": [{"name": "own", "regex": regex}]})
    each, together = Redactor(recipe), Redactor(recipe)
    assert together.redact_all(texts) == [each.redact_json(text) for text in texts]
    assert together.counts == each.counts and each.counts


@pytest.mark.parametrize("values", [[], ["\n,\n"], [None, [], {"a": "x,\n,y"}], [{"n": 2**80}, 1], ["a\ud800", "b"]])
def test_values_together_are_written_as_each_alone(values):
    assert jsonl.texts(values) == [jsonl.text(value) for value in values]


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ('{"sha": "a3f123456789bc0d"}', '{"sha": "a3f123456789bc0d"}'),
        ('{"sha": "123456789abcdef0", "n": 0.123456789}', '{"sha": "123456789abcdef0", "n": 0.123456789}'),
        ('{"ssn": "123-45-6789"}', '{"ssn": "[redacted:ssn:M]"}'),
        ('{"id": 123456789, "said": "123456789, 7"}', '{"id": 123456789, "said": "123456789, 7"}'),
        ('[4155552671, "call \\" 4155552671"]', '["[redacted:phone:M]", "call \\" [redacted:phone:M]"]'),
        ("Call 4155552671.", "Call [redacted:phone:M]."),
    ],
)
def test_personal_digits_are_redacted_as_whole_values(text, redacted):
    redactor = Redactor(Recipe.read({"format": "raw", "redact": "personal"}))
    found = redactor.redact_json(text) if text[0] in "{[" else redactor.redact(text)
    assert re.sub(r":[0-9a-f]{6}\]", ":M]", found) == redacted
    assert redactor.counts.total() == redacted.count("[redacted:") == marks_in(found.encode()).total()
    assert text[0] not in "{[" or json.loads(found)


@pytest.mark.parametrize(
    ("name", "is_out"),
    [
        ("verify_task", True), ("get_reward", True), ("mcp__awm__verify", True), ("awm.reset", True),
        ("verifySolution", True), ("score_episode", True), ("Evaluate-Task", True), ("compute_final_reward", True),
        ("verify_email", False), ("get_rewards", False), ("reward_points", False), ("get_score", False),
        ("check_task", False), ("complete_task", False), ("evaluate", False), ("get_state", False), ("task", False),
    ],
)  # fmt: skip
def test_tool_that_tells_the_reward_is_known_by_its_name(name, is_out):
    left_out = walk("sft", record(tools=[{"name": name}]))[1].left_out
    assert left_out == ({"control_tool": 1} if is_out else {})


@pytest.mark.parametrize("mode", ["keep", "drop", "distil"])
def test_prompt_of_a_task_stays_whatever_its_agent_said(mode):
    verifier = VerifierWords([CODE])
    quoting = {"seq": 11, "kind": "message", "role": "assistant", "content": f"The expert says {CODE}"}
    control = {"seq": 12, "kind": "tool_call", "name": "verify", "arguments": {}}
    for steps in ([*STEPS, quoting, control], STEPS[:2]):
        known = Ground(Recipe.read({"format": "prompts", "advice": mode}), verifier_of=lambda _record: verifier)
        walking = Walk(FORMATS["prompts"], known)
        (row,) = walking.rows([record(steps=steps)])
        assert [one["role"] for one in row.value["prompt"]] == ["system", "user"] and not walking.counts.left_out
    told = [{**STEPS[1], "content": CODE}, *STEPS[2:]]
    assert list(walking.rows([record(steps=told)])) == [] and walking.counts.left_out == {"verifier_text": 1}


@pytest.mark.parametrize("shape", ["sft", "steps", "openai", "ask_decision", "kto", "dpo", "tokens", "prompts"])
def test_no_training_row_is_of_an_episode_with_pictures(shape):
    rows, counts = walk(shape, record(steps=shown(1, "content")))
    assert (rows, counts.left_out) == ([], {"pictures": 1})


def test_prompt_stays_if_only_a_question_had_pictures():
    assert len(walk("prompts", record(steps=shown(6, "question")))[0]) == 1


@pytest.mark.parametrize("shape", ["raw", "inspect", "openenv", "atif"])
@pytest.mark.parametrize(("place", "name"), [(1, "content"), (6, "question")])
def test_reports_say_where_pictures_were(shape, place, name):
    (row,), _ = walk(shape, record(steps=shown(place, name)))
    assert mark_of(shape, row) == "pictures"
    if shape == "raw":
        assert row["steps"][place]["pictures"][0] == PART
    else:
        assert r"[picture: An empty cart]\n[picture]" in json.dumps(row).replace(r"\\n", r"\n")
