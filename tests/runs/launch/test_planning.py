"""A planned run: launched once, fed a few episodes at a time, paused, resumed, cancelled, retried and extended."""

from __future__ import annotations

import hashlib
import json
import threading

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.db import connection

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import Finish, RunStart, StepBatch
from episodes.errors import EpisodeEnded
from episodes.models import Episode, Run
from episodes.record import ending, noting, pinning, recording
from episodes.stored import packs
from people.access import system
from people.errors import Forbidden, KeyConflict, NotFound
from people.models import AuditEntry
from reviews.record import court
from runs.errors import BadPlan, NoEndpoint, OtherVersion, UnknownPolicy, WrongState
from runs.launch import cells, feeding, launching, planning, preflight, selecting
from runs.models import Plan
from runs.plan import servers
from runs.plan.plans import (
    OF_LOOP,
    differing,
    plan_from_yaml,
    plan_of,
    recipe,
    recipes,
    to_yaml,
)
from runs.play import playing
from runs.show import overview, report, tables
from runs.show.comparison import compare_run
from tests.browsing import as_person
from tests.people_by_name import token
from tests.runs.planned import document, end, launched

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def calls(monkeypatch):
    """The episodes that workers are called for; nobody plays here."""
    called = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


def states(plan):
    return [row.episode.state for row in plan.tries.select_related("episode")]


def test_gated_tools_of_an_arm_reach_its_episodes_alone(ada, calls):
    arms = [{"name": "free", "expert": "plain"}, {"name": "gated", "expert": "plain", "approve": ["writes", "get_*"]}]
    plan = launched(ada, arms=arms)
    gates = {row.arm.name: row.episode.policy.get("approve") for row in plan.tries.select_related("episode", "arm")}
    assert gates == {"free": None, "gated": ["writes", "get_*"]}
    assert plan_from_yaml(to_yaml(document(arms=arms))) == document(arms=arms)


@pytest.mark.parametrize("wrong", [{"expert": "off"}, {"offer": 0.5}, {"approve": []}, {"approve": "writes"}])
def test_arm_whose_calls_wait_has_an_expert_and_patterns(wrong):
    with pytest.raises(BadPlan):
        document(arms=[{"name": "gated", "expert": "plain", "approve": ["*"], **wrong}])


def test_launch_inserts_every_try_once(ada, calls):
    plan = launched(ada, seeds=2, parallel=5)
    rows = list(plan.tries.select_related("arm", "episode"))
    assert len({(row.arm.name, row.task, row.seed) for row in rows}) == len(rows) == 6 * 2 * 2
    assert all(row.episode.policy["max_asks"] == 5 for row in rows)
    assert {(row.arm.name, row.episode.expert, row.episode.arm) for row in rows} == {
        ("baseline", "off", "baseline"),
        ("expert", "plain", "expert"),
    }
    assert plan.state == "running" and len(calls) == 5
    assert {row.episode_id for row in rows if row.position == 0} == set(calls[:4])


async def test_limits_of_a_plan_reach_the_loop(monkeypatch):
    given, plan = {}, document(max_asks=1, nudge_after=0, max_steps=4)

    async def rollout(*_parts, **options):
        given.update(options)

    monkeypatch.setattr(playing, "rollout", rollout)
    episode = Episode(task="t", max_steps=plan.max_steps, policy={name: getattr(plan, name) for name in OF_LOOP})
    world = playing._World(None, episode, servers.profile(servers.BUILTIN), extended=True)
    await playing._through(None, episode, None, world)
    assert {name: given[name] for name in ("max_steps", *OF_LOOP)} == {
        **{"max_steps": 4, "ask_deadline_s": 300, "max_asks": 1, "nudge_after": 0, "stall_after": 5}
    }


