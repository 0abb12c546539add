"""Standing answers: which approvals they decide, how often, until when, and how they end."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from django.db import connection
from django.utils import timezone
from pydantic import ValidationError

from awmclient.schema import StandingAnswerBody
from experts.find.reading import active_standing
from experts.models import Advice, Ask, Assignment, StandingAnswer
from experts.record import advising, closing, queue, standing_answers
from people.access import bearer
from people.errors import AppError, Forbidden, Invalid
from people.models import ApiToken, AuditEntry, Membership
from people.record.members import issue_token
from tests.browsing import as_person, html
from tests.experts.test_queue import at_once
from tests.reading import steps_read_by


def calls(*arguments, name="send_reply"):
    return [{"id": str(place), "name": name, "arguments": one} for place, one in enumerate(arguments, 1)]


def approval(*arguments, name="send_reply"):
    return {"kind": "approval", "calls": calls(*arguments, name=name), "on_timeout": "reject"}


REPLY = {"ticket": 4127, "template": "refund"}


def give(actor, tool="send_reply", hours=1, **more):
    body = {"tool": tool, "until": timezone.now() + timedelta(hours=hours), **more}
    return standing_answers.give(actor, StandingAnswerBody(**body))


def test_calls_that_are_covered_are_approved_with_its_name(edo, asked):
    given, _ = give(edo, arguments={"template": "refund"})
    advice = asked(**approval(REPLY, {"template": "refund"})).accepted.value()
    assert (advice.by, advice.source, advice.author) == ("standing", "cache", "edo")
    assert [(call.verdict, call.arguments) for call in advice.decision.calls][0] == ("approve", REPLY)
    given.refresh_from_db()
    assert given.used == 2


def test_page_shows_what_a_standing_answer_approved(edo, ada, asked, max_):
    given, _ = give(edo)
    other, _ = give(edo, tool="add_note")
    ask = asked("May I reply?", **approval(REPLY, REPLY))
    asked("May I refund?", **approval(REPLY, name="add_note"))
    queue_page = html(as_person(ada).get("/queue/"))
    assert f"/my-answers/?standing={given.pk}" in queue_page and ">View 2</a>" in queue_page
    shown = html(as_person(ada).get(f"/my-answers/?standing={given.pk}"))
    assert "<h1>The standing answer for send_reply approved 2 calls.</h1>" in shown and "By edo." in shown
    assert f"/asks/{ask.pk}/" in shown and "May I refund?" not in shown
    standing_answers.end(edo, given.pk)
    assert "It ended." in html(as_person(ada).get(f"/my-answers/?standing={given.pk}"))
    for unknown in ("nothing", "\0", other.pk[::-1]):
        assert as_person(ada).get("/my-answers/", {"standing": unknown}).status_code == 404
    assert as_person(max_).get(f"/my-answers/?standing={given.pk}").status_code == 404


@pytest.mark.parametrize(
    "typed",
    [
        approval(REPLY, name="create_refund"),
        approval({"ticket": 1, "template": "other"}),
        approval({"ticket": 1}),
        approval(REPLY, {"template": "other"}),
        {"kind": "choice", "options": [{"id": "send_reply", "label": "a"}]},
    ],
)
def test_an_ask_with_a_call_beyond_it_stays_open(edo, asked, typed):
    given, _ = give(edo, arguments={"template": "refund"})
    assert asked(**typed).is_open
    given.refresh_from_db()
    assert given.used == 0


@pytest.mark.parametrize(
    ("any_value", "arguments", "is_covered"),
    [
        ([], REPLY, True),
        ([], {**REPLY, "bcc": "x@example.com"}, False),
        ([], {"ticket": 4127}, False),
        (["note"], {**REPLY, "note": "any"}, True),
        (["note"], REPLY, True),
        (["note"], {**REPLY, "note": "any", "bcc": None}, False),
        (None, {**REPLY, "bcc": "x@example.com"}, True),
    ],
)
def test_further_arguments_are_covered_only_if_left_open(edo, asked, any_value, arguments, is_covered):
    waiting = asked(**approval(arguments))
    _, answered = give(edo, arguments=REPLY, any_value=any_value)
    assert (answered == 1, not asked(**approval(arguments)).is_open) == (is_covered, is_covered)
    waiting.refresh_from_db()
    assert waiting.is_open is not is_covered


def test_call_without_arguments_is_not_every_call(edo, asked):
    give(edo, any_value=[])
    assert asked(**approval(REPLY)).is_open and not asked(**approval({})).is_open


def test_queue_says_which_calls_a_standing_answer_covers(edo, ada):
    give(edo, arguments=REPLY, any_value=[])
    give(edo, tool="close", arguments={"a": 1}, any_value=["note", "\u202eb"])
    give(edo, tool="any")
    shown = " ".join(html(as_person(ada).get("/queue/")).split())
    for words in ("and no other arguments", "note, ⟨U+202E⟩b with any value, no other", "any arguments"):
        assert words in shown


BROKEN = {"properties": {"ticket": {"type": "string"}}}


def test_a_call_that_breaks_its_schema_stays_open(edo, asked):
    standing, _ = give(edo, arguments=REPLY)
    typed = approval(REPLY, REPLY)
    typed["calls"][1]["schema"] = BROKEN
    assert asked(**typed).is_open and not asked(**approval(REPLY)).is_open
    standing.refresh_from_db()
    assert standing.used == 1


def test_true_is_not_one_and_one_is_one(edo, asked):
    give(edo, arguments={"count": 1})
    assert asked(**approval({"count": True})).is_open and not asked(**approval({"count": 1})).is_open


def test_its_count_its_end_and_its_run_are_kept(edo, ada, asked):
    give(edo, at_most=1)
    assert not asked(**approval(REPLY)).is_open and asked(**approval(REPLY)).is_open
    ended, _ = give(edo, tool="close_ticket")
    standing_answers.end(edo, ended.pk)
    assert asked(**approval(REPLY, name="close_ticket")).is_open
    late, _ = give(edo, tool="late")
    StandingAnswer.objects.filter(pk=late.pk).update(until=timezone.now())
    assert asked(**approval(REPLY, name="late")).is_open


def test_a_blind_one_never_answers_an_informed_ask(edo, asked):
    give(edo)
    assert asked(expert="informed", **approval(REPLY)).is_open


def test_a_new_one_answers_the_approvals_that_are_open(edo, asked):
    waiting, other = asked(**approval(REPLY)), asked(**approval(REPLY, name="other"))
    held = asked(**approval(REPLY))
    queue.claim(edo, held.pk)
    _, answered = give(edo)
    assert answered == 1
    found = {one.pk: one.status for one in Ask.objects.all()}
    assert (found[waiting.pk], found[other.pk], found[held.pk]) == ("answered", "open", "open")


def test_it_reaches_no_further_than_the_skills_of_its_author(edo, asked):
    waiting = asked(**approval(REPLY), skills=["refunds"])
    _, answered = give(edo)
    waiting.refresh_from_db()
    assert (answered, waiting.is_open) == (0, True)
    assert asked(**approval(REPLY), skills=["refunds"]).is_open
    Membership.objects.filter(user=edo.person).update(skills=["refunds"])
    assert not asked(**approval(REPLY), skills=["refunds"]).is_open


def test_another_one_covers_what_its_author_may_not(edo, ada, asked):
    first, _ = give(edo)
    second, _ = give(ada)
    Membership.objects.filter(user=ada.person).update(skills=["refunds"])
    assert asked(**approval(REPLY), skills=["refunds"]).accepted.standing_id == second.pk
    first.refresh_from_db()
    assert first.used == 0


@pytest.mark.parametrize(
    "left", [{"role": "reviewer"}, {"ends_at": datetime(2020, 1, 1, tzinfo=UTC)}, None], ids=["role", "end", "removed"]
)
def test_it_ends_with_the_rights_of_its_author(edo, ada, asked, left):
    give(edo)
    mine = Membership.objects.filter(user=edo.person)
    mine.update(**left) if left else mine.delete()
    assert asked(**approval(REPLY)).is_open
    assert active_standing(ada) == []


def test_that_of_a_token_ends_with_the_token(edo, asked):
    token = ApiToken.objects.create(project=edo.project, name="clerk", scope="expert", digest="d")
    give(bearer(token))
    assert not asked(**approval(REPLY)).is_open
    token.revoked_at = timezone.now()
    token.save()
    assert asked(**approval(REPLY)).is_open


@pytest.mark.parametrize("behind", ["person", "script", "model"])
def test_its_decision_says_who_is_behind_its_token(ada, edo, asked, behind):
    give(edo, arguments=REPLY)
    give(bearer(issue_token(ada, "clerk", "expert", behind=behind)[0]), arguments={"ticket": 1})
    assert asked(**approval(REPLY)).accepted.value().behind is None
    assert asked(**approval({"ticket": 1})).accepted.value().behind == behind


def test_it_answers_nothing_where_only_models_may(edo, asked, models):
    give(edo)
    ask = asked(**approval(REPLY))
    Ask.objects.filter(pk=ask.pk).update(tiers=["llm"])
    ask.refresh_from_db()
    assert standing_answers.decided_by_standing(ask) is None


def test_queue_says_what_it_covers_as_json_in_short(edo):
    give(edo, arguments={"paid": True, "body": "x" * 5000})
    give(edo, tool="other")
    page = as_person(edo).get("/queue/").content.decode()
    shown = re.findall(r"<li class=.part row wrap.>.*?</li>", page, re.DOTALL)[-1]
    assert "true" in shown and "True" not in shown and "x" * 81 not in page
    assert "any arguments" in page and ", in this project, by" in " ".join(page.split())


def test_its_size_and_its_number_in_a_project_are_bounded(edo, monkeypatch):
    with pytest.raises(Invalid, match="arguments: this holds too much text"):
        give(edo, arguments={"body": "x" * 200_000})
    with pytest.raises(Invalid, match="arguments: this nests deeper than 40 levels"):
        give(edo, arguments={"body": json.loads("[" * 50 + "]" * 50)})
    monkeypatch.setattr(standing_answers, "ACTIVE_MAX", 2)
    first, _ = give(edo)
    give(edo, tool="other")
    with pytest.raises(Invalid, match="2 standing answers of this project are active"):
        give(edo, tool="third")
    standing_answers.end(edo, first.pk)
    give(edo, tool="third")


def test_its_end_needs_a_time_zone():
    with pytest.raises(ValidationError, match="timezone"):
        StandingAnswerBody(tool="send_reply", until="2026-11-27T23:00:00")


def test_what_it_may_be_and_who_gives_it_is_checked_and_audited(edo, rita):
    with pytest.raises(Invalid, match="has passed"):
        give(edo, hours=-1)
    with pytest.raises(Invalid, match="at most 30 days"):
        give(edo, hours=24 * 31)
    with pytest.raises(Forbidden):
        give(rita)
    given, _ = give(edo)
    standing_answers.end(edo, given.pk)
    standing_answers.end(edo, given.pk)
    verbs = list(AuditEntry.objects.order_by("pk").values_list("verb", flat=True))
    assert [verb for verb in verbs if verb.startswith("standing")] == ["standing_answer.given", "standing_answer.ended"]


def pressed(edo, ask, standing):
    """The form of an approval, as the page's script sends it."""
    slot = queue.claim(edo, ask.pk) if ask.is_open else Assignment.objects.get(ask=ask)
    body = {"lease_token": slot.lease_token, "text": "", "nonce": "n", "tool_calls": "[]", "then": "watch"}
    body["decision"] = json.dumps({"calls": [{"id": "1", "verdict": "approve"}]})
    body["standing"] = json.dumps(standing)
    reply = as_person(edo).post(f"/asks/{ask.pk}/answer", body, HTTP_ACCEPT="application/json")
    ask.refresh_from_db()
    return reply.status_code


