"""Steps of kind briefing in the record: what pages and readers see of one, and from whom its words are withheld."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from awmclient.schema import EpisodeStart, StepBatch
from episodes.find import search_text
from episodes.models import Episode, OutcomeHold
from episodes.record import indexing, recording
from episodes.show.step_cards import card_of
from episodes.stored.entries import entry_of
from episodes.stored.strip import actions_in, code_of, in_words
from episodes.visible import trajectory
from episodes.visible.lens import lens_of
from people.errors import Invalid
from reviews.record import annotating
from reviews.visible.places import Place
from tests.browsing import as_person, html
from tests.people_by_name import token

BLIND = {
    "seq": 1,
    "kind": "briefing",
    "text": "Refunds go <b>first</b>.",
    "author": "Mina Park",
    "sources": ["e1", "a/b"],
}
INFORMED = {**BLIND, "text": "Two of three failed at the refund.", "privilege": "sees_verifier", "source": "llm"}
WORDS = "Two of three"


def briefed(actor, step, **more):
    start = EpisodeStart(key=f"k{Episode.objects.count()}", task="refund", scenario="desk_1", task_idx=3, **more)
    episode, _ = recording.start_episode(actor, start)
    recording.append_steps(actor, episode.pk, StepBatch.model_validate({"steps": [step]}).steps)
    return episode


def test_card_shows_words_only_of_a_blind_briefing():
    card = card_of(BLIND).briefing
    assert (card.author, card.sight, card.text, card.human) == ("Mina Park", "blind", "Refunds go <b>first</b>.", True)
    assert card.sources == ["e1"], "what is no id is no link"
    card = card_of(INFORMED).briefing
    assert (card.sight, card.text, card.apart, card.human) == ("sees verifier", "", True, False)


def test_strip_marks_a_briefing_that_counts_as_no_action():
    assert code_of(BLIND) == "b" and actions_in("br") == 1 and in_words("b") == "1 step: 1 briefing"


def test_words_of_an_informed_briefing_are_not_searched():
    assert search_text.text_of(BLIND).startswith("Refunds") and search_text.text_of(INFORMED) == ""


def test_stream_carries_no_words_of_an_informed_briefing():
    told = json.loads(trajectory.as_sent(entry_of(INFORMED, timezone.now())))
    assert told["text"] == "" and told["cut"]["fields"] == ["text"] and told["author"] == "Mina Park"
    assert json.loads(trajectory.as_sent(entry_of(BLIND, timezone.now())))["text"] == BLIND["text"]


@pytest.mark.django_db(transaction=True)
def test_page_escapes_the_words_and_names_whose_they_are(ada, rita):
    page = html(as_person(rita).get(briefed(ada, BLIND).get_absolute_url()))
    assert (
        "Refunds go &lt;b&gt;first&lt;/b&gt;." in page
        and "Mina Park" in page
        and 'href="/projects/lab/episodes/e1/"' in page
    )


@pytest.mark.django_db(transaction=True)
def test_blind_reviewer_of_the_task_reads_no_informed_words(ada, rita, edo):
    episode, other = briefed(ada, INFORMED), briefed(ada, {**BLIND, "text": "x"})
    url = episode.get_absolute_url()
    reader, judge = as_person(rita), as_person(edo)
    assert WORDS not in html(reader.get(url)), "pictures of steps are kept for all readers"
    for address in (f"{url}briefing/1", f"{url}?raw=1"):
        assert WORDS in html(reader.get(address)) and WORDS in html(judge.get(address))
    assert reader.get(f"{url}find?q={WORDS}").json()["seqs"] == [1]
    OutcomeHold.objects.create(episode=other, actor_key=f"user:{edo.person.pk}", by="review")
    for address in (url, f"{url}briefing/1", f"{url}?raw=1", f"/api/v1/episodes/{episode.pk}/steps"):
        assert WORDS in html(reader.get(address)) or address == url
        assert WORDS not in html(judge.get(address)), address
    assert "Withheld until your verdict" in html(judge.get(f"{url}briefing/1"))
    assert judge.get(f"{url}find?q={WORDS}").json()["seqs"] == []


@pytest.mark.django_db(transaction=True)
def test_blind_reviewer_quotes_no_informed_words(ada, rita, edo):
    episode, other = briefed(ada, INFORMED), briefed(ada, {**BLIND, "text": "x"})
    annotating.annotate(rita, episode, Place(1, "$.text", 0, 12), "comment", "Mind this", quote=WORDS)
    judge, said = as_person(edo), f"/reviews/said/{episode.pk}/"
    assert WORDS in html(judge.get(said))
    OutcomeHold.objects.create(episode=other, actor_key=edo.key, by="review")
    assert "Mind this" in html(judge.get(said)) and WORDS not in html(judge.get(said))
    for quote in (None, WORDS, "Two or three"):
        with pytest.raises(Invalid, match="has 0 characters"):
            annotating.annotate(edo, episode, Place(1, "$.text", 0, 12), "comment", "y", quote=quote)
    annotating.annotate(edo, episode, Place(1, "$.text"), "comment", "z", quote=WORDS)
    assert WORDS not in html(judge.get(said)) and WORDS in html(as_person(rita).get(said))


@pytest.mark.django_db(transaction=True)
def test_agent_reads_informed_words_of_its_own_loop_only(ada, project):
    agent = token(project, "agent")[0]
    own = briefed(agent, INFORMED)
    assert WORDS in trajectory.page_text(lens_of(agent, own), own)
    built_in = briefed(ada, INFORMED)
    Episode.objects.filter(pk=built_in.pk).update(origin="builtin")
    built_in.refresh_from_db()
    assert WORDS not in trajectory.page_text(lens_of(agent, built_in), built_in)


@pytest.mark.django_db(transaction=True)
def test_index_finds_a_blind_briefing(ada, rita):
    episode = briefed(ada, BLIND)
    indexing.work()
    assert episode.pk in html(as_person(rita).get("/episodes/?q=refunds"))
