"""Every write of the OpenAPI document, made twice: the same answer, and the effect once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from awmclient.schema import AskOpen, EpisodeStart, RunStart, StandingAnswerBody, ToolSpec
from awmweb.urls import api
from episodes.models import Episode, Step
from episodes.record import recording, steering
from experts.record import advising, attaching, opening, queue, standing_answers
from exports.jobs import requesting
from exports.recipe import Recipe
from people import keyed_calls
from people.models import KeyedWrite
from reviews.record import annotating, assigning, correcting, deciding
from reviews.visible.places import Place
from runs.launch import launching
from runs.play import campaigning
from tests.asking import picture
from tests.browsing import as_person
from tests.reviews.conftest import ended
from tests.runs.faulty import Faults, plan
from tests.runs.planned import launched

pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)
HEARD = {"last_used_at", "heartbeat_at", "last_active_at"}
"""Columns that say when someone was heard: each repeat is heard, too."""
TOOLS = [ToolSpec(name="get_item")]
AHEAD = {"tool": "get_item", "until": (timezone.now() + timedelta(days=1)).isoformat()}
FIX = {"seq": 2, "kind": "call", "name": "update", "arguments": {"id": 7, "status": "shut"}}
PLAN = {"name": "trial", "plan": {"tasks": {"limit": 1}, "policy": "script:oracle", "arms": [{"name": "a"}]}}
ASIDE = {"change": {"words": "Mind the order."}, "query": "?outcome=complete", "at": "times", "tries": 1}


class Lab:
    """What calls are about. Each is made for one test, so that a call meets nothing of another."""

    def __init__(self, desk):
        self.desk, self.ada = desk, desk.ada

    def live(self):
        return recording.start_episode(self.ada, EpisodeStart(key="live", task="t", expert="plain", tools=TOOLS))[0].pk

    def ask(self):
        body = AskOpen(key="q", episode=self.live(), seq=1, question="?")
        return opening.open_ask(self.ada, body)[0].pk

    def claimed(self):
        queue.claim(self.ada, ask := self.ask())
        return ask

    def claim(self):
        claim = queue.claim(self.ada, self.ask())
        return f"/assignments/{claim.assignment_id}", {"lease_token": claim.lease_token}

    def held(self):
        claim = queue.claim(self.ada, self.ask())
        advising.answer(self.ada, claim.assignment_id, claim.lease_token, "Yes.", "n", hold_s=5)
        return f"/assignments/{claim.assignment_id}/undo"

    def wheel(self):
        episode = self.live()
        return f"/episodes/{episode}/wheel", {"lease_token": steering.take(self.ada, episode).lease_token}

    def played(self):
        return self.desk.played(plan(), Faults())[0]

    def reviewed(self):
        return ended(self.ada, "reviewed")

    def review(self):
        rows = assigning.create_queue(self.ada, "First look", reviews_required=2)
        assigning.fill(self.ada, rows.pk, Episode.objects.filter(pk=self.reviewed().pk))
        return rows.reviews.get().pk

    def pair_claim(self):
        rows = assigning.create_queue(self.ada, "Pairs", kind="pairwise")
        pair = [ended(self.ada, f"side {number}", task_idx=7, row=number).pk for number in range(2)]
        assigning.fill(self.ada, rows.pk, Episode.objects.filter(pk__in=pair))
        claim = assigning.pull(self.ada, rows.pk)
        return f"/reviews/{claim.review_id}", {"lease_token": claim.lease_token}

    def review_claim(self):
        review = self.review()
        return f"/reviews/{review}", {"lease_token": assigning.claim(self.ada, review).lease_token}

    def verdict(self):
        where, lease = self.review_claim()
        wanted = deciding.Wanted("accept", nonce="n", note="")
        deciding.decide(self.ada, where.split("/")[2], lease["lease_token"], wanted)
        return where

    def planned(self, **said):
        return launched(self.ada, tasks={"limit": 1}, **said).pk

    def campaign(self):
        self.played()
        return campaigning.launch(self.ada, campaigning.start_of(ASIDE)).pk

    def attachment(self):
        return attaching.attach(self.ada, self.claimed(), "a.txt", b"words")[0].pk


def on(pair, path, **more):
    """The call of a claim: its path goes on, and its body has the lease."""
    return pair[0] + path, {**pair[1], **more}


CALLS = {
    "POST /episodes": lambda lab: ("/episodes", {"key": "a", "task": "t"}),
    "POST /episodes/whole": lambda lab: (
        "/episodes/whole",
        {"episodes": [{"key": "a", "task": "t", "steps": [], "stop_reason": "done"}]},
    ),
    "POST /episodes/{episode_id}/steps": lambda lab: (
        f"/episodes/{lab.live()}/steps",
        {"steps": [{"seq": 1, "kind": "note", "content": "x"}]},
    ),
    "POST /episodes/{episode_id}/blobs": lambda lab: (f"/episodes/{lab.live()}/blobs", picture()),
    "POST /episodes/{episode_id}/heartbeat": lambda lab: (f"/episodes/{lab.live()}/heartbeat", None),
    "POST /episodes/{episode_id}/wheel/take": lambda lab: (f"/episodes/{lab.live()}/wheel/take", None),
    "POST /episodes/{episode_id}/wheel/renew": lambda lab: on(lab.wheel(), "/renew"),
    "POST /episodes/{episode_id}/wheel/call": lambda lab: on(lab.wheel(), "/call", nonce="n", words="Look."),
    "POST /episodes/{episode_id}/wheel/undo": lambda lab: undo_call(lab),
    "POST /episodes/{episode_id}/wheel/hand-back": lambda lab: on(lab.wheel(), "/hand-back"),
    "POST /episodes/{episode_id}/limits": lambda lab: (
        f"/episodes/{lab.live()}/limits",
        {"max_steps": 9, "reason": "It is long."},
    ),
    "POST /episodes/{episode_id}/park": lambda lab: (f"/episodes/{episode_of(lab.ask())}/park", None),
    "POST /episodes/{episode_id}/finish": lambda lab: (f"/episodes/{lab.live()}/finish", {"stop_reason": "done"}),
    "POST /runs": lambda lab: ("/runs", {"name": "r", "key": "a"}),
    "POST /runs/preview": lambda lab: ("/runs/preview", PLAN),
    "POST /runs/preflight": lambda lab: ("/runs/preflight", PLAN),
    "POST /runs/{run_id}/pause": lambda lab: (f"/runs/{lab.planned()}/pause", None),
    "POST /runs/{run_id}/resume": lambda lab: (f"/runs/{lab.planned(start=False)}/resume", None),
    "POST /runs/{run_id}/cancel": lambda lab: (f"/runs/{lab.planned()}/cancel", None),
    "POST /runs/{run_id}/retry": lambda lab: (f"/runs/{lab.planned()}/retry", None),
    "POST /runs/{run_id}/seeds": lambda lab: (f"/runs/{lab.planned()}/seeds", {"seeds": 1}),
    "POST /briefings": lambda lab: ("/briefings", {"scenario": "words_1", "task_idx": 0, "text": "Write."}),
    "POST /episodes/{episode_id}/certify": lambda lab: (f"/episodes/{lab.played().pk}/certify", None),
    "POST /episodes/{episode_id}/fork": lambda lab: (
        f"/episodes/{lab.played().pk}/fork",
        {"step": Step.objects.filter(kind="tool_call").first().seq, "tries": 1},
    ),
    "POST /campaigns": lambda lab: (lab.played() and "/campaigns", ASIDE),
    "POST /campaigns/estimate": lambda lab: (lab.played() and "/campaigns/estimate", ASIDE),
    "POST /campaigns/{campaign_id}/cancel": lambda lab: (f"/campaigns/{lab.campaign()}/cancel", None),
    "POST /verifiers/reverify": lambda lab: (
        lab.played() and "/verifiers/reverify",
        {"scenario": "words_1", "task_idx": 0},
    ),
    "POST /asks": lambda lab: ("/asks", {"key": "q", "episode": lab.live(), "seq": 1, "question": "?"}),
    "POST /runs/{run_id}/interrupts": lambda lab: (
        f"/runs/{recording.start_run(lab.ada, RunStart(name='r'))[0].pk}/interrupts",
        {
            "threadId": "t",
            "runId": "1",
            "outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "confirmation", "message": "?"}]},
        },
    ),
    "POST /asks/{ask_id}/consumed": lambda lab: (f"/asks/{cancelled(lab)}/consumed", None),
    "POST /asks/{ask_id}/cancel": lambda lab: (f"/asks/{lab.ask()}/cancel", None),
    "POST /asks/{ask_id}/claim": lambda lab: (f"/asks/{lab.ask()}/claim", None),
    "POST /assignments/{assignment_id}/renew": lambda lab: on(lab.claim(), "/renew"),
    "POST /assignments/{assignment_id}/release": lambda lab: on(lab.claim(), "/release"),
    "POST /assignments/{assignment_id}/decline": lambda lab: on(lab.claim(), "/decline"),
    "POST /assignments/{assignment_id}/answer": lambda lab: on(lab.claim(), "/answer", text="Yes.", nonce="n"),
    "POST /assignments/{assignment_id}/undo": lambda lab: (lab.held(), None),
    "POST /standing-answers": lambda lab: ("/standing-answers", AHEAD),
    "DELETE /standing-answers/{standing_id}": lambda lab: (
        f"/standing-answers/{standing_answers.give(lab.ada, StandingAnswerBody(**AHEAD))[0].pk}",
        None,
    ),
    "POST /asks/{ask_id}/attachments": lambda lab: (f"/asks/{lab.claimed()}/attachments?name=a.txt", b"words"),
    "DELETE /attachments/{attachment_id}": lambda lab: (f"/attachments/{lab.attachment()}", None),
    "POST /exports": lambda lab: ("/exports", {"format": "raw"}),
    "POST /exports/preview": lambda lab: ("/exports/preview", {"format": "raw"}),
    "POST /exports/{export_id}/cancel": lambda lab: (f"/exports/{asked_export(lab)}/cancel", None),
    "POST /imports": lambda lab: ("/imports", {"format": "openai"}),
    "POST /reviews/{review_id}/claim": lambda lab: (f"/reviews/{lab.review()}/claim", None),
    "POST /reviews/{review_id}/renew": lambda lab: on(lab.review_claim(), "/renew"),
    "POST /reviews/{review_id}/release": lambda lab: on(lab.review_claim(), "/release"),
    "POST /reviews/{review_id}/decline": lambda lab: on(lab.review_claim(), "/decline"),
    "POST /reviews/{review_id}/verdict": lambda lab: on(lab.review_claim(), "/verdict", verdict="accept"),
    "POST /reviews/{review_id}/preference": lambda lab: on(lab.pair_claim(), "/preference", choice="a"),
    "POST /queues/{queue_id}/rule": lambda lab: (
        f"/queues/{assigning.create_queue(lab.ada, 'By a rule').pk}/rule",
        {"filter": {"outcome": ["others"]}, "share": 0.5},
    ),
    "POST /reviews/{review_id}/explanation": lambda lab: (
        f"{lab.verdict()}/explanation",
        {"explanation": "verifier_wrong"},
    ),
    "POST /episodes/{episode_id}/annotations": lambda lab: (
        f"/episodes/{lab.reviewed().pk}/annotations",
        {"label": "note", "value": "x", "seq": 2},
    ),
    "POST /annotations/{annotation_id}/undo": lambda lab: (
        f"/annotations/{annotating.annotate(lab.ada, lab.reviewed(), Place(2), 'note', 'x').pk}/undo",
        None,
    ),
    "POST /episodes/{episode_id}/corrections": lambda lab: (f"/episodes/{lab.reviewed().pk}/corrections", FIX),
    "POST /corrections/{correction_id}/undo": lambda lab: (f"/corrections/{corrected(lab)}/undo", None),
    "POST /runs/{run_id}/steps": lambda lab: (
        f"/runs/{recording.start_run(lab.ada, RunStart(name='r'))[0].pk}/steps",
        {"training_step": 1},
    ),
}
"""A call of each write, and what it needs. A new write needs a line here."""
READS = {"POST /runs/preview", "POST /exports/preview", "POST /campaigns/estimate", "POST /runs/{run_id}/retry"}
READS |= {"POST /episodes/{episode_id}/heartbeat"}
"""Calls that change nothing: previews, and what has nothing to do here."""


def undo_call(lab):
    where, lease = lab.wheel()
    episode = where.split("/")[2]
    steering.order(lab.ada, episode, steering.WheelCallBody(**lease, nonce="n", words="Look.", hold_s=60))
    return f"{where}/undo", {**lease, "nonce": "n"}


def episode_of(ask):
    return opening.Ask.objects.get(pk=ask).episode_id


def cancelled(lab):
    lab.desk._answer(Episode.objects.get(pk=episode_of(ask := lab.ask())))
    return ask


def asked_export(lab):
    return requesting.request(lab.ada, Recipe.read({"format": "raw"})).pk


def corrected(lab):
    said = {name: value for name, value in FIX.items() if name != "seq"}
    return correcting.correct(lab.ada, lab.reviewed(), 2, correcting.Better(**said)).pk


def writes():
    paths = api.get_openapi_schema()["paths"]
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}": said
        for path, methods in paths.items()
        for method, said in methods.items()
        if method != "get"
    }


def content_of(said):
    return next(iter(said.get("requestBody", {}).get("content", {"": {}}).items()))


def names_key(said):
    schema = content_of(said)[1].get("schema", {})
    if "$ref" in schema:
        schema = api.get_openapi_schema()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return "key" in schema.get("properties", {})


def rows():
    """Every row of the database, without keys and without when someone was heard."""
    found = {}
    for model in apps.get_models():
        names = [one.attname for one in model._meta.concrete_fields if one.name not in HEARD]
        if model is not KeyedWrite and model._meta.managed and model._meta.app_label != "sessions":
            found[model._meta.label] = sorted(repr(row) for row in model._base_manager.values(*names))
    return found


@pytest.fixture
def lab(desk, monkeypatch, settings, tmp_path):
    for name in ("campaign_later", "certify_later", "reverify_later"):
        monkeypatch.setattr(launching, name, lambda *about, **more: None, raising=name != "reverify_later")
    return Lab(desk)


@pytest.fixture
def send(lab):
    client = as_person(lab.ada)

    def sent(call, path, body, key=None):
        method, more = call.split()[0].lower(), {"content_type": "application/json"}
        fields = {**(body if isinstance(body, dict) else {}), **({"key": key} if key else {})}
        if isinstance(body, bytes):
            more = {"data": body, "content_type": "application/octet-stream"}
        elif call == "POST /imports":
            more = {"data": {**fields, "file": SimpleUploadedFile("rows.jsonl", b'{"messages": []}\n')}}
        elif fields:
            more["data"] = fields
        return getattr(client, method)(f"/api/v1{path}", **more)

    return sent


def test_every_write_has_a_call_here_and_a_key_or_a_reason():
    assert set(CALLS) == set(writes())
    reasons = {
        call for call in CALLS if call.split()[0] in keyed_calls.BY_NATURE or call.split()[1] in keyed_calls.BY_NATURE
    }
    assert {call for call, said in writes().items() if not names_key(said)} == reasons
    paths = {call.split()[1] for call in CALLS}
    assert {one for one in keyed_calls.BY_NATURE if one.startswith("/")} <= paths


@pytest.mark.parametrize("call", CALLS)
def test_write_made_twice_has_its_effect_once(lab, send, call):
    said = writes()[call]
    path, body = CALLS[call](lab)
    key = "once" if names_key(said) and "key" not in (body or {}) else None
    before = rows()
    first = send(call, path, body, key)
    after = rows()
    assert first.status_code < 300, first.content
    assert (after != before) == (call not in READS)
    again = send(call, path, body, key)
    assert rows() == after
    if key:
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        other = send("POST /campaigns/estimate", "/campaigns/estimate", {"change": {"words": "y"}}, key)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "key_conflict")
        assert rows() == after
    elif call != "DELETE /attachments/{attachment_id}":
        assert again.status_code < 300, again.content
