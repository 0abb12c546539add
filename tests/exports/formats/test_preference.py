"""Preference rows: pairs of siblings and of advice, single actions with a label, and what never becomes one."""

from __future__ import annotations

import json

import pytest

from exports.assembly.building import Walk
from exports.formats import FORMATS
from exports.rules.quotations import VerifierWords
from tests.exports.records import COMPLETE, FAILED, STEPS, ground, record, walk, with_advice

CALLS = [{"name": "merge", "arguments": {"into": 7}}]


def replaced(seq, steps=STEPS, **fields):
    return [{**step, **fields} if step["seq"] == seq else step for step in steps]


def dpo(*records, **options):
    return walk("dpo", *records, **options)


def test_siblings_part_at_the_first_action_that_differs():
    good = record()
    bad = record(id="e2", results=FAILED, steps=replaced(8, arguments={"into": 8}))
    ((row,), counts) = dpo(good, bad)
    assert row["source"] == "sibling" and (row["episode_id"], row["rejected_episode_id"]) == ("e1", "e2")
    arguments = [row[side][0]["tool_calls"][0]["function"]["arguments"] for side in ("chosen", "rejected")]
    assert arguments == [{"into": 7}, {"into": 8}] and len(row["prompt"]) == 7 and counts.used == 2


def test_a_pair_is_one_action_on_each_side():
    bad = record(id="e2", results=FAILED, steps=replaced(8, arguments={"into": 8}))
    ((row,), _) = dpo(record(), bad)
    assert [len(row[side]) for side in ("chosen", "rejected")] == [1, 1]
    assert {row[side][0]["role"] for side in ("chosen", "rejected")} == {"assistant"}


def test_siblings_that_saw_different_results_before_make_no_pair():
    bad = replaced(8, replaced(4, result={"open": False}), arguments={"into": 8})
    rows, counts = dpo(record(), record(id="e2", results=FAILED, steps=bad))
    assert rows == [] and counts.left_out == {"no_row": 2}


def test_siblings_that_wrote_other_words_before_make_no_pair():
    """The same calls after other words are another state: a model reads its own words."""
    bad = replaced(3, replaced(8, arguments={"into": 8}), content="I look around first.")
    assert dpo(record(), record(id="e2", results=FAILED, steps=bad))[0] == []


def test_siblings_carry_wins_and_a_shrunken_worth():
    other = replaced(8, arguments={"into": 8})
    records = [record(), record(id="e3"), *(record(id=f"f{n}", results=FAILED, steps=other) for n in range(3))]
    ((row,), _) = dpo(*records)
    counts = [row[f"{side}_{what}"] for side in ("chosen", "rejected") for what in ("wins", "tries")]
    assert counts == [2, 2, 0, 3] and row["weight"] == 1.0 and row["fork_id"] == ""
    # two of two against none of three is no difference of 100 points
    assert 0 < row["worth"] < 0.3 and row["worth_low"] <= 0 < row["worth_high"]
    ((weighed,), counted) = dpo(*records, weights="worth")
    assert weighed["weight"] == row["worth"] and "unmeasured" not in counted.left_out


@pytest.mark.parametrize("change", [{"tools": []}, {"task_key": "desk_1/4"}, {"expert": "off"}])
def test_siblings_with_other_task_or_tools_make_no_pair(change):
    bad = record(id="e2", results=FAILED, steps=replaced(8, arguments={"into": 8}), **change)
    assert dpo(record(), bad)[0] == []


def test_action_of_a_complete_sibling_is_never_rejected():
    other = replaced(8, arguments={"into": 8})
    records = [record(), record(id="e2", results=FAILED, steps=other), record(id="e3", steps=other)]
    assert dpo(*records)[0] == []


def test_ids_of_calls_are_no_difference():
    named = [{**step, "call_id": f"x{step['seq']}"} if step["kind"] == "tool_call" else step for step in STEPS]
    bad = record(id="e2", results=FAILED, steps=replaced(8, named, arguments={"into": 8}))
    assert len(dpo(record(), bad)[0]) == 1


def test_a_call_that_could_not_be_read_is_on_neither_side():
    broken = [*STEPS[:2], {"seq": 3, "kind": "message", "role": "assistant", "content": "<tool_call>{", "turn": 1}]
    broken += [{"seq": 4, "kind": "nudge", "content": "It cannot be read.", "turn": 1}]
    assert dpo(record(), record(id="e2", results=FAILED, steps=broken))[0] == []


def tried_first(**advice):
    """The agent tried one call, asked, and was told another."""
    steps = [*STEPS[:2], {"seq": 3, "kind": "tool_call", "name": "merge", "arguments": {"into": 9}, "error": "no"}]
    return [{**step, "turn": 1} for step in steps[2:]], [
        *steps[:2],
        {**steps[2], "turn": 1},
        {**with_advice(**advice)[6], "seq": 4, "turn": 2},
        {**STEPS[7], "seq": 5},
        {**STEPS[9], "seq": 6},
    ]


