"""An episode in a partial scenario says so, and so does its outcome: recorded by our own worker, shown to people."""

from __future__ import annotations

import json

import pytest

from awmclient.schema import EpisodeStart, Finish, Outcome, RunStart, StepBatch
from awmenv.models import BuildReport
from curriculum import next_tasks
from episodes.models import Episode
from episodes.record import ending, noting, recording
from episodes.stored import packs
from exports.explain.preview import preview
from exports.recipe import Recipe
from people.record.members import issue_token
from runs.launch import launching, selecting
from runs.play import playing
from tests.awmenv.conftest import OpenFolders, start_server
from tests.awmenv.hostile_packs import pack
from tests.awmenv.test_partial import partial_pack
from tests.browsing import as_person, html
from tests.runs.planned import document

HOSTILE = BuildReport(9, 0, 1, 1, [], ["t: <b>near</b> \u202e"])
SCRIPT = [{"call": {"name": "add_row", "arguments": {}}}, {"answer": "done"}]


@pytest.fixture
def world(settings, tmp_path, monkeypatch):
    """A server on a pack with a partial and a whole scenario; nobody plays but the test."""
    folders = OpenFolders()
    settings.VAR = tmp_path
    folder = pack(partial_pack(tmp_path / "packs" / "mine"), name="whole_1")
    rows = [{"scenario": name, "task_idx": 0, "scripts": {"oracle": SCRIPT}} for name in ("open_1", "whole_1")]
    (folder / "scripts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    server = start_server(folders.mktemp("run"), folder, own_zygotes=False)
    settings.AWMENV_URL = f"ws://127.0.0.1:{server.port}/ws"
    yield server
    server.stop()
    folders.remove()


def played(actor, scenario):
    policy = launching.playable(scenario, 0, launching.policy_named("script:oracle"))
    run = launching.launch(actor, scenario, [launching.LaunchRequest(scenario, 0, "Do something.", policy)])
    playing.play(run.episodes.get().pk)
    return run.episodes.get()


@pytest.mark.django_db(transaction=True)
def test_episode_and_outcome_of_a_partial_scenario_say_so(ada, world):
    one, whole = played(ada, "open_1"), played(ada, "whole_1")
    assert (one.state, one.fault_detail) == ("finished", "")
    report = BuildReport.from_wire(one.partial)
    assert report is not None and (report.statements, report.failures) == (4, 2)
    assert one.outcomes.get().partial == one.partial
    assert whole.partial == {}
    page = html(as_person(ada).get(one.get_absolute_url()))
    assert "Partial scenario" in page and "2 of 4 SQL statements" in page and "no such table: gone" in page
    assert "Partial scenario" not in html(as_person(ada).get(whole.get_absolute_url()))
    listed = html(as_person(ada).get("/environment/"))
    assert "1 partial scenario" in listed and "open_1" in listed and "2 of 4 statements failed" in listed


def test_export_leaves_partial_scenarios_out_unless_asked(ada):
    one, _ = recording.start_episode(ada, EpisodeStart(key="k", task="t"))
    noting.note_partial(ada, one.pk, HOSTILE)
    message = {"seq": 1, "kind": "message", "role": "assistant", "content": "Done."}
    recording.append_steps(ada, one.pk, StepBatch.model_validate({"steps": [message]}).steps)
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(ada, one.pk, Outcome(reward_type="complete", reward=1.0), partial=HOSTILE)
    found = preview(ada, Recipe.read({"format": "sft"}))
    assert (found.matching, found.rows, found.left_out) == (1, 0, [("partial", 1)])
    assert preview(ada, Recipe.read({"format": "sft", "include": ["partial"]})).rows == 1


def test_demo_plays_no_partial_scenario(settings, monkeypatch):
    (pack_,) = [one for one in packs.packs() if launching.demo_starts()[0].scenario in one.scenarios]
    left = launching.demo_starts()[0].scenario
    monkeypatch.setattr(pack_.known[left], "partial", "1 of 3 SQL statements fail")
    monkeypatch.setattr(launching, "packs", lambda: [pack_])
    assert left not in {start.scenario for start in launching.demo_starts()}


def test_plans_and_next_tasks_leave_partial_scenarios_out(ada, monkeypatch):
    pack_ = packs.find_pack("helpdesk_1")
    whole = selecting.tasks_of(ada, document(tasks={"limit": 100}))
    monkeypatch.setattr(pack_.known["helpdesk_1"], "partial", "1 of 3 SQL statements fail")
    run, _ = recording.start_run(ada, RunStart(name="training"))
    assert "helpdesk_1/0" not in next_tasks.sides(run) and "library_1/0" in next_tasks.sides(run)
    left = selecting.tasks_of(ada, document(tasks={"limit": 100}))
    assert {scenario for scenario, _, _ in whole} - {scenario for scenario, _, _ in left} == {"helpdesk_1"}
    asked = document(tasks={"limit": 100, "partial": True})
    assert selecting.tasks_of(ada, asked) == whole
    assert selecting.tasks_of(ada, document(tasks=["helpdesk_1/0"])), "who names one asks for it"
    assert document().digest == document(tasks={"limit": 6, "partial": False}).digest != asked.digest


def test_text_of_a_failed_statement_stays_text(ada, project):
    one, _ = recording.start_episode(ada, EpisodeStart(key="k", task="t"))
    noting.note_partial(ada, one.pk, HOSTILE)
    page = html(as_person(ada).get(one.get_absolute_url()))
    assert "&lt;b&gt;near&lt;/b&gt;" in page and "\u202e" not in page


def test_agent_token_reads_nothing_of_it(client, ada, project):
    one, _ = recording.start_episode(ada, EpisodeStart(key="k", task="t"))
    noting.note_partial(ada, one.pk, HOSTILE)
    token = issue_token(ada, "loop", "agent")[1]
    answer = client.get(f"/api/v1/episodes/{one.pk}", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200 and "partial" not in answer.content.decode()
    assert Episode.objects.get(pk=one.pk).partial
