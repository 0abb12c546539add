"""The numbers of the desk: what is read, who may see it, and what page, file and API make of it."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from awmclient.schema import AskOpen, EpisodeStart, Finish, RunStart, ToolCall, ToolCallStep, ToolSpec
from episodes.models import Episode, VerifierOutcome
from episodes.record import ending, recording
from experts.errors import TooLate
from experts.find import board
from experts.metrics import records
from experts.metrics.records import Look
from experts.models import Ask
from experts.record import advising, closing, desk, opening, queue
from people import access
from people.errors import WrongScope
from runs.show.comparison import compare_run
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.runs.planned import ended_rows, rows_of_run

TOOLS = [ToolSpec(name=name) for name in ("merge_tickets", "get_ticket")]


@pytest.fixture
def play(ada):
    """An episode that asks once; if somebody answers, it does one call and is verified."""
    count = iter(range(1000))

    def one(by=None, text="Use merge_tickets.", does="merge_tickets", found="complete", calls=None, **episode):
        key = f"e{next(count)}"
        start = EpisodeStart(
            key=key, task="merge the tickets", expert="plain", scenario="help_desk", tools=TOOLS, **episode
        )
        played, _ = recording.start_episode(ada, start)
        ask, _ = opening.open_ask(ada, AskOpen(key="q", episode=played.pk, seq=1, question=f"Which of {key}?", turn=1))
        if by is not None:
            lease = queue.claim(by, ask.pk)
            advising.answer(by, lease.assignment_id, lease.lease_token, text, key, calls)
            closing.consume(ada, ask.pk)
            step = ToolCallStep(seq=2, kind="tool_call", name=does, arguments={}, turn=2)
            recording.append_steps(ada, played.pk, [step])
            ending.finish(ada, played.pk, Finish(stop_reason="done"))
            VerifierOutcome.objects.create(episode=played, source="verifier", reward_type=found)
        return ask

    return one


def told(actor, **look):
    return records.metrics_of(actor, Look(**{"time": "all", **look}), timezone.now())


def test_people_models_and_arms_are_told_apart(ada, edo, play, models):
    run = recording.start_run(ada, RunStart(name="night"))[0].pk
    model = access.expert_model(ada.project, "small")
    play(edo, run=run, arm="people")
    play(edo, does="get_ticket", found="others", run=run, arm="people")
    play(model, text="Have another look.", found="judge_error", run=run, arm="models")
    expired = play(run=run, arm="people")
    Ask.objects.filter(pk=expired.pk).update(deadline_at=timezone.now())
    closing.close_if_due(expired.pk)
    desk.called(model, expired, "draft", tokens=70, duration_s=2.0, fault="401 the key is wrong")
    found = told(ada)
    assert (found.desk.asks, found.desk.in_time.part, found.desk.in_time.of) == (4, 3, 4)
    assert (found.desk.fell_back, found.desk.completed.part, found.desk.completed.of) == ({"deadline": 1}, 1, 2)
    lines = {line.name: line for line in found.experts}
    assert (lines["edo"].followed.part, lines["edo"].followed.of, lines["edo"].per_hour.n) == (1, 2, 2)
    assert (lines["small"].kind, lines["small"].cannot_tell, lines["small"].completed.of) == ("model", 1, 0)
    assert [(line.name, line.arm, line.asks) for line in found.arms] == [("night", "people", 3), ("night", "models", 1)]
    assert [(one.name, one.tokens, one.words) for one in found.models] == [("small", 70, [("401 the key is wrong", 1)])]


def test_suggested_calls_are_compared_with_the_next_one(ada, edo, play):
    call = ToolCall(name="merge_tickets", arguments={})
    play(edo, text="", calls=[call])
    play(edo, text="", calls=[call], does="get_ticket")
    share = told(ada).desk.followed
    assert (share.part, share.of) == (1, 2)


def test_who_passed_or_came_too_late_has_a_line(ada, edo, play):
    passed, late = play(), play()
    queue.decline_unclaimed(edo, passed.pk)
    lease = queue.claim(ada, late.pk)
    Ask.objects.filter(pk=late.pk).update(deadline_at=timezone.now())
    with pytest.raises(TooLate):
        advising.answer(ada, lease.assignment_id, lease.lease_token, "Number 7.", "n")
    lines = {line.name: line for line in told(ada).experts}
    assert (lines["edo"].passed.part, lines["edo"].asks) == (1, 0)
    assert (lines["ada"].late, lines["ada"].in_time.part, lines["ada"].in_time.of) == (1, 0, 1)


def test_time_run_arm_and_the_draw_narrow_what_is_counted(ada, edo, play):
    run = recording.start_run(ada, RunStart(name="night"))[0].pk
    old, drawn, _ = play(edo), play(edo, run=run, arm="b"), play(edo, run=run, arm="a")
    Ask.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=40))
    Ask.objects.filter(pk=drawn.pk).update(chance=0.05)
    today = timezone.localdate().isoformat()
    for look, count in (
        ({}, 3), ({"time": "week"}, 2), ({"since": today}, 2), ({"until": "2000-01-01"}, 0), ({"run": run}, 2),
        ({"arm": "b"}, 1), ({"drawn": "1"}, 1), ({"run": "none"}, 0),
    ):  # fmt: skip
        assert told(ada, **look).desk.asks == count, look
    assert told(ada, run=run).desk.drawn == 1


def test_only_the_newest_asks_are_counted_and_it_is_said(ada, edo, play, monkeypatch):
    monkeypatch.setattr(records, "MOST", 2)
    for _ in range(3):
        play(edo)
    found = told(ada)
    assert (found.more, found.desk.asks, found.since) == (True, 2, Ask.objects.order_by("-created_at")[1].created_at)
    assert "The newest 2 are counted" in html(as_person(ada).get("/metrics/"))


def test_another_projects_asks_are_never_counted(edo, max_, play):
    play(edo)
    assert told(max_).desk.asks == 0


def test_the_number_of_queries_does_not_grow_with_the_asks(ada, edo, play, django_assert_max_num_queries):
    for _ in range(6):
        play(edo)
    with django_assert_max_num_queries(6):
        told(ada)


def test_the_page_says_what_was_found_and_claims_no_cause(edo, rita, play):
    assert "No asks in this project yet." in html(as_person(rita).get("/metrics/"))
    play(edo)
    play()
    assert "No asks in this period." in html(as_person(rita).get("/metrics/?arm=x"))
    seen = html(as_person(rita).get("/metrics/?sort=-waited"))
    assert "1 of 1 ask was answered in time" in seen and "1 open" in seen
    assert "is checked for the newest 1 answer." in seen
    assert records.NOTE in seen and 'aria-sort="descending"' in seen
    assert "/metrics/" in html(as_person(rita).get("/queue/"))


def test_what_the_address_says_wrong_counts_as_not_said(ada):
    query = {"time": "ever", "since": "soon", "until": "99999-01-01", "sort": "-nothing", "run": "a\x00", "drawn": "x"}
    assert Look.read(query) == Look()
    del query["run"]  # refused at the door
    assert as_person(ada).get("/metrics/", query).status_code == 200


def test_the_file_holds_every_line_and_no_formula(ada, edo, play):
    play(edo, run=recording.start_run(ada, RunStart(name='=HYPERLINK("x")'))[0].pk, arm="=b")
    answer = as_person(ada).get("/metrics.csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["kind"] for row in rows] == ["desk", "person", "arm"]
    assert rows[1]["name"] == "edo" and rows[1]["in_time_part"] == "1" and rows[1]["completed_value"] == "1.0"
    assert rows[2]["name"].startswith("'=") and rows[2]["arm"] == "'=b"


@pytest.mark.parametrize(
    "name",
    [
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\t=1",
        "\rx",
        "\nx",
        "\n=1",
        " \n =1",
        "＝1",
        "＋1",
        "－1",
        "＠x",
        "−1",
    ],
)
def test_a_name_is_a_formula_in_no_spreadsheet(ada, edo, play, name):
    play(edo, arm=f"{name}z")
    answer = as_person(ada).get("/metrics.csv")
    arms = [row["arm"] for row in csv.DictReader(io.StringIO(answer.content.decode(), newline=""))]
    assert arms[-1] == f"'{name}z"


@pytest.mark.parametrize("name", ["a=1", "1-2", "mail@x", "\u202e=1"])
def test_other_names_stand_in_the_file_as_on_pages(ada, edo, play, name):
    play(edo, arm=name)
    rows = list(csv.DictReader(io.StringIO(as_person(ada).get("/metrics.csv").content.decode())))
    assert rows[-1]["arm"] == name.replace("\u202e", "⟨U+202E⟩")


def test_agents_see_none_of_it(project, edo, play):
    play(edo)
    agent, secret = token(project, "agent")
    with pytest.raises(WrongScope):
        told(agent)
    refused = Client().get("/api/v1/desk/numbers", headers={"authorization": f"Bearer {secret}"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "scope")
    assert Client().get("/metrics/", headers={"authorization": f"Bearer {secret}"}).status_code == 302


@pytest.mark.parametrize("scope", ["expert", "export"])
def test_experts_and_exports_read_them_over_http(project, edo, play, scope):
    play(edo)
    _, secret = token(project, scope)
    answer = Client().get("/api/v1/desk/numbers?time=day", headers={"authorization": f"Bearer {secret}"})
    found = json.loads(answer.content)
    assert answer.status_code == 200 and found["note"] == records.NOTE
    assert found["desk"]["asks"] == 1 and found["experts"][0]["name"] == "edo"
    wrong = Client().get("/api/v1/desk/numbers?time=ever", headers={"authorization": f"Bearer {secret}"})
    assert wrong.status_code == 422


def test_arm_completes_as_many_as_its_run_says(ada, edo):
    """Five of ten episodes of the arm failed by their policy's own fault: the run said 5 of 10, *Metrics* 5 of 5."""
    plan, ends = rows_of_run(ada, 10), {}
    for attempt in plan.tries.select_related("arm", "episode").order_by("position"):
        episode = attempt.episode
        if attempt.arm.name == "expert":
            recording.begin(episode.pk, "w")
            question = AskOpen(key="q", episode=episode.pk, seq=1, question=f"Which of {episode.pk}?", turn=1)
            ask, _ = opening.open_ask(access.system(ada.project), question)
            lease = queue.claim(edo, ask.pk)
            advising.answer(edo, lease.assignment_id, lease.lease_token, "Do it.", episode.pk)
            closing.consume(access.system(ada.project), ask.pk)
            if attempt.position % 2:
                failed = {"state": "failed", "fault": "policy", "fault_detail": "bad", "ended_at": timezone.now()}
                Episode.objects.filter(pk=episode.pk).update(**failed)
                continue
        ends[episode.pk] = True
    ended_rows(ends)
    arm = next(one for one in compare_run(ada, plan.pk).arms if one.name == "expert")
    seen = told(ada).desk.completed
    assert (seen.part, seen.of) == (arm.complete, arm.complete + arm.others) == (5, 10)