def test_arms_name_agent_models_of_their_own(ada, calls, settings):
    models = {name: EndpointConfig(f"http://127.0.0.1:9/{name}", name.upper()) for name in ("agent", "tuned")}
    settings.AGENT_ENDPOINTS = models
    arms = [{"name": "base", "policy": "model"}, {"name": "tuned", "policy": "model:tuned"}]
    plan = launched(ada, tasks=["helpdesk_1/0"], arms=arms)
    played = {row.arm.name: row.episode for row in plan.tries.select_related("arm", "episode")}
    assert {name: one.policy["model"] for name, one in played.items()} == {"base": "AGENT", "tuned": "TUNED"}
    urls = {name: playing.policy_of(one).endpoint.base_url for name, one in played.items()}
    assert urls == {"base": "http://127.0.0.1:9/agent", "tuned": "http://127.0.0.1:9/tuned"}
    with pytest.raises(NoEndpoint, match="names no agent model 'other'"):
        launched(ada, tasks=["helpdesk_1/0"], arms=[{"name": "a", "policy": "model:other"}])
    del models["tuned"]
    with pytest.raises(NoEndpoint):
        playing.policy_of(played["tuned"])


def test_options_of_arms_are_part_of_their_policy(ada, calls, settings):
    at = "http://127.0.0.1:9/v1"
    own = {"max_tokens": 512, "seed": 7}
    settings.AGENT_ENDPOINTS = {"agent": EndpointConfig(at, "m", options=own), "plain": EndpointConfig(at, "p")}
    arms = [
        {"name": "greedy", "policy": "model", "options": {"temperature": 0}},
        {"name": "drawn", "policy": "model", "options": {"temperature": 1, "max_tokens": 64, "extra": {"top_k": 5}}},
        {"name": "script", "policy": "script:demo"},
    ]
    plan = launched(ada, tasks=["helpdesk_1/0"], arms=arms, options={"top_p": 0.9, "temperature": 0.5})
    played = {row.arm.name: row.episode for row in plan.tries.select_related("arm", "episode")}
    greedy, drawn = {**own, "top_p": 0.9, "temperature": 0}, {**own, "top_p": 0.9, **arms[1]["options"]}
    kept = {name: episode.policy.get("options") for name, episode in played.items()}
    assert kept == {"greedy": greedy, "drawn": drawn, "script": None}
    # a later setting changes no episode that was planned
    settings.AGENT_ENDPOINTS = {"agent": EndpointConfig(at, "m", options={"max_tokens": 9})}
    assert playing.policy_of(played["greedy"]).endpoint.options == greedy
    assert document(arms=arms).digest != document(arms=[{**arms[0], "options": {"temperature": 1}}, *arms[1:]]).digest
    doubt = preflight._shared(document(arms=arms[:2]))
    assert any("Arms differ in options of the model" in sentence for sentence in doubt)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"arms": [{"name": "a", "policy": "script:demo", "options": {"seed": 1}}]}, "asks no model"),
        ({"options": {"seed": 1}}, "no arm asks a model"),
        ({"policy": "model", "options": {"max_tokens": 0}}, "plan.options: max_tokens is a whole number"),
        (
            {"arms": [{"name": "a", "policy": "model", "options": {"tokens": 1}}]},
            "arms.0.options: 'tokens' is no option",
        ),
    ],
)
def test_plan_names_what_is_wrong_with_its_options(changed, words):
    with pytest.raises(BadPlan, match=words):
        document(**changed)


def test_launch_with_the_same_key_gives_the_same_run(ada, calls):
    plan, made = planning.launch(ada, document(), "k")
    assert made and planning.launch(ada, document(), "k") == (plan, False)
    used = "The key 'k' was already used for a run with different values of: "
    arms = [{"name": "on", "expert": "plain"}]
    for other, names in (
        ({"seeds": 2}, "plan.seeds."),
        ({"name": "other", "arms": arms}, "name, plan.arms."),
    ):
        with pytest.raises(KeyConflict, match=f"^{used}{names}$"):
            planning.launch(ada, document(**other), "k")
    assert Episode.objects.count() == 12


def test_key_of_a_plan_is_no_key_of_a_plain_run(ada, calls):
    """The mode of a plan's run follows from its arms: `expert` is named only where it was sent."""
    planning.launch(ada, document(arms=[{"name": "off"}]), "k")
    for said, names in (({}, "plan"), ({"expert": "plain"}, "expert, plan"), ({"expert": "off"}, "plan")):
        with pytest.raises(KeyConflict, match=f"for a run with different values of: {names}.$"):
            recording.start_run(ada, RunStart(name=document().name, key="k", **said))
    recording.start_run(ada, RunStart(name=document().name, key="l"))
    with pytest.raises(KeyConflict, match="for a run with different values of: plan.$"):
        planning.launch(ada, document(arms=[{"name": "off"}]), "l")


