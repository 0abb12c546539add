"""The recorded demo: loaded once, whole or not at all, every page answers from it, and a button removes it."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.core.management import call_command

from awmclient.schema import EpisodeStart
from awmweb.demo import due, loading, removing, rows
from episodes.models import Episode, Run
from episodes.record import recording
from experts.models import Ask
from experts.record import opening
from exports.models import Export
from people.access import system
from people.models import AuditEntry, verb_in_words
from reviews.models import ReviewQueue
from runs.models import Plan
from runs.show import asking
from runs.show.comparison import compare_run
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db


@pytest.fixture
def loaded(ada):
    due.ask_for(system(ada.project))
    assert due.due() == [ada.project.pk]
    assert loading.load(ada.project.pk)
    return {run.key: run for run in Run.objects.all()}


PAGES = {
    "/": "Recorded demo",
    "/runs/": "demo: does an expert help?",
    "/reviews/": "demo: check the verifier",
    "/reviews/agreement/": "2 of 2 pairs",
    "/curriculum/": "step 12",
    "/metrics/": "33 of 33 asks were answered in time",
    "/exports/": "rows from",
    "/episodes/": "114 outcomes",
}


def test_every_page_of_the_bar_answers_from_the_demo(ada, loaded):
    client = as_person(ada)
    for path, words in PAGES.items():
        assert words in " ".join(html(client.get(path)).split()), path
    page = html(client.get(f"/runs/{loaded[rows.ARMS].pk}/"))
    assert "Better on these 21 tasks: +76 points" in page and "<svg" in page
    assert "demo: " in page and Plan.objects.get().state == "finished"
    queue = ReviewQueue.objects.get()
    assert queue.reviews.count() == 8 and queue.reviews.filter(verdicts__isnull=False).distinct().count() == 2


SECOND_WORDS = {
    "baseline": "off",
    "expert": "plain",
    "given": "submitted",
    "gave": "given standing",
    "external loops": "without a plan",
    "no help asked": "no_help_asked",
}
"""What pages say, and the second word for it that none of them has."""


def test_pages_have_one_word_for_one_thing(ada, loaded):
    client, run = as_person(ada), loaded[rows.ARMS].pk
    queue = ReviewQueue.objects.get().pk
    paths = [f"/runs/{run}/", f"/episodes/?run={run}", f"/reviews/queues/{queue}/", "/legend/", "/audit/", *PAGES]
    paths.remove("/exports/")  # its preview is what agents wrote
    exports = html(client.get("/exports/"))
    assert '<option value="plain">Expert</option>' in exports and "Kind of arm" in exports
    assert "fell back</span>" in html(client.get("/episodes/"))  # the legend
    for path in paths:
        main = html(client.get(path)).partition("<main")[2].partition("</main>")[0]
        text = re.sub(r"<(script|style|select|pre|code)\b.*?</\1>|<[^>]*>", " ", main, flags=re.DOTALL)
        for second in SECOND_WORDS.values():
            hit = re.search(rf".{{0,40}}\b{second}\b.{{0,40}}", " ".join(text.split()), re.IGNORECASE)
            assert hit is None, (path, hit and hit[0])


def test_stored_verbs_are_in_the_past_tense():
    verbs = ("standing_answer.given", "briefing.written", "curriculum.undone", "export.requested", "episode.rerun")
    said = [verb_in_words(one) for one in verbs]
    assert said == ["gave standing answer", "wrote briefing", "undid curriculum", "requested export", "reran episode"]
    assert (
        verb_in_words("run.seeds_added") == "added seeds to run" and verb_in_words("desk.changed") == "changed routing"
    )


def test_recorded_questions_have_the_blockers_that_they_match(ada, loaded):
    """A column that is newer than the recording has its default there, which for a match says that there is none."""
    for ask in Ask.objects.select_related("episode"):
        blocker = opening._blocker_of(ask.episode, ask.question)
        assert blocker is not None and ask.blocker == blocker.id, ask.question
    by_arm = {one.arm: one for one in asking.asking_of(compare_run(ada, loaded[rows.ARMS].pk)).arms}
    assert by_arm["baseline"].asks == 0 and (by_arm["expert"].precision, by_arm["expert"].f1) == (
        1,
        pytest.approx(0.97, abs=0.005),
    )


def test_demo_is_loaded_once_and_ends_now(ada, loaded):
    assert not loading.load(ada.project.pk) and not due.due()
    assert Episode.objects.count() == 114
    newest = Episode.objects.latest("ended_at")
    assert -5 < (AuditEntry.objects.get(verb=due.LOADED).at - newest.ended_at).total_seconds() < 60
    assert newest.steps.latest("seq").wire()["at"] >= newest.started_at.isoformat()[:19]


def test_demo_killed_in_the_middle_is_due_again(ada, monkeypatch):
    due.ask_for(system(ada.project))
    with monkeypatch.context() as patched:
        patched.setattr(loading.requesting, "request", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loading.load(ada.project.pk)
    assert not Episode.objects.exists() and due.due() == [ada.project.pk]
    assert loading.load(ada.project.pk)


def test_button_removes_the_demo_and_nothing_else(ada, rita, loaded):
    kept, _ = recording.start_episode(ada, EpisodeStart(key="mine", task="stay"))
    mine = {kept.pk}
    before = AuditEntry.objects.count()
    assert as_person(rita).post("/demo/remove").status_code == 403
    as_person(ada).post("/demo/remove")
    assert set(Episode.objects.values_list("pk", flat=True)) == mine
    left = {label: apps.get_model(label).objects.count() for label in rows.TABLES if not label.startswith("episodes.")}
    assert (
        set(left.values()) == {0} and not Export.objects.exists() and not Run.objects.exclude(pk=kept.run_id).exists()
    )
    assert AuditEntry.objects.count() == before + 2, "the export's line and the demo's"
    assert not due.due() and removing.demo_of(ada) is None
    assert "Recorded demo" not in html(as_person(ada).get("/"))


@pytest.mark.parametrize("wants", [True, False])
def test_first_start_asks_for_the_demo_unless_it_is_off(db, settings, wants):
    settings.AWMWEB_DEMO = wants
    call_command("bootstrap")
    assert bool(due.due()) is wants
