"""A blind reviewer meets no outcome on any page, fragment, count, filter, call or export until their verdict."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from awmclient.schema import EpisodeStart, Finish, StepBatch
from episodes.models import Episode, OutcomeHold
from episodes.record import ending, recording
from episodes.visible import trajectory, visibility
from episodes.visible.lens import BLIND, lens_of
from people.access import bearer, person, system
from people.errors import Invalid
from people.models import Role
from people.record import members
from reviews.errors import AlreadyReviewed, ReviewClosed
from reviews.models import CourtCase
from reviews.record import (
    annotating,
    assigning,
    court,
    deciding,
    schemas,
)
from reviews.record.deciding import Wanted
from reviews.statistics import reports, worth
from reviews.visible.places import Place
from tests.browsing import as_person, html
from tests.locks import somebody_waits_for_a_lock
from tests.people_by_name import token
from tests.reviews.conftest import ended
from tests.running import until

TELLS = ("others", "Not complete", "not complete", "zebra-detail", "verified not", "v-others")


def read(client, url: str) -> str:
    """What a page says, without the shapes that every page carries and the legend of marks."""
    response = client.get(url)
    assert response.status_code in (200, 404), (url, response.status_code)  # 404: a step that is withheld
    return said(response.content.decode())


def said(text: str) -> str:
    if '<svg width="0"' in text:
        text = text[: text.index('<svg width="0"')] + text[text.index("<header") :]
    return "".join(part.partition("</script>")[2] if n else part for n, part in enumerate(text.split("<script")))


def addresses(episode: Episode, review) -> list[str]:
    pk = episode.pk
    pages = ["/", "/episodes/", f"/episodes/{pk}/", f"/episodes/{pk}/replay/", "/metrics/", "/reviews/"]
    pages += [
        reverse("review", args=[review.pk]),
        reverse("review_queue", args=[review.queue_id]),
        "/reviews/agreement/",
    ]
    pages += ["/reviews/court/", f"/episodes/{pk}/?raw=3", f"/episodes/{pk}/steps.html?since=0"]
    pages += [f"/episodes/{pk}/steps.html?since=9&again=3", f"/episodes/{pk}/find?q=zebra", "/queue/"]
    return pages


API = ("/api/v1/episodes", "/api/v1/episodes/{pk}", "/api/v1/episodes/{pk}/steps", "/api/v1/reviews?queue={queue}")


@pytest.fixture
def ron(project):
    return person(members.ensure_member(project, "ron", Role.REVIEWER))


def test_agreement_begins_with_the_newest_judged_queue(ada, rita, review):
    assigning.create_queue(ada, "Empty and newer")
    page = html(as_person(ada).get("/reviews/agreement/"))
    assert re.search(r"<option[^>]*selected[^>]*>Empty and newer", page)
    lease = assigning.claim(rita, review.pk)
    deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept"))
    page = html(as_person(ada).get("/reviews/agreement/"))
    assert re.search(r"<option[^>]*selected[^>]*>First look", page)


def test_hold_hides_the_outcome_from_one_actor_only(ada, rita, review, episode):
    assigning.claim(rita, review.pk)
    assert visibility.of_episode(rita, episode) is None and visibility.is_withheld(rita, episode)
    assert visibility.by_source(rita, episode) == {} == visibility.verdict_types(rita, [episode.pk])
    assert not visibility.verdicts_of(rita).exists() and not visibility.of_project(rita).exists()
    assert visibility.of_episode(ada, episode).reward_type == "others"
    assert visibility.of_episode(system(ada.project), episode) is not None


def test_hold_stays_after_release_and_ends_with_the_verdict(rita, review, episode):
    lease = assigning.claim(rita, review.pk)
    assigning.release(rita, review.pk, lease.lease_token)
    assert not visibility.sees_outcome(rita, episode)
    lease = assigning.claim(rita, review.pk)
    assert deciding.decide(rita, review.pk, lease.lease_token, Wanted("reject")).is_blind
    assert visibility.sees_outcome(rita, episode)


@pytest.mark.parametrize("scope", ["read", "review", "expert"])
def test_own_token_reads_no_outcome_withheld_from_its_person(ada, edo, review, episode, scope):
    own = bearer(members.issue_token(edo, "own", scope, personal=True)[0])
    shared = bearer(members.issue_token(ada, "shared", scope)[0])
    assert visibility.sees_outcome(shared, episode)
    assert not visibility.sees_outcome(own, episode) and lens_of(own, episode) == BLIND
    lease = assigning.claim(edo, review.pk)
    deciding.decide(edo, review.pk, lease.lease_token, Wanted("reject"))
    assert visibility.sees_outcome(own, episode)


def test_verdict_by_own_token_opens_the_outcome_to_its_person(rita, review, episode):
    own = bearer(members.issue_token(rita, "own", "review", personal=True)[0])
    lease = assigning.claim(own, review.pk)
    assert deciding.decide(own, review.pk, lease.lease_token, Wanted("reject")).is_blind
    assert visibility.sees_outcome(own, episode) and visibility.sees_outcome(rita, episode)
    other = bearer(members.issue_token(rita, "other", "review", personal=True)[0])
    for again in (rita, other):
        with pytest.raises(AlreadyReviewed):
            assigning.claim(again, review.pk)


def test_leaving_a_queue_declines_all_and_opens_outcomes(ada, rita, queue, review, episode):
    more = [ended(ada, f"more {n}", task_idx=4 + n) for n in range(3)]
    other = assigning.create_queue(ada, "Second look")
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk__in=[one.pk for one in more]))
    assigning.fill(ada, other.pk, Episode.objects.filter(pk=more[0].pk))
    lease = assigning.claim(rita, review.pk)
    deciding.decide(rita, review.pk, lease.lease_token, Wanted("reject"))
    assigning.claim(rita, queue.reviews.get(episode=more[1]).pk)
    client, path = as_person(rita), reverse("leave_review_queue", args=[queue.pk])
    assert "Leave queue" in client.get(reverse("review_queue", args=[queue.pk])).content.decode()
    left = client.post(path, follow=True).content.decode()
    assert "You left the queue: 3 reviews declined." in left and "Leave queue" not in left
    assert [visibility.sees_outcome(rita, one) for one in more] == [False, True, True]
    assert not queue.reviews.filter(slots__holder=rita.key, slots__state="claimed").exists()
    assert "0 reviews declined" in client.post(path, follow=True).content.decode()


@pytest.mark.parametrize("end", ["decline", "close"])
def test_hold_ends_when_the_review_is_over(ada, rita, review, episode, end):
    assigning.claim(rita, review.pk)
    if end == "decline":
        assigning.decline(rita, review.pk, "no time")
    else:
        assigning.close_queue(ada, review.queue_id)
    assert visibility.sees_outcome(rita, episode) and not OutcomeHold.objects.exists()


@pytest.mark.parametrize("claimed", [False, True])
def test_no_page_of_a_blind_reviewer_holds_the_outcome(ada, rita, review, episode, claimed):
    others = read(as_person(ada), f"/episodes/{episode.pk}/")
    assert "Not complete" in others and "zebra-detail" in others  # what is looked for is there to be found
    client = as_person(rita)
    if claimed:
        assigning.claim(rita, review.pk)
    for url in addresses(episode, review):
        text = re.sub(r"(?s)<option.*?</option>", "", read(client, url))  # a filter's choices say nothing
        assert [word for word in TELLS if word in text] == [], url
    for url in API:
        text = read(client, url.format(pk=episode.pk, queue=review.queue_id))
        assert not {"others", "zebra-detail", "verification"} & set(json.dumps(json.loads(text)).split('"')), url


def test_review_page_holds_no_outcome_before_the_claim(rita, review):
    text = read(as_person(rita), f"/reviews/{review.pk}/")
    assert "BLIND" in text and [word for word in TELLS if word in text] == []
    assert "data-fixed" in text  # what the list fetches later adds no step after these


@pytest.mark.parametrize("found", ["complete", "others", "none"])
def test_no_filter_by_outcome_matches_a_withheld_episode(ada, rita, review, episode, found):
    other = ended(ada, "two", found="complete", reward=1.0)
    assigning.claim(rita, review.pk)
    client = as_person(rita)
    items = client.get(f"/api/v1/episodes?outcome={found}").json()["items"]
    assert [one["id"] for one in items] == ([other.pk] if found == "complete" else [])
    assert episode.pk not in client.get(f"/episodes/?outcome={found}").content.decode()


def test_counts_leave_a_withheld_episode_out(ada, rita, review):
    ended(ada, "two", found="complete", reward=1.0)
    assert "1 of 2 outcomes" in as_person(ada).get("/episodes/").content.decode()
    page = re.sub(r"\s+", " ", html(as_person(rita).get("/episodes/")))
    assert "1 of 1 outcome" in page
    told = re.search(r"Newest first\.[^/]*", page)
    assert told and "1 outcome is withheld for blind" in told[0]


@pytest.mark.parametrize("path", ["/", "/episodes/", "/runs/", "/metrics/", "/exports/"])
def test_page_with_counts_says_that_it_leaves_outcomes_out(project, ada, review, path):
    """Two members read different numbers at the same time: the one who reads less is told why."""
    ron = person(members.ensure_member(project, "ron", Role.RESEARCHER))
    OutcomeHold.objects.create(episode=review.episode, actor_key=ron.key, by="r")
    words = "1 outcome is withheld for blind"
    assert words in " ".join(html(as_person(ron).get(path)).split())
    assert words not in " ".join(html(as_person(ada).get(path)).split())


def test_outcome_opens_to_all_with_the_last_verdict_of_a_review(project, ada, review, episode):
    ron, max_ = (person(members.ensure_member(project, name, Role.EXPERT)) for name in ("ron", "max"))
    assert not visibility.sees_outcome(ron, episode) and visibility.sees_outcome(ada, episode)
    for judge in (ada, max_):
        assert not visibility.sees_outcome(ron, episode)
        lease = assigning.claim(judge, review.pk)
        deciding.decide(judge, review.pk, lease.lease_token, Wanted("reject"))
    assert visibility.sees_outcome(ron, episode) and not OutcomeHold.objects.exists()


def test_outcome_stays_withheld_until_a_third_person_decided(project, ada, episode):
    queue = assigning.create_queue(ada, "Twice", reviews_required=2)
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=episode.pk))
    review = queue.reviews.get()
    judges = [person(members.ensure_member(project, name, Role.EXPERT)) for name in ("ron", "max", "eva")]
    for judge, decision in zip(judges, ("accept", "reject", "reject"), strict=True):
        assert not visibility.sees_outcome(judges[2], episode)
        lease = assigning.claim(judge, review.pk)
        assert deciding.decide(judge, review.pk, lease.lease_token, Wanted(decision)).is_blind
    assert visibility.sees_outcome(judges[2], episode)


def test_outcome_stays_withheld_for_another_blind_queue(ada, rita, review, episode):
    other = assigning.create_queue(ada, "Other")
    assigning.fill(ada, other.pk, Episode.objects.filter(pk=episode.pk))
    lease = assigning.claim(rita, review.pk)
    deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept"))
    shown = deciding.reveal(rita, review.pk)
    assert shown.outcome is None and shown.is_withheld and not shown.differs
    page = read(as_person(rita), f"/reviews/{review.pk}/")
    assert "Opens after your verdict in another blind queue" in re.sub(r"\s+", " ", page)
    second = other.reviews.get()
    lease = assigning.claim(rita, second.pk)
    assert deciding.decide(rita, second.pk, lease.lease_token, Wanted("accept")).is_blind
    assert deciding.reveal(rita, review.pk).differs


def test_role_decides_what_a_blind_queue_withholds(project, rita, review, episode):
    assert not visibility.sees_outcome(rita, episode)
    researcher = person(members.ensure_member(project, "rita", Role.RESEARCHER))
    assert visibility.sees_outcome(researcher, episode)
    again = person(members.ensure_member(project, "rita", Role.REVIEWER))
    assert not visibility.sees_outcome(again, episode)
    viewer = person(members.ensure_member(project, "vera", Role.VIEWER))
    assert visibility.sees_outcome(viewer, episode)


def test_queue_closed_meanwhile_takes_and_withholds_nothing(ada, queue, episode, monkeypatch):
    ranked = worth.of_episodes

    def closing(episodes):
        assigning.close_queue(ada, queue.pk)
        return ranked(episodes)

    monkeypatch.setattr(worth, "of_episodes", closing)
    with pytest.raises(ReviewClosed):
        assigning.fill(ada, queue.pk, Episode.objects.filter(pk=episode.pk))
    assert not queue.reviews.exists() and not OutcomeHold.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_member_who_joins_while_a_queue_is_filled_sees_nothing(project, ada, queue, episode):
    def join():
        try:
            return person(members.ensure_member(project, "nina", Role.REVIEWER))
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assigning.fill(ada, queue.pk, Episode.objects.filter(pk=episode.pk))
            joining = pool.submit(join)
            # its membership is written, and it waits for what the queue holds; without that lock it has joined
            until(lambda: somebody_waits_for_a_lock() or joining.done(), 30)
        nina = joining.result(30)
    assert not visibility.sees_outcome(nina, episode)


def test_gold_is_withheld_from_each_until_their_own_verdict(project, ada, rita, queue):
    known = ended(ada, "two", task_idx=4)
    gold = assigning.add_gold(ada, queue.pk, known.pk, "reject")
    ron = person(members.ensure_member(project, "ron", Role.EXPERT))
    lease = assigning.claim(rita, gold.pk)
    deciding.decide(rita, gold.pk, lease.lease_token, Wanted("reject"))
    assert visibility.sees_outcome(rita, known) and not visibility.sees_outcome(ron, known)


def test_exports_wait_for_blind_reviews(ada, review, episode):
    client = as_person(ada)
    assigning.claim(ada, review.pk)
    refused = client.post("/api/v1/exports", {"format": "raw"}, content_type="application/json")
    assert refused.status_code == 409, refused.content
    assert refused.json()["error"]["code"] == "blind_review"
    lease = assigning.claim(ada, review.pk)
    deciding.decide(ada, review.pk, lease.lease_token, Wanted("reject"))
    assert client.post("/api/v1/exports", {"format": "raw"}, content_type="application/json").status_code == 202


def test_step_of_the_verifier_is_withheld_from_the_api(ada, rita, review, episode):
    assert as_person(ada).get(f"/api/v1/episodes/{episode.pk}/steps/3").status_code == 200
    client = as_person(rita)
    assert client.get(f"/api/v1/episodes/{episode.pk}/steps/3").status_code == 404
    steps = client.get(f"/api/v1/episodes/{episode.pk}/steps").json()["steps"]
    assert [one["kind"] for one in steps] == ["message", "tool_call"]


def test_agents_see_no_outcome_through_visibility(project, episode):
    agent, _ = token(project, "agent")
    assert not visibility.sees_outcome(agent, episode) and visibility.withheld(agent, [episode.pk]) == {episode.pk}
    assert not visibility.with_open_outcome(agent, Episode.objects.all()).exists()


def test_the_review_drawn_ahead_holds_no_outcome_and_no_claim(ada, rita, queue, review, episode):
    following = ended(ada, "two", task_idx=4)
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=following.pk))
    assigning.claim(rita, review.pk)
    drawn = as_person(rita).get(reverse("review_ahead", args=[review.pk])).json()
    assert queue.reviews.get(pk=drawn["review"]).episode_id == following.pk
    assert "desk_1 / 4" in drawn["page"] and "data-verdict-form" in drawn["page"]
    assert [word for word in TELLS if word in said(drawn["page"])] == []
    assert assigning.slot_of(rita, following.reviews.get()) is None
    assert assigning.slot_of(rita, review).state == "claimed"


def test_verdict_next_claims_the_drawn_review_or_shows_why(ada, rita, queue, review, episode):
    for name, found in (("two", "others"), ("three", "others"), ("four", "complete")):
        following = ended(ada, name, found, task_idx=len(name))
        assigning.fill(ada, queue.pk, Episode.objects.filter(pk=following.pk))
    client, lease = as_person(rita), assigning.claim(rita, review.pk)

    def give(pk, token, ahead):
        form = {"lease_token": token, "decision": "reject", "ahead": ahead}
        return client.post(reverse("verdict_next", args=[pk]), form, HTTP_ACCEPT="application/json").json()

    third = queue.reviews.get(episode__key="three")
    told = give(review.pk, lease.lease_token, third.pk)
    assert told["next"] == f"/projects/lab/reviews/{third.pk}/" and "page" not in told
    fourth = queue.reviews.get(episode__key="four")
    told = give(third.pk, told["lease"]["token"], "unknown")
    assert "data-verdict-form" in told["page"]  # what was drawn is not to be had: the page comes with the claim
    now = assigning.claim(rita, fourth.pk)
    told = give(fourth.pk, now.lease_token, "")
    assert told.keys() == {"differs", "page"} and "data-reasons" in told["page"]


def test_verdict_next_takes_few_statements_for_both(ada, rita, queue, review, django_assert_max_num_queries):
    following = ended(ada, "two", task_idx=4)
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=following.pk))
    client, lease = as_person(rita), assigning.claim(rita, review.pk)
    drawn = client.get(reverse("review_ahead", args=[review.pk])).json()["review"]
    form = {"lease_token": lease.lease_token, "decision": "reject", "ahead": drawn}
    with django_assert_max_num_queries(33):
        told = client.post(reverse("verdict_next", args=[review.pk]), form, HTTP_ACCEPT="application/json").json()
    assert told["next"] == f"/projects/lab/reviews/{drawn}/"


def test_page_of_a_queue_reads_nothing_twice(ada, rita, queue, review):
    client, page = as_person(rita), f"/projects/lab/reviews/queues/{queue.pk}/"
    client.get(page)
    with CaptureQueriesContext(connection) as reads:
        assert "Open" in html(client.get(page))
    memberships = [read for read in reads if ' FROM "people_membership"' in read["sql"]]
    assert len(memberships) == 2 and len(reads) <= 24  # the project of the address, and the list of all projects


def test_shown_review_of_another_queue_is_not_claimed(ada, rita, queue, review):
    other = assigning.create_queue(ada, "Other")
    assigning.fill(ada, other.pk, Episode.objects.filter(pk=ended(ada, "two").pk))
    assert assigning.pull(rita, queue.pk, first=other.reviews.get().pk).review_id == review.pk


def test_rewards_of_steps_are_withheld_from_a_blind_reviewer(ada, rita, queue):
    """A loop of one's own records what its environment paid at each step, and its own look at the verifier."""
    paid = {"reward": 0.875, "done": True}
    start = EpisodeStart(key="paid", task="Shut ticket 8", scenario="desk_1", task_idx=8)
    episode, _ = recording.start_episode(ada, start)
    steps = [
        {"seq": 1, "kind": "action", "action": {"x": 1}, **paid},
        {"seq": 2, "kind": "tool_call", "name": "look", "arguments": {}, "result": 1, "reward_type": "tool_call_ok"},
        {
            "seq": 3,
            "kind": "tool_call",
            "name": "verify",
            "arguments": {},
            "result": 1,
            "reward_type": "complete",
            **paid,
        },
    ]
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": steps}).steps)
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=episode.pk))
    review = queue.reviews.get()
    pages = [f"/episodes/{episode.pk}/{more}" for more in ("", "replay/?step=1", "steps.html?since=0", "?raw=1")]
    pages += [f"/reviews/{review.pk}/", f"/api/v1/episodes/{episode.pk}/steps"]
    open_, blind = as_person(ada), as_person(rita)
    for path in pages:
        assert "0.875" in read(open_, path), path
        assert "0.875" not in (text := read(blind, path)) and "zebra_type" not in text, path
    assert '"reward_type":"tool_call_ok"' in read(blind, pages[-1]), "how a call went stays"
    assert blind.get(f"/episodes/{episode.pk}/find?q=0.875").json()["seqs"] == []
    assert open_.get(f"/episodes/{episode.pk}/find?q=0.875").json()["seqs"] == [1, 3]
    for path in ("$.reward", "$.done"):
        with pytest.raises(Invalid):
            annotating.annotate(rita, episode, Place(1, path), "odd", "x")
    told, _ = trajectory.sent_after(lens_of(rita, episode), episode.pk, 0, 10)
    assert "0.875" not in str(told)


