"""The search of the command palette: what it finds, for whom, and how much it reads."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from awmclient.schema import AskOpen, EpisodeStart
from awmweb import searching
from episodes.models import Episode, Run
from episodes.record import recording
from experts.record import opening
from people.models import Membership
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene(ada, max_):
    """An episode of a task, an ask and a run in Lab; the same words in Elsewhere."""
    run = Run.objects.create(project=ada.project, name="Okafor sweep")
    task = {"task": "Renew the loan of Mr. Okafor", "scenario": "library_1", "task_idx": 27}
    start = EpisodeStart(key="a", expert="plain", **task)
    episode, _ = recording.start_episode(ada, start)
    words = AskOpen(key="q", episode=episode.pk, seq=1, question="Which book does Ökafor keep?")
    ask, _ = opening.open_ask(ada, words)
    theirs, _ = recording.start_episode(max_, EpisodeStart(key="b", task="okafor b"))
    return {"run": run, "episode": episode, "ask": ask, "theirs": theirs}


def found(actor, typed):
    return {group.title: [one.url for one in group.items] for group in searching.search(actor, typed)}


def test_words_find_each_kind_of_the_project_alone(scene, ada):
    page = found(ada, "okafor")
    assert page["Episodes"] == [scene["episode"].get_absolute_url()]
    assert page["Tasks"] == ["/episodes/?scenario=library_1&task_idx=27"]
    assert page["Runs"] == [f"/runs/{scene['run'].pk}/"]
    assert found(ada, "ÖKAFOR book")["Asks"] == [f"/asks/{scene['ask'].pk}/"]
    mine = Membership.objects.get(user=ada.person)
    assert found(ada, ada.person.username)["Members"] == [f"/members/#member-{mine.pk}"]


def test_members_whose_membership_ended_are_not_found(ada, edo):
    assert found(ada, "edo")["Members"]
    Membership.objects.filter(user=edo.person).update(ends_at=timezone.now() - timedelta(days=1))
    assert "Members" not in found(ada, "edo")


def test_id_and_its_ends_find_the_row(scene, ada):
    for name, title in (("episode", "Episodes"), ("run", "Runs"), ("ask", "Asks")):
        pk = scene[name].pk
        for typed in (pk, pk.upper(), pk[:12]):
            assert [one for one in found(ada, typed)[title] if pk in one], (name, typed)
    assert found(ada, scene["episode"].pk[-6:])["Episodes"]
    assert found(ada, "library_1/27")["Episodes"] and found(ada, "library_1 / 27")["Tasks"]
    assert found(ada, scene["theirs"].pk) == {}


@pytest.mark.parametrize(
    "typed", ["", "o", "%%", "__%", "\x00\x00", "' OR 1=1 --", "\\\\", "(" * 5000, "1/999999999", "\ud800x"]
)
def test_hostile_text_finds_nothing(scene, ada, typed):
    assert searching.search(ada, typed) == []


def test_search_costs_the_same_in_a_large_project(scene, ada, monkeypatch):
    with CaptureQueriesContext(connection) as few:
        searching.search(ada, "okafor")
    rows = [Episode(project=ada.project, key=f"k{n}", task=f"okafor {n}", scenario="s", task_idx=n) for n in range(40)]
    Episode.objects.bulk_create(rows)
    with CaptureQueriesContext(connection) as many:
        assert len(found(ada, "okafor")["Episodes"]) == searching.SHOWN
    assert len(many) == len(few) <= 8
    assert all("LIMIT" in one["sql"] for one in many)
    monkeypatch.setitem(searching.LOOKED, "episodes", 10)
    assert "library" not in str(found(ada, "renew loan"))


def test_reviewer_with_a_blind_queue_finds_no_outcome(scene, ada, rita):
    page = html(as_person(rita).get("/search/?q=okafor", headers={"HX-Request": "true"}))
    assert "library_1 / 27" in page
    for word in ("complete", "plain", "reward"):
        assert f">{word}" not in page and f" {word}" not in page


def test_search_page_escapes_and_needs_a_member(scene, ada, max_, client):
    page = html(as_person(ada).get("/search/?q=<b>okafor\u202e", headers={"HX-Request": "true"}))
    assert "&lt;b&gt;okafor" in page and "<b>okafor" not in page and "\u202e" not in page
    assert "<h1>Search</h1>" in html(as_person(ada).get("/search/?q=okafor"))
    assert as_person(max_).get("/projects/lab/search/?q=okafor").status_code == 404
    assert client.get("/projects/lab/search/?q=okafor").status_code == 302
