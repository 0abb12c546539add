"""Runs on OpenEnv servers that are no AWM: what they offer is found out, played, paid by their steps, and said."""

from __future__ import annotations

import importlib
import json
import threading
import time
from pathlib import Path

import openenv.cli
import pytest
import yaml
from django.core.management import call_command
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.types import Action
from websockets.sync.client import connect

from awmclient.choosing.chat import EndpointConfig
from awmclient.policies import Turn
from awmclient.words.toolcalls import Call
from episodes.models import Episode, Run
from episodes.stored import settled
from episodes.visible.trajectory import build
from exports.recipe import Recipe
from exports.select import selecting
from runs.errors import BadPlan, NoServer, NotPlayable, UnknownPolicy, UnknownTask
from runs.launch import launching, planning
from runs.plan import replaceable, servers
from runs.plan.plans import plan_from_yaml
from runs.play import playing
from runs.play.plain_world import PlainWorld
from runs.show.comparison import compare_run
from runs.show.report import markdown
from tests.browsing import as_person, html
from tests.documented import starting
from tests.running import until
from tests.runs.openenv_worlds import (
    Drawers,
    Guess,
    GuessAction,
    GuessObservation,
    Tasked,
    drawers,
    guess,
    lying,
    served,
    spoiled_step,
    spoiled_tools,
    tasked,
    tasked_once,
)
from tests.runs.planned import document, launched

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
        settings.ENVIRONMENTS = {"lab": {"url": server.url, "timeout_s": 60.0}}
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
def test_person_plays_a_server_of_actions(ada, edo, serving, settings):
    settings.AWMWEB_PARK_AFTER_S = 0
    plan = launched(ada, environment="lab", tasks=["seed/4"], arms=[{"name": "person", "person": True}])
    pk = plan.tries.get().episode_id
    playing.play(pk, "w")
    page = html(as_person(edo).get(f"/episodes/{pk}/play"))
    assert "A number from 0 to 20." in page and ">Call guess<" in page and "Your guess; a whole number" in page
    sent = {"tool": "guess", "act": "call", "field:1": "0"}
    as_person(edo).post(f"/episodes/{pk}/play", {**sent, "number": "1", "field:0": "3"})
    playing.play(pk, "w")
    assert "higher" in html(as_person(edo).get(f"/episodes/{pk}/play"))
    as_person(edo).post(f"/episodes/{pk}/play", {**sent, "number": "2", "field:0": "4"})
    playing.play(pk, "w")
    episode = Episode.objects.get(pk=pk)
    assert (episode.state, episode.outcomes.get().reward_type) == ("finished", "complete")
    calls = [json.loads(step.body)["arguments"] for step in episode.steps.filter(kind="tool_call")]
    assert calls == [{"number": 3, "mood": "calm"}, {"number": 4, "mood": "calm"}]


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
    until(lambda: playing.play(pk, "w") or Episode.objects.get(pk=pk).state == "finished", 10)


@pytest.mark.parametrize("serving", [tasked_once], indirect=True)
def test_launch_on_a_full_server_is_queued(ada, rita, serving, monkeypatch):
    """What only a session says is found out by the first episode that gets one, and holds for all after it."""
    monkeypatch.setattr(playing, "policy_of", lambda episode: Calls(("guess", {"number": 1})))
    with connect(serving.url.replace("http", "ws") + "/ws", proxy=None) as holder:
        holder.send('{"type": "state"}')
        holder.recv()
        plan = launched(ada, **ALONE, tasks=["test/0", "test/1"])
        assert (plan.server["digest"], plan.server["splits"]) == ("", {"train": 3, "test": 2})
        assert "It was full at the launch" in html(as_person(rita).get(f"/runs/{plan.pk}/"))
        first, second = plan.tries.order_by("position").values_list("episode_id", flat=True)
        playing.play(first, "w")
        assert Episode.objects.get(pk=first).state == "queued"
    until(lambda: playing.play(first, "w") or Episode.objects.get(pk=first).state == "finished", 10)
    plan.refresh_from_db()
    assert (plan.server["kind"], plan.server["tools"]) == ("actions", ["guess"]) and len(plan.server["digest"]) == 64
    until(lambda: playing.play(second, "w") or Episode.objects.get(pk=second).state == "finished", 10)
    assert planning.keep_server(plan.run_id, {"digest": "of another"}) == plan.server, "the first word holds"


