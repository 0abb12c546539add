"""The page of a queue lists what one gave and whether it differs, and has the instructions for its reviewers."""

from __future__ import annotations

import pytest
from django.urls import reverse

from episodes.models import Episode
from people.models import AuditEntry
from reviews.record import assigning, deciding, schemas
from reviews.record.deciding import Wanted
from reviews.visible.own import own_reviews
from tests.browsing import as_person, html
from tests.reviews.conftest import ended

pytestmark = pytest.mark.django_db


def rows(person, queue):
    return [(one.words, one.against) for one in own_reviews(person, queue, 9)]


def give(person, queue, decision):
    lease = assigning.pull(person, queue.pk)
    deciding.decide(person, lease.review_id, lease.lease_token, Wanted(decision))
    return lease.review_id


def test_list_says_what_one_gave_and_whether_it_differs(ada, rita, queue):
    for key in "abc":
        ended(ada, key)
    assigning.fill(ada, queue.pk, Episode.objects.all())
    differs, agrees = give(rita, queue, "accept"), give(rita, queue, "reject")
    held = assigning.pull(rita, queue.pk).review_id
    assert rows(rita, queue) == [("Claimed", ""), ("Reject", "agrees"), ("Accept", "differs")]
    page = html(as_person(rita).get(reverse("review_queue", args=[queue.pk])))
    listed = page[page.index("Your reviews") :]
    places = [listed.index(pk) for pk in (held, agrees, differs)]
    assert places == sorted(places)
    beside = html(as_person(rita).get(reverse("review", args=[held])))
    assert 'Accept,<span class="bad">differs</span>' in beside and "Reject,<span >agrees</span>" in beside


def test_list_compares_with_no_outcome_that_is_withheld(ada, rita, queue, review):
    give(rita, queue, "accept")
    assert rows(rita, queue) == [("Accept", "differs")]
    # another blind queue waits for the same person
    other = assigning.create_queue(ada, "Other")
    assigning.fill(ada, other.pk, Episode.objects.all())
    assert rows(rita, queue) == [("Accept", "")]
    page = html(as_person(rita).get(reverse("review_queue", args=[queue.pk])))
    assert "differs" not in page


def test_instructions_are_markdown_beside_each_review(ada, rita, queue, review):
    schemas.define(ada, "tone", "Tone of voice", "single", ["Kind", "Curt"])
    save = reverse("instruct_review_queue", args=[queue.pk])
    assert as_person(rita).post(save, {"instructions": "mine"}).status_code == 403
    as_person(ada).post(save, {"instructions": "Reject if:\r\n\r\n- **two** tickets are shut\n<b>no</b>"})
    line = AuditEntry.objects.get(verb="queue.instructed")
    assert (line.target, "two** tickets" in line.reason) == (queue.pk, True)
    as_person(ada).post(save, {"instructions": "Reject if:\n\n- **two** tickets are shut\n<b>no</b>"})
    assert AuditEntry.objects.filter(verb="queue.instructed").count() == 1, "saving the same text is no change"
    page = html(as_person(rita).get(reverse("review", args=[review.pk])))
    guide = " ".join(page[page.index("guide") :].split())[:900]
    assert "<b>two</b>tickets" in guide and "&lt;b&gt;no" in guide
    assert "Tone of voice" in html(as_person(rita).get(reverse("review_queue", args=[queue.pk])))
    refused = as_person(ada).post(save, {"instructions": "x" * 10_001})
    assert refused.status_code == 422 and "at most 10,000 characters, not 10,001" in html(refused)


def test_labels_come_before_the_verdict(ada, rita, queue, review):
    schemas.define(ada, "tone", "Tone of voice", "single", ["Kind", "Curt"])
    assigning.claim(rita, review.pk)
    page = html(as_person(rita).get(reverse("review", args=[review.pk])))
    assert page.index("after labels") < page.index("Verdict on the episode") < page.index("data-correct-form")
