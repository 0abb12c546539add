"""Arms with a briefing, from the plan to what an agent reads: written by a person, or distilled over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json

import pytest
from django.core.management import call_command
from django.test import Client

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import StepBatch
from episodes.models import Episode, OutcomeHold
from episodes.record import pinning, recording
from experts.models import ModelCall
from people.access import system
from people.errors import Forbidden, Invalid
from people.models import AuditEntry
from runs.errors import BadPlan, NoExpertModel
from runs.launch import (
    briefings,
    estimating,
    launching,
    planning,
    preflight,
    selecting,
)
from runs.models import Briefing
from runs.plan import spending
from runs.play import distilling
from runs.show import report
from runs.show.comparison import compare_run
from runs.statistics.costs import rates_in
from tests.awmclient.openai_server import OpenAIServer, answering, error
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.runs.planned import document, end, launched

pytestmark = pytest.mark.django_db(transaction=True)
WRITTEN = [{"name": "baseline"}, {"name": "briefed", "briefing": "human"}]
DISTILLED = [{"name": "baseline"}, {"name": "distilled", "briefing": "model"}]
INFORMED = [{"name": "distilled", "briefing": "model:small", "outcomes": True}]


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    called = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


@pytest.fixture
def serve(settings):
    """An expert model that answers over HTTP on loopback."""
    with contextlib.ExitStack() as stack:

        def start(reply):
            server = OpenAIServer(reply)
            stack.enter_context(answering(server))
            settings.EXPERT_ENDPOINTS = {"small": EndpointConfig(server.base_url, "small-1", timeout_s=5.0)}
            return server

        yield start


def says(text):
    return lambda _body: json.dumps({"briefing": text})


def tries(plan, arm):
    return list(plan.tries.filter(arm__name=arm).select_related("episode", "briefing").order_by("position", "seed"))


def told(row):
    """What the worker hands to the loop of this try's episode."""
    return asyncio.run(distilling.briefing_for(Episode.objects.select_related("project").get(pk=row.episode_id)))


def played(actor, complete=True, steps=()):
    """An earlier episode of every task of the trial, with its outcome."""
    plan = launched(actor, arms=[{"name": "baseline"}], tasks={"limit": 2})
    for row in tries(plan, "baseline"):
        if steps:
            batch = StepBatch.model_validate({"steps": list(steps)}).steps
            assert recording.append_steps(system(actor.project), row.episode_id, batch)
            Episode.objects.filter(pk=row.episode_id).update(state="queued")
        end(row.episode_id, complete)
    return {(row.scenario, row.task_idx): row.episode_id for row in tries(plan, "baseline")}


@pytest.mark.parametrize(
    "wrong",
    [{"briefing": "friend"}, {"briefing": "human", "outcomes": True}, {"outcomes": True}, {"briefing": "model:"}],
)
def test_unclear_briefing_of_an_arm_is_refused(wrong):
    with pytest.raises(BadPlan, match="arms"):
        document(arms=[{"name": "a", **wrong}])


def test_unknown_expert_model_is_refused_at_the_launch(ada, serve):
    serve(says("x"))
    with pytest.raises(NoExpertModel, match="'large'; configured: small"):
        launched(ada, arms=[{"name": "a", "briefing": "model:large"}])


def test_written_briefing_is_pinned_at_the_start_for_all_seeds(ada):
    plan = launched(ada, arms=WRITTEN, tasks={"limit": 2}, seeds=2, start=False)
    first = tries(plan, "briefed")[0]
    briefing = briefings.write(ada, first.scenario, first.task_idx, "Look twice.")
    planning.resume(ada, plan.run_id)
    briefings.write(ada, first.scenario, first.task_idx, "Look three times.")
    planning.add_seeds(ada, plan.run_id, 1)
    same = [row for row in tries(plan, "briefed") if row.task == first.task]
    assert [row.briefing_id for row in same] == [briefing.pk] * 3
    assert told(same[2])["text"] == "Look twice." and told(same[0])["author"] == ada.name
    assert [row.briefing_id for row in tries(plan, "briefed") if row.task != first.task] == [None] * 3
    assert told(tries(plan, "baseline")[0]) is None
    entry = AuditEntry.objects.filter(verb="briefing.written").first()
    assert entry.target == first.task


def test_episode_without_a_briefing_says_so_and_counts(ada):
    plan = launched(ada, arms=WRITTEN, tasks={"limit": 1})
    (row,) = tries(plan, "briefed")
    assert told(row) is None and told(row) is None
    assert [one.reason for one in row.episode.events.filter(verb="no briefing")] == [distilling.NOTHING_WRITTEN]
    for one in plan.tries.all():
        end(one.episode_id)
    arm = next(one for one in compare_run(ada, plan.run_id).arms if one.name == "briefed")
    assert (arm.complete, arm.excluded, arm.briefing) == (1, {}, "briefed by people")
    text = report.markdown(compare_run(ada, plan.run_id), [], {})
    assert "| baseline, briefed by people | 1 | 1 | 1 | 0 | none |" in text