def test_conflict_with_an_older_plan_names_what_differs(ada, calls):
    plan, _ = planning.launch(ada, document(), "k")
    del plan.document["texts"], plan.document["arms"][0]["parallel"]
    plan.save(update_fields=["document"])
    with pytest.raises(KeyConflict, match="of: plan.max_steps.$"):
        planning.launch(ada, document(max_steps=3), "k")


def test_launch_twice_at_once_makes_one_run(ada, calls):
    def go():
        planning.launch(ada, document(), "k")
        connection.close()

    threads = [threading.Thread(target=go) for _ in range(2)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    assert Plan.objects.count() == 1 and Episode.objects.count() == 12


def test_strangers_and_readers_can_not_launch_or_change(ada, rita, max_, calls):
    plan = launched(ada)
    with pytest.raises(Forbidden):
        launched(rita)
    for change in (planning.pause, planning.resume, planning.cancel, planning.retry):
        with pytest.raises(Forbidden):
            change(rita, plan.run_id)
        with pytest.raises(NotFound):
            change(max_, plan.run_id)


def test_ended_episode_makes_room_until_the_run_finishes(ada, calls):
    plan = launched(ada, parallel=2)
    for number in range(12):
        assert len(calls) == min(12, number + 2)
        end(calls[number])
    plan.refresh_from_db()
    assert plan.state == "finished" and set(states(plan)) == {"finished"}


def test_pause_holds_what_has_not_begun_and_resume_calls_for_it(ada, calls):
    plan = launched(ada, parallel=3)
    recording.begin(calls[0], "w")
    assert planning.pause(ada, plan.run_id).state == planning.pause(ada, plan.run_id).state == "paused"
    assert feeding.is_held(Episode.objects.get(pk=calls[1])) and feeding.feed(plan.run_id) == 0
    assert launching.wake_forgotten(after=-launching.WAKE_AFTER) == 0
    called = list(calls)
    planning.resume(ada, plan.run_id)
    assert not feeding.is_held(Episode.objects.get(pk=calls[1])) and calls[len(called) :] == called[1:]


def test_planned_run_starts_when_resumed(ada, calls):
    plan = launched(ada, start=False)
    assert plan.state == "planned" and calls == []
    assert planning.resume(ada, plan.run_id).state == "running" and len(calls) == 8


def test_late_step_reopens_nothing_in_a_cancelled_run(ada, calls):
    plan = launched(ada, parallel=3)
    Episode.objects.filter(pk=calls[0]).update(state="failed", fault="worker", stop_reason="")
    planning.cancel(ada, plan.run_id)
    late = StepBatch.model_validate({"steps": [{"seq": 1, "kind": "note", "content": "late"}]}).steps
    for pk in Episode.objects.filter(run=plan.run).values_list("pk", flat=True):
        with pytest.raises(EpisodeEnded):
            recording.append_steps(system(ada.project), pk, late)
    assert sorted(states(plan)) == ["cancelled"] * 11 + ["failed"]


def test_cancel_ends_what_is_live_and_keeps_the_rest(ada, calls):
    plan = launched(ada, parallel=3)
    end(calls[0])
    recording.begin(calls[1], "w")
    planning.cancel(ada, plan.run_id)
    assert sorted(states(plan)) == ["cancelled"] * 11 + ["finished"]
    assert planning.cancel(ada, plan.run_id).state == "cancelled"
    with pytest.raises(WrongState):
        planning.resume(ada, plan.run_id)
    found = compare_run(ada, plan.run_id)
    [expert] = found.contrasts
    assert (expert.state, expert.tasks_scope, expert.exclusions.treated) == ("stopped", None, {})
    assert sum(arm.excluded.get("cancelled", 0) for arm in found.arms) == 11
    assert sum(one.is_open for one in found.ends) == 11


def test_retry_replaces_infrastructure_failures_only(ada, project, calls):
    plan = launched(ada, parallel=12)
    for number, fault in enumerate(["environment", "policy"]):
        recording.begin(calls[number], "w")
        ending.fail(system(project), calls[number], fault, "broken")
    [end(pk) for pk in calls[2:12]]
    assert Plan.objects.get().state == "finished"
    assert planning.retry(ada, plan.run_id) == 1 and planning.retry(ada, plan.run_id) == 0
    assert AuditEntry.objects.get(verb="run.retried").reason == "1 again", "what queued nothing is no act"
    assert Plan.objects.get().state == "running" and len(calls) == 13
    end(calls[12])
    [row] = plan.tries.filter(tries=2)
    assert row.episode_id == calls[12] and Plan.objects.get().state == "finished"
    [expert] = compare_run(ada, plan.run_id).contrasts
    assert (expert.exclusions.treated, expert.exclusions.control) == ({}, {"replaced by a retry": 1})
    found = compare_run(ada, plan.run_id)
    assert [bool(one.retried_at) for one in found.tries].count(True) == 1


@pytest.mark.parametrize(
    ("reason", "lost"),
    [
        ("The environment was lost before the verifier ran: the socket closed", True),
        ("The world was lost before its verdict. A call came out differently.", True),
        ("Cannot reach the environment server at http://127.0.0.1:9", True),
        ("The task has no verifier.", False),
        ("No sql verifier available for this task", False),
        ("Cannot verify: the episode has no task with a verifier", False),
    ],
)
def test_retry_replaces_lost_outcomes_not_missing_verifiers(ada, project, calls, reason, lost):
    plan = launched(ada, tasks={"limit": 2}, parallel=4)
    recording.begin(calls[0], "w")
    ending.finish(system(project), calls[0], Finish(stop_reason="done"))
    [end(pk) for pk in calls[1:4]]
    assert planning.retry(ada, plan.run_id) == 0  # its verdict is still on the way
    assert Plan.objects.get().state == "running", "who reads a finished run expects all outcomes"
    noting.note_unverified(system(project), calls[0], reason)
    feeding.verified(Episode.objects.get(pk=calls[0]))
    [card] = overview.cards(ada, [plan.run])
    found = compare_run(ada, plan.run_id)
    assert card.broken == overview.card_of(found).broken == int(lost)
    assert [arm.excluded for arm in found.arms] == [{"outcome lost" if lost else "not verified": 1}, {}]
    assert planning.retry(ada, plan.run_id) == int(lost) and planning.retry(ada, plan.run_id) == 0
    assert len(calls) == 4 + lost and Plan.objects.get().state == ("running" if lost else "finished")
    if lost:
        end(calls[4])
        assert compare_run(ada, plan.run_id).arms[0].excluded == {} and Plan.objects.get().state == "finished"


def test_outage_of_a_model_server_is_no_finding_and_is_retried(ada, project, calls):
    plan = launched(ada, parallel=12)
    for pk in calls[:]:
        if Episode.objects.get(pk=pk).arm == "expert":
            recording.begin(pk, "w")
            said = "the endpoint answered 500: overloaded"
            ending.finish(system(project), pk, Finish(stop_reason="error", fault="policy", detail=said))
        else:
            end(pk)
    found = compare_run(ada, plan.run_id)
    assert [arm.excluded for arm in found.arms] == [{}, {"fault model": 6}]
    [expert] = found.contrasts
    assert expert.exclusions.treated == {"fault model": 6} and "Worse" not in expert.sentence
    assert "fault model" in report.markdown(found, [], {})
    assert planning.retry(ada, plan.run_id) == 6


def counts_of(card):
    return [(arm.planned, arm.complete, arm.others, arm.left_out, arm.live, arm.ended) for arm in card.arms]


@pytest.mark.parametrize(
    ("fault", "sides"), [("policy", (1, 0)), ("model", (0, 1)), ("expert", (0, 1)), ("environment", (0, 1))]
)
def test_list_and_page_of_a_run_count_a_failed_try_alike(ada, project, calls, fault, sides):
    plan = launched(ada, tasks={"limit": 2}, parallel=4)
    recording.begin(calls[0], "w")
    ending.finish(system(project), calls[0], Finish(stop_reason="error", fault=fault))
    [end(pk) for pk in calls[1:3]]
    [card] = overview.cards(ada, [plan.run])
    assert counts_of(card) == counts_of(overview.card_of(compare_run(ada, plan.run_id)))
    assert tuple(sum(each) for each in zip(*((arm.others, arm.left_out) for arm in card.arms), strict=True)) == sides


def test_list_and_page_leave_out_a_failed_try_of_an_unfit_task(ada, project, calls):
    launched(ada, tasks=["helpdesk_1/0"], parallel=2)
    end(calls[0])
    court.rule(ada, court.doubt(Episode.objects.get(pk=calls[0])).pk, "too_strict", "It wants a comma.")
    plan = launched(ada, tasks=["helpdesk_1/0"], name="again", parallel=2)
    recording.begin(calls[2], "w")
    ending.finish(system(project), calls[2], Finish(stop_reason="error", fault="policy"))
    end(calls[3])
    [card] = overview.cards(ada, [plan.run])
    assert counts_of(card) == counts_of(overview.card_of(compare_run(ada, plan.run_id))) == [(1, 0, 0, 1, 0, 1)] * 2


def test_added_seeds_continue_a_finished_run(ada, calls):
    plan = launched(ada, parallel=50)
    [end(pk, complete=False) for pk in list(calls)]
    planning.add_seeds(ada, plan.run_id, 2)
    assert len(calls) == 36 and Plan.objects.get().state == "running"
    [end(pk, complete=False) for pk in calls[12:]]
    [expert] = compare_run(ada, plan.run_id).contrasts
    assert (expert.state, expert.running.read, expert.added) == ("final", 12, 0.0)


def replace_pack(monkeypatch):
    """Let every scenario have another version from now on."""
    for module in (launching, cells):
        monkeypatch.setattr(module, "scenario_digest", lambda scenario: "f" * 64)


def test_episodes_name_the_version_of_their_scenario(ada, calls):
    plan = launched(ada, parallel=50)
    versions = {row.episode.scenario: row.episode.scenario_digest for row in plan.tries.select_related("episode")}
    assert versions == {name: packs.find_pack(name).digests[name] for name in versions}


@pytest.mark.parametrize("more", [lambda ada, run: planning.add_seeds(ada, run, 1), planning.retry])
def test_replaced_pack_adds_no_episode_to_a_run(ada, project, calls, monkeypatch, more):
    plan = launched(ada, parallel=50)
    recording.begin(calls[0], "w")
    ending.fail(system(project), calls[0], "environment", "broken")
    [end(pk) for pk in calls[1:12]]
    replace_pack(monkeypatch)
    with pytest.raises(OtherVersion, match="was replaced: the episode was planned with version"):
        more(ada, plan.run_id)
    assert plan.run.episodes.count() == 12


def test_task_of_two_versions_is_left_out_of_comparisons(ada, calls):
    plan = launched(ada, parallel=50, tasks=["helpdesk_1/0", "library_1/0"])
    [end(pk) for pk in list(calls)]
    changed = plan.tries.filter(scenario="library_1").select_related("episode").first()
    Episode.objects.filter(pk=changed.episode_id).update(scenario_digest="f" * 64)
    found = compare_run(ada, plan.run_id)
    assert [arm.excluded for arm in found.arms] == [{"the pack was replaced during the run": 1}] * 2
    assert {one.task for one in found.tries if one.complete} == {"helpdesk_1/0"}
    [card] = overview.cards(ada, [plan.run])
    assert counts_of(card) == counts_of(overview.card_of(found)) and [arm.complete for arm in card.arms] == [1, 1]


@pytest.mark.parametrize("word", ["\x00", "\ud800"])
def test_plan_with_words_that_no_database_takes_names_the_field(ada, calls, word):
    for said, where in (
        ({"tasks": {"scenarios": ["*", word]}}, "tasks.scenarios"),
        ({"tasks": {"split": word}}, "tasks.split"),
        ({"tasks": [f"helpdesk_1{word}/0"]}, "tasks"),
        ({"policy": f"script:{word}"}, "policy"),
        ({"environment": word}, "environment"),
        ({"control": word}, "control"),
        ({"arms": [{"name": "a", "policy": word}]}, "arms.0.policy"),
    ):
        with pytest.raises(BadPlan, match=rf"^plan\.{where}: .*U\+0000"):
            launched(ada, **said)
    with pytest.raises(BadPlan, match="is not a task"):
        launched(ada, tasks=["helpdesk_1/٣"])
    for tasks, where in (
        ({"limit": 0}, "tasks.limit"),
        ({"colour": 1}, "tasks.colour"),
        ([1], "tasks.0"),
        (1, "tasks"),
    ):
        with pytest.raises(BadPlan, match=rf"^plan\.{where}: "):
            launched(ada, tasks=tasks)


def test_plan_survives_yaml_and_names_what_is_wrong():
    plan = document(seeds=3)
    assert plan_from_yaml(to_yaml(plan)) == plan
    with pytest.raises(BadPlan, match=r"^plan: two arms have the same name\.$"):
        document(arms=[{"name": "a"}] * 2)
    for wrong in ({"seeds": 0}, {"arms": []}, {"control": "nobody"}, {"arms": [{"name": "a"}] * 2}, {"colour": 1}):
        with pytest.raises(BadPlan):
            plan_of({"name": "trial", "arms": [{"name": "a"}], **wrong})


def test_yaml_plan_reads_off_as_a_word():
    plan = plan_from_yaml("name: a\nstart: false\narms: [{name: off, expert: off}, {name: no, expert: plain}]")
    assert [(arm.name, arm.expert) for arm in plan.arms] == [("off", "off"), ("no", "plain")] and not plan.start
    assert plan_from_yaml(to_yaml(plan)) == plan


def test_plan_file_repeats_tasks_in_their_order_elsewhere(ada, calls):
    pinning.pin(ada, "march", unit="task", seed=1, train=["library_1/1"], val=[f"helpdesk_1/{idx}" for idx in range(5)])
    first = launched(ada, tasks={"split": "march"}, shuffle=7)
    said = tables.plan_file(first)
    assert said.startswith('# The tasks that this filter selected at the launch: {"split": "march"}\n')
    again, _ = planning.launch(ada, plan_from_yaml(said))
    assert isinstance(again.document["tasks"], list) and tables.plan_file(again) == said.partition("\n")[2]

    def order(plan):
        return list(plan.tries.order_by("position", "arm__place").values_list("position", "scenario", "task_idx"))

    assert order(again) == order(first)


def test_plan_file_has_the_seeds_that_were_added(ada, calls):
    plan = launched(ada, tasks=["helpdesk_1/0"])
    planning.add_seeds(ada, plan.pk, 3)
    again = planning.add_seeds(ada, plan.pk, 1)
    assert plan_from_yaml(tables.plan_file(again)).seeds == 5
    many = planning.add_seeds(ada, plan.pk, 100)
    assert plan_from_yaml(tables.plan_file(many)).seeds == 100 and "--add-seeds 5 " in tables.plan_file(many)


@pytest.mark.parametrize("name", recipes())
def test_recipe_is_a_plan_under_its_own_name(name):
    assert recipe(name).name == name and plan_from_yaml(to_yaml(recipe(name))) == recipe(name)


@pytest.mark.parametrize("name", ["helpdesk_1/00", "helpdesk_1/0x", "helpdesk_1/" + "9" * 5000, "helpdesk_1/٣"])
def test_plan_with_another_spelling_of_a_task_is_refused(ada, calls, name):
    with pytest.raises(BadPlan, match=r"plan\.tasks: "):
        launched(ada, tasks=["helpdesk_1/0", name])


def test_plan_of_an_unknown_split_is_refused_by_its_name(ada, calls, max_):
    pinning.pin(max_, "march", unit="task", seed=1, train=["library_1/1"], val=["helpdesk_1/0"])
    with pytest.raises(BadPlan, match=r"plan\.tasks\.split: There is no split named 'march'\."):
        selecting.tasks_of(ada, document(tasks={"split": "march"}))


def test_plan_without_tasks_or_scripts_is_refused_whole(ada, calls):
    for said, error in (({"tasks": {"scenarios": ["nothing_*"]}}, BadPlan), ({"tasks": ["x"]}, BadPlan)):
        with pytest.raises(error):
            launched(ada, **said)
        with pytest.raises(error):
            selecting.tasks_of(ada, document(**said))
    known = launched(ada, tasks={"limit": 1}).tries.first().task
    with pytest.raises(UnknownPolicy):
        launched(ada, tasks=[known], policy="script:nothing")
    assert Plan.objects.count() == 1


def test_primary_contrast_of_a_plan_leads_its_run(ada, calls):
    """It is part of the plan's digest, to which the claims are bound; plans without one keep the digest they had."""
    arms = [{"name": "alone"}, {"name": "helped", "expert": "plain"}, {"name": "informed", "expert": "informed"}]
    plain, primary = document(arms=arms), document(arms=arms, primary=" informed ")
    assert compare_run(ada, planning.launch(ada, plain)[0].run_id).sentence.startswith("helped against alone: ")
    plan = planning.launch(ada, primary, "key")[0]
    assert compare_run(ada, plan.run_id).sentence.startswith("informed against alone: ")
    assert primary.digest != plain.digest
    old = {name: value for name, value in plain.model_dump().items() if name != "primary"}
    assert differing(old, plain) == [] and differing(old, primary) == ["primary"]
    Plan.objects.filter(pk=plan.pk).update(document={**plan.document, "primary": "helped"})
    found = compare_run(ada, plan.run_id)
    assert "changed after its launch" in found.sentence
    for wrong in ("alone", "unknown"):
        with pytest.raises(BadPlan, match="is not an arm of the plan beside the control"):
            document(arms=arms, primary=wrong)


def test_command_launches_changes_and_compares(ada, calls, tmp_path, capsys):
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(document().model_dump()))
    call_command("run", str(file), project=ada.project.slug)
    run = Plan.objects.get().run_id
    assert f"launched {run}: 12 episodes, running" in capsys.readouterr().out
    for change, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        call_command("run", f"--{change}", run, project=ada.project.slug)
        assert f"{run} is {state}" in capsys.readouterr().out
    with pytest.raises(CommandError, match=r"There is no run nonsense\."):
        call_command("run", "--pause", "nonsense", project=ada.project.slug)
    call_command("run", "--cancel", Run.objects.get().name, project=ada.project.slug)
    assert f"{run} is cancelled" in capsys.readouterr().out
    call_command("run", "--compare", run, project=ada.project.slug)
    assert capsys.readouterr().out.startswith("Stopped at 0 of 6 by a person")
    with pytest.raises(CommandError, match="is cancelled"):
        call_command("run", "--retry", run, project=ada.project.slug)
    file.write_bytes(b"\xff")
    with pytest.raises(CommandError, match=r"plan\.yaml is not UTF-8"):
        call_command("run", str(file), project=ada.project.slug)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seeds": "3"},
        {"seeds": True},
        {"seeds": 1.5},
        {"parallel": "8"},
        {"tasks": {"limit": "2"}},
        {"arms": [{"name": "a", "expert": "plain", "offer": "0.5"}]},
        {"arms": [{"name": "a", "expert": "plain", "people": True}]},
        {"arms": [{"name": "a"}, {"name": "a "}]},
    ],
)
def test_plan_takes_numbers_as_numbers_and_one_name_once(wrong):
    with pytest.raises(BadPlan):
        document(**wrong)