WANTED = {"tool": "send_reply", "arguments": {}, "hours": 1, "at_most": 5}


def test_same_press_again_gives_one_standing_answer(edo, asked):
    ask = asked(**approval(REPLY))
    assert [pressed(edo, ask, [WANTED]) for _ in range(2)] == [200, 200]
    assert StandingAnswer.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_same_press_at_one_moment_gives_one_standing_answer(edo, asked, monkeypatch):
    ask = asked(**approval(REPLY))
    slot, both, answer = queue.claim(edo, ask.pk), Barrier(2), advising.answer
    monkeypatch.setattr(queue, "claim", lambda *_: slot)
    monkeypatch.setattr(advising, "answer", lambda *words, **more: both.wait(30) + 1 and answer(*words, **more))
    press = lambda: pressed(edo, Ask.objects.get(pk=ask.pk), [WANTED])  # noqa: E731
    assert at_once(press, press) == [200, 200]
    assert StandingAnswer.objects.count() == 1


@pytest.mark.parametrize(
    "wrong", [{"at_most": None}, {"hours": 1e300}, {"hours": "x"}, {"tool": ""}, {"more": 1}, "text", 5]
)
def test_unreadable_standing_answer_refuses_the_whole_press(edo, asked, wrong):
    ask = asked(**approval(REPLY))
    assert pressed(edo, ask, [{**WANTED, **wrong} if isinstance(wrong, dict) else wrong]) == 422
    assert ask.is_open and not StandingAnswer.objects.exists()


