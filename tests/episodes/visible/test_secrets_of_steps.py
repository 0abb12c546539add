"""What broke inside a tool and what it changed: people see it with the step, agents' tokens and sockets never do."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from awmclient.schema import CUT_ABOVE_BYTES, STEP, EpisodeStart
from episodes import events
from episodes.models import Episode
from episodes.record import recording
from episodes.stored.entries import text_of
from episodes.visible import trajectory
from episodes.visible.lens import EVERYTHING, LENSES, MODEL, through
from people.record.members import issue_token
from tests.browsing import as_person, html

CHANGED = {"items": {"added": [{"id": 1, "note": "changed-secret"}], "changed": [], "removed": []}}
TRACE = "Traceback\n  line 7, in get_item\nKeyError: 'inner-secret' <b>\u202e"


@pytest.fixture(params=[10, CUT_ABOVE_BYTES], ids=["small", "cut"])
def told(request, ada, monkeypatch, django_capture_on_commit_callbacks):
    """An episode with a call that broke, and what was told of it."""
    lines = []
    monkeypatch.setattr(events, "tell", lines.extend)
    call = {"kind": "tool_call", "name": "get_item", "arguments": {"x": "y" * request.param}, "error": "500"}
    meta = {"traceback": TRACE, "call": {"detail": 7}}
    with django_capture_on_commit_callbacks(execute=True):
        one = recording.start_episode(ada, EpisodeStart(key="one", task="t"))[0]
        recording.append_steps(
            ada, one.pk, [STEP.validate_python({**call, "seq": 1, "meta": meta, "state_diff": CHANGED})]
        )
    return one, lines


def test_people_see_it_with_the_step(rita, told):
    one, _ = told
    for page in ("", "replay/", "steps.html?since=0"):
        text = html(as_person(rita).get(f"/episodes/{one.pk}/{page}"))
        assert "Traceback of the tool" in text and "inner-secret" in text and "changed-secret" in text
        assert "&lt;b&gt;" in text and "\u202e" not in text
    assert "inner-secret" in json.dumps(trajectory.build(one).model_dump(mode="json"))


def test_an_agent_reads_the_rest_of_a_step_and_no_secret_of_it(ada, told):
    one, lines = told
    secrets = {scope: issue_token(ada, scope, scope)[1] for scope in ("agent", "expert")}
    for call in ("/steps", "/steps/1"):
        said = {
            scope: Client(headers={"Authorization": f"Bearer {secret}"}).get(f"/api/v1/episodes/{one.pk}{call}")
            for scope, secret in secrets.items()
        }
        assert "inner-secret" in html(said["expert"]) and "changed-secret" in html(said["expert"])
        assert "-secret" not in html(said["agent"])
        step = said["agent"].json()
        step = step["steps"][0] if "steps" in step else step
        assert step["meta"] == {"call": {"detail": 7}} and step["error"] == "500" and "state_diff" not in step
    told_later, _ = trajectory.sent_after(EVERYTHING, one.pk, 0, 10)
    assert lines and told_later and "-secret" not in json.dumps([lines, told_later])
    (step,) = trajectory.steps_of(one, lens=MODEL)
    assert "-secret" not in json.dumps(step)


def test_a_result_that_speaks_of_changes_reaches_the_agent_whole():
    call = {"seq": 1, "kind": "tool_call", "result": {"state_diff": {"traceback": 7}}, "arguments": {"state_diff": 1}}
    assert json.loads(through(LENSES["agent"], text_of({**call, "state_diff": CHANGED}))) == call


def test_the_same_batch_again_is_still_a_quiet_yes(ada, told):
    one, _ = told
    (stored,) = trajectory.steps_of(one)
    assert recording.append_steps(ada, one.pk, [STEP.validate_python({k: stored[k] for k in stored if k != "at"})]) == 1


def test_world_marks_go_only_to_the_loop_that_recorded_them(ada, django_capture_on_commit_callbacks):
    meta = {"world": {"clock": 1, "rows": "mark-secret"}}
    step = {"kind": "tool_call", "name": "get_item", "arguments": {}, "result": 1, "seq": 1, "meta": meta}
    one = recording.start_episode(ada, EpisodeStart(key="marks", task="t"))[0]
    recording.append_steps(ada, one.pk, [STEP.validate_python(step)])
    agent = Client(headers={"Authorization": f"Bearer {issue_token(ada, 'agent', 'agent')[1]}"})
    for origin, kept in (("builtin", False), ("external", True)):
        Episode.objects.filter(pk=one.pk).update(origin=origin)
        for call in ("/steps", "/steps/1"):
            assert ("mark-secret" in html(agent.get(f"/api/v1/episodes/{one.pk}{call}"))) is kept
    assert "mark-secret" not in json.dumps(trajectory.sent_after(EVERYTHING, one.pk, 0, 10))
