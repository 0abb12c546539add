"""A parked episode whose app writes what no record holds goes on with the database that it had, and says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync

from experts.models import Ask
from runs.play import certifying
from tests.awmenv.conftest import eventually
from tests.browsing import as_person, html
from tests.runs.faulty import Faults, plan_of

pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)
TURNS = [["a", "drift"], ["ask"], ["b"]]


@pytest.fixture
def kept(desk, words):
    """Where the server keeps snapshots. An ask is answered once one is there, and `before_answer` has run."""
    folder, answer = words[0].run_dir / "cache" / "worlds", desk._answer
    here = SimpleNamespace(folder=folder, known=set(folder.glob("*")), before_answer=lambda: None)

    def answer_later(episode):
        if Ask.objects.open().filter(episode=episode).exists():
            assert eventually(lambda: set(folder.glob("[0-9a-f]*")) - here.known)
            here.before_answer()
        answer(episode)

    desk._answer = answer_later
    return here


def restored(episode):
    return list(episode.events.filter(verb="restored").values_list("reason", flat=True))


def test_other_rows_are_put_back_and_the_history_says_so(desk, kept, ada):
    episode, tries = desk.played(plan_of(TURNS), Faults())
    assert (episode.state, episode.fault, tries) == ("finished", "", 2)
    assert restored(episode) == ["attempt 2, grade database: drift, call 2, leaves another database"]
    assert episode.outcomes.get().reward_type == "others" and episode.world["final"]
    assert "grade database: drift, call 2" in html(as_person(ada).get(f"/episodes/{episode.pk}/?tab=history"))
    certificate = async_to_sync(certifying.certify_episode)(episode)
    assert (certificate.grade, certificate.checked) == ("database", 3)
    assert certificate.difference == "drift, call 2, leaves another database"
    assert "certified, 3 of 3 calls, rows put back" in html(as_person(ada).get(f"/episodes/{episode.pk}/"))
    for path in kept.folder.glob("*"):
        path.unlink()
    alone = async_to_sync(certifying.certify_episode)(episode)
    assert (alone.grade, alone.checked) == ("refused", 1)


def test_without_a_snapshot_nothing_is_guessed(desk, kept):
    kept.before_answer = lambda: [path.unlink() for path in kept.folder.glob("*")]
    episode, _ = desk.played(plan_of(TURNS), Faults())
    assert (episode.state, episode.fault, restored(episode)) == ("failed", "environment", [])
    assert "drift, call 2, leaves another database" in episode.fault_detail