@pytest.mark.parametrize("serving", [drawers], indirect=True)
def test_server_that_was_silent_at_the_launch_plays_the_run(ada, serving, settings, monkeypatch):
    settings.ENVIRONMENTS = {"lab": {"url": "http://127.0.0.1:9"}}
    plan = launched(ada, **ALONE, tasks=["seed/2"], texts={"seed/2": "Find the key."})
    settings.ENVIRONMENTS = {"lab": {"url": serving.url, "timeout_s": 60.0}}
    assert played(monkeypatch, plan, ("take", {"drawer": 2}))[0].outcomes.get().reward_type == "complete"
    plan.refresh_from_db()
    assert (plan.server["problem"], plan.server["tools"]) == ("", ["look", "take"])


def test_server_that_falls_silent_at_the_launch_is_503(ada, settings, monkeypatch):
    monkeypatch.setattr(servers, "DISCOVERY_S", 0.5)
    with served(drawers()) as server:
        settings.ENVIRONMENTS = {"lab": {"url": server.url}}
        server.spoil = lambda said: time.sleep(2) or said
        with pytest.raises(NoServer, match="does not say what it offers: it did not answer in 0.5 s") as refused:
            launched(ada, **ALONE)
    assert refused.value.status == 503 and not Run.objects.exists()


@pytest.mark.parametrize("serving", [drawers], indirect=True)
def test_reward_of_a_plain_server_is_reported_and_counts(ada, rita, serving, monkeypatch):
    """No verifier of awmweb found it, so nothing calls it verified; the run it belongs to counts it all the same."""
    plan = launched(ada, **{**ALONE, "arms": [{"name": "alone"}, {"name": "other"}]}, tasks=["seed/2"])
    for pk in plan.tries.values_list("episode_id", flat=True):
        monkeypatch.setattr(playing, "policy_of", lambda episode: Calls(("take", {"drawer": 2})))
        playing.play(pk, "w")
    episode = Episode.objects.get(pk=pk)
    assert episode.outcomes.get().source == "reported"
    said = build(episode)
    assert said.outcome is None and (said.reported.reward_type, said.reported.source) == ("complete", "reported")
    found = compare_run(ada, plan.run_id)
    assert [(arm.complete, arm.others, dict(arm.excluded)) for arm in found.arms] == [(1, 0, {}), (1, 0, {})]
    assert "Outcomes are reported: reward and end come with its own steps" in markdown(found, [], {})
    listed = as_person(rita).get("/api/v1/episodes?outcome=complete").json()["items"]
    assert {one["outcomes"][0]["source"] for one in listed} == {"reported"} and len(listed) == 2
    for path in (f"/episodes/{pk}/", "/episodes/", "/"):
        assert 'title="No verifier found this outcome.">reported<' in html(as_person(rita).get(path)), path
    assert "Reported by the environment itself; no verifier ran." in html(as_person(rita).get(f"/episodes/{pk}/"))
    recipe = Recipe.model_validate({"format": "sft", "license": "cc0-1.0"})
    rows = selecting.matching(ada.project, recipe)
    assert not selecting.usable(rows, recipe).exists()
    assert selecting.usable(rows, recipe.model_copy(update={"include": ["reported"]})).count() == 2
    assert not settled.unverified().exists(), "no worker fetches an outcome that is there"


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


def ends(monkeypatch, plan, *calls):
    episode, _ = played(monkeypatch, plan, *calls)
    return episode.state, episode.fault, episode.fault_detail


@pytest.mark.parametrize("serving", [drawers], indirect=True)
def test_broken_word_is_a_fault_and_moves_no_neighbor(ada, rita, serving, settings, monkeypatch):
    bad = {
        "no number: 'great <b>'": spoiled_step(reward="great <b>"),
        "no number: nan": spoiled_step(reward=float("nan")),
        "more than 4 MB": lambda said: "x" * (50 << 20) if '"observation"' in said else said,
        "changed its tools since the launch (new: more)": spoiled_tools("more"),
    }
    plans = {words: launched(ada, **ALONE, name=words, tasks=["seed/2"]) for words in bad}
    with served(drawers()) as other:
        settings.ENVIRONMENTS["good"] = {"url": other.url, "timeout_s": 60.0}
        for words, plan in plans.items():
            # the list is as at the launch until the first call
            serving.spoil = bad[words]
            assert ends(monkeypatch, plan, ("look", {"drawer": 2}))[:2] == ("failed", "environment")
            episode = Episode.objects.get(run=plan.run)
            assert words in episode.fault_detail and len(episode.fault_detail) < 400 and not episode.outcomes.exists()
        assert "great <b>" not in html(as_person(rita).get(f"/episodes/{Episode.objects.first().pk}/"))
        resets = len(Drawers.resets)
        neighbor = launched(ada, **{**ALONE, "environment": "good"}, tasks=["seed/2"])
        assert ends(monkeypatch, neighbor, ("take", {"drawer": 2})) == ("finished", "", "")
    assert (resets, len(Drawers.resets)) == (4, 5), "nothing is tried again"