def test_model_distills_once_for_all_seeds_from_earlier_episodes(ada, serve):
    server = serve(says("The fee is 7."))
    step = {"seq": 1, "kind": "tool_call", "name": "fee", "arguments": {}, "result": 7, "reward_type": "complete"}
    sources = played(ada, steps=[step])
    plan = launched(ada, arms=DISTILLED, tasks={"limit": 2}, seeds=2, parallel=100)
    one, two, *_ = tries(plan, "distilled")
    assert told(two) == distilling.LATER, "the first try of a task distills for all"
    step = told(one)
    assert step == {
        "text": "The fee is 7.",
        "source": "llm",
        "author": "small",
        "privilege": "blind",
        "sources": [sources[one.scenario, one.task_idx]],
    }
    two.refresh_from_db()
    assert told(two) == step and len(server.bodies) == 1
    material = server.bodies[0]["messages"][1]["content"]
    assert "complete" not in material and '"outcome"' not in material and '"result": 7' in material
    assert [(call.purpose, call.ask_id, call.fault) for call in ModelCall.objects.all()] == [("briefing", None, "")]


def test_costs_have_the_tokens_of_distilled_briefings(ada, serve, settings, tmp_path):
    """Also those of calls that gave none; on the page, in the API, in the report and in its table."""
    settings.PRICES = rates_in("small-1: {input: 1000, output: 10000}")
    serve(lambda _body: "prose")
    played(ada)
    plan = launched(ada, arms=DISTILLED, tasks={"limit": 1})
    [row] = tries(plan, "distilled")
    assert told(row) is None
    alone, distilled = spending.costs_of(plan.run)
    assert (alone.briefing.all, distilled.briefing.all) == (0, 2 * (7 + 3)), "asked twice"
    assert distilled.money == "$0.07", "14 tokens in and 6 out"
    page = html(as_person(ada).get(f"/runs/{plan.pk}/costs"))
    assert "Briefing tokens" in page and ">20</td>" in page
    header = {"HTTP_AUTHORIZATION": f"Bearer {token(ada.project, 'export')[1]}"}
    answer = Client().get(f"/api/v1/runs/{plan.pk}", **header).json()
    assert [one["briefing_tokens"] for one in answer["costs"]] == [0, 20]
    call_command("report", run=plan.pk, output=tmp_path, project=ada.project.slug)
    assert "briefing tokens" in (tmp_path / "report.md").read_text()
    rows = list(csv.DictReader((tmp_path / "costs.csv").open()))
    assert [row["briefing_tokens"] for row in rows] == ["0", "20"]


def test_distiller_that_sees_outcomes_sees_the_verifier(ada, serve):
    server = serve(says("Three of four forgot the fee."))
    played(ada), played(ada, complete=False)
    (row,) = tries(launched(ada, arms=INFORMED, tasks={"limit": 1}), "distilled")
    step = told(row)
    assert step["privilege"] == "sees_verifier" and len(step["sources"]) == 2
    attempts = json.loads(server.bodies[0]["messages"][1]["content"])["attempts"]
    assert [one["outcome"] for one in attempts] == ["complete", "others"]


def test_informed_held_out_and_own_episodes_are_no_sources(ada, serve):
    server = serve(says("x"))
    advice = {"seq": 1, "kind": "briefing", "text": "It checks the fee.", "privilege": "sees_verifier"}
    played(ada, steps=[advice])
    plan = launched(ada, arms=DISTILLED, tasks={"limit": 1}, seeds=2)
    end(tries(plan, "baseline")[0].episode_id)
    row = tries(plan, "distilled")[0]
    assert told(row) is None and server.bodies == []
    assert Briefing.objects.get(run=plan.run).reason == distilling.NO_SOURCES
    pinning.pin(ada, "march", unit="task", seed=0, train=[], val=[row.task])
    played(ada)
    assert told(tries(launched(ada, arms=DISTILLED, tasks=[row.task]), "distilled")[0]) is None
    assert server.bodies == []


@pytest.mark.parametrize(
    ("reply", "asked", "why"),
    [
        (lambda _body: "I would rather not.", 2, "is not the JSON object"),
        (says(" "), 2, "nothing to advise"),
        (says("x" * 20_001), 2, "more than 20,000 characters"),
        (lambda _body: error(404, "no such model"), 1, "no such model"),
    ],
)
def test_failing_model_leaves_the_episodes_without_one(ada, serve, reply, asked, why):
    server = serve(reply)
    played(ada)
    plan = launched(ada, arms=DISTILLED, tasks={"limit": 1}, seeds=2)
    one, two = tries(plan, "distilled")
    assert told(one) is None
    two.refresh_from_db()
    assert told(two) is None and len(server.bodies) == asked, "what failed once is not asked again for another seed"
    assert why in one.episode.events.get(verb="no briefing").reason
    assert why in html(as_person(ada).get(f"/runs/{plan.pk}/"))


