"""A project's episodes run on real clocks if it says so, and their record and certificates say it."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from people.access import system
from people.record import projects
from people.record.members import issue_token
from runs.launch import launching
from runs.play import certifying
from tests.browsing import as_person, html
from tests.runs.faulty import Faults, plan

pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("clocks", ["recorded", "real"])
def test_episode_and_certificate_name_their_clocks(desk, ada, client, monkeypatch, clocks):
    projects.choose_clocks(ada, clocks == "real")
    episode, _ = desk.played(plan(), Faults())
    assert episode.world["clocks"] == episode.clocks == clocks
    projects.choose_clocks(ada, False)
    found = async_to_sync(certifying.certify_episode)(episode)
    assert (found.grade, found.clocks) == ("exact", clocks)  # this app reads no clock
    page = html(as_person(ada).get(f"/episodes/{episode.pk}/"))
    assert ('<span class="chip ">real clocks</span>' in page) is (clocks == "real")
    monkeypatch.setattr(launching, "certify_later", lambda pk: None)
    secret = issue_token(system(episode.project), "launch", "launch")[1]
    headers = {"authorization": f"Bearer {secret}"}
    answer = client.post(f"/api/v1/episodes/{episode.pk}/certify", headers=headers)
    assert answer.json()["certificate"]["clocks"] == clocks


def test_a_world_keeps_the_clocks_that_it_began_with(desk, ada):
    """Chosen while it waits: the attempt that resumes uses the record."""
    answer = desk._answer

    def answer_later(episode):
        projects.choose_clocks(ada, True)
        answer(episode)

    desk._answer = answer_later
    episode, tries = desk.played(plan(), Faults())
    assert (episode.state, episode.clocks, tries) == ("finished", "recorded", 2)
