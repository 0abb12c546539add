"""What needs an operator is one list on Home, for admins alone; each entry goes once the thing works again."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
import redis
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import AskOpen, EpisodeStart
from episodes.models import Episode, EpisodeState, VerifierOutcome
from episodes.record import noting, recording
from experts import llm
from experts.record import desk, opening
from notices.models import Delivery, DeliveryState, Subscription
from people import measures, operating
from people.access import expert_model
from people.record import following
from runs.plan import choosing
from tests.awmclient.http_dashboard import Served
from tests.awmclient.openai_server import OpenAIServer, answering, error
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db(transaction=True)
HEADING = "Needs an operator"


@pytest.fixture(autouse=True)
def environment(settings, monkeypatch):
    """An environment server that responds; each test starts without what an earlier one knew."""
    monkeypatch.setattr(choosing, "_rooms", choosing.Rooms())
    monkeypatch.setattr("runs.show.failing.SILENT_AGE_S", 0.0)
    measures.connection().delete(operating.PROVIDER_KEY)
    route = Route("/stats", lambda request: JSONResponse({"sessions": 0, "max_sessions": 4}))
    with answering(server := Served(Starlette(routes=[route]))):
        settings.AWMENV_URL = server.url
        yield


def listed(actor):
    return [(one.what, one.reason) for one in operating.needs_of(actor, timezone.now())]


def ended(actor, key, **said):
    """Store an episode that awmweb's own worker ended just now."""
    about = {"origin": "builtin", "state": EpisodeState.FINISHED, "policy_kind": "model", "ended_at": timezone.now()}
    return Episode.objects.create(project=actor.project, key=key, body_digest="", task="t", **{**about, **said})


def asking(ada):
    desk.set_policy(ada, model_first=True, audit_share=0.0)
    key = f"e{Episode.objects.count()}"
    episode, _ = recording.start_episode(ada, EpisodeStart(key=key, task="t", expert="plain"))
    opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="Into which?", deadline_s=300))
    llm.work()


def test_expert_model_that_refuses_is_on_home_until_it_answers(ada, edo, rita, settings):
    server = OpenAIServer(lambda body: error(401, "Incorrect API key provided"))
    with answering(server):
        settings.EXPERT_ENDPOINTS = {"wise": EndpointConfig(server.base_url, "wise-1", "sk-secret", timeout_s=5)}
        assert HEADING not in html(as_person(ada).get("/"))
        asking(ada)
        page = html(as_person(ada).get("/"))
        assert HEADING in page and "Expert model wise (wise-1)" in page and "Incorrect API key provided" in page
        assert "sk-secret" not in page
        for other in (edo, rita):
            assert HEADING not in html(as_person(other).get("/")), "only who can mend it"
        server.reply = lambda body: json.dumps({"advice": "Into 5.", "confidence": 0.9, "needs_person": False})
        asking(ada)
    assert HEADING not in html(as_person(ada).get("/"))
    settings.EXPERT_ENDPOINTS = {"wise": EndpointConfig(server.base_url, "wise-1", timeout_s=5)}
    asking(ada)
    assert listed(ada)[0][0] == "Expert model wise (wise-1)", "it cannot be reached"
    settings.EXPERT_ENDPOINTS = {}
    assert listed(ada) == [], "a model that is not configured any more needs no one"


def test_answer_that_cannot_be_read_is_no_matter_of_an_operator(ada, settings):
    with answering(server := OpenAIServer(lambda body: "I think so.")):
        settings.EXPERT_ENDPOINTS = {"wise": EndpointConfig(server.base_url, "wise-1", timeout_s=5)}
        asking(ada)
    assert listed(ada) == []


def test_second_look_is_listed_apart(ada, settings):
    settings.EXPERT_ENDPOINTS = {"wise": EndpointConfig("http://127.0.0.1:9", "wise-1")}
    model = expert_model(ada.project, "wise")
    desk.called(model, None, "look", tokens=0, duration_s=0.1, fault="401 Incorrect API key")
    desk.called(model, None, "answer", tokens=9, duration_s=0.1)
    assert listed(ada) == [("Second look by wise (wise-1)", "401 Incorrect API key")]
    desk.called(model, None, "look", tokens=9, duration_s=0.1)
    assert listed(ada) == []


def test_agent_models_count_what_failed_since_the_last_success(ada, max_):
    for n in range(3):
        ended(ada, f"f{n}", state=EpisodeState.FAILED, fault="model", fault_detail="429 Too many", policy_name="small")
    ended(ada, "other", policy_name="large")
    ended(ada, "outside", origin="external", state=EpisodeState.FAILED, fault="model", policy_name="theirs")
    assert listed(ada) == [("Agent model small", "3 episodes failed: 429 Too many")]
    assert listed(max_) == [], "of another project"
    ended(ada, "again", policy_name="small")
    assert listed(ada) == []


def test_judge_is_listed_until_it_judges(ada):
    first, second = ended(ada, "a"), ended(ada, "b")
    details = {"error": "The judge answered 401.", "mode": "sql"}
    judged = {"source": "verifier", "reward_type": "judge_error", "details": details}
    VerifierOutcome.objects.create(episode=first, **judged)
    assert listed(ada) == [("Judge of verifiers", "The judge answered 401.")]
    details = {"mode": "sql"}
    VerifierOutcome.objects.create(episode=second, source="verifier", reward_type="complete", details=details)
    assert listed(ada) == []