def test_court_is_withheld_from_who_still_judges_the_task(ada, rita, ron, review, episode):
    lease = assigning.claim(rita, review.pk)
    verdict = deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept"))
    deciding.explain(rita, verdict.pk, "verifier_wrong")
    case = CourtCase.objects.get()
    court.rule(ada, case.pk, "too_strict", "zebra-reason")
    client, told = as_person(ron), as_person(rita)
    for path in ("/reviews/court/", "/reviews/court.json"):
        assert "desk_1" in told.get(path).content.decode() and "desk_1" not in client.get(path).content.decode()
    assert "zebra-reason" in html(told.get(f"/reviews/court/{case.pk}/"))
    refused = client.get(f"/reviews/court/{case.pk}/")
    assert refused.status_code == 409 and "zebra-reason" not in html(refused)
    lease = assigning.claim(ron, review.pk)
    deciding.decide(ron, review.pk, lease.lease_token, Wanted("accept"))
    assert "zebra-reason" in html(client.get(f"/reviews/court/{case.pk}/"))


def test_others_stay_withheld_while_another_blind_queue_waits(ada, rita, ron, review, episode):
    other = assigning.create_queue(ada, "Other")
    assigning.fill(ada, other.pk, Episode.objects.filter(pk=episode.pk))
    for actor, said in ((rita, "zebra-note"), (ron, "mine")):
        lease = assigning.claim(actor, review.pk)
        deciding.decide(actor, review.pk, lease.lease_token, Wanted("accept", note=said))
    assert deciding.reveal(ron, review.pk).others == []
    assert "zebra-note" not in read(as_person(ron), f"/reviews/{review.pk}/")


