"""A refused form shows its reason above the same page, with all that was typed."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from reviews.models import ReviewSlot, Verdict
from reviews.record import assigning
from tests.browsing import as_person, html

VERDICT = {
    "decision": "accept",
    "failure_type": "missed_step",
    "asked": ["Right ticket", "items"],
    "met": ["items"],
    "confidence": "low",
    "note": "My note",
}


@pytest.fixture
def queue(ada):
    return assigning.create_queue(ada, "First look", rubric=["Right ticket", "items"])


def tag(page: str, start: str) -> str:
    """Return the tag of a page that has these attributes, spaces folded."""
    return next(one for one in re.findall(r"<[^>]+>", " ".join(page.split())) if start in one)


def test_refused_verdict_keeps_rubric_and_confidence(rita, review):
    lease = assigning.claim(rita, review.pk)
    address = reverse("review_command", args=[review.pk, "verdict"])
    answer = as_person(rita).post(address, {**VERDICT, "lease_token": lease.lease_token})
    assert answer.status_code == 422
    page = html(answer)
    assert "Missed step" in page and "> missed_step" not in page
    assert "An accepted episode has no failure type." in page and "My note" in page
    assert "checked" in tag(page, 'name="met" value="items"')
    assert "checked" not in tag(page, 'name="met" value="Right ticket"')
    assert "selected" in tag(page, '<option value="low"') and "selected" not in tag(page, '<option value="high"')


def test_confidence_is_not_preset(rita, review):
    lease = assigning.claim(rita, review.pk)
    page = html(as_person(rita).get(reverse("review", args=[review.pk])))
    assert "selected" not in page[page.index('name="confidence"') :][:600]
    given = {**VERDICT, "decision": "reject", "confidence": "", "lease_token": lease.lease_token}
    as_person(rita).post(reverse("review_command", args=[review.pk, "verdict"]), given)
    assert Verdict.objects.get().confidence == ""


def test_late_verdict_shows_rubric_and_confidence(rita, edo, review):
    lease = assigning.claim(rita, review.pk)
    ReviewSlot.objects.filter(review=review).update(holder=edo.key)
    address = reverse("review_command", args=[review.pk, "verdict"])
    given = {**VERDICT, "decision": "reject", "lease_token": lease.lease_token}
    answer = as_person(rita).post(address, given)
    assert answer.status_code == 409
    for page in (html(answer), html(as_person(rita).get(reverse("review", args=[review.pk])))):
        said = " ".join(page.split())
        assert "Confidence: Low" in said and "Right ticket: not met" in said and "items: met" in said


def test_refused_label_keeps_what_was_typed(ada):
    given = {"name": "Bad Name", "title": "My title", "kind": "multi", "options": "First one\nSecond one"}
    answer = as_person(ada).post("/reviews/labels", given)
    page = html(answer)
    assert answer.status_code == 422 and "A label name must be 1 to 60 lowercase letters" in page
    assert 'value="Bad Name"' in page and 'value="My title"' in page and "Second one</textarea>" in page
    assert "selected" in tag(page, '<option value="multi"') and page.count("Bad Name") == 1


def test_refused_fill_keeps_what_was_typed(ada, queue, episode):
    given = {"scenario": "desk_1", "sample": "abc", "seed": "5"}
    answer = as_person(ada).post(reverse("fill_review_queue", args=[queue.pk]), given)
    page = html(answer)
    assert answer.status_code == 422 and "Enter a whole number instead of abc." in page
    assert "selected" in tag(page, '<option value="desk_1"') and 'value="abc"' in tag(page, 'name="sample"')
    assert 'value="5"' in tag(page, 'name="seed"') and not queue.reviews.exists()


def test_queue_closes_whatever_its_other_fields_say(ada, queue):
    sent = {"close": "1", "seed": "99999999999", "sample": "x"}
    assert as_person(ada).post(reverse("fill_review_queue", args=[queue.pk]), sent).status_code == 302
    queue.refresh_from_db()
    assert queue.closed_at is not None


def test_refused_selection_stays_selected(ada, queue, episode):
    assigning.close_queue(ada, queue.pk)
    answer = as_person(ada).post(reverse("add_to_queue"), {"queue": queue.pk, "episode": [episode.pk]})
    assert answer.status_code == 409 and f'name="episode" value="{episode.pk}"' in html(answer)
    assert "Choose an open queue. Nothing was added." in html(answer)