def edited(verdict="edit", **more):
    """The merge was proposed as into 9, and a person changed or rejected it."""
    approval = {"verdict": verdict, "by": "person", **({"proposed": {"into": 9}} if verdict == "edit" else {})}
    return replaced(8, approval=approval, **more)


def test_edited_call_is_chosen_over_the_proposed_one():
    ((row,), _) = dpo(record(steps=edited()))
    assert row["source"] == "edit"
    arguments = [row[side][0]["tool_calls"][0]["function"]["arguments"] for side in ("chosen", "rejected")]
    assert arguments == [{"into": 7}, {"into": 9}]
    assert dpo(record(steps=edited(error="no")))[0] == [] and dpo(record(steps=edited()), advice="distil")[0] == []
    assert dpo(record(steps=edited("reject", error="This call was not made.")))[0] == []


@pytest.mark.parametrize("verdict", ["edit", "reject"])
def test_call_that_a_person_overruled_is_not_learned(verdict):
    ((row,), _) = walk("sft", record(steps=edited(verdict)))
    learned = [message for message, loss in zip(row["messages"], row["loss"], strict=True) if loss]
    assert all(call["function"]["name"] != "merge" for one in learned for call in one.get("tool_calls", ()))


def test_suggested_call_is_chosen_over_the_call_before_it():
    ((row,), _) = dpo(record(steps=tried_first(tool_calls=CALLS)[1]))
    assert row["source"] == "advice" and row["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"into": 7}
    assert row["rejected"][0]["tool_calls"][0]["function"]["arguments"] == {"into": 9} and len(row["prompt"]) == 2


@pytest.mark.parametrize(
    "advice",
    [
        {"tool_calls": CALLS, "privilege": "sees_verifier"},
        {"tool_calls": CALLS, "source": "cache"},
        {"tool_calls": [{"name": "merge", "arguments": {"into": 9}}]},
        {},
    ],
)
def test_unsuitable_advice_is_never_the_chosen_side(advice):
    steps = tried_first(**advice)[1]
    assert dpo(record(steps=steps), include=["informed"])[0] == []


def forked(change=None, **more):
    """A fork at the merge that shows a difference: into 9 in place of 7."""
    said = {
        "fork": "f1", "verdict": "better", "wins": 7, "tries": 8, "kept_wins": 1, "kept_tries": 8, "low": 0.3007,
        "high": 0.9167, "grade": "exact", "privilege": "hindsight", **more,
    }  # fmt: skip
    return {**said, "seq": 8, "change": change or {"call": {"name": "merge", "arguments": {"into": 9}}}}


def sides(row):
    return [row[side][0]["tool_calls"][0]["function"]["arguments"] for side in ("chosen", "rejected")]


def test_fork_that_shows_a_difference_is_a_measured_pair():
    ((row,), _) = dpo(record(results=FAILED, forks=[forked()]))
    assert (row["source"], row["episode_id"], row["seq"], row["fork_id"]) == ("fork", "e1", 8, "f1")
    assert sides(row) == [{"into": 9}, {"into": 7}]
    wins = [row[name] for name in ("chosen_wins", "chosen_tries", "rejected_wins", "rejected_tries")]
    assert wins == [7, 8, 1, 8] and (row["worth"], row["worth_low"], row["worth_high"]) == (0.75, 0.3007, 0.9167)
    assert (row["grade"], row["privilege"], row["weight"]) == ("exact", "hindsight", 1.0)
    worse = forked(verdict="worse", wins=1, kept_wins=7, low=-0.9167, high=-0.3007)
    ((row,), _) = dpo(record(results=FAILED, forks=[worse]))
    assert sides(row) == [{"into": 7}, {"into": 9}] and row["chosen_wins"] == 7
    assert (row["worth"], row["worth_low"], row["worth_high"]) == (0.75, 0.3007, 0.9167)


def test_measured_worth_weighs_pairs_and_leaves_out_others():
    bad = record(id="e2", results=FAILED, steps=replaced(8, arguments={"into": 8}))
    said = {"seq": 8, "kind": "call", "name": "merge", "arguments": {"into": 5}, "text": ""}
    rows, counts = dpo(record(forks=[forked()], corrections=[said]), bad, weights="worth")
    assert [(row["source"], row["weight"]) for row in rows] == [("fork", 0.75), ("sibling", 0.05)]
    assert counts.rows_left_out == {"unmeasured": 1}


def test_worth_of_a_pair_is_that_of_its_fork_beside_the_others():
    about = {"worth": 0.31, "wrong": 0.04, "asked": 40, "low": 0.0, "high": 0.58}
    rows, _ = dpo(record(forks=[forked(**about)]), weights="worth")
    assert [(row["worth"], row["worth_low"], row["worth_high"], row["weight"]) for row in rows] == [
        (0.31, 0, 0.58, 0.31)
    ]
    worse = forked(verdict="worse", **{**about, "worth": -0.31, "low": -0.58, "high": 0.0})
    assert [row["worth"] for row in dpo(record(forks=[worse]))[0]] == [0.31]


def test_what_a_fork_measured_overrules_a_correction():
    said = {"seq": 8, "kind": "call", "name": "merge", "arguments": {"into": 9}, "text": ""}
    worse = forked(verdict="worse", wins=1, kept_wins=7, low=-0.9167, high=-0.3007)
    ((row,), _) = dpo(record(results=FAILED, corrections=[said], forks=[worse]))
    assert (row["source"], sides(row)) == ("fork", [{"into": 7}, {"into": 9}])


def test_fork_that_saw_the_verifier_makes_no_pair():
    rows, counts = dpo(record(forks=[forked(privilege="sees_verifier")]), include=["informed"])
    assert rows == [] and counts.rows_left_out == {"informed": 1}


def test_fork_of_a_held_out_root_makes_no_pair():
    rows, counts = dpo(record(forks=[forked()]), held_out={"desk_1/3"})
    assert rows == [] and counts.left_out == {"held_out": 1}


def test_question_is_a_side_only_where_rows_have_advice():
    asks = forked({"ask": {"question": "Into which?"}})
    ((row,), _) = dpo(record(forks=[asks]))
    assert sides(row) == [{"question": "Into which?"}, {"into": 7}]
    assert row["chosen"][0]["tool_calls"][0]["function"]["name"] == "ask_expert"
    assert dpo(record(forks=[asks]), advice="distil", include=["ungrounded"])[0] == []


def test_fork_that_quotes_the_verifier_gives_no_row():
    said = {"call": {"name": "merge", "arguments": {"into": "CANARY of the verifier with these eight words in it"}}}
    words = "CANARY of the verifier with these eight words in it"
    walking = Walk(FORMATS["dpo"], ground("dpo"))
    walking.ground.verifier_of = lambda _record: VerifierWords((), [words])
    assert list(walking.rows([record(forks=[forked(said)])])) == []
    assert walking.counts.left_out == {"verifier_text": 1}


def test_pairs_of_one_task_are_capped():
    bad = [record(id=f"b{n}", results=FAILED, steps=replaced(8, arguments={"into": 80 + n})) for n in range(9)]
    assert len(dpo(record(), *bad)[0]) == 4
    assert len(dpo(record(), *bad, pairs_per_task=2)[0]) == 2


def test_pairs_do_not_hang_on_the_order_in_which_episodes_fail():
    bad = [record(id=f"b{n}", results=FAILED, steps=replaced(8, arguments={"into": 80 + n})) for n in range(3)]
    assert json.dumps(dpo(record(), *bad)[0]) == json.dumps(dpo(record(), *bad)[0])


def test_kto_labels_every_action_by_the_outcome():
    rows, _ = walk("kto", record(), record(id="e2", results=FAILED, steps=replaced(4, result="x")))
    assert [(row["episode_id"], row["label"]) for row in rows] == [("e1", True)] * 4 + [("e2", False)] * 4
    assert all(len(row["completion"]) == 1 for row in rows)


def test_held_out_episodes_give_no_pair():
    bad = record(id="e2", results=FAILED, steps=replaced(8, arguments={"into": 8}))
    rows, counts = dpo(record(results=COMPLETE), bad, held_out={"desk_1/3"})
    assert rows == [] and counts.left_out == {"held_out": 2}


def corrected(seq, kind="call", **said):
    return {"seq": seq, "kind": kind, "name": "merge", "arguments": {"into": 9}, "text": "", **said}


def test_correction_is_chosen_over_what_the_agent_did():
    corrections = [corrected(8), corrected(10, "message", text="Merged into 9.")]
    (rows, _) = dpo(record(results=FAILED, corrections=corrections))
    assert [(row["source"], row["seq"], row["reward_type"]) for row in rows] == [
        ("correction", 8, "others"),
        ("correction", 10, "others"),
    ]
    calls = [rows[0][side][0]["tool_calls"][0]["function"]["arguments"] for side in ("chosen", "rejected")]
    assert calls == [{"into": 9}, {"into": 7}] and len(rows[0]["prompt"]) == 7
    assert [rows[1][side][0]["content"] for side in ("chosen", "rejected")] == ["Merged into 9.", "Merged into 7."]


@pytest.mark.parametrize(
    "said",
    [
        corrected(8, arguments={"into": 7}),  # what the agent did
        corrected(4),  # a turn of two calls
        corrected(10),  # a call where the agent only spoke
        corrected(99),
        corrected(2, "message", text="Other task."),  # words of the prompt
        corrected(8, "ask", text="Which?"),
    ],
)
def test_correction_without_one_action_to_replace_makes_no_pair(said):
    assert dpo(record(results=FAILED, corrections=[said]))[0] == []
