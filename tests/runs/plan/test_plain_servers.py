"""Runs on OpenEnv servers that are no AWM: what they offer is found out, played, paid by their steps, and said."""

from __future__ import annotations

import json

import pytest
from websockets.sync.client import connect

from awmclient.chat import EndpointConfig
from awmclient.policies import Turn
from awmclient.toolcalls import Call
from episodes.models import Episode
from runs.errors import NotPlayable, UnknownPolicy, UnknownTask
from runs.launch import launching, planning
from runs.plan import servers
from runs.plan.plans import plan_from_yaml
from runs.play import playing
from tests.browsing import as_person, html
from tests.documented import starting
from tests.running import until
from tests.runs.openenv_worlds import Drawers, Guess, Tasked, drawers, guess, served, tasked
from tests.runs.planned import launched

pytestmark = pytest.mark.django_db(transaction=True)
ALONE = {"environment": "lab", "policy": "model", "arms": [{"name": "alone"}]}


@pytest.fixture(autouse=True)
def house(settings, monkeypatch):
    settings.AGENT_ENDPOINTS = {"agent": EndpointConfig("http://127.0.0.1:9", "m")}
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    servers._known.clear()


@pytest.fixture
def serving(settings, request):
    with served(request.param()) as server:
        settings.ENVIRONMENTS = {"lab": {"url": server.url, "timeout_s": 5.0}}
        yield server


class Calls:
    """A policy that makes these calls, then answers; it keeps its views."""

    def __init__(self, *calls):
        self.calls, self.views = calls, []

    async def act(self, view):
        self.views.append(view)
        if view.turn > len(self.calls):
            return Turn(answer="done")
        return Turn(calls=[Call(*self.calls[view.turn - 1])])


def played(monkeypatch, plan, *calls):
    policy = Calls(*calls)
    monkeypatch.setattr(playing, "policy_of", lambda episode: policy)
    pk = plan.tries.order_by("position", "seed").first().episode_id
    playing.play(pk, "w")
    return Episode.objects.get(pk=pk), policy


@pytest.mark.parametrize("serving", [drawers], indirect=True)
def test_tools_server_is_played_paid_and_shown(ada, rita, serving, monkeypatch):
    plan = launched(ada, **ALONE, tasks=["seed/2"])
    assert plan.server["tools"] == ["look", "take"] and len(plan.server["digest"]) == 64
    assert (plan.server["title"], plan.server["version"], plan.server["kind"]) == ("drawers", "1.2.0", "tools")
    episode, policy = played(monkeypatch, plan, ("look", {"drawer": 2}), ("look", {}), ("take", {"drawer": 2}))
    assert (episode.state, episode.stop_reason, episode.fault) == ("finished", "done", "")
    assert Drawers.resets == [{"seed": 2}]
    outcome = episode.outcomes.get()
    assert (outcome.reward_type, outcome.reward) == ("complete", 1.0)
    steps = [json.loads(step.body) for step in episode.steps.all()]
    first, wrong, last = (step for step in steps if step["kind"] == "tool_call")
    assert first["result"] == {"drawer": 2, "holds": "key"} and "drawer" in wrong["error"]
    assert (last["result"], last["reward"], last["done"]) == ("a key", 1.0, True)
    assert "reward" not in str(policy.views), "an agent never sees one"
    page = html(as_person(rita).get(f"/episodes/{episode.pk}/"))
    assert "The environment gave the reward 1 with the step that ended the episode." in page
    assert "The verifier ran" not in page
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "drawers 1.2.0, an OpenEnv environment of tools" in page and "Not to be had: state differences" in page


@pytest.mark.parametrize("serving", [drawers], indirect=True)
@pytest.mark.parametrize(
    ("calls", "at", "kind", "reward"),
    [
        ([("take", {"drawer": 0})], 1.0, "others", 0.0),
        ([("take", {"drawer": 2})], 2.0, "incomplete", 1.0),
        ([("look", {"drawer": 2})], 1.0, "others", 0.0),
    ],
)
def test_outcome_is_that_of_the_last_step(ada, serving, monkeypatch, calls, at, kind, reward):
    plan = launched(ada, **ALONE, tasks=["seed/2"], complete_at=at)
    outcome = played(monkeypatch, plan, *calls)[0].outcomes.get()
    assert (outcome.reward_type, outcome.reward) == (kind, reward)
    stopped = "stopped before the environment ended" in json.dumps(outcome.details)
    assert stopped == (calls[0][0] == "look")


