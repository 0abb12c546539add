"""What Home and Review say of open reviews, and who is offered a claim of an ask."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

from awmclient.schema import EpisodeStart
from episodes.models import Episode
from episodes.record import recording
from people.models import Role
from reviews.record import assigning, deciding
from reviews.statistics import reports
from tests.browsing import as_person, html
from tests.people_by_name import person
from tests.reviews.conftest import ended

pytestmark = pytest.mark.django_db


def test_home_and_review_count_what_is_open_for_a_reviewer(ada, rita, queue, episode):
    other = ended(ada, "two")
    assigning.fill(ada, queue.pk, Episode.objects.all())
    page = html(as_person(rita).get("/"))
    assert "<h1>2 reviews are open for you.</h1>" in page and f"/reviews/queues/{queue.pk}/next" in page
    assert "4 reviews are open, 2 for you." in html(as_person(rita).get("/reviews/"))
    held = assigning.pull(rita, queue.pk)
    assert "1 claimed by you, 1 open, blind" in html(as_person(rita).get("/"))
    left = next(one for one in queue.reviews.all() if one.pk != held.review_id)
    assigning.decline(rita, left.pk)
    [told] = reports.waiting_for(rita, timezone.now())
    assert (told.held, told.free) == (1, 0) and other.pk in queue.reviews.values_list("episode_id", flat=True)
    assert [one.free for one in reports.waiting_for(ada, timezone.now())] == [2]
    assigning.close_queue(ada, queue.pk)
    assert not reports.waiting_for(rita, timezone.now()) and "No agents are running." in html(as_person(rita).get("/"))


def test_open_queues_are_listed_before_closed_ones(ada, queue):
    newer = assigning.create_queue(ada, "Second look", reviews_required=1)
    assigning.close_queue(ada, newer.pk)
    page = html(as_person(ada).get("/reviews/"))
    assert page.index("First look") < page.index("Second look")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
@pytest.mark.parametrize("address", ["/", "/queue/", "/episodes/", "/reviews/"])
def test_no_claim_is_offered_to_roles_without_the_right(project, role, address):
    page = html(as_person(person(project, "una", role)).get(address))
    assert not re.search("[Cc]laim(?!ed)", page) and "data-duty" not in page


def test_reason_of_a_decline_is_optional_and_shown_to_leads(ada, edo, rita, queue, review):
    client, held = as_person(rita), assigning.claim(rita, review.pk)
    assert 'name="reason"' in html(client.get(f"/reviews/{review.pk}/"))
    said = {"lease_token": held.lease_token, "reason": "I wrote <this> task."}
    client.post(f"/reviews/{review.pk}/decline", said)
    assigning.decline(edo, review.pk)
    lead = html(as_person(ada).get(f"/reviews/queues/{queue.pk}/"))
    assert "I wrote &lt;this&gt; task." in lead and lead.count("<small>rita,") == 1 and "<small>edo," not in lead
    assert "I wrote" not in html(client.get(f"/reviews/queues/{queue.pk}/")), "for those who set up reviews"
    assigning.claim(ada, review.pk)
    assert "I wrote" not in html(as_person(ada).get(f"/reviews/queues/{queue.pk}/")), "ada still has to judge it"


def test_share_of_a_sample_says_what_its_interval_is(ada, rita, queue):
    for key in ("one", "two"):
        ended(ada, key)
    assigning.fill(ada, queue.pk, Episode.objects.all(), sample=2)
    for review in queue.reviews.all():
        claim = assigning.claim(rita, review.pk)
        deciding.decide(rita, review.pk, claim.lease_token, deciding.Wanted("accept"))
    assert "2 of 2 accepted <small>(95% interval 34% to 100%, for the episodes that it was drawn from)</small>" in html(
        as_person(ada).get(f"/reviews/queues/{queue.pk}/")
    )


def test_queueing_waits_until_an_episode_can_be_reviewed(ada, project):
    going, _ = recording.start_episode(ada, EpisodeStart(key="going", task="t"))
    page = as_person(ada)
    assert '<button class="btn main" disabled>Queue for review' in html(page.get(f"/reviews/add/?episode={going.pk}"))
    done = ended(ada, "done")
    assert '<button class="btn main">Queue for review' in html(page.get(f"/reviews/add/?episode={done.pk}"))


def test_episodes_of_one_task_are_told_apart_where_judges_differ(ada, edo, rita, queue):
    two = [ended(ada, key) for key in ("one", "two")]
    assigning.fill(ada, queue.pk, Episode.objects.all())
    for actor, said in ((rita, "accept"), (edo, "reject")):
        for review in queue.reviews.all():
            claim = assigning.claim(actor, review.pk)
            deciding.decide(actor, review.pk, claim.lease_token, deciding.Wanted(said))
    for address in ("/reviews/agreement/", f"/reviews/queues/{queue.pk}/"):
        page = html(as_person(ada).get(address))
        assert all(f"desk_1 / 3 · {one.pk[-6:]}" in page for one in two)


def test_page_rendered_ahead_lists_a_held_review_once(ada, rita, queue, episode):
    ended(ada, "two")
    assigning.fill(ada, queue.pk, Episode.objects.all())
    here, held = queue.reviews.all()
    for one in (held, here):  # who goes back after "Give and next" holds two
        assigning.claim(rita, one.pk)
    ahead = as_person(rita).get(f"/reviews/{here.pk}/ahead").json()
    assert ahead["review"] == held.pk
    assert len(re.findall(rf'<a[^>]*/reviews/{held.pk}/"[^>]*>', ahead["page"])) == 1