def test_plan_takes_whole_floats_and_strips_arm_names():
    said = document(seeds=3.0, arms=[{"name": " a "}, {"name": "b"}], control="b ")
    assert (said.seeds, [arm.name for arm in said.arms], said.control) == (3, ["a", "b"], "b")


def test_api_refuses_what_a_change_would_ignore(ada, project, calls, client):
    plan = launched(ada, tasks={"limit": 1})
    post = {"content_type": "application/json", "HTTP_AUTHORIZATION": f"Bearer {token(project, 'launch')[1]}"}
    address = f"/api/v1/runs/{plan.pk}"
    for change in ("retry", "pause", "resume", "cancel"):
        refused = client.post(f"{address}/{change}", {"seeds": 4}, **post)
        assert refused.status_code == 422 and refused.json()["error"]["message"].startswith("seeds: ")
        assert client.post(f"{address}/{change}", [], **post).status_code == 422
    assert client.post(f"{address}/pause", "", **post).status_code == 200
    for wrong in ("3", True, 1.5):
        assert client.post(f"{address}/seeds", {"seeds": wrong}, **post).status_code == 422
    assert client.post(f"{address}/seeds", {"seeds": 2.0}, **post).status_code == 200
    named = {"name": "x", "plan": document(name="y").model_dump()}
    for path in ("", "/preview", "/preflight"):
        refused = client.post(f"/api/v1/runs{path}", named, **post).json()["error"]
        assert refused["code"] == "bad_plan" and refused["message"].startswith("plan.name: 'y'")
    assert Plan.objects.get().seeds == 3