@pytest.mark.parametrize("serving", [guess], indirect=True)
def test_actions_are_tools_of_a_server_of_one_session(ada, rita, serving, monkeypatch):
    plan = launched(ada, **ALONE, tasks={"limit": 3}, parallel=8)
    assert (plan.server["kind"], plan.server["tools"]) == ("actions", ["guess"])
    assert (plan.server["sessions"], plan.parallel) == (1, 1)
    assert sorted(plan.tries.values_list("scenario", "task_idx")) == [("seed", 0), ("seed", 1), ("seed", 2)]
    number = plan.tries.order_by("position").first().task_idx
    wild, calm = {"number": 3, "mood": "wild"}, {"number": number}
    episode, policy = played(
        monkeypatch, plan, ("guess", {"number": 20}), ("guess", {"number": 99}), ("guess", wild), ("guess", calm)
    )
    assert (episode.stop_reason, Guess.resets[0]) == ("done", {"seed": number})
    assert episode.outcomes.get().reward_type == "complete"
    schema = policy.views[0].tools[0].input_schema
    assert sorted(schema["properties"]) == ["mood", "number"] and schema["required"] == ["number"]
    assert "A number from 0 to 20." in policy.views[0].steps[-1]["content"], (
        "its first observation stands below the task"
    )
    low, unfit, wild, right = (json.loads(step.body) for step in episode.steps.filter(kind="tool_call"))
    assert (low["result"], low["reward"]) == ({"hint": "lower"}, -0.1), "the score tells how it goes"
    assert "number" in unfit["error"] and "less than or equal to 20" in unfit["error"] and wild["error"] == "Be calm."
    assert (right["result"], right["done"]) == ({"hint": "right"}, True)
    assert "It takes 1 session at a time" in html(as_person(rita).get(f"/runs/{plan.pk}/"))


@pytest.mark.parametrize("serving", [guess], indirect=True)
def test_episode_waits_in_the_queue_for_the_one_session(ada, serving, monkeypatch):
    plan = launched(ada, **ALONE, tasks=["seed/4"])
    again = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: again.append(delay_s))
    monkeypatch.setattr(playing, "policy_of", lambda episode: Calls(("guess", {"number": 4})))
    pk = plan.tries.get().episode_id
    with connect(serving.url.replace("http", "ws") + "/ws", proxy=None) as holder:
        holder.send('{"type": "state"}')
        holder.recv()
        playing.play(pk, "w")
        episode = Episode.objects.get(pk=pk)
        assert (episode.state, episode.attempt, again, Guess.resets) == ("queued", 0, [launching.AGAIN_S], [])
        with pytest.raises(NotPlayable, match="capacity"):
            launched(ada, **ALONE, tasks=["seed/5"])
    until(lambda: playing.play(pk, "w") or Episode.objects.get(pk=pk).state == "finished", 10)


@pytest.mark.parametrize("serving", [tasked], indirect=True)
def test_tasks_are_those_of_the_task_api(ada, serving, monkeypatch):
    plan = launched(ada, **ALONE)
    assert plan.server["splits"] == {"train": 3, "test": 2} and plan.tries.count() == 5
    texts = {(one.scenario, one.task_idx): one.task for one in Episode.objects.all()}
    assert texts["test", 1] == "Guess number 1 of test." and "secret" not in str(texts)
    plan = launched(ada, **ALONE, tasks=["test/1"], seeds=2)
    episode, _ = played(monkeypatch, plan, ("guess", {"number": 1}))
    assert Tasked.resets == [{"seed": 0, "split": "test", "index": 1}]
    assert episode.outcomes.get().reward_type == "complete"
    assert launched(ada, **ALONE, tasks={"scenarios": ["te*"], "limit": 1}).tries.get().scenario == "test"
    with pytest.raises(UnknownTask, match="test has tasks 0 to 1"):
        launched(ada, **ALONE, tasks=["test/2"])


@pytest.mark.parametrize("serving", [drawers], indirect=True)
def test_listed_id_and_text_of_a_task_reach_the_reset(ada, serving, monkeypatch):
    plan = launched(ada, **ALONE, tasks=["retail-17"], texts={"retail-17": "Take the key."})
    episode, _ = played(monkeypatch, plan, ("take", {"drawer": 0}))
    assert Drawers.resets == [{"seed": 0, "task_id": "retail-17"}] and episode.task == "Take the key."
    with pytest.raises(UnknownPolicy, match="script:demo is for tasks of packs"):
        launched(ada, environment="lab", arms=[{"name": "alone"}], policy="script:demo")


@pytest.mark.parametrize(
    ("serving", "name", "tasks"),
    [(drawers, "Drawers", 2), (guess, "Numbers", 1), (tasked, "Held out", 2)],
    indirect=["serving"],
)
def test_documented_plans_are_launched_on_their_servers(ada, serving, name, tasks):
    [block] = starting("docs/environment.md", f"name: {name}")
    plan, _ = planning.launch(ada, plan_from_yaml(block.text))
    assert plan.tries.values("scenario", "task_idx").distinct().count() == tasks
    said = str(plan.tries.order_by("position").first().episode.task)
    expected = {"Drawers": "Find the key", "Numbers": "Guess the number.", "Held out": "of test."}
    assert expected[name] in said
