"""The page of a pair: A and B without arm and outcome, answers that go on to the next pair, and undo."""

from __future__ import annotations

import pytest
from django.urls import reverse

from episodes.models import Episode
from reviews.models import Preference, ReviewQueue
from reviews.record import assigning
from reviews.visible.pairs import OVERALL, sides
from tests.browsing import as_person, html
from tests.reviews.conftest import ended

pytestmark = pytest.mark.django_db
CLEARER = "Which is clearer?"


def command(review, name):
    return reverse("review_command", args=[review, name])


@pytest.fixture
def queue(ada):
    """A queue of two pairs, made on the pages."""
    for task in (1, 1, 2, 2):
        ended(ada, f"{task}-{Episode.objects.count()}", "complete", 1.0, task_idx=task, row=Episode.objects.count())
    Episode.objects.update(arm="with quagga")
    made = {"name": "Pairs", "kind": "pairwise", "reviews_required": "1", "rubric": CLEARER, "is_blind": "1"}
    page = as_person(ada)
    there = page.post(reverse("reviews"), made).url
    queue = ReviewQueue.objects.get()
    page.post(reverse("fill_review_queue", args=[queue.pk]), {"scenario": "desk_1"})
    shown = html(page.get(there))
    assert "Added 2 pairs." in shown and CLEARER in shown and "Add a gold item" not in shown
    return queue


def test_pair_shows_neither_arm_nor_outcome(ada, rita, queue):
    review = queue.reviews.select_related("queue", "episode", "other").first()
    for person in (rita, ada):
        assigning.claim(person, review.pk) if person is rita else None
        page = html(as_person(person).get(reverse("review", args=[review.pk])))
        told = page[page.index('id="main"') : page.index("<script", page.index('id="main"'))]
        for word in ("quagga", "zebra-detail", "complete", "/episodes/"):
            assert word not in told, word
    assert "The first step is the same in A and B" in told
    assert told.count('id="A-step-') == told.count('id="B-step-') == 2 and 'id="step-' not in told


def test_prompts_of_one_side_are_shown_once_outcomes_are_open(ada, rita):
    queue = assigning.create_queue(ada, "Prompts", kind="pairwise")
    for number, word in enumerate(("asked", "not asked")):
        said = {"system": "Be quick.", "user": f"An expert can be {word}. Shut ticket 7."}
        before = [{"kind": "message", "role": role, "content": content} for role, content in said.items()]
        before.append({"kind": "briefing", "text": f"Briefed: {word}.", "author": "Ada"})
        ended(ada, f"prompted {number}", row=number, before=before)
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 1
    pk = assigning.pull(rita, queue.pk).review_id
    page = as_person(rita)
    shown = html(page.get(reverse("review", args=[pk])))
    assert "An expert can be" not in shown and "Briefed:" not in shown and shown.count("Be quick.") == 2
    assert "The first 2 steps are the same in A and B" in " ".join(shown.split())
    token = assigning.claim(rita, pk).lease_token
    page.post(command(pk, "prefer"), {"lease_token": token, "answer-0": "a", "then": "stay"})
    shown = html(page.get(reverse("review", args=[pk])))
    assert "An expert can be not asked." in shown and "Briefed: asked." in shown


def test_answer_goes_to_the_next_pair_and_is_undone_there(rita, queue):
    page = as_person(rita)
    first = page.post(reverse("next_review", args=[queue.pk])).url
    pk = first.rstrip("/").rpartition("/")[2]
    token = assigning.claim(rita, pk).lease_token
    said = {"lease_token": token, "answer-0": "b", "answer-1": "equal", "nonce": "n", "then": "next"}
    second = page.post(command(pk, "prefer"), said).url
    assert second != first
    row = Preference.objects.select_related("review__queue", "review__episode", "review__other").get()
    chosen = sides(rita, row.review)[1].pk
    assert (row.choice == "first") == (chosen == row.review.episode_id) and row.answers == {CLEARER: "equal"}
    shown = html(page.get(second))
    assert "Last pair: B." in shown and "Undo last answer" in shown
    again = page.post(command(second.rstrip("/").rpartition("/")[2], "undo-answer")).url
    assert again == first and "Undone. Answer again." in html(page.get(again))
    assert not Preference.objects.counted().exists()


def test_last_answer_opens_arms_and_outcomes(rita, edo, queue):
    page = as_person(rita)
    for letter in "ab":
        pk = assigning.pull(rita, queue.pk).review_id
        token = assigning.claim(rita, pk).lease_token
        answer = page.post(
            command(pk, "prefer"), {"lease_token": token, "answer-0": letter, "answer-1": "a", "then": "next"}
        )
    assert answer.url.endswith(reverse("review_queue", args=[queue.pk]))
    listed = html(page.get(answer.url))
    assert "No pair is left for you." in listed and listed.index("Your reviews") and 'class="push">B</small>' in listed
    shown = html(page.get(reverse("review", args=[pk])))
    assert "with quagga" in shown and "Your answer" in shown and "Complete" in shown


def test_refused_answer_keeps_what_was_chosen(rita, queue):
    pk = assigning.pull(rita, queue.pk).review_id
    refused = as_person(rita).post(command(pk, "prefer"), {"lease_token": "x", "answer-1": "a"})
    shown = html(refused)
    assert refused.status_code == 422 and f"Answer this question: {OVERALL}" in shown
    assert 'name="answer-1" value="a" checked' in shown


def test_rubrics_question_without_an_answer_is_named(rita, queue):
    pk = assigning.pull(rita, queue.pk).review_id
    token = assigning.claim(rita, pk).lease_token
    refused = as_person(rita).post(command(pk, "prefer"), {"lease_token": token, "answer-0": "a"})
    assert refused.status_code == 422 and f"Answer this question: {CLEARER}" in html(refused)
    assert not Preference.objects.exists()


def test_queues_page_counts_the_pairs_that_were_left_out(ada, queue):
    for number in range(2):
        ended(ada, f"same {number}", task_idx=9)
    page = as_person(ada)
    page.post(reverse("fill_review_queue", args=[queue.pk]), {"scenario": "desk_1"})
    shown = html(page.get(reverse("review_queue", args=[queue.pk])))
    assert "The last fill left out 1 pair whose two sides are the same." in " ".join(shown.split())