def test_comparison_of_a_run_without_a_plan_says_so(ada):
    run, _ = recording.start_run(ada, RunStart(name="of a loop"))
    said = as_person(ada).get(f"/api/v1/runs/{run.pk}/comparison")
    assert (said.status_code, said.json()["error"]) == (
        409,
        {"code": "wrong_state", "message": "This run has no plan."},
    )


def test_api_launches_changes_and_compares(ada, project, calls, client):
    launcher, agent = ({"HTTP_AUTHORIZATION": f"Bearer {token(project, scope)[1]}"} for scope in ("launch", "agent"))
    said = {"name": "trial", "key": "k", "plan": document().model_dump()}
    post = {"content_type": "application/json", **launcher}
    made = client.post("/api/v1/runs", said, **post)
    assert made.status_code == 201 and made.json()["state"] == "running"
    assert client.post("/api/v1/runs", said, **post).status_code == 200
    address = f"/api/v1/runs/{made.json()['id']}"
    assert client.post(f"{address}/pause", {}, **post).json()["state"] == "paused"
    client.post("/api/v1/runs", {"name": "of a loop"}, **{**post, **agent})
    listed = client.get("/api/v1/runs", **agent).json()["items"]
    assert [(one["name"], one["state"]) for one in listed] == [("of a loop", None), ("trial", "paused")]
    assert client.post(f"{address}/resume", {}, **post).json()["state"] == "running"
    found = client.get(f"{address}/comparison", **launcher).json()
    assert found["sentence"].startswith("No result yet: tasks are read in their planned order, and the first of 6 is")
    assert [arm["planned"] for arm in found["arms"]] == [6, 6]
    for episode in Episode.objects.filter(state="queued"):
        end(episode.pk, episode.arm == "expert")
    [expert] = client.get(f"{address}/comparison", **launcher).json()["contrasts"]
    assert (expert["won"], expert["lost"], expert["verdict"]) == (6, 0, "better")
    assert expert["tasks_scope"]["method"] == "exact McNemar, Tango score"
    assert client.get(f"{address}/comparison", **agent).status_code == 403
    assert client.post("/api/v1/runs", {**said, "key": "l"}, **{**post, **agent}).status_code == 403
    assert client.post(f"{address}/pause", {}, **post).json()["error"]["code"] == "wrong_state"
    assert client.post(f"{address}/seeds", {"seeds": 2}, **post).json()["state"] == "running"
    assert Plan.objects.get().seeds == 3
    for wrong in ({"seeds": 0}, {"seeds": 1, "seed": 2}, 1):
        assert client.post(f"{address}/seeds", wrong, **post).json()["error"]["code"] == "invalid"


