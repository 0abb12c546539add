"""Review queues: claims, leases, gold, samples, declines."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone

from awmclient.schema import EpisodeStart
from episodes.models import Episode
from episodes.record import noting, recording
from people.access import system
from people.errors import Forbidden, Invalid, NotFound, WrongScope
from people.record import members
from reviews.errors import (
    AlreadyReviewed,
    Declined,
    NothingToReview,
    NotSettled,
    ReviewClaimed,
    ReviewClosed,
    ReviewLeaseLost,
)
from reviews.models import Review, ReviewSlot, Verdict
from reviews.record import assigning, deciding
from reviews.record.deciding import Wanted
from reviews.statistics import filling, reports, worth
from tests.browsing import as_person
from tests.people_by_name import person, token
from tests.reviews.conftest import ended


def lapse(review: Review) -> None:
    ReviewSlot.objects.filter(review=review).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_pull_gives_each_reviewer_a_slot_and_never_two(rita, edo, ada, queue, review):
    first = assigning.pull(rita, queue.pk)
    again = assigning.pull(rita, queue.pk)  # what they hold comes first
    assert again.review_id == first.review_id and again.slot_id == first.slot_id
    assert assigning.pull(edo, queue.pk).slot_id != first.slot_id
    with pytest.raises(NothingToReview):
        assigning.pull(ada, queue.pk)
    with pytest.raises(ReviewClaimed):
        assigning.claim(ada, review.pk)


@pytest.mark.django_db(transaction=True)
def test_claim_by_many_at_once_fills_each_slot_once(project, queue, review):
    people = [person(project, f"r{n}", "reviewer") for n in range(5)]

    def take(actor):
        try:
            return assigning.claim(actor, review.pk).slot_id
        except ReviewClaimed:
            return None
        finally:
            connections.close_all()

    with ThreadPoolExecutor(5) as pool:
        got = Counter(pool.map(take, people))
    assert got[None] == 3 and len(got) == 3 and max(n for slot, n in got.items() if slot) == 1


@pytest.mark.django_db(transaction=True)
def test_claim_twice_at_once_by_one_person_is_one_slot(rita, queue, review):
    def take(_):
        try:
            return assigning.claim(rita, review.pk).slot_id
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(take, range(3)))) == 1


def test_strangers_viewers_and_agents_cannot_review(project, max_, review, queue):
    agent, _ = token(project, "agent")
    for actor, refusal in ((max_, NotFound), (person(project, "vera", "viewer"), Forbidden), (agent, WrongScope)):
        with pytest.raises(refusal):
            assigning.claim(actor, review.pk)
        with pytest.raises((refusal, Forbidden, WrongScope)):
            assigning.fill(actor, queue.pk, Episode.objects.all())


def test_expired_lease_counts_until_taken_over(rita, edo, ada, review):
    lease = assigning.claim(rita, review.pk)
    lapse(review)
    assert assigning.renew(rita, review.pk, lease.lease_token).lease_until > timezone.now()
    lapse(review)
    assigning.claim(edo, review.pk)
    lapse(review)
    assigning.claim(ada, review.pk)
    assigning.claim(person(ada.project, "ria", "reviewer"), review.pk)
    with pytest.raises(ReviewLeaseLost):
        assigning.renew(rita, review.pk, lease.lease_token)


def test_verdict_after_a_takeover_is_kept_and_refused(rita, edo, ada, review):
    lease = assigning.claim(rita, review.pk)
    for other in (edo, ada):
        lapse(review)
        assigning.claim(other, review.pk)
    ReviewSlot.objects.filter(review=review, holder=rita.key).update(holder="user:0")
    with pytest.raises(ReviewLeaseLost):
        deciding.decide(rita, review.pk, lease.lease_token, Wanted("reject", note="My words"))
    kept = Verdict.objects.get(author_key=rita.key)
    assert kept.is_late and kept.note == "My words" and deciding.counted(review) == []


def test_late_verdict_sent_again_is_kept_once(rita, edo, ada, review):
    lease, wanted = assigning.claim(rita, review.pk), Wanted("reject", nonce="n1")
    assigning.release(rita, review.pk, lease.lease_token)
    for again in (wanted, wanted, Wanted("reject", nonce="n2")):
        with pytest.raises(ReviewLeaseLost):
            deciding.decide(rita, review.pk, lease.lease_token, again)
    assert Verdict.objects.filter(is_late=True).count() == 2
    token = assigning.claim(rita, review.pk).lease_token
    first = deciding.decide(rita, review.pk, token, wanted)
    assert not first.is_late and deciding.decide(rita, review.pk, token, wanted).pk == first.pk
    assert deciding.counted(review) == ["reject"] and Verdict.objects.count() == 3


def test_closed_queue_refuses_and_keeps_the_verdict(ada, rita, review):
    lease = assigning.claim(rita, review.pk)
    assigning.close_queue(ada, review.queue_id)
    with pytest.raises(ReviewClosed):
        deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept"))
    assert Verdict.objects.get().is_late


def test_decline_is_per_reviewer_and_final(rita, edo, queue, review):
    lease = assigning.claim(rita, review.pk)
    assigning.decline(rita, review.pk, "I wrote the task", lease.lease_token)
    with pytest.raises(Declined):
        assigning.claim(rita, review.pk)
    with pytest.raises(NothingToReview):
        assigning.pull(rita, queue.pk)
    assert assigning.pull(edo, queue.pk).review_id == review.pk


def test_release_and_removal_free_the_slot(ada, rita, review):
    lease = assigning.claim(rita, review.pk)
    assigning.release(rita, review.pk, lease.lease_token)
    assert not ReviewSlot.objects.exclude(state="queued").exists()
    assigning.claim(rita, review.pk)
    members.remove_member(ada, rita.person.memberships.get(project=ada.project).pk)
    assert not ReviewSlot.objects.exclude(state="queued").exists()


def test_fill_is_idempotent_and_leaves_unsettled_ones_out(ada, queue, episode):
    live, _ = recording.start_episode(ada, EpisodeStart(key="live", task="t"))
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 1
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 0
    assert ReviewSlot.objects.count() == 2
    with pytest.raises(NotSettled):
        assigning.add_gold(ada, queue.pk, live.pk, "accept")


def test_episode_that_never_ran_is_not_offered(ada, queue, episode):
    Episode.objects.filter(pk=episode.pk).update(state="cancelled", last_seq=0, scenario="desk")
    mine = Episode.objects.filter(pk=episode.pk)
    assert filling.choices(ada, mine, 100).ready == 0 == assigning.fill(ada, queue.pk, mine)
    assert not any(total for _, _, total, _ in filling.sources(ada, queue)["scenarios"])
    mine.update(last_seq=3)
    assert filling.choices(ada, mine, 100).ready == 1 == assigning.fill(ada, queue.pk, mine)


def test_episode_without_its_verifier_yet_is_not_settled(ada, episode):
    builtin = ended(ada, "built-in", found="")
    assert worth.is_settled(episode) and worth.is_settled(builtin)
    builtin_rows = Episode.objects.filter(pk=builtin.pk)
    builtin_rows.update(origin="builtin")
    assert not worth.is_settled(builtin)
    for changed in ({"fault": "environment"}, {"fault": "", "state": "failed"}):
        builtin_rows.update(**changed)
        assert worth.is_settled(builtin), changed
    builtin_rows.update(state="finished")
    noting.note_unverified(system(ada.project), builtin.pk, "no server")
    assert worth.is_settled(builtin)
    builtin_rows.update(state="running")
    assert not worth.is_settled(builtin)


def test_pull_goes_past_reviews_whose_episode_goes_on(ada, rita, queue):
    for key in ("a", "b", "c"):
        ended(ada, key)
    assigning.fill(ada, queue.pk, Episode.objects.all())
    slots = ReviewSlot.objects.order_by("-worth", "pk")
    held, second, third = dict.fromkeys(slots.values_list("review_id", flat=True))
    assert assigning.pull(rita, queue.pk).review_id == held
    lease = assigning.pull(rita, queue.pk)
    Episode.objects.filter(reviews=second).update(state="running")
    with assigning.as_if_given(rita, held) as following:
        assert following == third
    Episode.objects.filter(reviews=held).update(state="running")
    assert assigning.pull(rita, queue.pk).review_id == third, "neither the held one nor the next can be reviewed now"
    Episode.objects.filter(reviews=held).update(state="finished")
    assert assigning.pull(rita, queue.pk).review_id == held and lease.review_id == held
    Episode.objects.update(state="running")
    with pytest.raises(NothingToReview):
        assigning.pull(rita, queue.pk)


def test_verdict_comes_back_although_the_next_one_goes_on(ada, rita):
    queue = assigning.create_queue(ada, "One each", is_blind=False)
    for key in ("a", "b"):
        ended(ada, key)
    assigning.fill(ada, queue.pk, Episode.objects.all())
    lease = assigning.pull(rita, queue.pk)
    Episode.objects.exclude(reviews=lease.review_id).update(state="running")
    given = {"decision": "reject", "lease_token": lease.lease_token}
    answer = as_person(rita).post(f"/reviews/{lease.review_id}/verdict-next", given)
    assert answer.json() == {"next": f"/projects/lab/reviews/queues/{queue.pk}/"} and Verdict.objects.count() == 1


def test_fill_takes_few_queries_however_many_there_are(ada, django_assert_max_num_queries):
    for number in range(15):
        ended(ada, f"f{number}", found="complete" if number % 2 else "")
    Episode.objects.update(origin="builtin")
    made = assigning.create_queue(ada, "Many")
    with django_assert_max_num_queries(20):
        assert assigning.fill(ada, made.pk, Episode.objects.all()) == 7, "the others wait for their verifier"
    with pytest.raises(Invalid, match="at most 5,000 episodes, not 5,001"):
        assigning.fill(ada, made.pk, Episode.objects.all(), sample=5001)


def test_sample_follows_from_its_seed(ada):
    for number in range(12):
        ended(ada, f"s{number}")
    drawn = []
    # the IDs are new each time, so that two seeds alone would draw the same four in one of 495 runs
    for place, seed in enumerate((7, 7, 8, 9, 10, 11)):
        made = assigning.create_queue(ada, f"q{place}")
        assert assigning.fill(ada, made.pk, Episode.objects.all(), sample=4, seed=seed) == 4
        drawn.append(set(made.reviews.filter(in_sample=True).values_list("episode_id", flat=True)))
    assert drawn[0] == drawn[1] and any(other != drawn[0] for other in drawn[2:])


def test_model_against_verifier_comes_first(ada, rita, project, episode, queue):
    plain = ended(ada, "two", found="complete", reward=1.0)
    program, _ = token(project, "review")
    assigning.fill(ada, queue.pk, Episode.objects.all())
    wrong = queue.reviews.get(episode=plain)
    lease = assigning.claim(program, wrong.pk)
    said = deciding.decide(program, wrong.pk, lease.lease_token, Wanted("reject", model="judge-1"))
    assert (said.author, said.author_kind) == ("judge-1", "model")
    wrong.refresh_from_db()
    assert (wrong.worth, wrong.reason) == (worth.AGAINST_VERIFIER, "model against verifier")
    assert assigning.pull(rita, queue.pk).review_id == wrong.pk


def test_gold_comes_at_its_share_once_to_each_reviewer(ada, rita, edo, episode):
    queue = assigning.create_queue(ada, "gold", gold_share=0.5)
    for number in range(40):
        ended(ada, f"g{number}")
    assigning.fill(ada, queue.pk, Episode.objects.exclude(pk=episode.pk))
    gold = assigning.add_gold(ada, queue.pk, episode.pk, "reject")
    for reviewer in (rita, edo):
        got = []
        for _ in range(16):  # the draw is by chance: all sides of 16 coins are equal once in 65,536
            lease = assigning.pull(reviewer, queue.pk)
            got.append(lease.review_id)
            deciding.decide(reviewer, lease.review_id, lease.lease_token, Wanted("reject"))
        assert got.count(gold.pk) == 1


def test_two_that_differ_call_a_third_person(rita, edo, ada, queue, review):
    for actor, said in ((rita, "accept"), (edo, "reject")):
        lease = assigning.pull(actor, queue.pk)
        deciding.decide(actor, review.pk, lease.lease_token, Wanted(said))
    for actor in (rita, edo):
        with pytest.raises(AlreadyReviewed):
            assigning.claim(actor, review.pk)
    rows = list(review.verdicts.all())
    assert reports.consensus(rows) == ""
    lease = assigning.pull(ada, queue.pk)
    assert deciding.decide(ada, review.pk, lease.lease_token, Wanted("reject")).adjudicates
    assert reports.consensus(list(review.verdicts.all())) == "reject"
    assert {one.decision for one in rows} == {"accept", "reject"}  # originals stay


def test_repeated_form_is_one_verdict(rita, review):
    lease = assigning.claim(rita, review.pk)
    first = deciding.decide(rita, review.pk, lease.lease_token, Wanted("reject", nonce="n1"))
    assert deciding.decide(rita, review.pk, lease.lease_token, Wanted("reject", nonce="n1")).pk == first.pk
    with pytest.raises(AlreadyReviewed):
        deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept", nonce="n2"))
    with pytest.raises(AlreadyReviewed):
        deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept", nonce="n1"))


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted("maybe"),
        Wanted("reject", failure_type="bad mood"),
        Wanted("accept", failure_type="wrong_goal"),
        Wanted("reject", rubric={"unknown": True}),
        Wanted("reject", confidence="sure"),
    ],
)
def test_unfit_verdict_is_refused(rita, review, wanted):
    lease = assigning.claim(rita, review.pk)
    with pytest.raises(Invalid):
        deciding.decide(rita, review.pk, lease.lease_token, wanted)


def test_page_is_told_why_a_review_cannot_be_claimed(rita, edo, ada, queue, review):
    assert assigning.why_not(ada, review) == ""
    given = assigning.claim(rita, review.pk)
    assigning.claim(edo, review.pk)
    assert assigning.why_not(ada, review) == "All open reviews of this episode are claimed."
    lapse(review)
    assert assigning.why_not(ada, review) == ""
    deciding.decide(rita, review.pk, given.lease_token, Wanted("reject"))
    deciding.decide(edo, review.pk, assigning.claim(edo, review.pk).lease_token, Wanted("reject"))
    assert assigning.why_not(ada, review) == "Others have given all reviews of this episode."
    assert assigning.why_not(rita, review) == "You already reviewed this episode in this queue."
    assigning.close_queue(ada, queue.pk)
    review.queue.refresh_from_db()
    assert assigning.why_not(ada, review) == "This queue is closed."
