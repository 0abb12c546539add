"""What helps beside the form of an answer: drafts, the verifier, tables, who asks the same, changes, tags."""

from __future__ import annotations

import json
import re

import pytest
from django.utils import timezone

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import STEP, AskOpen, EpisodeStart
from episodes.models import VerifierVersion
from episodes.record import recording
from episodes.stored import packs
from experts.models import Advice, Ask, Desk, Draft, QuickReply
from experts.record import advising, closing, desk, opening, queue
from people.access import expert_model, system
from people.errors import Invalid
from people.models import Membership
from reviews.models import Annotation
from tests.browsing import as_person, html
from tests.people_by_name import person

MODEL = "small"
TOOLS = [{"name": "merge", "input_schema": {"type": "object", "properties": {"into": {"type": "integer"}}}}]


@pytest.fixture
def models(settings):
    """One expert model is set up; nobody calls it here."""
    settings.EXPERT_ENDPOINTS = {MODEL: EndpointConfig("http://127.0.0.1:1", "small-1", "")}


@pytest.fixture
def asked(ada):
    """Open an ask of an episode of its own."""
    count = iter(range(100))

    def ask(question="Into which one?", steps=(), **more):
        plan = {"task": "merge the tickets", "expert": "plain", "scenario": "helpdesk_1", "task_idx": 4, "tools": TOOLS}
        episode, _ = recording.start_episode(ada, EpisodeStart(key=f"e{next(count)}", **{**plan, **more}))
        if steps:
            recording.append_steps(ada, episode.pk, [STEP.validate_python(step) for step in steps])
        wanted = AskOpen(key="q", episode=episode.pk, seq=len(steps) + 1, question=question)
        return opening.open_ask(ada, wanted)[0]

    return ask


def held(actor, ask):
    client = as_person(actor)
    client.post(f"/asks/{ask.pk}/claim")
    return client


def page(client, ask, query=""):
    return html(client.get(f"/asks/{ask.pk}/{query}"))


def send(client, ask, text="Into 4127.", to="answer", query="", **more):
    found = dict(re.findall(r'name="(lease_token|nonce)" value="([^"]*)"', page(client, ask, query)))
    body = {**found, "text": text, "tool_calls": "[]", "then": "watch", **more}
    return client.post(f"/asks/{ask.pk}/{to}", body, follow=True)


def fresh(ask):
    return Ask.objects.select_related("accepted", "assignment").get(pk=ask.pk)


def save(client, ask, text, version=0, **more):
    return client.post(f"/asks/{ask.pk}/draft", {"text": text, "version": version, **more})


def drafted(ask, project, text="Take the oldest.", **more):
    model = expert_model(project, MODEL)
    desk.want_draft(system(project), ask.pk)
    assert desk.begin_draft(model).pk == ask.pk
    desk.keep_model_draft(model, ask, text, **more)
    return model


def test_a_draft_is_kept_and_stands_in_the_form_again(asked, edo):
    ask = asked()
    client = held(edo, ask)
    calls = json.dumps([{"name": "merge", "arguments": {"into": "41x"}}])  # as typed, not yet a number
    first = save(client, ask, "Into 41", tool_calls=calls).json()
    assert save(client, ask, "Into 41", first["version"], tool_calls=calls).status_code == 200
    shown = page(client, ask)
    assert ">Into 41</textarea>" in shown and 'data-version="2"' in shown and "41x" in shown


def test_an_older_tab_overwrites_nothing_and_gets_both_texts(asked, edo):
    ask = asked()
    client = held(edo, ask)
    save(client, ask, "The oldest, because", drafted_by="model:small")
    refused = save(client, ask, "The newest")
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "draft_conflict"
    newer = {"text": "The oldest, because", "calls": [], "version": 1, "drafted_by": "model:small"}
    assert refused.json()["draft"] == newer


@pytest.mark.parametrize(
    ("path", "method", "fields"),
    [
        ("draft", "post", {"text": "x"}),
        ("model-draft", "get", {}),
        ("model-draft", "post", {}),
        ("amend", "post", {"text": "x", "nonce": "n"}),
        ("take-back", "post", {}),
        ("hand", "post", {"to": "llm"}),
        ("verifier", "get", {}),
        ("keep", "post", {}),
    ],
)
def test_who_may_not_advise_gets_nothing_done(asked, max_, rita, path, method, fields):
    ask = asked(expert="informed")
    for stranger, status in ((max_, 404), (rita, 403)):
        assert getattr(as_person(stranger), method)(f"/asks/{ask.pk}/{path}", fields).status_code == status
    assert not Draft.objects.exists() and not Annotation.objects.exists() and fresh(ask).draft_at is None


