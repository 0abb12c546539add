"""Before a launch: what would weaken a comparison is named, and rollouts that earn nothing are said to."""

from __future__ import annotations

from hashlib import sha256

import pytest

from awmclient.schema import Finish, Outcome
from awmclient.words.prompts import system_prompt
from episodes.models import Episode, OutcomeHold
from episodes.record import ending, pinning, recording
from episodes.stored.packs import find_pack
from people.access import system
from reviews.record import court
from runs.launch import launching, preflight, selecting
from runs.models import Plan, PlanState, Probe
from runs.show.comparison import is_settled
from runs.taskset import probes
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.reviews.conftest import ended
from tests.runs.planned import document, end, rows_of_run

pytestmark = pytest.mark.django_db

TASKS = ["helpdesk_1/0", "helpdesk_1/1", "library_1/0"]
FORM = {"name": "x", "arm": ["baseline", "expert"], "policy": "script:oracle", "seeds": "1"}


def doubts(actor, **said):
    plan = document(tasks=TASKS, **said)
    return preflight.doubts(actor, plan, selecting.tasks_of(actor, plan))


def checked(actor, plan):
    return preflight.checked(actor, plan, selecting.tasks_of(actor, plan))


def test_healthy_plan_raises_no_doubt(ada):
    assert doubts(ada) == []


def test_arms_of_two_policies_and_experts_are_doubted(ada):
    mixed = [{"name": "a"}, {"name": "b", "expert": "plain", "policy": "script:demo"}]
    assert "policy and in expert" in doubts(ada, arms=mixed)[0]
    assert doubts(ada, arms=[{"name": "a"}, {"name": "b", "policy": "script:demo"}]) == []


def test_ruled_and_training_tasks_are_doubted(ada, max_):
    one = ended(ada, "one", task_idx=1)
    Episode.objects.filter(pk=one.pk).update(scenario="helpdesk_1")
    court.rule(ada, court.doubt(Episode.objects.get(pk=one.pk)).pk, "too_strict", "It wants a comma.")
    pinning.pin(ada, "march", unit="task", seed=1, train=TASKS[:2], val=["library_1/1"])
    assert doubts(ada) == [
        "1 task of 3 cannot show a difference: ruled too strict.",
        "2 tasks of 3 are training tasks of the split march.",
    ]
    assert doubts(max_) == []
    pinning.pin(ada, "april", unit="task", seed=1, train=TASKS[:1], val=["library_1/1"])
    assert "1 task of 3 is a training task of the split april." in doubts(ada)
    form = FORM | {"tasks": " ".join(TASKS)}
    assert "training tasks of the split march" in html(as_person(ada).get("/runs/preview", form))


def test_held_out_tasks_of_training_scenarios_are_doubted(ada):
    pinning.pin(ada, "shared", unit="task", seed=0, train=["helpdesk_1/2", "library_1/1"], val=TASKS)
    shared = (
        "3 of 3 held-out tasks are in scenarios with training tasks of the split shared: it measures new tasks, not new"
        " environments."
    )
    assert doubts(ada) == [shared]
    plan = document(tasks={"split": "shared"})
    assert not any(line.startswith("Splits") for line in checked(ada, plan))


def test_held_out_task_like_a_training_task_is_doubted(ada, monkeypatch):
    pinning.pin(ada, "near", unit="scenario", seed=0, train=["helpdesk_1/0"], val=["library_1/0"])
    plan = document(tasks=["library_1/0"])
    said = preflight.doubts(ada, plan, [("library_1", 0, find_pack("helpdesk_1").tasks("helpdesk_1")[0])])
    assert "1 of 1 held-out task is nearly a training task of the split near." in said
    assert preflight.doubts(ada, plan, selecting.tasks_of(ada, plan)) == []


def test_verifier_that_changed_since_the_pin_is_doubted(ada):
    now = probes.verifiers_now(["helpdesk_1/0"])
    sides = {"unit": "scenario", "seed": 0, "train": ["flights_1/0"], "val": TASKS}
    pinning.pin(ada, "march", **sides, about={"verifiers": now})
    pinning.pin(ada, "april", **sides, about={"verifiers": now | {"helpdesk_1/1": "another"}})
    assert doubts(ada) == ["1 task has another verifier than the split april names, for example helpdesk_1/1."]