def test_person_who_sees_outcomes_of_a_source_sees_the_verifier(ada, rita):
    (place, source), *_ = played(ada).items()
    assert briefings.write(ada, *place, "Look.", [source]).privilege == "sees_verifier"
    assert briefings.write(ada, *place, "Look.").privilege == "blind"
    assert briefings.write(ada, *place, "Look.", saw_outcomes=True).privilege == "sees_verifier"
    for wrong in (
        {"text": " "},
        {"text": "x" * 20_001},
        {"sources": ["nothing"]},
        {"sources": ["\x00"]},
        {"text": "a\x00"},
    ):
        with pytest.raises(Invalid):
            briefings.write(ada, *place, **{"text": "Look.", **wrong})
    with pytest.raises(Forbidden):
        briefings.write(rita, *place, "Look.")


def test_checks_before_a_launch_name_tasks_without_a_briefing(ada, serve):
    serve(says("x"))
    plan = document(arms=[*WRITTEN, DISTILLED[1]], tasks={"limit": 2})
    found = preflight.doubts(ada, plan, selecting.tasks_of(ada, plan))
    assert sum("2 tasks of 2 would have no briefing in" in one for one in found) == 2
    for place in played(ada):
        briefings.write(ada, *place, "Look.")
    assert not [one for one in preflight.doubts(ada, plan, selecting.tasks_of(ada, plan)) if "briefing in" in one]
    mixed = document(arms=[{"name": "a"}, {"name": "b", "expert": "plain", "briefing": "human"}], tasks={"limit": 1})
    assert any("differ in briefing" in one for one in preflight.doubts(ada, mixed, selecting.tasks_of(ada, mixed)))


def test_estimate_of_a_briefed_arm_is_from_briefed_episodes(ada):
    played(ada)
    assert estimating.estimate(ada, document(arms=WRITTEN), 2).unknown == ("briefed",)


def test_page_command_and_api_write_and_show_a_briefing(ada, rita, edo, project, client, tmp_path, capsys):
    (scenario, idx), source = next(iter(played(ada).items()))
    page = as_person(ada)
    assert "This task has no briefing." in html(page.get(f"/briefings/{scenario}/{idx}/"))
    assert page.post(f"/briefings/{scenario}/{idx}/", {"text": ""}).status_code == 422
    sent = page.post(f"/briefings/{scenario}/{idx}/", {"text": "<i>Look</i>", "source": [source]}, follow=True)
    assert "&lt;i&gt;Look&lt;/i&gt;" in html(sent) and "sees verifier" in html(sent)
    assert html(sent).count(f">{source}</a>") == html(sent).count(f'data-copy-text="{source}"') == 2
    assert as_person(rita).post(f"/briefings/{scenario}/{idx}/", {"text": "No"}).status_code == 403
    assert "1 task has a briefing" in html(page.get("/briefings/"))
    OutcomeHold.objects.create(episode_id=source, actor_key=f"user:{edo.person.pk}", by="review")
    blind = html(as_person(edo).get(f"/briefings/{scenario}/{idx}/"))
    assert "Withheld until your verdict." in blind and "Look" not in blind
    launch = {"HTTP_AUTHORIZATION": f"Bearer {token(project, 'launch')[1]}"}
    body = {"scenario": scenario, "task_idx": idx, "text": "By a token."}
    made = client.post("/api/v1/briefings", body, content_type="application/json", **launch)
    assert made.status_code == 201 and made.json()["privilege"] == "blind"
    listed = client.get(f"/api/v1/briefings?scenario={scenario}&task_idx={idx}", **launch).json()
    assert [one["text"] for one in listed] == ["By a token.", "<i>Look</i>"]
    agent = {"HTTP_AUTHORIZATION": f"Bearer {token(project, 'agent')[1]}"}
    assert client.get(f"/api/v1/briefings?scenario={scenario}&task_idx={idx}", **agent).status_code == 403
    assert client.post("/api/v1/briefings", body, content_type="application/json", **agent).status_code == 403
    assert (
        client.post("/api/v1/briefings", {**body, "saw": 1}, content_type="application/json", **launch).status_code
        == 422
    )
    assert client.get("/api/v1/briefings?scenario=%00&task_idx=1", **launch).status_code == 404
    (tmp_path / "words").write_text("From a file.")
    place = [f"{scenario}/{idx}", "--project", project.slug]
    call_command("briefing", *place, "--text", str(tmp_path / "words"))
    call_command("briefing", *place)
    assert capsys.readouterr().out.splitlines()[-1] == "From a file."


def test_run_page_says_who_briefs_an_arm_and_what_lacks_one(ada):
    plan = launched(ada, arms=WRITTEN, tasks={"limit": 2}, start=False)
    one, two = tries(plan, "briefed")
    briefings.write(ada, one.scenario, one.task_idx, "Look.")
    page = html(as_person(ada).get(f"/runs/{plan.pk}/"))
    assert "briefed by people" in page and "1 of 2 tasks has a briefing" in page
    assert f'href="/projects/lab/briefings/{two.scenario}/{two.task_idx}/"' in page