def test_a_models_draft_is_not_on_the_page_until_it_is_asked_for(asked, edo, project, models):
    ask = asked()
    client = held(edo, ask)
    assert 'data-state="idle"' in page(client, ask)
    assert 'data-state="writing"' in html(client.post(f"/asks/{ask.pk}/model-draft"))
    drafted(ask, project, "Take the <b>oldest</b>.", confidence=0.7)
    shown = page(client, ask)
    assert 'data-state="ready"' in shown and "oldest" not in shown
    words = html(client.get(f"/asks/{ask.pk}/model-draft?show=1"))
    assert "Take the &lt;b&gt;oldest&lt;/b&gt;." in words and "70% confidence (self-reported)" in words


def test_a_failed_draft_says_why_and_no_model_says_so(asked, edo, project, settings, models):
    ask = asked()
    client = held(edo, ask)
    model = drafted(ask, project, None)
    desk.called(model, ask, "draft", tokens=0, duration_s=1.0, fault="402: no credit <left>")
    shown = page(client, ask)
    assert 'data-state="failed"' in shown and "402: no credit &lt;left&gt;" in shown
    settings.EXPERT_ENDPOINTS = {}
    Draft.objects.all().delete()
    assert 'data-part="model-draft"' not in page(client, ask)
    assert 'id="hand-model"' not in page(client, ask)


def test_a_used_draft_is_marked_on_the_answer_and_said(asked, edo, project, models):
    ask = asked()
    client = held(edo, ask)
    model = drafted(ask, project)
    save(client, ask, "Take the oldest one.", drafted_by=model.key)
    assert f'name="drafted_by" value="{model.key}"' in page(client, ask)
    shown = html(send(client, ask, "Take the oldest one.", drafted_by=model.key))
    assert "Started from a draft by small (89% kept)." in shown
    better = send(client, ask, "Take the very oldest.", "amend", "?amend=1")
    assert better.status_code == 200 and fresh(ask).accepted.drafted_by == MODEL