def test_version_that_changed_since_the_pin_is_doubted(ada):
    sides = {"unit": "scenario", "seed": 0, "train": ["flights_1/0"], "val": TASKS}
    now = {"helpdesk_1": find_pack("helpdesk_1").digests["helpdesk_1"]}
    pinning.pin(ada, "march", **sides, about={"scenario_versions": now})
    pinning.pin(ada, "april", **sides, about={"scenario_versions": {"helpdesk_1": "d" * 64}})
    said = "1 scenario is loaded in another version than the split april names, for example helpdesk_1."
    assert doubts(ada) == [said]


def test_trial_is_at_most_ten_rollouts_of_the_control_arm(ada):
    plan = document(tasks=TASKS, control="expert", seeds=3)
    trial = preflight.trial(plan, selecting.tasks_of(ada, plan))
    assert [arm.expert for arm in trial.arms] == ["plain"] and sorted(trial.tasks) == TASKS
    assert trial.seeds == 3 and trial.policy == plan.policy


def test_trial_has_the_texts_of_its_tasks_alone():
    texts = {f"elsewhere_1/{idx}": f"Task {idx}" for idx in range(12)}
    plan = document(tasks=list(texts), texts=texts, environment="other")
    trial = preflight.trial(plan, [("elsewhere_1", idx, text) for idx, text in enumerate(texts.values())])
    assert len(trial.tasks) == 10 and set(trial.texts) == set(trial.tasks)


