"""Tasks with a blocker, as they are made: what can be taken out of a text, and what is put in its place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from awmclient.words import listening
from awmenv.blockers import holds, matched, read_blockers
from awmenv.packs import load_pack
from runs.taskset import blocks
from runs.taskset.blocks import Fact
from tests.awmenv.conftest import ROOT

SAID = "Thank you, Nadia. Your usual contact is on it and will call you today."


@pytest.fixture(scope="module")
def starter():
    return load_pack(ROOT / "packs" / "starter")


def facts(pack, scenario, idx):
    turns = pack.scripts(scenario, idx)["oracle"]
    names = [turn.get("call", {}).get("name", "") for turn in turns]
    return list(blocks.facts_of(pack, scenario, idx, [name.startswith(("add", "update")) for name in names]))


def test_facts_are_distinctive_values_of_writing_calls(starter):
    (phone,) = [one for one in facts(starter, "library_1", 0) if isinstance(one, Fact)]
    assert (phone.argument, phone.value, phone.first) == ("phone", "01632 960 188", 3)
    none = blocks.facts_of(starter, "library_1", 0, [False] * 5)
    assert list(none) == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("abc", "too short"),
        ("a1", ""),
        ("four", ""),
        (12, "too short"),
        (123, ""),
        ("4021", "number as a text"),
        ("caf\u00e9", "not ASCII"),
    ],
)
def test_value_that_can_be_guessed_is_refused(value, why):
    found = blocks._unfit(Fact("s", 0, "name", "tool", value, 0), f"Set it to {value}.")
    assert (why in found) if why else found == ""


def test_text_loses_each_occurrence_with_its_quotes(starter):
    (body,) = [one for one in facts(starter, "helpdesk_1", 1) if isinstance(one, Fact) and one.argument == "body"]
    text = blocks.blocked(starter, body, f"{SAID} Ref 48213").text
    assert "with exactly these words: the right body. Leave status" in text and not holds(text, SAID)
    twice = replace(body, value="Milk", argument="the_title")
    assert (
        blocks._without("'milk' and MILK, no milkman", twice)
        == "the right the title and the right the title, no milkman"
    )


def test_variants_keep_the_shape_and_follow_the_seed(starter):
    phone = Fact("library_1", 0, "phone", "update_reader", "01632 960 188", 3)
    values = blocks.variants(phone, 30, 1)
    assert values == blocks.variants(phone, 30, 1) != blocks.variants(phone, 30, 2)
    assert len(set(values)) == 30 and all(re.fullmatch(r"0\d{4} \d{3} \d{3}", one) for one in values)
    assert all(
        re.fullmatch(r"Fragile Ref \d{5}", one) for one in blocks.variants(replace(phone, value="Fragile"), 3, 1)
    )
    numbers = blocks.variants(replace(phone, value=123), 9, 1)
    assert all(type(one) is int and 100 <= one <= 999 for one in numbers)
    assert len(blocks.variants(replace(phone, value="a1"), 30, 1)) == 8, "the shape has no more"


def test_blocked_task_has_the_new_value_in_oracle_and_verifier(starter):
    phone = next(one for one in facts(starter, "library_1", 0) if isinstance(one, Fact))
    task = blocks.blocked(starter, phone, "04827 135 902")
    code = task.rows["gen_verifier.pure_code.jsonl"]["verification"]["code"]
    assert '"04827135902"' in code and "01632960188" not in code
    raw = task.rows["gen_verifier.jsonl"]["verification"]["raw_response"]
    assert "04827 135 902" in raw and "01632" not in raw
    oracle = task.rows["scripts.jsonl"]["scripts"]["oracle"]
    assert len(oracle) == 4 and "ask" in oracle[-1], "it asks when it needs the fact, and not before"
    (one,) = read_blockers(task.rows["blockers.jsonl"]["blockers"], task.text)
    assert matched(oracle[-1]["ask"]["question"], [one]) is one
    assert matched("What is her new telephone number?", [one]) and not matched("Which loan is it?", [one])
    assert listening.heard(oracle[-1]["listen"]["fact"], one.answer) == "04827 135 902"
    assert oracle[-1]["advised"][0]["call"]["arguments"]["phone"] == "{{fact}}"
    assert task.rows["scripts.jsonl"]["scripts"]["negative"][3]["call"]["arguments"]["phone"] == "01632 960 188"


def test_value_that_no_verifier_names_makes_no_task(starter):
    problem = Fact("repairshop_1", 4, "problem", "create_job", "the e-bike diagnosis", 0)
    assert blocks.blocked(starter, problem, "the e-bike diagnosis Ref 12345") == "the verifier does not name the value"


def test_blockers_of_the_task_stay_beside_the_new_one(starter):
    (body,) = [one for one in facts(starter, "helpdesk_1", 1) if isinstance(one, Fact) and one.argument == "body"]
    task = blocks.blocked(starter, body, f"{SAID} Ref 48213")
    before, made = starter.blockers("helpdesk_1", 1), read_blockers(task.rows["blockers.jsonl"]["blockers"], task.text)
    assert [one.id for one in made] == ["contact", "body"] and made[:1] == [replace(before[0], task=task.text)]
    assert matched("Which agent is the contact of Hotel Aurelia?", made) is made[0]
    note = task.rows["scripts.jsonl"]["about"]["expert_note"]
    assert note.startswith(starter.about("helpdesk_1", 1)["expert_note"]) and "Ref 48213" in note
