"""A verdict that its author changes: both are kept, and each count says which of them it takes."""

from __future__ import annotations

import pytest

from episodes.models import Episode
from reviews.errors import NotBeforeVerdict, ReviewClosed
from reviews.models import Verdict
from reviews.record import assigning, deciding
from reviews.record.deciding import Wanted
from reviews.statistics import reports
from tests.browsing import as_person

pytestmark = pytest.mark.django_db


@pytest.fixture
def given(rita, review):
    """An accepting verdict by mistake: the verifier says that the task is not complete."""
    lease = assigning.claim(rita, review.pk)
    return deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept", note="slip", nonce="n"))


def test_changed_verdict_keeps_the_first_and_counts(ada, rita, queue, review, given):
    assert given.is_blind and deciding.reveal(rita, review.pk).differs
    changed = deciding.change(rita, review.pk, Wanted("reject", failure_type="wrong_goal"))
    assert changed.supersedes == given and not changed.is_blind and not changed.is_late
    assert deciding.change(rita, review.pk, Wanted("reject", failure_type="wrong_goal")) == changed, "nothing to change"
    shown = deciding.reveal(rita, review.pk)
    assert (shown.mine, shown.first, shown.differs) == (changed, given, False)
    assert deciding.counted(review) == ["reject"]
    assert reports.progress(rita, queue).mine == 1
    first = reports.judged(ada, queue, as_given=True)[review.pk]
    assert first[rita.key] == "accept" and reports.judged(ada, queue)[review.pk][rita.key] == "reject"
    [line] = [one for one in reports.lines(ada, queue) if one.title == "People and verifier, verdict"]
    assert line.figures.percent == 0, "agreement keeps what was said without the outcome in sight"
    assert reports.blind_verdicts(Episode.objects.all()) == {}


def test_change_is_refused_before_a_verdict_and_after_the_end(ada, rita, edo, queue, review, given):
    with pytest.raises(NotBeforeVerdict):
        deciding.change(edo, review.pk, Wanted("reject"))
    assigning.close_queue(ada, queue.pk)
    with pytest.raises(ReviewClosed):
        deciding.change(rita, review.pk, Wanted("reject"))
    assert Verdict.objects.count() == 1


def test_page_shows_verdict_reasons_and_change_without_a_load(rita, review, given):
    browser = as_person(rita)
    page = browser.get(f"/reviews/{review.pk}/").content.decode()
    assert page.index("Your verdict differs from the verifier.") < page.index("data-place-bar")
    answer = browser.post(
        f"/reviews/{review.pk}/change",
        {"decision": "reject", "note": "", "at": "2"},
        headers={"Accept": "application/json"},
    ).json()
    assert "first Accept" in answer["page"]
    assert 'value="2"' in answer["page"], "the step in view stays"
    assert Verdict.objects.counted().get().decision == "reject"


def test_reason_opens_the_next_review(ada, rita, edo, episode):
    queue = assigning.create_queue(ada, "Alone", is_blind=False)
    assigning.fill(ada, queue.pk, Episode.objects.all())
    lease = assigning.pull(rita, queue.pk)
    browser = as_person(rita)
    wanted = {"decision": "accept", "lease_token": lease.lease_token, "at": "1"}
    first = browser.post(f"/reviews/{lease.review_id}/verdict-next", wanted).json()
    assert first["differs"] and "next" not in first and 'data-reason="1"' in first["page"]
    last = browser.post(f"/reviews/{lease.review_id}/go-on", {"explanation": "i_was_wrong"}).json()
    assert last == {"next": f"/projects/lab/reviews/queues/{queue.pk}/"}
    assert deciding.reveal(rita, lease.review_id).explanation == "i_was_wrong"