def test_environment_servers_and_what_waits_for_them(ada, settings):
    waiting = ended(ada, "w", state=EpisodeState.QUEUED, ended_at=None, environment="lab")
    noting.note_no_server(waiting.pk, "Server at capacity: 1/1 sessions active.")
    assert listed(ada) == [("Environment lab", "1 episode queued: Server at capacity: 1/1 sessions active.")]
    Episode.objects.filter(pk=waiting.pk).update(state=EpisodeState.RUNNING)
    assert listed(ada) == []
    up, settings.AWMENV_URL = settings.AWMENV_URL, "ws://127.0.0.1:9"
    assert listed(ada) == [("Environment server http://127.0.0.1:9", "It does not respond. Episodes stay queued.")]
    settings.AWMENV_URL = up
    assert listed(ada) == []


def test_channels_are_listed_by_their_newest_result(ada, edo):
    mail = {"project": ada.project, "user": edo.person, "kind": "email"}
    way = Subscription.objects.create(target="edo@example.org", **mail)
    now = timezone.now()

    def result(state, minutes):
        at = now - timedelta(minutes=minutes)
        about = {"subscription": way, "kind": "test", "state": state, "words": "The server refused it: 535."}
        Delivery.objects.create(ended_at=at, **about)

    result(DeliveryState.SENT, 30)
    result(DeliveryState.FAILED, 20)
    result(DeliveryState.FAILED, 10)
    assert listed(ada) == [("Email notifications", "2 notifications failed: The server refused it: 535.")]
    result(DeliveryState.SENT, 5)
    assert listed(ada) == []
    slack = {**mail, "kind": "slack", "target": "U1"}
    gone = Subscription.objects.create(**slack, broken="The workspace removed the app.")
    assert listed(ada) == [("Slack notifications of edo", "The workspace removed the app.")]
    Subscription.objects.create(**{**mail, "kind": "push", "target": "p"}, broken="The browser ended it.")
    Subscription.objects.filter(pk=gone.pk).update(ended_at=now)
    assert listed(ada) == [], "a push is its owner's matter"


def test_valkey_and_the_sign_in_provider_are_listed(ada, settings, monkeypatch):
    settings.AWMWEB_OIDC_ISSUER, settings.AWMWEB_OIDC_CHECK_S = "http://127.0.0.1:9", 30
    settings.AWMWEB_OIDC_NAME = "Lab login"
    following.keep_ticket(ada.person, "refresh", "access", "s1")
    assert following.check_due(timezone.now() + timedelta(hours=1)) == 0
    [(what, why)] = listed(ada)
    assert what == "Sign-in by Lab login" and "It gives no answer" in why
    following.keep_ticket(ada.person, "refresh", "access", "s1")
    assert listed(ada) == [], "a sign-in got an answer"

    def away():
        raise redis.ConnectionError

    monkeypatch.setattr(measures, "connection", away)
    assert [what for what, _ in listed(ada)] == ["Valkey"]


def test_full_disk_is_listed_until_it_has_space(ada, settings):
    settings.DISK_IS_FULL = lambda: True
    [(what, why)] = listed(ada)
    assert what == "Disk" and why.startswith("Is full.")
    settings.DISK_IS_FULL = lambda: False
    assert listed(ada) == []


def test_valkey_that_refuses_writes_is_listed(ada):
    valkey = measures.connection()
    valkey.config_set("min-replicas-to-write", 1)
    try:
        [(what, why)] = listed(ada)
        assert what == "Valkey" and why.startswith("Refuses writes. It says: ")
    finally:
        valkey.config_set("min-replicas-to-write", 0)
    assert listed(ada) == []


@pytest.mark.parametrize(("is_full", "code"), [(True, "no_space"), (False, "unavailable")])
def test_health_without_its_database_says_why(settings, monkeypatch, is_full, code):
    settings.DISK_IS_FULL = lambda: is_full

    def away():
        raise OperationalError

    monkeypatch.setattr("awmweb.views.connection.cursor", away)
    answer = Client().get("/health")
    assert answer.status_code == 503
    assert (answer.json()["status"], answer.json()["code"]) == ("away", code) and answer.json()["message"]


def test_what_was_said_long_ago_is_not_listed(ada, settings):
    settings.EXPERT_ENDPOINTS = {"wise": EndpointConfig("http://127.0.0.1:9", "wise-1")}
    desk.called(expert_model(ada.project, "wise"), None, "answer", tokens=0, duration_s=0.1, fault="401")
    later = timezone.now() + operating.RECENT + timedelta(minutes=1)
    assert list(operating.needs_of(ada, later)) == [] != operating.needs_of(ada, timezone.now())


def test_hostile_words_stay_one_line_of_text(ada, settings):
    ended(ada, "x", state=EpisodeState.FAILED, fault="model", fault_detail="<script>\u202e" + "x" * 9000 + "\nsecond")
    page = html(as_person(ada).get("/"))
    assert "<script>\u202e" not in page and "x" * 400 not in page and HEADING in page


def test_every_kind_of_condition_is_registered():
    """A new kind is a check of its app and a line here, and Home lists it."""
    kinds = {"disk", "valkey", "channels", "expert models", "agent models", "environment servers", "judge", "skills"}
    assert set(operating.kinds()) == kinds


def test_registered_check_is_asked_for_admins_alone(ada, edo, monkeypatch):
    monkeypatch.setattr(operating, "_checks", {})
    operating.register("disk", lambda actor, now: [operating.Need("Disk", "full")])
    assert listed(ada) == [("Disk", "Full")] and listed(edo) == []