def test_verifier_code_is_shown_as_text_to_allowed_only(asked, edo, monkeypatch):
    monkeypatch.setattr(packs, "verifier_text", lambda scenario, idx, version: f"# {scenario} {idx} <script>x</script>")
    blind, informed = asked(), asked(expert="informed")
    client = held(edo, blind)
    refused = client.get(f"/asks/{blind.pk}/verifier", headers={"accept": "application/json"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert "panel-verifier" not in page(client, blind) and 'data-privilege="blind"' in page(client, blind)
    assert 'data-privilege="verifier"' in page(client, informed)
    shown = html(client.get(f"/asks/{informed.pk}/verifier"))
    assert "# helpdesk_1 4 &lt;script&gt;" in shown and "<script" not in shown


def test_verifier_in_force_is_shown_in_place_of_the_packs(asked, edo, monkeypatch):
    monkeypatch.setattr(packs, "verifier_text", lambda scenario, idx, version="": "# the verifier of the pack")
    informed = asked(expert="informed")
    client, project = held(edo, informed), edo.project
    about = {"scenario": "helpdesk_1", "task_idx": 4, "number": 2, "sha256": "", "reason": "r", "created_by": "ada"}
    version = VerifierVersion.objects.create(project=project, code="# the repaired <b>one", **about)
    assert "the verifier of the pack" in html(client.get(f"/asks/{informed.pk}/verifier")), "it has no effect yet"
    VerifierVersion.objects.filter(pk=version.pk).update(in_force_at=timezone.now())
    shown = html(client.get(f"/asks/{informed.pk}/verifier"))
    assert "# the repaired &lt;b&gt;one" in shown and "the verifier of the pack" not in shown


def test_tables_show_what_recorded_steps_touched(asked, rita):
    diff = {"tickets": {"changed": [{"key": {"id": 7}, "before": {"status": "<new>"}, "after": {"status": "open"}}]}}
    call = {"seq": 1, "kind": "tool_call", "name": "merge", "arguments": {}, "result": 1, "state_diff": diff}
    shown = html(as_person(rita).get(f"/asks/{asked(steps=[call]).pk}/tables"))
    assert "<del>&lt;new&gt;</del>" in shown and "<ins>open</ins>" in shown and 'href="#step-1"' in shown
    assert "No changed rows yet" in html(as_person(rita).get(f"/asks/{asked().pk}/tables"))


def test_group_answer_can_be_withdrawn_per_ask(asked, ada, edo):
    first, second, third, informed = asked(), asked(), asked(), asked(expert="informed")
    queue.claim(ada, third.pk)
    client = held(edo, first)
    shown = page(client, first)
    assert f'value="{second.pk}" checked' in shown and f'value="{third.pk}" disabled' in shown
    assert "claimed by ada" in shown and informed.pk not in shown
    chosen = {"with": [second.pk, third.pk, informed.pk]}
    after = html(send(client, first, **chosen))
    assert "Sent to 2 asks." in after and "Not sent to helpdesk_1 / 4: ada has claimed this ask" in after
    assert {fresh(one).status for one in (first, second)} == {"answered"}
    assert {fresh(one).status for one in (third, informed)} == {"open"}
    assert "Also sent to 1 ask" in after
    back = client.post(f"/asks/{second.pk}/take-back", {"back": first.pk}, follow=True)
    assert back.redirect_chain == [(f"/projects/lab/asks/{first.pk}/", 302)] and "withdrawn" in html(back)
    assert fresh(second).is_open and fresh(first).status == "answered"
    assert ">Into 4127.</textarea>" in page(client, second)  # nobody types it again


def test_the_same_press_twice_serves_each_once(asked, edo):
    first, second = asked(), asked()
    client = held(edo, first)
    found = dict(re.findall(r'name="(lease_token|nonce)" value="([^"]*)"', page(client, first)))
    body = {**found, "text": "Into 4127.", "then": "watch", "with": [second.pk]}
    for _ in range(2):
        assert "Not sent" not in html(client.post(f"/asks/{first.pk}/answer", body, follow=True))
    assert Advice.objects.count() == 2


def test_an_answer_is_amended_until_the_agent_has_read_it(asked, ada, edo):
    ask = asked()
    client = held(edo, ask)
    save(client, ask, "Into 41")
    send(client, ask)
    assert ">Into 4127.</textarea>" in page(client, ask, "?amend=1")
    shown = html(send(client, ask, "Into 4131.", "amend", "?amend=1"))
    assert "Into 4131." in shown and not Draft.objects.exists()
    closing.consume(ada, ask.pk)
    late = client.post(f"/asks/{ask.pk}/amend", {"text": "No!", "nonce": "z"}, headers={"accept": "application/json"})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "consumed")
    gone = page(client, ask, "?amend=1")
    assert "Amend" not in gone and "<textarea" not in gone


def test_question_to_the_agent_is_for_it_alone(asked, ada, edo):
    desk.set_policy(ada, cache="all")
    first, second = asked(), asked()
    client = held(edo, first)
    send(client, first, "Which store?", asks_back="1", **{"with": [second.pk]})
    assert fresh(first).accepted.value().reason == "asks_back" and fresh(second).is_open
    assert fresh(asked()).is_open  # no answer for an agent with the same question
    assert 'name="asks_back" value="1" checked' in page(client, first, "?amend=1")
    send(client, first, "Into 4131.", "amend", "?amend=1")
    assert fresh(first).accepted.value().reason is None


def test_typed_ask_takes_no_question_back(asked, ada, edo):
    episode = asked().episode
    options = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
    wanted = AskOpen(key="c", episode=episode.pk, seq=2, question="Which?", kind="choice", options=options)
    lease = queue.claim(edo, opening.open_ask(ada, wanted)[0].pk)
    with pytest.raises(Invalid, match="a typed ask is answered with a decision"):
        given = (lease.assignment_id, lease.lease_token, "Which store?", "n1")
        advising.answer(edo, *given, decision={"chosen": ["a"]}, asks_back=True)


def test_an_answer_is_taken_back_by_its_author_only(asked, ada, edo):
    ask = asked()
    client = held(edo, ask)
    send(client, ask)
    assert "Only its author can edit or withdraw" in html(
        as_person(ada).post(f"/asks/{ask.pk}/take-back", follow=True)
    ).replace("\n", " ")
    assert "your withdrawn answer" in html(client.post(f"/asks/{ask.pk}/take-back", follow=True))
    assert fresh(ask).assignment.holder == edo.key


def test_tags_cycle_yes_no_unset_and_return_the_row(asked, rita, edo):
    ask = asked()
    client = as_person(rita)
    client.post(f"/asks/{ask.pk}/tag", {"tag": "question_needed:yes"})
    row = html(client.post(f"/asks/{ask.pk}/tag", {"tag": "answerable:no"}, headers={"hx-request": "true"}))
    assert 'value="question_needed:no"' in row and "needed: <b>yes</b>" in row and "answerable: <b>no</b>" in row
    assert set(Annotation.objects.values_list("label", "text")) == {("question_needed", "yes"), ("answerable", "no")}
    assert client.post(f"/asks/{ask.pk}/tag", {"tag": "question_needed:maybe"}).status_code == 422
    assert "needed: <b>not set</b>" in page(held(edo, ask), ask)  # everybody has their own word


def test_escalate_and_send_to_model_give_reasons(asked, ada, edo, project, models):
    ask = asked()
    client = held(edo, ask)
    before = page(client, ask)
    assert "ada, offline" in before and "senior" not in before
    Desk.objects.create(project=project, senior=Membership.objects.get(user=ada.person))
    token = fresh(ask).assignment.lease_token
    why = "it is about {money}, and more of it than I may give away"
    body = {"lease_token": token, "to": "senior", "reason": why}
    assert client.post(f"/asks/{ask.pk}/hand", body).headers["Location"] == "/projects/lab/queue/"
    assert fresh(ask).tier == "senior" and as_person(ada).get("/queue/").status_code == 200
    ada_page = page(held(ada, ask), ask)
    assert "edo transferred it" in ada_page and why in ada_page
    assert 'value="senior"' not in ada_page and 'value="people"' in ada_page
    body = {"lease_token": fresh(ask).assignment.lease_token, "to": "llm"}
    as_person(ada).post(f"/asks/{ask.pk}/hand", body)
    assert fresh(ask).tier == "llm"
    assert "Your claim of this ask has ended." in html(as_person(ada).post(f"/asks/{ask.pk}/hand", body, follow=True))


def test_last_failed_call_before_the_question_can_be_suggested(asked, edo):
    def call(seq, into, name="merge", **end):
        return {"seq": seq, "kind": "tool_call", "name": name, "arguments": {"into": into, "note": "</script>"}, **end}

    big = 9007199254740993
    steps = [call(1, 4, error="no"), call(2, big, error="not open"), call(3, 5, result="ok")]
    shown = page(held(edo, ask := asked(steps=steps)), ask)
    assert "Start from failed call" in shown
    found = re.search(r'<script id="failed-call" type="application/json">(.*?)</script>', shown)[1]
    given = {"into": big, "note": "</script>"}
    assert json.loads(found) == {"name": "merge", "arguments": given, "seq": 2}
    for none in ([call(1, 4, result="ok")], [call(1, 4, name="gone", error="no")]):
        assert "Start from failed call" not in page(held(edo, ask := asked(steps=none)), ask)


def test_quick_replies_are_ones_own_and_once(asked, ada, edo, rita):
    client = as_person(edo)
    for _ in range(2):
        shown = html(client.post("/replies/", {"text": "Reopen <b>it</b>."}))
    assert shown.count("Reopen &lt;b&gt;it&lt;/b&gt;.</span>") == 1
    [kept] = QuickReply.objects.all()
    assert "Reopen" not in html(as_person(ada).get("/replies/"))
    assert as_person(ada).post("/replies/", {"id": kept.pk, "text": "mine"}).status_code == 404
    as_person(ada).post(f"/replies/{kept.pk}/drop")
    assert as_person(rita).get("/replies/").status_code == 403
    assert "Reopen it first." in html(client.post("/replies/", {"id": kept.pk, "text": "Reopen it first."}))
    client.post("/replies/", {"text": "Second."})
    assert client.post("/replies/", {"id": kept.pk, "text": "Second."}).status_code == 422
    client.post(f"/replies/{kept.pk}/drop")
    assert list(QuickReply.objects.values_list("text", flat=True)) == ["Second."]
    assert client.post("/replies/", {"text": "  "}).status_code == 422


def test_shared_replies_reach_the_team_and_change_by_managers(asked, ada, edo, project):
    noa = person(project, "noa", "expert")
    as_person(edo).post("/replies/", {"text": "Refund {customer}.", "shared": "1"})
    as_person(edo).post("/replies/", {"text": "My own words."})
    kept = QuickReply.objects.get(shared=True)
    for who, may_change in ((edo, True), (noa, False), (ada, True)):
        shown = html(as_person(who).get("/replies/"))
        assert "Refund {customer}." in shown and "team, edo" in shown
        assert (f'data-edit="{kept.pk}"' in shown) is may_change
        assert ("My own words." in shown) is (who is edo)
    assert as_person(noa).post("/replies/", {"id": kept.pk, "text": "No."}).status_code == 404
    as_person(noa).post(f"/replies/{kept.pk}/drop")
    assert "Pay {customer}." in html(
        as_person(ada).post("/replies/", {"id": kept.pk, "text": "Pay {customer}.", "shared": "1"})
    )
    as_person(edo).post("/replies/", {"id": kept.pk, "text": "Pay {customer}."})
    assert "Pay {customer}." not in html(as_person(noa).get("/replies/"))


def test_unsent_text_is_offered_after_the_ask_closed(asked, edo):
    ask = asked()
    client = held(edo, ask)
    save(client, ask, "Half a thought")
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now())
    shown = page(client, ask)
    assert "Unsent draft." in shown and "Half a thought" in shown
    kept = html(client.post(f"/asks/{ask.pk}/keep", follow=True))
    assert "edo, too late; saved as an annotation on step 1" in kept and "Unsent draft" not in kept


def test_who_else_has_the_ask_open_is_named(asked, ada, edo):
    ask = asked()
    page(as_person(ada), ask)
    assert "ada is viewing" in page(held(edo, ask), ask)
    assert "edo is viewing" in html(as_person(ada).get(f"/asks/{ask.pk}/steps.html?since=0"))
