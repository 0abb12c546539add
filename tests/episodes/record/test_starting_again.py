"""The same key and body give the same run or episode; another body is refused with the fields that differ."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from awmclient.schema import AskOpen, EpisodeStart, RunStart, StepBatch, ToolSpec, TrainingStepReport
from episodes.record import recording
from episodes.stored.entries import entries_of_batch
from people.errors import KeyConflict
from tests.people_by_name import token

pytestmark = pytest.mark.django_db

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
FORMS = {
    "ours": {"name": "look", "description": "One.", "input_schema": SCHEMA},
    "mcp": {"name": "look", "title": "Look", "description": "One.", "inputSchema": SCHEMA, "annotations": None},
    "openai": {
        "type": "function",
        "function": {"name": "look", "description": "One.", "parameters": SCHEMA, "strict": True},
    },
}


def test_run_started_again_with_its_key_is_the_same_run(ada):
    plan = RunStart(name="nightly", key="n1", policy={"model": "m"})
    run, made = recording.start_run(ada, plan)
    again, made_again = recording.start_run(ada, plan)
    assert (run.pk, made, made_again) == (again.pk, True, False)
    with pytest.raises(KeyConflict, match="for a run with different values of: arm, policy"):
        recording.start_run(ada, RunStart(name="nightly", key="n1", arm="b"))


def test_runs_without_a_key_are_runs_of_their_own(ada):
    first, second = (recording.start_run(ada, RunStart(name="nightly"))[0] for _ in range(2))
    assert first.pk != second.pk


def test_a_conflict_of_episodes_names_the_fields_that_differ(ada):
    run, _ = recording.start_run(ada, RunStart(name="nightly"))
    recording.start_episode(ada, EpisodeStart(key="e", task="t", seed=0, scenario="shop"))
    with pytest.raises(KeyConflict, match="for an episode with different values of: task, seed, run"):
        recording.start_episode(ada, EpisodeStart(key="e", task="u", scenario="shop", run=run.pk))


def test_a_default_that_is_said_is_no_other_body(ada):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="e", task="t"))
    said = {"environment": "awm", "expert": "off", "arm": None}
    again, made = recording.start_episode(ada, EpisodeStart(key="e", task="t", **said))
    assert (again.pk, made) == (episode.pk, False)


@pytest.mark.parametrize("form", FORMS)
def test_openai_and_mcp_tools_are_stored_in_one_form(ada, form):
    plan = EpisodeStart.model_validate({"key": form, "task": "t", "tools": [FORMS[form]]})
    episode, _ = recording.start_episode(ada, plan)
    assert episode.tools == [FORMS["ours"]]


@pytest.mark.parametrize(
    "wrong", [{"type": "function", "function": {}}, {"inputSchema": {}}, {"name": "x", "parameters": {}}, "look"]
)
def test_what_is_none_of_the_three_forms_is_refused(wrong):
    with pytest.raises(ValidationError):
        ToolSpec.model_validate(wrong)


def test_a_whole_number_may_be_written_with_a_point():
    ask = {"key": "k", "episode": "e", "seq": 1, "question": "q"}
    assert AskOpen.model_validate({**ask, "deadline_s": 15.0}).deadline_s == 15
    for wrong in (15.5, True, "15"):
        with pytest.raises(ValidationError):
            AskOpen.model_validate({**ask, "deadline_s": wrong})


def test_step_numbers_may_be_written_with_a_point():
    ask = {"key": "k", "episode": "e", "question": "q"}
    note = {"kind": "note", "content": "a"}
    for model, body in (
        (lambda seq: AskOpen.model_validate({**ask, "seq": seq}).seq, 2.0),
        (lambda seq: StepBatch.model_validate({"steps": [{**note, "seq": seq}]}).steps[0].seq, 2.0),
        (lambda step: TrainingStepReport.model_validate({"training_step": step}).training_step, 2.0),
    ):
        found = model(body)
        assert (found, type(found)) == (2, int)
        for wrong in (2.5, 0.0, True, "2"):
            with pytest.raises(ValidationError):
                model(wrong)


def test_batch_of_the_intake_stores_no_decimal_point():
    raw = [{"seq": 1.0, "kind": "note", "content": "a", "turn": 3.0}, {"seq": 2.0, "kind": "note", "content": "b"}]
    plain = [{**raw[0], "seq": 1, "turn": 3}, {**raw[1], "seq": 2}]
    pointed, others = (entries_of_batch(one, StepBatch.model_validate({"steps": one}).steps) for one in (raw, plain))
    assert [(one.seq, one.text) for one in pointed] == [(one.seq, one.text) for one in others]
    assert {type(one.seq) for one in pointed} == {int}


def test_step_with_a_pointed_number_is_the_same_over_http(ada, client):
    """The first body has a decimal point and the second has none."""
    _, secret = token(ada.project, "agent")
    episode, _ = recording.start_episode(ada, EpisodeStart(key="e", task="t"))
    for seq in ("1.0", "1"):
        body = f'{{"steps": [{{"seq": {seq}, "kind": "note", "content": "a", "turn": {seq}}}]}}'
        answer = client.post(
            f"/api/v1/episodes/{episode.pk}/steps",
            body,
            content_type="application/json",
            headers={"Authorization": f"Bearer {secret}"},
        )
        assert (answer.status_code, answer.json()) == (200, {"acknowledged": 1})