def test_sample_rate_counts_episodes_and_only_told_verdicts(ada, rita, ron, queue, episode):
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=episode.pk), sample=1, seed=1)
    review = queue.reviews.get()
    lease = assigning.claim(rita, review.pk)
    deciding.decide(rita, review.pk, lease.lease_token, Wanted("reject"))
    assert "Random sample" not in read(as_person(ron), f"/reviews/queues/{queue.pk}/")
    lease = assigning.claim(ron, review.pk)
    deciding.decide(ron, review.pk, lease.lease_token, Wanted("reject"))
    rate = reports.accepted_in_sample(ada, queue)
    assert (rate.part, rate.of) == (0, 1), "two verdicts on one episode are one"


def test_figures_of_the_sample_leave_the_other_labels_out(ada, rita, ron, queue, review, episode):
    label = schemas.define(ada, "cause", "Cause", "single", ["Tool", "Task"])
    type(queue).objects.filter(pk=queue.pk).update(schemas=[label.pk])
    queue.refresh_from_db()
    for actor, cause, said in ((rita, "tool", "accept"), (ron, "task", "reject")):
        lease = assigning.claim(actor, review.pk)
        annotating.annotate(actor, episode, Place(), "cause", cause, schema=label, queue=queue)
        deciding.decide(actor, review.pk, lease.lease_token, Wanted(said))
    assert "Label Cause" in [line.title for line in reports.lines(ada, queue)]
    assert reports.lines(ada, queue, only_sample=True) == [] == reports.disagreeing(ada, queue, only_sample=True)
    assert reports.disagreeing(ada, queue) == [review]


