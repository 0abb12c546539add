"""A key in the body of a write: two at once, a killed process, refusals, other senders, erasing, its end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, connections, transaction
from django.test import Client
from django.test.client import MULTIPART_CONTENT
from django.utils import timezone

from awmclient.schema import EpisodeStart
from awmweb.erasing.persons import erase_person
from awmweb.tasks import forget_answers
from episodes.record import recording
from experts.models import StandingAnswer
from exports.models import Export
from imports.models import Import
from imports.record import importing
from people import keyed_calls
from people.models import KeyedWrite
from people.record import members
from people.record.keyed_writes import KEPT
from tests.browsing import as_person
from tests.people_by_name import token
from tests.running import ROOT, until

pytestmark = pytest.mark.django_db(transaction=True)
PLACE = "/api/v1/standing-answers"
WAITING = "SELECT pid FROM pg_locks WHERE NOT granted"
LOCKED_S = 60


def ahead(**more):
    return {"tool": "get_item", "until": (timezone.now() + timedelta(days=1)).isoformat(), **more}


def sender(secret, kind="application/json"):
    def send(path, body):
        client = Client(headers={"Authorization": f"Bearer {secret}"}, raise_request_exception=False)
        try:
            return client.post(path, body, content_type=kind)
        finally:
            connections.close_all()

    return send


@pytest.fixture
def send(project):
    return sender(token(project, "answer export")[1])


@contextmanager
def locked(table):
    """Block every write of a table. Gives a function that waits for so many writers, and returns their processes."""

    def waiting(count):
        def look():
            with connection.cursor() as cursor:
                cursor.execute(WAITING)
                found = [pid for (pid,) in cursor.fetchall()]
            return found if len(found) == count else None

        return until(look, LOCKED_S)

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        yield waiting


def test_two_at_once_under_one_key_have_one_effect(send):
    body = ahead(key="once")
    with ThreadPoolExecutor(2) as pool:
        with locked("experts_standinganswer") as waiting:
            both = [pool.submit(send, PLACE, body) for _ in range(2)]
            waiting(2)
        first, second = (one.result() for one in both)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json() and StandingAnswer.objects.count() == 1


def test_two_bodies_at_once_under_one_key_are_a_conflict(send):
    with ThreadPoolExecutor(2) as pool:
        with locked("experts_standinganswer") as waiting:
            both = [pool.submit(send, PLACE, ahead(key="once", at_most=most)) for most in (1, 2)]
            waiting(2)
        assert sorted(one.result().status_code for one in both) == [201, 409]
    assert StandingAnswer.objects.count() == 1


def test_write_that_was_killed_leaves_its_key_free(send):
    body = ahead(key="once")
    with ThreadPoolExecutor(1) as pool, locked("experts_standinganswer") as waiting:
        killed = pool.submit(send, PLACE, body)
        [pid] = waiting(1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        assert killed.result().status_code >= 500
    assert not KeyedWrite.objects.exists()
    assert [send(PLACE, body).status_code for _ in range(2)] == [201, 201]
    assert StandingAnswer.objects.count() == 1


def test_answer_is_not_given_to_another_token_of_a_person(edo):
    """All tokens of a person have one key of their author, but not the same scopes."""
    body = ahead(key="once")
    writer, reader = (sender(members.issue_token(edo, one, one, personal=True)[1]) for one in ("answer", "read"))
    assert writer(PLACE, body).status_code == 201
    refused = reader(PLACE, body)
    assert refused.status_code in (403, 409) and "arguments" not in refused.text
    assert writer(PLACE, body).status_code == 201 and StandingAnswer.objects.count() == 1


def test_another_body_or_call_under_a_key_is_refused(send):
    assert send(PLACE, ahead(key="once", at_most=1)).status_code == 201
    for path, body in ((PLACE, ahead(key="once", at_most=2)), ("/api/v1/exports", {"format": "raw", "key": "once"})):
        refused = send(path, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "key_conflict")
    assert StandingAnswer.objects.count() == 1 and not Export.objects.exists()


def test_refused_call_takes_no_key(send):
    wrong = ahead(key="once", run="none")
    assert send(PLACE, wrong).status_code == 422
    assert not KeyedWrite.objects.exists()
    assert send(PLACE, ahead(key="once")).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 201, "a\x00", "\ud800", 7, ["a"]])
def test_key_that_is_no_line_is_refused(send, key):
    refused = send(PLACE, ahead(key=key))
    assert refused.status_code == 422 and refused.json()["error"]["message"].startswith("key: ")
    assert not StandingAnswer.objects.exists()


def test_key_belongs_to_its_sender(project, send, ada):
    assert send(PLACE, ahead(key="once", at_most=1)).status_code == 201
    other = sender(token(project, "answer")[1])
    assert other(PLACE, ahead(key="once", at_most=2)).json()["at_most"] == 2
    mine = as_person(ada).post(PLACE, ahead(key="once", at_most=3), content_type="application/json")
    assert mine.json()["at_most"] == 3


def test_call_without_a_body_takes_nothing_but_a_key(project):
    agent, secret = token(project, "agent")
    episode, _ = recording.start_episode(agent, EpisodeStart(key="k", task="t"))
    path, loop = f"/api/v1/episodes/{episode.pk}/heartbeat", sender(secret)
    assert [loop(path, body).status_code for body in ({"key": "a"}, {"key": "a"}, {}, "")] == [200] * 4
    refused = loop(path, {"key": "a", "word": 1})
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, "word: Extra inputs are not permitted")


def test_file_under_a_key_is_imported_once(project, settings, tmp_path):
    settings.VAR = tmp_path
    launch = sender(token(project, "launch")[1], MULTIPART_CONTENT)

    def upload(content):
        return launch("/api/v1/imports", {"file": SimpleUploadedFile("rows.jsonl", content), "key": "once"})

    first, again, other = upload(b"{}"), upload(b"{}"), upload(b"[]")
    assert (first.status_code, again.status_code, other.status_code) == (202, 202, 409)
    assert again.json() == first.json() and Import.objects.count() == 1
    assert [path.name for path in importing.folder().iterdir()] == [first.json()["id"]]


def test_erased_answer_is_told_to_no_one(project, send, edo):
    body = ahead(key="once", arguments={"to": "wombat"})
    assert send(PLACE, body).status_code == 201 and "wombat" in KeyedWrite.objects.get().answer
    client = as_person(edo)
    assert client.post(PLACE, ahead(key="mine"), content_type="application/json").status_code == 201
    erase_person("edo")
    assert {one.answer for one in KeyedWrite.objects.all()} == {""}
    refused = send(PLACE, body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "key_conflict")
    assert "was erased" in refused.json()["error"]["message"]
    assert StandingAnswer.objects.filter(arguments={"to": "wombat"}).count() == 1


@pytest.mark.parametrize("off", [-KEPT - timedelta(seconds=1), timedelta(days=9)], ids=["old", "of a clock ahead"])
def test_answers_are_forgotten_after_their_time(send, off):
    for key in ("old", "new"):
        send(PLACE, ahead(key=key))
    oldest = KeyedWrite.objects.earliest("pk")
    KeyedWrite.objects.filter(pk=oldest.pk).update(at=timezone.now() + off)
    forget_answers()
    assert KeyedWrite.objects.count() == 1 and not KeyedWrite.objects.filter(pk=oldest.pk).exists()


def test_writes_without_a_key_are_documented_with_their_reason():
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert [one for one in keyed_calls.BY_NATURE.items() if "| `{}` | {} |".format(*one) not in page] == []
    assert f"It is kept for {KEPT.days * 24} hours" in page