@pytest.mark.parametrize("wrong", [{"hours": -1}, {"run": "no such run"}, {"hours": 800}])
def test_refused_standing_answer_leaves_the_answer_sent(edo, asked, wrong):
    ask = asked(**approval(REPLY))
    assert pressed(edo, ask, [{**WANTED, **wrong}]) == 200
    assert not ask.is_open and not StandingAnswer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_asks_at_once_a_count_of_one_serves_one(edo, asked):
    from experts.record.standing_answers import _answer_open

    first, second = asked(**approval(REPLY)), asked(**approval(REPLY))
    StandingAnswer.objects.create(
        project=edo.project,
        tool="send_reply",
        until=timezone.now() + timedelta(hours=1),
        at_most=1,
        author=edo.name,
        author_key=edo.key,
    )

    def answer(pk):
        try:
            return _answer_open(pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(answer, [first.pk, second.pk])) == [False, True]
    assert StandingAnswer.objects.get().used == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("deadline", [timedelta(hours=1), timedelta(seconds=-1)], ids=["in time", "after the deadline"])
def test_of_all_who_decide_at_once_one_is_heard(edo, ada, asked, deadline):
    """Two holders of a lease that ended, two standing answers and the deadline meet at one ask."""
    ask = asked(**approval(REPLY))
    before = queue.claim(edo, ask.pk)
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now() - timedelta(seconds=1))
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now() + deadline)
    approved = {"calls": [{"id": "1", "verdict": "approve"}]}
    refused = {"calls": [{"id": "1", "verdict": "reject", "reason": "Wait."}]}

    def by_lease():
        return advising.answer(edo, before.assignment_id, before.lease_token, "", "a", decision=refused)

    def by_claim():
        lease = queue.claim(ada, ask.pk)
        return advising.answer(ada, lease.assignment_id, lease.lease_token, "", "b", decision=approved)

    ways = [by_lease, by_claim, lambda: give(edo), lambda: give(ada), lambda: closing.close_if_due(ask.pk)]
    start = Barrier(len(ways))

    def run(way):
        try:
            start.wait()
            way()
        except AppError:
            pass  # one is heard; the others are told so
        finally:
            connection.close()

    with ThreadPoolExecutor(len(ways)) as pool:
        list(pool.map(run, ways))
    ask = Ask.objects.select_related("accepted").get(pk=ask.pk)
    heard = Advice.objects.filter(ask=ask, late=False)
    step = next(one for one in steps_read_by(edo, ask.episode_id) if one["kind"] == "ask")
    used = sum(StandingAnswer.objects.values_list("used", flat=True))
    if deadline < timedelta():
        assert (ask.status, used, step["advice"]["by"]) == ("fell_back", 0, "timeout")
        assert ask.accepted.source == "fallback" and step["advice"]["decision"]["calls"][0]["verdict"] == "reject"
    else:
        assert ask.status == "answered" and heard.get() == ask.accepted
        assert step["advice"]["by"] == ask.accepted.by and used == (ask.accepted.by == "standing")
        assert step["advice"]["decision"]["calls"][0]["verdict"] == ask.accepted.decision["calls"][0]["verdict"]