def test_list_of_exports_is_refused_while_judging_blind(ada, queue, review):
    made = {"format": "sft", "filter": {"outcome": ["others"]}}
    client = as_person(ada)
    assert client.post("/api/v1/exports", made, content_type="application/json").status_code == 202
    assert client.get("/api/v1/exports").status_code == 200
    assigning.claim(ada, review.pk)
    assert client.get("/api/v1/exports").json()["error"]["code"] == "blind_review"
    assert "withheld" in html(client.get("/exports/"))


def test_page_of_many_queues_takes_no_more_queries(ada, rita, review, django_assert_num_queries):
    client = as_person(ada)
    lease = assigning.claim(rita, review.pk)
    deciding.decide(rita, review.pk, lease.lease_token, Wanted("reject"))
    client.get("/reviews/")
    with CaptureQueriesContext(connection) as alone:
        client.get("/reviews/")
    for number in range(19):
        made = assigning.create_queue(ada, f"Queue {number}")
        assigning.fill(ada, made.pk, Episode.objects.all())
    with django_assert_num_queries(len(alone)):
        page = html(client.get("/reviews/"))
    assert page.count("0 of 1 given") == 19 and page.count("1 of 2 given") == 1
    assert reports.progress(rita, review.queue) == reports.Progress(1, 2, 0, [("rita", 1)], 1)


def test_gold_item_counts_as_claimed_and_in_no_progress(ada, rita, queue):
    gold = assigning.add_gold(ada, queue.pk, ended(ada, "known", task_idx=9).pk, "reject")
    lease = assigning.claim(rita, gold.pk)
    assert (reports.progress(rita, queue).claimed, reports.progress(rita, queue).total) == (1, 0)
    deciding.decide(rita, gold.pk, lease.lease_token, Wanted("reject"))
    assert reports.progress(rita, queue).mine == 0 and reports.progress(rita, queue).people == []


def test_verdict_after_an_earlier_reveal_is_not_blind(ada, rita, review, episode):
    lease = assigning.claim(rita, review.pk)
    assert deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept")).is_blind
    later = assigning.create_queue(ada, "Later")
    assigning.fill(ada, later.pk, Episode.objects.filter(pk=episode.pk))
    second = later.reviews.get()
    lease = assigning.claim(rita, second.pk)
    assert not deciding.decide(rita, second.pk, lease.lease_token, Wanted("reject")).is_blind