def test_page_runs_a_preflight_and_says_what_it_came_to(ada, monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    client, form = as_person(ada), FORM | {"tasks": " ".join(TASKS)}
    before = html(client.get("/runs/preview", form))
    assert "Preflight: none of this plan" in before and "Verifiers" not in before
    assert "All arms get the same tasks" in before and "Probes: 0 of 3 tasks clean, 3 not probed" in before
    page = html(client.post("/runs/", form | {"start": "preflight"}, follow=True))
    plan = Plan.objects.get()
    assert plan.run.name == "preflight of x" and "<h1>0 of 9 rollouts earned a reward; queued 9.</h1>" in page
    for one in plan.tries.all():
        end(one.episode_id, complete=one.task == TASKS[0])
    assert "<h1>3 of 9 rollouts earned a reward; not complete 6.</h1>" in html(client.get(f"/runs/{plan.pk}/"))
    after = html(client.get("/runs/preview", form | {"name": "another name"}))
    assert ">Preflight</a>" in after and "3 of 9 rollouts earned a reward; not complete 6." in after
    assert "Preflight: none" in html(client.get("/runs/preview", form | {"policy": "script:demo"}))
    OutcomeHold.objects.create(episode=plan.tries.first().episode, actor_key=ada.key, by="review")
    blind = html(client.get("/runs/preview", form))
    assert ">Preflight</a>" in blind and "earned a reward" not in blind and "blind reviews" in blind


def test_api_previews_a_plan_and_runs_its_preflight(ada, project, client, monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    launcher, agent = ({"HTTP_AUTHORIZATION": f"Bearer {token(project, scope)[1]}"} for scope in ("launch", "agent"))
    body = {"name": "x", "plan": document(tasks=TASKS).model_dump(exclude={"name"})}

    def post(name, said=body, **who):
        return client.post(f"/api/v1/runs/{name}", said, content_type="application/json", **(who or launcher))

    before = post("preview").json()
    assert (before["tasks"], before["episodes"], before["preflight"], before["earned"]) == (3, 6, None, "")
    assert "All arms get the same tasks" in before["checked"][0] and before["doubts"] == []
    assert not Plan.objects.exists()
    made = post("preflight")
    assert made.status_code == 201 and made.json()["name"] == "preflight of x"
    after = post("preview").json()
    assert after["preflight"] == made.json()["id"] and after["earned"].startswith("0 of 9 rollouts earned a reward")
    for name in ("preview", "preflight"):
        assert post(name, **agent).status_code == 403
        assert post(name, {**body, "plan": {"arms": []}}).json()["error"]["code"] == "bad_plan"
        assert post(name, {**body, "seeds": 1}).json()["error"]["code"] == "invalid"


def test_checks_say_what_arms_share_and_where_they_differ(ada):
    hashes = {on: sha256(system_prompt(expert=on).encode()).hexdigest()[:8] for on in (False, True)}
    assert checked(ada, document(tasks=TASKS))[:3] == [
        "All arms get the same tasks, seeds and limits.",
        "Arms differ in expert: baseline off, expert plain.",
        f"Prompts differ only by ask_expert and its reminders: baseline {hashes[False]}, expert {hashes[True]}.",
    ]
    arms = [{"name": "a"}, {"name": "b", "briefing": "human", "policy": "script:demo"}]
    assert checked(ada, document(tasks=TASKS, arms=arms))[:3] == [
        "All arms get the same tasks, seeds, limits and prompt.",
        "Arms differ in policy: a script:oracle, b script:demo.",
        "Arms differ in briefing: a none, b human.",
    ]
    drawn = [{"name": "a", "expert": "plain", "people": 1}, {"name": "b", "expert": "plain", "offer": 0.5}]
    assert checked(ada, document(tasks=TASKS, arms=drawn, nudge_after=0, stall_after=0))[:4] == [
        "All arms get the same tasks, seeds and limits.",
        "Arms differ in chance of an offer: a none, b 0.5.",
        "Arms differ in share of people: a 1, b none.",
        f"Prompts differ only by ask_expert: a {hashes[True]}, b {hashes[False]} or {hashes[True]}.",
    ]


def test_checks_count_probes_and_name_disjoint_splits(ada):
    plan = document(tasks=TASKS)
    Probe.objects.create(
        scenario="helpdesk_1",
        task_idx=0,
        verifier=probes.digest(find_pack("helpdesk_1"), "helpdesk_1", 0),
        state="clean",
    )
    pinning.pin(ada, "march", unit="task", seed=1, train=["flights_1/0"], val=TASKS)
    tasks = selecting.tasks_of(ada, plan)
    said = preflight.checked(ada, plan, tasks)
    assert "Probes: 1 of 3 tasks clean, 2 not probed (manage.py probe)." in said
    assert "Verifiers: 0 of 3 tasks healthy; 3 not checked." in said
    passed = "Splits: no task is a training task, and no held-out one is nearly one or in a scenario with one."
    assert passed in said and "Power: 3 tasks can hardly show a difference." in said
    six = document(tasks={"limit": 24})
    known = selecting.tasks_of(ada, six)
    assert "Power: 24 tasks show a difference of about 32 points in 4 of 5 such runs." in preflight.checked(
        ada, six, known
    )


def test_finding_counts_rewards_and_names_the_rest(ada):
    plan = rows_of_run(system(ada.project), tasks=4, arms=[{"name": "only"}])
    first, second, third, _ = plan.tries.all()
    end(first.episode_id)
    end(second.episode_id, complete=False)
    recording.begin(third.episode_id, "w")
    assert not is_settled(plan)
    found = preflight.finding(plan)
    assert (found.rollouts, found.earned, found.others) == (4, 1, {"others": 1, "running": 1, "queued": 1})
    assert found.words == "1 of 4 rollouts earned a reward; not complete 1, running 1, queued 1."


def test_run_is_settled_once_every_outcome_is_in(ada):
    plan = rows_of_run(system(ada.project), tasks=2, arms=[{"name": "only"}])
    first, second = plan.tries.all()
    end(first.episode_id)
    recording.begin(second.episode_id, "w")
    ending.finish(system(ada.project), second.episode_id, Finish(stop_reason="done"))
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.FINISHED)
    plan.refresh_from_db()
    assert not is_settled(plan), "its verifier has not answered yet"
    outcome = Outcome(reward_type="others", reward=0.0)
    ending.record_outcome(system(ada.project), second.episode_id, outcome)
    assert is_settled(plan)
