"""The words of a verifier: code and prose apart, pieces over messages, and what the task and results say anyway."""

from __future__ import annotations

import json

import pytest

from exports.assembly.building import Walk
from exports.formats import FORMATS
from exports.recipe import KINDS
from exports.record import EpisodeResult
from exports.rules.quotations import LEFT_OUT, VerifierWords
from exports.select.ground import _beside, verifier_of
from tests.exports.records import STEPS, ground, record

CODE = (
    "def verify(initial, final):\n"
    '    """Ticket 1012 has high priority and the tag warranty, and nothing else is different."""\n'
    "    rows = final.execute('select count from merges where status is seven and owner is ann or bob').fetchall()\n"
    "    return rows == initial.execute('select sum over all tickets by year then month then day').fetchone()\n"
)
PIECES = [
    "rows final execute select count from merges", "status is seven and owner is ann",
    "execute select sum over all tickets by",
]  # fmt: skip


def walked(shape, one, verifier=None, **options):
    known = ground(shape, **options)
    known.verifier_of = lambda _record: verifier or VerifierWords([CODE])
    walking = Walk(FORMATS[shape], known)
    return [row.value for row in walking.rows([one])], walking.counts.left_out


def said(*texts, **more):
    after = [
        {"seq": seq, "kind": "message", "role": "assistant", "content": text, "turn": seq}
        for seq, text in enumerate(texts, 11)
    ]
    return record(steps=[*STEPS, *after], **more)


def test_pieces_over_three_messages_are_a_quotation_together():
    assert walked("sft", said(*PIECES))[1] == {"verifier_text": 1}
    assert len(walked("sft", said(*PIECES[:2]))[0]) == 1 and len(walked("sft", said(PIECES[0], PIECES[0], "x"))[0]) == 1


def test_sentence_of_words_that_task_and_results_say_is_none():
    answer = "Ticket 1012 has high priority and the tag 'warranty'."
    seen = {"seq": 4, "kind": "tool_call", "name": "get_ticket", "arguments": {}, "result": {"ticket": 1012}, "turn": 1}
    steps = [seen if step["seq"] == 4 else step for step in STEPS]
    steps = [{**step, "content": answer} if step["seq"] == 10 else step for step in steps]
    task = "Raise the priority of the grinder's ticket to high and tag it warranty."
    assert len(walked("sft", record(steps=steps, task=task))[0]) == 1
    assert walked("sft", record(steps=steps))[1] == {"verifier_text": 1}, "no one told it of a warranty"
    advised = [{**step, "advice": {**step["advice"], "text": answer}} if step["seq"] == 7 else step for step in steps]
    assert walked("sft", record(steps=advised, task=task))[1] == {"verifier_text": 1}, "advice says it"
    code = [{**step, "content": PIECES[0] + " where status"} if step["seq"] == 10 else step for step in steps]
    assert walked("sft", record(steps=code, task=f"{task} {' '.join(PIECES)}".replace("count", "sum")))[1]


@pytest.mark.parametrize(
    ("scenario", "number", "answer"),
    [
        ("helpdesk_1", 0, "Ticket 1012 has high priority and the tag 'warranty'. Nothing else was changed."),
        ("repairshop_1", 1, "The repair is with Ruben and waits for parts already; nothing had to be changed."),
    ],
)
def test_right_answers_of_the_starter_pack_are_kept(project, scenario, number, answer):
    verifier = verifier_of(project, scenario, number, "")
    result = {"ticket_id": 1012, "repair": 7, "tags": ["warranty"], "mechanic": "Ruben", "state": "waits for parts"}
    steps = [{**step, "result": result} if step["seq"] == 4 else step for step in STEPS]
    steps = [{**step, "content": answer} if step["seq"] == 10 else step for step in steps]
    task = "Raise the ticket's priority to high and tag it 'warranty'; see that the repair waits for parts."
    assert verifier and len(walked("sft", record(steps=steps, task=task), verifier)[0]) == 1


def test_reasoning_and_criteria_are_words_of_the_verifier(project):
    raw = json.dumps({
        "reasoning": "Only the third parcel of the northern depot was still waiting for its stamp.",
        "success_criteria": ["The parcel carries one blue stamp of the depot and nothing else moved."],
        "python_code": "x = 1",
    })  # fmt: skip
    verifier = VerifierWords([CODE], _beside(raw))
    for words in (
        "third parcel of the northern depot was still waiting",
        "carries one blue stamp of the depot and nothing",
    ):
        assert walked("sft", said(f"I know that the {words}."), verifier)[1] == {"verifier_text": 1}, words
    starter = verifier_of(project, "library_1", 0, "")
    assert starter.quotation_in("Her loan 204 is 'The Salt Harbour'; 205 is 'Salt: A Harbour Kitchen'")


FIELDS = (
    *("run", "arm", "checkpoint", "group_key", "policy_kind", "policy_name", "environment", "final_answer", "split"),
)


@pytest.mark.parametrize("shape", [name for name, one in KINDS.items() if not one.trains])
def test_report_has_no_words_of_the_verifier_in_any_field(shape):
    quoted = " ".join(PIECES)
    note = {"seq": 11, "kind": "note", "content": quoted, "meta": {"said": [quoted]}}
    called = {"seq": 12, "kind": "tool_call", "name": "merge", "arguments": {quoted: quoted}, "result": [quoted]}
    tools = [{"name": "merge", "description": quoted, "input_schema": {"title": quoted}}]
    fields = {**dict.fromkeys(FIELDS[:-1], quoted), "policy": {"model": quoted}, "tools": tools}
    (row,), _ = walked(shape, record(steps=[*STEPS, note, called], **fields))
    text = json.dumps(row)
    assert "owner is ann" not in text and LEFT_OUT in text and "verifier_text" in text


@pytest.mark.parametrize("shape", [name for name, one in KINDS.items() if not one.trains])
def test_reported_outcome_has_no_words_of_the_verifier(shape):
    results = {"reported": EpisodeResult(" ".join(PIECES), 1.0, "reported")}
    (row,), _ = walked(shape, record(results=results), include=["reported"])
    assert "owner is ann" not in json.dumps(row) and LEFT_OUT in json.dumps(row)


@pytest.mark.parametrize("field", ["run", "arm", "checkpoint", "policy_kind", "policy_name", "policy", "tools"])
def test_verifier_in_a_field_beside_the_messages_excludes(field):
    quoted = " ".join(PIECES)
    value = {"policy": {"model": quoted}, "tools": [{"name": "merge", "description": quoted}]}.get(field, quoted)
    assert walked("sft", record(**{field: value}))[1] == {"verifier_text": 1}