def test_home_and_metrics_say_the_same_wait(ada, edo, play):
    """Ten of twenty asks fell back: Home had the median of the other ten."""
    for number in range(20):
        ask = play(edo if number % 2 else None)
        if not number % 2:
            Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now())
            closing.close_if_due(ask.pk)
        Ask.objects.filter(pk=ask.pk).update(closed_at=ask.created_at + timedelta(seconds=5 + number))
    assert board.closed_today(ada, timezone.now() - timedelta(hours=1))["wait"] == told(ada).desk.waited
    client = as_person(ada)
    assert [html(client.get(path)).count("not reached") for path in ("/", "/queue/")] == [1, 1]
    assert "Median wait: not reached." in html(client.get("/metrics/"))


def test_each_median_has_a_name_of_its_own(ada):
    client = as_person(ada)
    pages = {path: html(client.get(path)) for path in ("/", "/queue/", "/routing/", "/metrics/")}
    assert not [path for path, page in pages.items() if "time to answer" in page]
    named = {"/": "Median wait for people", "/queue/": "Median wait for people", "/routing/": "People's answer time"}
    definitions = (Path(__file__).parents[3] / "docs" / "experts.md").read_text(encoding="utf-8")
    for path, name in named.items():
        assert name in pages[path] and f"| {name.lower()} |" in definitions


def test_answer_time_without_an_answer_is_said_to_be_assumed(ada, edo, play):
    page = html(as_person(ada).get("/routing/"))
    assert "1:00<small>assumed until the first answer<" in page and "<small>median" not in page
    play(edo)
    page = html(as_person(ada).get("/routing/"))
    assert "assumed" not in page and "<small>median" in page
