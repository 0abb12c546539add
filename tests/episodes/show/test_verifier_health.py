"""What is known of a verifier stands beside its verdict, in words, for people; agents never receive it."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from awmclient.schema import NOT_COUNTED, STEP, EpisodeStart, Finish, Outcome
from awmenv.health import Form, Health
from episodes import events
from episodes.record import ending, recording
from people import access
from people.record.members import issue_token
from tests.browsing import as_person, html

SOUND = Health(Form("runs", "others"), Form("runs"))
QUARREL = Health(Form("runs", "others"), Form("runs", "complete"))
BROKEN = Health(Form("broken", error="SyntaxError: <b>\u202e\ud800"), Form("fails", error="ZeroDivisionError"))
UNCHECKED = Health(unchecked="sandbox_missing: isolation reached here is 'none'")
PAGES = ("/episodes/{}/", "/episodes/{}/replay/", "/episodes/{}/steps.html?since=0")
LISTS = ("/episodes/", "/")


def ended(ada, project, health, tier="strict", reward_type="others"):
    """Return an episode with an outcome of awmweb's verifier; with `health` None, of an external environment."""
    plan = EpisodeStart(key=f"k{tier}{reward_type}{health}"[:200], task="t", scenario="helpdesk_1", task_idx=0)
    one = recording.start_episode(ada, plan)[0]
    body = {"seq": 1, "kind": "tool_call", "name": "look", "arguments": {}, "result": 1}
    recording.append_steps(ada, one.pk, [STEP.validate_python(body)])
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
    found = Outcome(reward_type=reward_type, reward=0.0)
    ending.record_outcome(access.system(project), one.pk, found, tier, health)
    return one


def texts(actor, pages, one):
    client = as_person(actor)
    for page in pages:
        answer = client.get(page.format(one.pk))
        assert answer.status_code == 200, page
        yield html(answer)


def test_contradicting_verifier_is_warned_of_on_every_page(rita, ada, project):
    one = ended(ada, project, QUARREL)
    for page in texts(rita, PAGES, one):
        assert "Verifier: code and SQL disagree on the unmodified database" in page
        assert "The code form returns others. The SQL form returns complete." in page
    for page in texts(rita, LISTS, one):
        assert page.count("verifier: code and SQL disagree on the unmodified database") == 1
        assert 'title="Run on the unmodified database' in page


def test_list_shows_the_worst_warning_as_text(rita, ada, project):
    one = ended(ada, project, BROKEN)
    for page in texts(rita, PAGES, one):
        assert "the code form does not compile" in page and "does not run on the unmodified database" in page
        assert "&lt;b&gt;" in page and "<b>\u202e" not in page
    for page in texts(rita, LISTS, one):
        assert "verifier: the code form does not compile, and 1 more" in page


def test_sound_verifier_has_no_warning_in_lists(rita, ada, project):
    one = ended(ada, project, SOUND)
    assert all("Verifier check: no problems found" in page for page in texts(rita, PAGES, one))
    assert not any("verifier:" in page.lower() for page in texts(rita, LISTS, one))


@pytest.mark.parametrize(("health", "said"), [(None, False), (UNCHECKED, True)])
def test_unchecked_verifier_is_not_called_sound(rita, ada, project, health, said):
    one = ended(ada, project, health)
    for page in texts(rita, PAGES, one):
        assert ("was not checked: sandbox_missing" in page) == said
        assert "no problems found" not in page and "Verifier: " not in page
    assert not any("not checked" in page for page in texts(rita, LISTS, one))


@pytest.mark.parametrize(
    ("tier", "words"),
    [
        ("strict", "Sandbox level: <b>strict</b>."),
        ("degraded", "Sandbox level: <b>degraded</b>, packs declared trusted by the operator."),
        ("container", "Sandbox level: <b>container</b>, a disposable container"),
    ],
)
def test_outcome_shows_its_sandbox_level(rita, ada, project, tier, words):
    assert all(words in page for page in texts(rita, PAGES, ended(ada, project, SOUND, tier)))


@pytest.mark.parametrize("reward_type", sorted(NOT_COUNTED))
def test_what_a_server_ended_is_in_no_rate(rita, ada, project, reward_type):
    one = ended(ada, project, BROKEN, reward_type=reward_type)
    ended(ada, project, SOUND, reward_type="complete")
    (page,) = texts(rita, PAGES[:1], one)
    assert ("Unknown outcome" in page) == (reward_type == "judge_error")
    assert "1 of 1 outcome is complete" in next(texts(rita, LISTS, one))


def test_queue_hears_of_an_outcome_but_not_which(ada, project, monkeypatch, django_capture_on_commit_callbacks):
    told = []
    monkeypatch.setattr(events, "tell", told.extend)
    with django_capture_on_commit_callbacks(execute=True):
        one = ended(ada, project, QUARREL)
    said = [json.loads(line.split(" ", 3)[3]) for line in told if line.startswith(events.queue_topic(project.pk))]
    [frame] = [frame for frame in said if frame["type"] == "outcome"]
    assert set(frame) == {"type", "episode", "now"} and frame["episode"] == one.pk


def test_an_agent_never_receives_the_health_of_a_verifier(
    ada, project, monkeypatch, django_capture_on_commit_callbacks
):
    told = []
    monkeypatch.setattr(events, "tell", told.extend)
    with django_capture_on_commit_callbacks(execute=True):
        one = ended(ada, project, QUARREL)
    agent = Client(headers={"Authorization": f"Bearer {issue_token(ada, 'loop', 'agent')[1]}"})
    calls = ["", "/steps", "/steps?since=0&limit=2000", "/steps/1"]
    answers = [agent.get(f"/api/v1/episodes/{one.pk}{call}") for call in calls]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert agent.get(f"/api/v1/episodes/{one.pk}/steps/2").status_code == 404
    heard = [line for line in told if line.startswith(f"{events.episode_topic(one.pk)} ")]
    assert heard and all("look" in line or '"episode"' in line for line in heard)
    for text in [*heard, *(html(answer) for answer in answers)]:
        assert not any(word in text for word in ("health", "disagree", "untouched", "reward_type", "strict"))
    for page in (*PAGES, *LISTS):
        assert agent.get(page.format(one.pk)).status_code == 302  # a token is no way into the pages