def test_endless_reset_and_untrue_schema_are_faults(ada, settings, monkeypatch):
    ended, reset, patience = threading.Event(), PlainWorld.reset, {"within 0.3 s": 0.3}

    class Stuck(Guess):
        def reset(self, seed=None, episode_id=None, **given):
            super().reset(seed, **given)
            ended.wait(60)
            return GuessObservation(hint="")

    class Liar(GuessAction):
        @classmethod
        def model_json_schema(cls, *args, **kwargs):
            return {"title": "GuessAction", "type": "object", "properties": {"guess": {"type": "integer"}}}

    async def impatient(world, **given):
        world._reset_timeout_s = patience.get(words, 60)
        return await reset(world, **given)

    monkeypatch.setattr(PlainWorld, "reset", impatient)
    cases = [(Stuck, GuessAction, "within 0.3 s"), (Guess, Liar, "it wants number, which is not in it")]
    for kind, action, words in cases:
        with served(create_app(kind, action, GuessObservation, "guess")) as server:
            settings.ENVIRONMENTS = {"lab": {"url": server.url, "timeout_s": 60.0}}
            servers._known.clear()
            plan = launched(ada, **ALONE, name=words, tasks=["seed/2"])
            state, fault, detail = ends(monkeypatch, plan, ("guess", {"guess": 3}))
            ended.set()
        assert (state, fault) == ("failed", "environment") and words in detail
        assert not Episode.objects.get(run=plan.run).outcomes.exists() and len(kind.resets) == 1


@pytest.mark.parametrize("serving", [drawers], indirect=True)
def test_server_that_changed_since_the_launch_is_a_fault(ada, serving, monkeypatch):
    plans = [launched(ada, **ALONE, name=name, tasks=["seed/2"]) for name in ("version", "tools")]
    monkeypatch.setattr(Drawers, "version", "2.0.0")
    assert "drawers 1.2.0 then, drawers 2.0.0 now" in ends(monkeypatch, plans[0])[2]
    monkeypatch.undo()
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    serving.spoil = spoiled_tools("more", at_once=True)
    assert "offers something else than at the launch" in ends(monkeypatch, plans[1])[2]
    assert Drawers.resets == []


def test_server_that_offers_nothing_launches_no_run(ada, settings):
    with served(create_app(Guess, Action, GuessObservation, "empty")) as server:
        settings.ENVIRONMENTS = {"lab": {"url": server.url}}
        with pytest.raises(NotPlayable, match="lab cannot be used. The server offers nothing to play"):
            launched(ada, **ALONE)
        assert "offers nothing to play" in html(as_person(ada).get("/runs/preview", FORM))
    assert not Run.objects.exists()


FORM = {"name": "by form", "arm": "baseline", "policy": "model", "environment": "lab", "seeds": "1", "parallel": "8"}


@pytest.mark.parametrize("serving", [tasked], indirect=True)
def test_command_form_and_api_launch_on_a_plain_server(ada, serving, tmp_path, capsys):
    as_person(ada).post("/runs/", FORM)
    assert Run.objects.get(name="by form").plan.tries.count() == 5
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({**ALONE, "name": "by file", "tasks": ["test/0"]}))
    call_command("run", str(tmp_path / "plan.yaml"), project=ada.project.slug)
    assert "1 episode, running" in capsys.readouterr().out
    report = markdown(compare_run(ada, Run.objects.get(name="by file").pk), [], {})
    assert "lab at the launch: Tasked" in report and "Not to be had: state differences" in report