ADDED_LATER = (
    "environment",
    "offer",
    "people",
    "briefing",
    "outcomes",
    "parallel",
    "approve",
    "ask_price",
    "experts",
    "ask",
    "person",
    "options",
)


def test_plan_without_a_draw_keeps_the_digest_of_older_plans():
    plan = document(arms=[{"name": "off"}, {"name": "on", "expert": "plain"}])
    older = plan.model_dump()
    del older["environment"], older["complete_at"], older["texts"], older["primary"], older["tasks"]["partial"]
    del older["options"], older["tools"]
    for arm in older["arms"]:
        for name in ADDED_LATER:
            del arm[name]
    assert plan.digest == hashlib.sha256(json.dumps(older, sort_keys=True).encode()).hexdigest()
    drawn = document(arms=[{"name": "off"}, {"name": "on", "expert": "plain", "offer": 0.5}])
    assert drawn.digest != plan.digest


def test_old_stored_plan_differs_only_where_it_does():
    older = document().model_dump()
    del older["environment"], older["texts"], older["tasks"]["partial"]
    assert differing(older, document()) == []
    assert differing(older, document(seeds=2, tasks={"limit": 6, "partial": True})) == ["tasks", "seeds"]


def test_filter_without_a_task_names_the_script(ada):
    with pytest.raises(BadPlan, match="selects no task: none that fits the filter has the script absent"):
        launched(ada, tasks={"scenarios": ["*"]}, policy="script:absent")
    with pytest.raises(BadPlan, match=r"selects no task\.$"):
        launched(ada, tasks={"scenarios": ["absent"]}, policy="model")
