"""An arm that draws its offers, from the plan to page, API and report: drawn once, stored, and read by the draw."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import AskOpen
from episodes.record import ending, recording
from experts.models import Advice
from experts.record import advising, opening, queue
from people.access import system
from runs.errors import BadPlan, NoExpertModel
from runs.launch import feeding, launching, planning, preflight, selecting
from runs.models import PlannedTry
from runs.plan.plans import plan_of
from runs.show.comparison import compare_run, tries_of
from runs.show.tables import in_csv
from runs.statistics.offers import is_for_people, is_offered
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.runs.planned import document, ended_rows, launched

pytestmark = pytest.mark.django_db(transaction=True)
MODEL = {"expert": EndpointConfig("http://127.0.0.1:1", "small-1", "")}
DRAWN = [{"name": "drawn", "expert": "plain", "offer": 0.5}]


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    called = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


def test_draw_is_stored_with_its_chance_and_sets_the_expert(ada):
    plan = launched(ada, arms=DRAWN, tasks={}, seeds=2)
    rows = list(plan.tries.select_related("episode"))
    assert {row.chance for row in rows} == {0.5} and {row.offered for row in rows} == {True, False}
    for row in rows:
        assert row.offered == is_offered(plan.pk, "drawn", row.task, row.seed, 0.5)
        assert row.episode.expert == ("plain" if row.offered else "off") and row.episode.arm == "drawn"


def test_retry_keeps_the_draw_and_new_seeds_draw(ada):
    plan = launched(ada, arms=DRAWN, tasks={"limit": 6})
    before = dict(plan.tries.values_list("pk", "offered"))
    for pk in plan.tries.values_list("episode_id", flat=True):
        assert recording.begin(pk, "w")
        ending.fail(system(ada.project), pk, "environment", "stopped")
    assert planning.retry(ada, plan.run_id) == 6
    assert dict(plan.tries.values_list("pk", "offered")) == before
    for row in plan.tries.select_related("episode"):
        assert row.tries == 2 and row.episode.expert == ("plain" if row.offered else "off")
    planning.add_seeds(ada, plan.run_id, 3)
    assert set(plan.tries.filter(wave=1).values_list("chance", flat=True)) == {0.5}


def test_models_that_answer_must_be_configured(ada):
    for share in (0, 0.5):
        arms = [{"name": "models", "expert": "plain", "people": share}]
        with pytest.raises(NoExpertModel, match="episodes of the arm models"):
            planning.check(document(arms=arms))
        with pytest.raises(NoExpertModel):
            launched(ada, arms=arms)
    planning.check(document(arms=[{"name": "people", "expert": "plain", "people": 1}]))


def test_share_of_people_is_drawn_for_each_episode_and_kept(ada, settings):
    settings.EXPERT_ENDPOINTS = MODEL
    arms = [{"name": "mixed", "expert": "plain", "people": 0.5}, {"name": "routed", "expert": "plain"}]
    plan = launched(ada, arms=arms, tasks={"limit": 6}, seeds=3)
    rows = list(plan.tries.select_related("episode", "arm"))
    mixed = [row for row in rows if row.arm.name == "mixed"]
    assert {row.episode.policy["experts"] for row in mixed} == {"people", "models"}
    assert all("experts" not in row.episode.policy for row in rows if row.arm.name == "routed")
    for row in mixed:
        drawn = is_for_people(plan.pk, "mixed", row.task, row.seed, 0.5)
        assert row.episode.policy["experts"] == ("people" if drawn else "models")
    for row in mixed[:3]:
        assert recording.begin(row.episode_id, "w")
        ending.fail(system(ada.project), row.episode_id, "environment", "stopped")
    assert planning.retry(ada, plan.run_id) == 3
    for row in mixed[:3]:
        before = row.episode.policy["experts"]
        row.refresh_from_db()
        assert row.tries == 2 and row.episode.policy["experts"] == before


def test_arm_of_people_alone_never_reaches_a_model(ada, edo, settings):
    arms = [{"name": "people", "expert": "plain", "people": 1}, {"name": "models", "expert": "plain", "people": 0}]
    settings.EXPERT_ENDPOINTS = MODEL
    plan = launched(ada, arms=arms, tasks={"limit": 1})
    settings.EXPERT_ENDPOINTS = {}
    for row in plan.tries.select_related("arm"):
        assert recording.begin(row.episode_id, "w")
        said = AskOpen(key="q", episode=row.episode_id, seq=1, question="Which?", deadline_s=300)
        ask, _ = opening.open_ask(system(ada.project), said)
        ask.refresh_from_db()
        if row.arm.name == "people":
            assert (ask.status, ask.tiers) == ("open", ["people"])
        else:
            assert (ask.status, ask.accepted.reason) == ("fell_back", "no_model")


def test_answer_of_a_group_makes_its_tasks_one_unit(ada, edo):
    plan = launched(ada, arms=[{"name": "off"}, {"name": "on", "expert": "plain"}], tasks={"limit": 3})
    asks = []
    for row in plan.tries.filter(arm__name="on").order_by("position"):
        assert recording.begin(row.episode_id, "w")
        said = AskOpen(key="q", episode=row.episode_id, seq=1, question="Which?", deadline_s=300, group_key="g")
        asks.append(opening.open_ask(system(ada.project), said)[0])
    first, second, third = asks
    lease = queue.claim(edo, first.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "The oldest.", "n", [])
    assert advising.answer_group(edo, first, "The oldest.", [], "n", [second.pk]) == {second.pk: ""}
    lease = queue.claim(edo, third.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "The newest.", "m", [])
    shared = {one.episode: one.shared for one in tries_of(plan)[0] if one.arm == "on"}
    assert shared[first.episode_id] & shared[second.episode_id]
    assert not shared[third.episode_id] & shared[first.episode_id]


@pytest.mark.parametrize("wrong", [{"people": 1.5}, {"people": -0.1}, {"people": 0.5, "expert": "off"}])
def test_share_of_people_outside_its_bounds_is_refused(wrong):
    with pytest.raises(BadPlan):
        document(arms=[{"name": "mixed", "expert": "plain", **wrong}])


def test_arm_without_offer_draws_nothing(ada):
    plan = launched(ada)
    assert set(plan.tries.values_list("offered", "chance")) == {(None, None)}
    assert compare_run(ada, plan.run_id).effects == []


@pytest.mark.parametrize("wrong", [{"offer": 0.05}, {"offer": 0.95}, {"offer": 0.5, "expert": "off"}, {"offer": "x"}])
def test_offer_outside_its_bounds_is_refused(wrong):
    with pytest.raises(BadPlan, match="arms"):
        document(arms=[DRAWN[0] | wrong])


def test_stored_draw_has_a_chance_or_neither(ada):
    row = launched(ada, tasks={"limit": 1}).tries.first()
    for said in ({"offered": True}, {"chance": 0.5}, {"offered": False, "chance": 0.99}):
        with pytest.raises(IntegrityError), transaction.atomic():
            PlannedTry.objects.filter(pk=row.pk).update(**said)


def test_page_api_and_report_show_the_effect(ada, rita, project, client, tmp_path):
    plan = launched(ada, arms=DRAWN, tasks={"limit": 12}, seeds=8, parallel=100)
    ended_rows(dict(plan.tries.values_list("episode_id", "offered")))
    feeding.feed(plan.run_id)
    found = compare_run(ada, plan.run_id)
    [effect] = found.effects
    assert effect.verdict == "better" and found.sentence == effect.sentence
    assert effect.offered.complete == effect.offered.counted and effect.withheld.complete == 0
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "<h1>Offering help changed completion on these 96 episodes: +" in page and ", help withheld" in page
    assert "Who asks was not drawn" in page and page.count("<td>descriptive</td>") == 2
    export = {"HTTP_AUTHORIZATION": f"Bearer {token(project, 'launch')[1]}"}
    said = client.get(f"/api/v1/runs/{plan.pk}/comparison", **export).json()
    [told] = said["help"]
    assert (told["chance"], told["verdict"], told["method"]) == (0.5, "better", "randomization test, AIPW scores")
    assert said["sentence"] == told["sentence"] and told["offered"]["counted"] + told["withheld"]["counted"] == 96
    call_command("report", "--run", plan.pk, "--output", str(tmp_path), "--project", ada.project.slug)
    text = (tmp_path / "report.md").read_text()
    assert "## Help offered by draw in drawn" in text and "| offered and asked | descriptive | 0 | 0 |" in text
    assert (tmp_path / "tries.csv").read_text().splitlines()[0].endswith("excluded,offered,chance,asked,human_s")


def test_time_of_people_counts_and_that_of_programs_does_not(ada, project):
    """Answers of 90 s by a person and of 30 s by a program, one to each episode that asked."""
    plan = launched(ada, arms=DRAWN, tasks={"limit": 12})
    helped = list(plan.tries.filter(offered=True).values_list("episode_id", flat=True)[:2])
    for number, (pk, key) in enumerate(zip(helped, ("user:1", "token:1"), strict=True)):
        assert recording.begin(pk, "w")
        ask, _ = opening.open_ask(system(project), AskOpen(episode=pk, key="1", question="q", deadline_s=60, seq=1))
        Advice.objects.create(ask=ask, text="x", source="human", author_key=key, took_s=90 - 60 * number)
    tries = compare_run(ada, plan.run_id).tries
    assert sorted((one.human_s for one in tries if one.asked), reverse=True) == [90, 0]
    assert sum(one.asked for one in tries) == 2
    assert ",1,0.5,1,90.0" in in_csv("tries", compare_run(ada, plan.run_id))


def test_few_offers_are_doubted_before_the_launch(ada):
    small = document(arms=DRAWN, tasks={"limit": 6})
    assert "drawn draws its offers for 6 episodes; a result needs 60." in preflight.doubts(
        ada, small, selecting.tasks_of(ada, small)
    )
    assert plan_of(small.model_dump()) == small