def test_environment_that_openenv_ships_is_played(ada, settings, tmp_path, monkeypatch):
    """The environment of `openenv init`: it echoes, pays every step, and never ends."""
    shipped = Path(openenv.cli.__file__).parent / "templates" / "openenv_env"
    for file in shipped.rglob("*.py"):
        target = tmp_path / "shipped_env" / str(file.relative_to(shipped)).replace("__ENV_NAME__", "shipped")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text().replace("__ENV_CLASS_NAME__", "Shipped").replace("__ENV_NAME__", "shipped")
        target.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with served(importlib.import_module("shipped_env.server.app").app) as server:
        settings.ENVIRONMENTS = {"lab": {"url": server.url, "timeout_s": 60.0}}
        plan = launched(ada, **ALONE, tasks=["seed/0"])
        episode, policy = played(monkeypatch, plan, ("shipped", {"message": "hello"}))
    step = json.loads(episode.steps.get(kind="tool_call").body)
    assert (step["result"], step["reward"]) == ({"echoed_message": "hello", "message_length": 5}, 0.5)
    outcome = episode.outcomes.get()
    assert (outcome.reward_type, outcome.reward, episode.stop_reason) == ("others", 0.0, "done")
    assert "The last step had the reward 0.5." in json.dumps(outcome.details)


def test_environment_of_arms_is_that_of_the_plan():
    arms = [{"name": "a", "environment": "lab"}, {"name": "b", "environment": "lab"}]
    plain = [{"name": "a"}, {"name": "b"}]
    assert document(arms=arms).environment == "lab"
    assert document(arms=arms).digest == document(arms=plain, environment="lab").digest
    for other in ({"name": "b", "environment": "far"}, {"name": "b"}):
        with pytest.raises(BadPlan, match="name"):
            document(arms=[arms[0], other])
    with pytest.raises(BadPlan, match="different environments"):
        document(arms=arms, environment="far")


@pytest.mark.parametrize("serving", [drawers], indirect=True)
def test_tool_with_a_reserved_name_is_left_out_and_named(ada, rita, serving, monkeypatch):
    serving.spoil = spoiled_tools(" Ask_Expert", at_once=True)
    plan = launched(ada, **ALONE, tasks=["seed/2"])
    assert (plan.server["tools"], plan.server["reserved"]) == (["look", "take"], ["Ask_Expert"])
    episode, policy = played(monkeypatch, plan, ("take", {"drawer": 2}))
    assert episode.outcomes.get().reward_type == "complete" and "sk_Expert" not in str(policy.views)
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "Left out, because awmweb uses these names: Ask_Expert." in page


HALF = json.dumps("Guess \x00\ud800 it.")
TASK_API = {
    "list_environments": '["x"]',
    "x_splits": '[{"name": "test"}]',
    "x_num_tasks": '{"num_tasks": 1000000}',
    "x_task_range": f'{{"tasks": [{{"question": {HALF}}}]}}',
}
UNTRUE = {
    "required of no names": {
        "schema": '{"action": {"title": "GuessAction", "properties": {"number": {"type": "integer"}}, '
        '"required": [["number"], {}, null]}, "observation": {}}'
    },
    "a name of no text": {"metadata": f'{{"name": {HALF}, "version": {HALF}, "description": {HALF}}}'},
    "words of no text": TASK_API,
    "an environment of no text": {**TASK_API, "list_environments": f"[{HALF}]"},
}


@pytest.mark.parametrize("bodies", UNTRUE.values(), ids=UNTRUE)
def test_odd_words_of_a_server_are_stored_and_played(ada, rita, settings, monkeypatch, bodies):
    with served(lying(guess(), **bodies)) as server:
        settings.ENVIRONMENTS = {"lab": {"url": server.url, "timeout_s": 60.0}}
        plan = launched(ada, **ALONE, tasks={"scenarios": ["*"], "limit": 1})
        assert played(monkeypatch, plan, ("guess", {"number": 0}))[0].state == "finished"
        if bodies is TASK_API:
            assert plan.server["splits"] == {"test": 1_000_000}
            assert plan.tries.get().episode.task == "Guess ⟨NUL⟩⟨U+D800⟩ it."
    assert as_person(rita).get(f"/runs/{plan.pk}/").status_code == 200


@pytest.mark.parametrize("serving", [drawers], indirect=True)
def test_end_without_a_reward_is_not_played_again(ada, serving, monkeypatch):
    plan = launched(ada, **ALONE, tasks=["seed/2"])
    monkeypatch.setattr(Drawers, "reward", None)
    episode, _ = played(monkeypatch, plan, ("take", {"drawer": 2}))
    assert episode.state == "finished" and not episode.outcomes.exists()
    assert planning.retry(ada, plan.run_id) == 0
    assert replaceable.unverified([episode.pk]) == {episode.pk: replaceable.NO_VERIFIER}
