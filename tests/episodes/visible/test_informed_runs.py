"""Who may let an agent ask experts that have read the verifier: whoever may launch, and never the agent's own token."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from awmclient.schema import AskOpen, EpisodeStart, Finish, Outcome, RunStart
from episodes.models import Episode, Run
from episodes.record import ending, recording
from experts.mcp import sessions
from experts.models import Ask
from experts.record import opening
from people import access
from people.errors import NotFound, WrongScope
from people.models import TokenScope
from runs.launch import launching
from tests.browsing import as_person, html
from tests.people_by_name import person, token


class Caller:
    """Somebody who calls the API with a token."""

    def __init__(self, project, scope):
        self.actor, secret = token(project, scope)
        self.client = Client(headers={"Authorization": f"Bearer {secret}"})

    def post(self, path, **body):
        return self.client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")

    def get(self, path):
        return self.client.get(f"/api/v1{path}")


@pytest.fixture
def callers(project):
    return {scope: Caller(project, scope) for scope in TokenScope.values}


def refusal(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_an_agents_token_cannot_call_its_own_episode_informed(callers):
    agent = callers["agent"]
    for more in ({}, {"run": agent.post("/runs", name="mine").json()["id"]}):
        answer = agent.post("/episodes", key="e", task="t", expert="informed", **more)
        assert refusal(answer) == (403, "scope") and "expert mode plain" in answer.json()["error"]["message"]
    assert refusal(agent.post("/runs", name="mine", expert="informed")) == (403, "scope")
    assert not Episode.objects.exists() and [run.expert for run in Run.objects.all()] == ["plain"]
    assert agent.post("/episodes", key="e", task="t", expert="plain").status_code == 201


def test_run_with_launch_right_can_allow_informed_experts(callers):
    made = callers["launch"].post("/runs", name="nightly", expert="informed")
    assert made.status_code == 201 and made.json() == {**made.json(), "name": "nightly", "expert": "informed"}
    body = {"key": "e", "task": "t", "expert": "informed", "run": made.json()["id"]}
    first, again = (callers["agent"].post("/episodes", **body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200) and first.json() == again.json()
    asked = callers["agent"].post("/asks", key="q", episode=first.json()["id"], seq=1, question="How?")
    assert asked.status_code == 201 and Ask.objects.get().privilege == "sees_verifier"


@pytest.mark.parametrize(
    ("allowed", "granted", "refused"),
    [
        ("off", ["off"], ["plain", "informed"]),
        ("plain", ["off", "plain"], ["informed"]),
        ("informed", ["off", "plain", "informed"], []),
    ],
)
def test_an_agents_token_gets_as_much_help_as_its_run_allows(callers, allowed, granted, refused):
    run = callers["launch"].post("/runs", name="nightly", expert=allowed).json()["id"]
    said = {
        wanted: callers["agent"].post("/episodes", key=wanted, task="t", expert=wanted, run=run).status_code
        for wanted in (*granted, *refused)
    }
    assert said == {**dict.fromkeys(granted, 201), **dict.fromkeys(refused, 403)}


def test_a_run_of_another_project_allows_nothing_here(callers, elsewhere):
    theirs = recording.start_run(access.system(elsewhere), RunStart(name="theirs", expert="informed"))[0]
    answer = callers["agent"].post("/episodes", key="e", task="t", expert="informed", run=theirs.pk)
    assert refusal(answer) == (404, "not_found")


def test_a_launch_token_creates_runs_and_reads_and_nothing_else(callers, ada):
    launch = callers["launch"]
    episode, _ = recording.start_episode(ada, EpisodeStart(key="e", task="t", expert="plain"))
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    ending.record_outcome(ada, episode.pk, Outcome(reward_type="complete", reward=1.0))
    assert launch.get(f"/episodes/{episode.pk}").status_code == 200
    kinds = [step["kind"] for step in launch.get(f"/episodes/{episode.pk}/steps").json()["steps"]]
    assert kinds == ["verification"]  # an agent's token does not get it
    assert callers["agent"].get(f"/episodes/{episode.pk}/steps").json()["steps"] == []
    for path, body in (
        ("/episodes", {"key": "x", "task": "t"}),
        (f"/episodes/{episode.pk}/steps", {"steps": [{"seq": 1, "kind": "note", "content": "x"}]}),
        (f"/episodes/{episode.pk}/heartbeat", {}),
        ("/asks", {"key": "q", "episode": episode.pk, "seq": 1, "question": "How?"}),
    ):
        assert refusal(launch.post(path, **body)) == (403, "scope"), path
    assert refusal(launch.get("/asks")) == (403, "scope")


@pytest.mark.parametrize("scope", ["expert", "export"])
def test_other_tokens_create_no_run(callers, scope):
    assert refusal(callers[scope].post("/runs", name="x")) == (403, "scope")


def test_people_who_may_launch_need_no_run(project, ada):
    for number, role in enumerate(("admin", "researcher")):
        actor = person(project, f"{role}-1", role)
        plan = EpisodeStart(key=f"e{number}", task="t", expert="informed")
        assert recording.start_episode(actor, plan)[0].expert == "informed"


def test_a_session_over_mcp_keeps_to_its_run(callers):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bot", "version": "1"}}
    agent = callers["agent"].actor
    off, informed = (
        callers["launch"].post("/runs", name="r", expert=mode).json()["id"] for mode in ("off", "informed")
    )
    with pytest.raises(WrongScope):
        sessions.begin(agent, hello, f"run={off}")
    begun = Episode.objects.get(pk=sessions.begin(agent, hello, f"run={informed}"))
    assert (begun.expert, begun.run_id) == ("plain", informed)
    with pytest.raises(NotFound):
        sessions.begin(agent, hello, "run=nowhere")


@pytest.fixture
def ours(ada, monkeypatch):
    """An episode with informed experts that awmweb itself plays."""
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    start = launching.LaunchRequest(**{**vars(launching.demo_starts()[0]), "expert": "informed"})
    episode = launching.launch(ada, "ours", [start]).episodes.get()
    recording.begin(episode.pk)
    return episode


def test_a_run_of_ours_lends_agents_no_informed_expert(callers, ours, project):
    agent = callers["agent"]
    body = {"key": "q", "episode": ours.pk, "seq": 1, "question": "How?"}
    # whatever its run allows, only our worker records an episode of ours
    assert refusal(agent.post("/asks", **body)) == (409, "other_loop")
    for expert in ("informed", "plain"):
        answer = agent.post("/episodes", key=expert, task="t", expert=expert, run=ours.run_id)
        assert answer.status_code == (403 if expert == "informed" else 201)
    assert not Ask.objects.exists()
    opening.open_ask(access.system(project), AskOpen(**body))
    assert Ask.objects.get().privilege == "sees_verifier"


def test_informed_episode_is_rerun_with_launch_right_only(ada, edo, ours):
    Episode.objects.filter(pk=ours.pk).update(state="failed")
    assert as_person(edo).post(f"{ours.get_absolute_url()}again").status_code == 403
    assert launching.rerun(ada, ours.pk).expert == "informed"


def test_the_page_of_tokens_makes_one_that_launches(ada, project):
    client = as_person(ada)
    assert 'value="launch"' in html(client.get("/api-tokens/"))
    assert "creates runs, including runs with informed experts" in html(client.get("/api-tokens/"))
    client.post("/api-tokens/", {"do": "issue", "name": "trainer", "scope": "launch"})
    [made] = project.tokens.all()
    assert (made.scope, made.name) == ("launch", "trainer")
