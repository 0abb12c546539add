"""The queue as a person gets it: why an ask reached whom, what is for them and why not, what is next, what many get."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import RunStart
from episodes.record import recording
from experts.find import board
from experts.models import Ask, Presence
from experts.record import advising, closing, desk, queue
from experts.who import advisers, eligibility, online
from people.models import Membership, Role
from tests.asking import MODEL
from tests.browsing import as_person, html
from tests.experts.test_standing_answers import approval
from tests.people_by_name import person, token

JSON = {"accept": "application/json"}


@pytest.fixture
def set_(project):
    def change(ask, **row):
        Ask.objects.filter(pk=ask.pk).update(**row)

    return change


def page(actor, query=""):
    return html(as_person(actor).get(f"/queue/{query}"))


def rows(actor, query=""):
    """Keys of the rows, groups folded."""
    return re.findall(r'class="askrow" data-key="([^"]+)"', page(actor, query))


def skilled(actor, *skills):
    Membership.objects.filter(user=actor.person).update(skills=list(skills))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"tier": "people", "tier_reason": "audit_sample", "chance": 0.05}, "People: audit sample (5%)."),
        ({"tier": "people", "tier_reason": "audit_sample", "chance": 0.004}, "People: audit sample (under 1%)."),
        ({"tier": "people", "tier_reason": "low_confidence"}, "Escalated: low model confidence."),
        (
            {"tier": "llm", "tier_reason": "model_first", "chance": 0.05},
            "Model first; 5% go to people.",
        ),
        ({"tier": "senior", "tier_reason": "over my head"}, "Senior: over my head."),
        ({"tier": "people", "tier_reason": ""}, "People."),
        ({"tier": "llm", "tier_reason": "policy"}, "Model."),
    ],
)
def test_a_row_says_before_whom_an_ask_stands_and_why(asked, edo, set_, row, words):
    set_(asked(), **row)
    assert f"<p data-reached>{words.replace(chr(39), '&#x27;')}</p>" in page(edo)


def test_a_row_says_nothing_of_the_usual_way(asked, edo, set_):
    set_(asked(), tier="people", tier_reason="policy")
    assert "People" not in page(edo).partition('<div class="why">')[2].partition("</div>")[0]


def test_a_row_names_skills_priority_run_and_arm(asked, ada, edo, set_):
    run = recording.start_run(ada, RunStart(name="bikes <1>"))[0].pk
    ask = asked(run=run, skills=["refunds", "german"], priority=5)
    skilled(edo, "german")
    seen = page(edo)
    assert "priority 5" in seen and "bikes &lt;1&gt;" in seen
    assert "requires refunds" in seen and "requires german" not in seen
    assert "Requires: refunds" in seen and f"/asks/{ask.pk}/claim" not in seen
    assert rows(edo, f"?run={run}") == [ask.pk] and rows(edo, "?skill=german") == [ask.pk]
    assert rows(edo, "?skill=french") == []


def test_facets_count_mine_unclaimed_for_me_and_the_models(asked, ada, edo, set_):
    mine, theirs, models_, hard, passed, free = (asked(f"Question {n} about thing {n * 7}?") for n in range(6))
    queue.claim(edo, mine.pk)
    queue.claim(ada, theirs.pk)
    set_(models_, tier="llm")
    set_(hard, skills=["german"])
    queue.decline_unclaimed(edo, passed.pk)
    seen = page(edo)
    assert re.findall(r">(Open|Unclaimed|Mine|Claimable|Model|Grouped) (\d+)</a>", seen) == [
        ("Open", "6"), ("Unclaimed", "1"), ("Mine", "1"), ("Claimable", "1"), ("Model", "1"), ("Grouped", "0"),
    ]  # fmt: skip
    assert rows(edo, "?show=forme") == [free.pk]
    assert rows(edo, "?show=model") == [models_.pk] and rows(edo, "?show=mine") == [mine.pk]


def test_counts_are_of_what_the_other_filters_leave(asked, ada, edo, set_):
    german, french, both, taken = (asked(f"Question {n} about thing {n * 7}?") for n in range(4))
    skilled(edo, "german", "french")
    set_(german, skills=["german"])
    set_(french, skills=["french"], tier="senior")
    set_(both, skills=["german", "french"])
    set_(taken, skills=["german"])
    queue.claim(ada, asked("Another matter altogether?").pk)
    seen = page(edo, "?skill=german&show=unclaimed")
    assert re.findall(r">(Open|Unclaimed|Mine) (\d+)</a>", seen) == [("Open", "3"), ("Unclaimed", "3"), ("Mine", "0")]
    assert "german (3)" in seen and "french (2)" in seen and "Senior (" not in seen
    assert "Senior (1)" in page(edo, "?skill=french")


def test_who_answers_blind_leaves_out_what_sees_the_verifier(asked, edo):
    blind, informed = asked("Question 1 about thing 7?"), asked("Question 2 about thing 14?", expert="informed")
    seen = page(edo, "?sight=blind")
    assert "Blind (1)" in seen and "Sees verifier (1)" in seen
    assert rows(edo, "?sight=blind") == [blind.pk] and rows(edo, "?sight=sees_verifier") == [informed.pk]


def test_an_empty_view_says_why(asked, ada, edo, set_):
    held, hard, passed, busy = (asked(f"Question {n} about thing {n * 7}?") for n in range(4))
    queue.claim(ada, held.pk)
    set_(hard, skills=["german"])
    queue.decline_unclaimed(edo, passed.pk)
    set_(busy, tier="llm")
    seen = page(edo, "?show=forme")
    assert "No open asks match." in seen and "4 open asks outside this filter" in seen
    for words in ("1 claimed: ada until", "1 requires german", "You declined 1", "1 waiting for a model"):
        assert words in seen
    told = html(as_person(edo).post("/queue/next", follow=True))
    assert "No ask to claim right now: 1 claimed, 1 requires german, you declined 1, 1 waiting for a model." in told


def test_those_that_ask_the_same_are_one_row_that_unfolds(asked, edo):
    group = [asked(f"Into which one{'?' * n}") for n in (1, 2, 3)]
    other = asked("May I refund order 7?")
    assert rows(edo) == [group[0].pk, other.pk]
    seen = page(edo)
    assert "<b>Asked by 3 agents.</b>" in seen and seen.count('class="askrow alike"') == 2
    queue.claim(edo, group[2].pk)
    assert rows(edo)[0] == group[2].pk  # what I can act on stands in front of its group
    assert len(rows(edo, f"?group={group[0].pk}")) == 3


def test_asks_with_equal_calls_are_one_row_with_a_count(asked, ada, edo, monkeypatch):
    refund = {"order": 1, "amount": 2}
    equal = [asked(f"Refund {n}?", **approval(dict(sorted(refund.items(), reverse=n > 0)))) for n in range(3)]
    apart = [
        asked("Refund?", **approval({"order": True, "amount": 2})),  # in Python equal to 1
        asked("Refund?", **approval(refund, name="other")),
        asked("Refund?", **approval(refund, refund)),
        asked("Refund?", expert="informed", **approval(refund)),
        asked("Refund?", kind="choice", options=[{"id": "a", "label": "a"}]),
    ]
    seen = page(edo)
    assert sorted(rows(edo)) == sorted([equal[0].pk, *(one.pk for one in apart)])
    assert "<b>3 equal asks.</b> One press can decide all." in seen
    assert ">Grouped 3</a>" in seen and ">Open 8</a>" in seen, "counts are of asks"
    queue.claim(edo, equal[1].pk)
    queue.claim(ada, equal[0].pk)
    assert rows(edo, "?show=grouped") == [equal[1].pk], "what I can act on is first"
    assert set(rows(edo, f"?group={equal[0].calls_digest}")) == {one.pk for one in equal}
    closing.cancel(ada, equal[2].pk)
    assert "<b>2 equal asks.</b>" in page(edo)
    monkeypatch.setattr(board, "ROWS", 4)
    assert len(rows(edo)) == 4 and len(rows(edo, "?page=2")) == 2


def test_row_of_an_approval_names_every_call(asked, edo):
    asked("Refund?", **approval({"order": 1}, {"order": 2}, {"order": 3}))
    seen = " ".join(page(edo).split())
    assert "3 calls" in seen and seen.count('<b class="mono">') == 3


def test_search_sort_and_page_stand_in_the_query_string(asked, edo, set_, monkeypatch):
    late, soon, important = (
        asked("Alpha or beta?"),
        asked("Gamma or delta?"),
        asked("Left or right, please?", priority=9),
    )
    set_(soon, deadline_at=timezone.now() + timedelta(seconds=90))
    assert rows(edo) == [soon.pk, important.pk, late.pk] or rows(edo)[0] == soon.pk
    assert rows(edo, "?sort=priority")[0] == important.pk and rows(edo, "?sort=newest")[0] == important.pk
    assert rows(edo, "?sort=nonsense&page=x&show=?")[0] == soon.pk
    assert rows(edo, "?q=GAMMA") == [soon.pk]
    monkeypatch.setattr(board, "ROWS", 2)
    assert len(rows(edo)) == 2 and rows(edo, "?page=2") == [important.pk]
    assert 'href="?sort=newest&amp;page=2"' in page(edo, "?sort=newest")


def test_claim_next_follows_run_order_and_eligibility(asked, ada, edo, set_):
    big, small = (recording.start_run(ada, RunStart(name=name))[0].pk for name in ("big", "small"))
    first = asked("One and only?", run=big)
    asks = [asked(f"Question {n} of {n * 7}?", run=big) for n in range(3)]
    fair = asked("Something else entirely?", run=small)
    queue.claim(ada, first.pk)  # the big run is served, so the small one is next
    assert board.next_for(edo, timezone.now()).pk == fair.pk
    set_(fair, tier="llm")
    assert board.next_for(edo, timezone.now()).pk == asks[0].pk
    set_(asks[0], skills=["german"])
    queue.decline_unclaimed(edo, asks[1].pk)
    assert board.next_for(edo, timezone.now()).pk == asks[2].pk
    set_(asks[2], priority=0, tier="senior")
    assert board.next_for(edo, timezone.now()).pk == asks[2].pk  # nobody is named senior, so everybody is
    desk.set_policy(ada, senior=Membership.objects.get(user=ada.person))
    assert board.next_for(edo, timezone.now()) is None
    skilled(edo, "german")
    assert board.next_for(edo, timezone.now()).pk == asks[0].pk


@pytest.mark.parametrize(
    ("view", "expected"),
    [("?", 0), ("?sort=newest", 2), ("?sort=priority", 1), ("?q=beta", 1), ("?sort=newest&show=grouped", None)],
)
def test_claim_next_takes_the_first_of_the_list_shown(asked, edo, set_, view, expected):
    asks = [asked(f"{word}?", deadline_s=600 + 90 * n) for n, word in enumerate(("Alpha", "Beta or gamma", "Delta"))]
    set_(asks[1], priority=5)
    assert ("No asks to claim" in page(edo, view)) is (expected is None)
    went = as_person(edo).post("/queue/next", {"view": view})["Location"]
    assert went == "/projects/lab" + ("/queue/" if expected is None else f"/asks/{asks[expected].pk}/")


def fresh(ask):
    return Ask.objects.get(pk=ask.pk)


def test_claim_next_prefers_own_then_urgent_asks(asked, edo, set_):
    calm, urgent, mine = asked("Alpha?"), asked("Beta or gamma?"), asked("Delta, epsilon?")
    set_(urgent, deadline_at=timezone.now() + timedelta(seconds=90))
    assert board.next_for(edo, timezone.now()).pk == urgent.pk
    queue.claim(edo, mine.pk)
    assert board.next_for(edo, timezone.now()).pk == mine.pk
    assert calm.pk in {one.pk for one in eligibility.spots(edo, timezone.now()) if one.place == "free"}


def test_the_newest_ask_opens_from_any_page(asked, edo, rita):
    asked("Alpha?")
    newest = asked("Beta or gamma?")
    assert as_person(edo).get("/queue/newest")["Location"] == f"/projects/lab/asks/{newest.pk}/"
    assert as_person(rita).get("/queue/newest")["Location"] == "/projects/lab/queue/"


def test_claiming_giving_back_and_passing_stay_in_the_queue(asked, ada, edo):
    ask, client = asked(), as_person(edo)
    assert client.post(f"/queue/{ask.pk}/claim", headers=JSON).json() == {"said": "Claimed. Press Enter to open it."}
    token = re.search(r'name="lease_token" value="([^"]+)"', page(edo))[1]
    assert token not in page(ada)
    other = as_person(ada).post(f"/queue/{ask.pk}/claim", headers=JSON)
    assert other.status_code == 409 and other.json()["error"]["code"] == "already_claimed"
    assert "edo has claimed this ask for up to" in other.json()["error"]["message"]
    assert client.post(f"/queue/{ask.pk}/release", {"lease_token": token}, headers=JSON).status_code == 200
    assert client.post(f"/queue/{ask.pk}/release", {"lease_token": token}, headers=JSON).status_code == 409
    assert client.post(f"/queue/{ask.pk}/pass", {"reason": "no"})["Location"] == "/projects/lab/queue/"
    refused = client.post(f"/queue/{ask.pk}/claim", headers=JSON).json()["error"]
    assert refused == {"code": "passed", "message": "You declined this ask."}
    assert "You declined this ask." in html(client.post(f"/queue/{ask.pk}/claim", follow=True))


def test_away_with_an_end_is_over_by_itself(asked, edo):
    client, ask = as_person(edo), asked()
    told = client.post("/presence", {"away": "1", "minutes": "30"}, headers=JSON).json()
    left = datetime.fromisoformat(told["until"]) - timezone.now()
    assert told["away"] and timedelta(minutes=29) < left <= timedelta(minutes=30)
    assert "Away until" in page(edo) and edo.key not in advisers.to_tell(ask, timezone.now())
    later = timezone.now() + timedelta(minutes=31)
    assert edo.key in advisers.to_tell(ask, later) and online.away_of(edo, later) is None
    Presence.objects.update(away_until=timezone.now() - timedelta(seconds=1))
    assert client.post("/presence", headers=JSON).json() == {"away": False, "until": ""}
    assert not Presence.objects.get().away
    for minutes in ("0", "-5", "7", "9999", "x"):
        assert client.post("/presence", {"away": "1", "minutes": minutes}, headers=JSON).json()["until"] == ""


def test_transfers_offer_what_exists_and_colleagues_by_name(asked, ada, edo, rita, settings):
    asked()
    desk.seen(edo)
    offered = re.findall(r'<option value="((?:user:|senior|people|llm)[^"]*)">([^<]+)</option>', page(ada))
    assert offered == [(edo.key, "edo, online"), ("people", "people")] * 2  # of one row, and of many
    settings.EXPERT_ENDPOINTS = {MODEL: EndpointConfig("http://127.0.0.1:1", "small-1", "")}
    desk.set_policy(ada, senior=Membership.objects.get(user=edo.person))
    offered = re.findall(r'<option value="(?:senior|llm)">([^<]+)</option>', page(ada))
    assert offered == ["the senior expert, edo", "the model"] * 2


def test_named_handover_goes_to_that_person_first(asked, ada, edo, project):
    noa = person(project, "noa", Role.EXPERT)
    first, handed = asked("Alpha?"), asked("Beta or gamma?", deadline_s=900)
    for one in (ada, edo, noa):
        desk.seen(one)
    queue.claim(edo, handed.pk)
    told = as_person(edo).post(f"/queue/{handed.pk}/hand", {"to": noa.key, "reason": "she knows it."}, headers=JSON)
    assert told.json() == {"said": "Transferred to noa."}
    assert "For noa: she knows it." in page(edo) and advisers.to_tell(fresh(handed), timezone.now()) == {noa.key}
    assert board.next_for(noa, timezone.now()).pk == handed.pk
    queue.claim(ada, first.pk)
    assert board.next_for(edo, timezone.now()) is None  # left to noa while she is online
    desk.seen(noa, True)
    assert board.next_for(edo, timezone.now()).pk == handed.pk
    desk.seen(noa, False)
    queue.decline_unclaimed(noa, handed.pk)
    assert board.next_for(edo, timezone.now()).pk == handed.pk and "For noa" not in page(edo)
    for to, words in ((noa.key, "This person declined this ask."), ("user:0", "This person can&#x27;t answer")):
        assert words in html(as_person(ada).post(f"/queue/{handed.pk}/hand", {"to": to}, follow=True))


def test_transfer_needs_the_lease_or_a_manager_role(asked, ada, edo, models):
    ask, to_model = asked(), {"to": "llm", "reason": "it knows the refund rule"}
    refused = as_person(edo).post(f"/queue/{ask.pk}/hand", to_model, headers=JSON)
    assert refused.status_code == 403
    queue.claim(edo, ask.pk)
    held = as_person(ada).post(f"/queue/{ask.pk}/hand", to_model, headers=JSON)
    assert held.status_code == 409 and "edo has claimed" in held.json()["error"]["message"]
    done = as_person(edo).post(f"/queue/{ask.pk}/hand", to_model, headers=JSON)
    assert done.json() == {"said": "Sent to the model."}
    assert "Model: it knows the refund rule." in page(ada, "?show=model")
    back = as_person(ada).post(f"/queue/{ask.pk}/hand", {"to": "people", "reason": ""}, headers=JSON)
    assert back.json() == {"said": "Transferred to people."}
    odd = as_person(ada).post(f"/queue/{ask.pk}/hand", {"to": "nobody"}, headers=JSON)
    assert odd.status_code == 422


def test_a_stranger_does_nothing_to_a_row(asked, max_, rita):
    ask = asked()
    for action in ("claim", "release", "pass", "hand"):
        assert as_person(max_).post(f"/queue/{ask.pk}/{action}").status_code == 404
        assert as_person(rita).post(f"/queue/{ask.pk}/{action}").status_code == 403
    assert as_person(max_).get("/queue/newest")["Location"] == "/projects/elsewhere/queue/"


def test_many_at_once_each_by_itself_and_what_failed_is_said(asked, ada, edo, models):
    asks = [asked(f"Question {n} about thing {n * 7}?") for n in range(3)]
    queue.claim(edo, asks[0].pk)
    chosen, client = {"ask": [one.pk for one in asks], "back": "?sort=newest"}, as_person(ada)
    told = client.post("/queue/bulk", {**chosen, "do": "transfer", "to": "llm"}, follow=True)
    assert told.redirect_chain == [("/projects/lab/queue/?sort=newest", 302)]
    assert "2 asks sent to the model." in html(told)
    assert "1 not changed: edo has claimed this ask." in html(told)
    assert f'data-kept="{asks[0].pk}"' in html(told) and 'data-kept=""' in html(client.get("/queue/"))
    client.post("/queue/bulk", {**chosen, "do": "priority", "priority": "4"})
    assert set(Ask.objects.values_list("priority", flat=True)) == {4}
    client.post("/queue/bulk", {**chosen, "do": "cancel"}, follow=True)
    assert set(Ask.objects.values_list("status", "reason")) == {("cancelled", "desk")}
    again = html(client.post("/queue/bulk", {**chosen, "do": "cancel"}, follow=True))
    assert "3 not changed: This ask is closed." in again and "asks cancelled" not in again


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"do": "priority", "priority": "high"}, "Enter a priority as a whole number"),
        ({"do": "dance"}, "Choose an action"),
        ({"do": "cancel", "ask": []}, "Select asks first"),
    ],
)
def test_a_bulk_act_that_makes_no_sense_changes_nothing(asked, ada, body, words):
    ask = asked()
    back = {"back": "https://elsewhere.example/"}
    told = as_person(ada).post("/queue/bulk", {"ask": [ask.pk], **back, **body}, follow=True)
    assert words in html(told) and told.redirect_chain == [("/projects/lab/queue/", 302)]
    assert (fresh(ask).priority, fresh(ask).status) == (0, "open")


def test_only_those_who_run_the_place_act_on_many(asked, edo, max_):
    ask = asked()
    assert 'class="tick"' not in page(edo) and as_person(edo).post("/queue/bulk", {"ask": ask.pk}).status_code == 403
    as_person(max_).post("/queue/bulk", {"ask": ask.pk, "do": "cancel"})
    assert fresh(ask).is_open


def test_availability_is_posted_and_survives_reload(edo, rita):
    client = as_person(edo)
    assert client.post("/presence", headers=JSON).json() == {"away": False, "until": ""}
    assert client.post("/presence", {"away": "1"}, headers=JSON).json() == {"away": True, "until": ""}
    assert client.post("/presence", headers=JSON).json() == {
        "away": True,
        "until": "",
    }  # a beat does not bring anybody back
    assert "Away" in html(client.get("/queue/"))
    assert client.post("/presence", {"away": "0"}, headers={"referer": "http://testserver/members/"})[
        "Location"
    ].endswith("/members/")
    assert not Presence.objects.get().away
    as_person(rita).post("/presence", headers=JSON)
    assert Presence.objects.count() == 1  # nobody waits for a reviewer


def test_the_page_says_who_is_here_and_what_to_expect(asked, ada, edo):
    desk.seen(edo)
    desk.seen(ada, away=True)
    asked()
    seen = page(edo)
    assert "1 person is online. Expected wait: about" in seen
    assert re.search(r"ada.*?<small>away</small>", seen, re.S)
    desk.seen(token(edo.project, "expert")[0])
    assert "1 person and 1 script are online. Expected wait: about" in page(edo)
    Presence.objects.update(seen_at=timezone.now() - timedelta(minutes=3))
    assert "No one is online. Asks for people wait" in page(edo)


def test_no_wait_is_promised_that_an_ask_has_exceeded(asked, ada, edo, set_):
    desk.seen(edo)
    ask = asked()
    wait = online.outlook(ada.project, timezone.now()).expected_wait_s
    set_(ask, created_at=timezone.now() - timedelta(seconds=wait + 1))
    for seen in (page(edo), html(as_person(edo).get("/"))):
        assert "1 person is online." in seen and "Expected wait" not in seen
    assert "unknown" in html(as_person(ada).get("/routing/")).partition("Expected wait for people")[2][:200]
    set_(ask, tier="llm")
    assert "Expected wait: about" in page(edo), "asks of models say nothing of people"


def test_the_badge_counts_what_people_can_take(asked, ada, edo, set_):
    taken, models_, free = asked("Alpha?"), asked("Beta or gamma?"), asked("Delta, epsilon?")
    queue.claim(ada, taken.pk)
    set_(models_, tier="llm")
    assert 'id="bell" href="/projects/lab/queue/" data-part="bell" data-open="1"' in page(edo)
    set_(free, deadline_at=timezone.now())
    assert 'data-open="0"' in page(edo)


def test_a_look_by_script_gets_the_parts_alone(asked, edo):
    ask = asked()
    parts = html(as_person(edo).get("/queue/", headers={"hx-request": "true"}))
    assert ask.pk in parts and "<header" not in parts and 'data-part="asks"' in parts


def test_rows_come_without_the_day_and_the_day_without_rows(asked, edo):
    asked()
    script = {"hx-request": "true"}
    rows, day = (html(as_person(edo).get("/queue/", {"parts": part}, headers=script)) for part in ("rows", "day"))
    rest = {"underline", "today", "seats", "closed"}
    assert {name for name in (*rest, "asks") if f'data-part="{name}"' in rows} == {"asks"}
    assert {name for name in (*rest, "asks") if f'data-part="{name}"' in day} == rest


def test_the_day_is_a_bar_of_what_became_of_it(asked, edo, ada):
    for expert, question in ((edo, "Alpha?"), (token(edo.project, "expert")[0], "What of zeta?")):
        lease = queue.claim(expert, asked(question).pk)
        advising.answer(expert, lease.assignment_id, lease.lease_token, "Yes.", "n")
    closing.cancel(ada, asked("Beta or gamma?").pk)
    asked("Delta, epsilon?")
    seen = page(edo)
    assert (
        'aria-label="1 answered by people, 1 answered by scripts, 1 cancelled, 1 open"' in seen
        and "of 4, 1 by you, 1 by scripts" in seen
    )
