"""Pairs: which a queue gets, answers by A and B, blindness until the next answer, undo, agreement."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from awmweb.erasing.episodes import erase_episode
from episodes.models import Episode, Fork, OutcomeHold
from episodes.visible import visibility
from people.errors import Invalid, NotFound
from people.models import Role
from people.slots import SlotState
from reviews.errors import AlreadyReviewed, NothingToReview, OutcomesOpen, ReviewLeaseLost
from reviews.models import Preference, QueueKind, Review, ReviewQueue
from reviews.record import assigning, deciding, pairing, preferring
from reviews.record.deciding import Wanted
from reviews.statistics import reports
from reviews.visible import pairs
from reviews.visible.pairs import OVERALL
from tests.people_by_name import person
from tests.reviews.conftest import ended

pytestmark = pytest.mark.django_db
CLEARER = "Which is clearer?"


@pytest.fixture
def queue(ada):
    return assigning.create_queue(ada, "Pairs", kind="pairwise", reviews_required=2, rubric=[CLEARER])


def filled(ada, queue, *tasks):
    """A queue with the pairs of episodes of these tasks."""
    made = [ended(ada, f"{task}-{number}", task_idx=task, row=number) for number, task in enumerate(tasks)]
    return assigning.fill(ada, queue.pk, Episode.objects.filter(pk__in=[one.pk for one in made]))


def answer(actor, queue, letter="a", **more):
    lease = assigning.pull(actor, queue.pk)
    said = {OVERALL: letter, **dict.fromkeys(ReviewQueue.objects.get(pk=queue.pk).rubric, "equal"), **more}
    return preferring.prefer(actor, lease.review_id, lease.lease_token, said)


def sees(actor, review):
    return [visibility.of_episode(actor, Episode.objects.get(pk=pk)) is not None for pk in review.episode_ids]


def test_fill_pairs_episodes_of_one_task_once(ada, queue):
    assert filled(ada, queue, 1, 1, 2, 2, 2, 3) == 1 + 3
    kept = set(queue.reviews.values_list("episode", "other"))
    for first, second in kept:
        assert first < second and len({Episode.objects.get(pk=pk).task_idx for pk in (first, second)}) == 1
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 0
    assert {one.number for one in queue.slots.all()} == {1, 2}


def test_fill_adds_few_pairs_of_a_task_whatever_comes_later(ada, queue):
    assert filled(ada, queue, *[5] * 6) == pairing.PAIRS
    ended(ada, "later", task_idx=5, row=20)
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 0


def test_task_has_few_pairs_whichever_episodes_are_added(ada, queue):
    added = []
    for first in range(0, 8, 2):
        made = [ended(ada, f"part-{number}", task_idx=5, row=number) for number in (first, first + 1)]
        added.append(assigning.fill(ada, queue.pk, Episode.objects.filter(pk__in=[one.pk for one in made])))
    last = [ended(ada, f"last-{number}", task_idx=5, row=20 + number) for number in range(2)]
    assert assigning.fill(ada, queue.pk, Episode.objects.filter(pk__in=[one.pk for one in last])) == 0
    assert added == [1] * pairing.PAIRS == [1, 1, 1, 1] and queue.reviews.count() == pairing.PAIRS


def test_full_task_costs_no_draw(ada, queue, monkeypatch):
    assert filled(ada, queue, *[5] * 6) == pairing.PAIRS
    monkeypatch.setattr(pairing, "draw", lambda *_: pytest.fail("drawn"))
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 0


def test_fill_locks_the_project_before_a_blind_queue(ada, queue):
    with CaptureQueriesContext(connection) as statements:
        filled(ada, queue, 1, 1)
    locks = [one["sql"] for one in statements if "FOR NO KEY UPDATE" in one["sql"]]
    places = [
        next(n for n, sql in enumerate(locks) if f'FROM "{name}"' in sql)
        for name in ("people_project", "reviews_reviewqueue")
    ]
    assert places == sorted(places)


def test_fill_pairs_a_branch_with_its_episode(ada, queue):
    parent, branch = ended(ada, "parent"), ended(ada, "branch", row=8)
    fork = Fork.objects.create(parent=parent, project=ada.project, seq=2, tries=1, knowledge="none")
    Episode.objects.filter(pk=branch.pk).update(fork=fork, origin="branch")
    assert not Episode.objects.filter(pk=branch.pk).exists(), "lists leave branches out"
    assert assigning.fill(ada, queue.pk, Episode.objects.filter(pk=parent.pk)) == 1
    assert set(queue.reviews.get().episode_ids) == {parent.pk, branch.pk}


def test_pair_of_two_equal_sides_is_left_out_and_counted(ada, queue):
    for number, row in enumerate((7, 7, 8)):
        ended(ada, f"same-{number}", "complete" if number else "others", task_idx=5, row=row)
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 2
    queue.refresh_from_db()
    assert queue.alike == 1
    rows = queue.reviews.values_list("episode__key", "other__key")
    assert {frozenset(one) for one in rows} == {frozenset({"same-0", "same-2"}), frozenset({"same-1", "same-2"})}
    assert assigning.fill(ada, queue.pk, Episode.objects.filter(key="same-2")) == 0
    queue.refresh_from_db()
    assert queue.alike == 0


@pytest.mark.parametrize(
    ("one_step", "other"),
    [
        ({"kind": "action", "action": {"a": 1}, "observation": {"b": 1}}, {"observation": {"b": 2}}),
        ({"kind": "ask", "question": "Which?", "advice": {"text": "Seven."}}, {"advice": {"text": "Eight."}}),
        ({"kind": "briefing", "text": "Be brief."}, {"text": "Be kind."}),
        ({"kind": "message", "content": "So."}, {"pictures": [{"blob": "sha256:1"}]}),
        ({"kind": "message", "content": "So."}, {"reasoning": {"text": "Perhaps."}}),
        ({"kind": "message", "content": "So."}, {"calls": [{"name": "shut", "arguments": {"id": 7}}]}),
        ({"kind": "ask", "question": "Which?"}, {"typed": {"kind": "choice", "options": [{"id": "a", "label": "B"}]}}),
        ({"kind": "ask", "question": "Which?"}, {"context": "Seven or eight."}),
        ({"kind": "ask", "question": "Which?"}, {"files": [{"id": "1", "name": "seven.txt"}]}),
        ({"kind": "ask", "advice": {"text": "So."}}, {"advice": {"text": "So.", "author": "Edo"}}),
        ({"kind": "tool_call", "name": "shut"}, {"approval": {"verdict": "edit", "by": "person"}}),
        ({"kind": "tool_call", "name": "shut"}, {"state_diff": {"tickets": {}}}),
    ],
)
def test_step_of_other_words_is_another_one(one_step, other):
    assert pairs.content_of(one_step) != pairs.content_of({**one_step, **other})
    assert pairs.content_of(one_step) == pairs.content_of({**one_step, "at": "later", "usage": {"n": 3}, "seq": 9})


def test_ids_times_and_successes_make_no_other_step():
    answer = {"decision": {"calls": [{"id": "1", "verdict": "approve"}]}, "decided": [{"by": "Edo", "at": "now"}]}
    step = {"kind": "ask", "typed": {"calls": [{"id": "1", "name": "shut"}]}, "files": [{"id": "1"}], "advice": answer}
    again = json.loads(json.dumps(step).replace('"1"', '"2"').replace('"now"', '"later"'))
    assert again != step and pairs.content_of(again) == pairs.content_of({**step, "reward": 1.0, "meta": {"a": 1}})


def prompts(word):
    return [{"kind": "message", "role": role, "content": f"{word} {role}"} for role in ("system", "user")]


def test_pair_that_differs_in_hidden_prompts_is_left_out(ada, queue):
    for word in ("one", "other"):
        ended(ada, word, before=prompts(word))
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 0
    queue.refresh_from_db()
    assert queue.alike == 1


def stepped(statements):
    return [one["sql"] for one in statements if 'FROM "episodes_step"' in one["sql"]]


def test_sample_reads_no_more_episodes_than_it_needs(ada, queue, monkeypatch):
    for number in range(12):
        ended(ada, f"each {number}", task_idx=number // 2, row=number)
    read, digests_of = [], pairing.digests_of
    monkeypatch.setattr(pairing, "digests_of", lambda episodes: [read.extend(episodes), digests_of(episodes)][1])
    with CaptureQueriesContext(connection) as statements:
        assert assigning.fill(ada, queue.pk, Episode.objects.all(), sample=2) == 2
    assert len(read) == 4 and len(stepped(statements)) == 1
    drawn = set(queue.reviews.values_list("episode", "other"))
    again = assigning.create_queue(ada, "Again", kind="pairwise")
    assigning.fill(ada, again.pk, Episode.objects.all(), sample=3, seed=queue.seed)
    assert drawn < set(again.reviews.values_list("episode", "other"))


def test_many_pairs_are_compared_in_few_queries(ada, queue):
    for number in range(12):
        ended(ada, f"each {number}", task_idx=number // 2, row=number)
    with CaptureQueriesContext(connection) as statements:
        assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 6
    assert len(stepped(statements)) == 1


def test_other_answers_are_compared_without_their_steps(ada, queue):
    for number in range(2):
        ended(ada, f"each {number}")
        Episode.objects.filter(key=f"each {number}").update(final_answer=f"Answer {number}")
    with CaptureQueriesContext(connection) as statements:
        assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 1
    assert not stepped(statements)


def test_episode_that_is_erased_meanwhile_is_in_no_pair(ada, queue, monkeypatch):
    made = [ended(ada, f"each {number}", row=number) for number in range(3)]
    by_task = pairing._by_task

    def erased_then(*asked):
        tasks = by_task(*asked)
        erase_episode(ada, made[0].pk)
        return tasks

    monkeypatch.setattr(pairing, "_by_task", erased_then)
    assert assigning.fill(ada, queue.pk, Episode.objects.all()) == 1
    assert set(queue.reviews.get().episode_ids) == {one.pk for one in made[1:]}


def test_refusal_names_each_question_without_an_answer(ada, rita, queue):
    filled(ada, queue, 1, 1)
    lease = assigning.pull(rita, queue.pk)
    with pytest.raises(Invalid, match=f"Answer this question: {CLEARER.rstrip('?')}"):
        preferring.prefer(rita, lease.review_id, lease.lease_token, {OVERALL: "a"})
    with pytest.raises(Invalid, match="Answer these questions: Which is better. · Which is clearer."):
        preferring.prefer(rita, lease.review_id, lease.lease_token, {})


def test_answer_is_stored_by_the_order_of_the_row(ada, rita, queue):
    filled(ada, queue, 1, 1)
    given = answer(rita, queue, "a", **{CLEARER: "neither"})
    review = given.review
    shown = pairs.sides(rita, review)[0].pk
    assert given.choice == ("first" if shown == review.episode_id else "second")
    assert given.answers == {CLEARER: "neither"} and given.is_swapped == (shown != review.episode_id)
    assert pairs.shown_choice(given) == "A" and given.is_blind


def test_order_is_drawn_for_each_pair_and_reviewer(ada, rita, edo, queue):
    filled(ada, queue, *[task for task in range(40) for _ in range(2)])
    rows = queue.reviews.select_related("queue")
    swapped = [[pairs.is_swapped(who, one) for one in rows] for who in (rita, edo)]
    assert swapped[0] == [pairs.is_swapped(rita, one) for one in rows] != swapped[1]
    assert all(5 < sum(one) < 35 for one in swapped)


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {CLEARER: "a"},
        {OVERALL: "first"},
        {OVERALL: "a"},
        {OVERALL: "a", CLEARER: "b", "Who?": "b"},
        {OVERALL: "a", CLEARER: ""},
    ],
)
def test_answer_that_does_not_fit_is_refused(ada, rita, queue, answers):
    filled(ada, queue, 1, 1)
    lease = assigning.pull(rita, queue.pk)
    with pytest.raises(Invalid):
        preferring.prefer(rita, lease.review_id, lease.lease_token, answers)
    with pytest.raises(Invalid):
        deciding.decide(rita, lease.review_id, lease.lease_token, Wanted("accept"))
    assert not Preference.objects.exists()


def test_answer_twice_is_one_and_without_a_lease_is_late(ada, rita, edo, max_, queue):
    filled(ada, queue, 1, 1)
    lease = assigning.pull(rita, queue.pk)
    said = {OVERALL: "b", CLEARER: "a"}
    first = preferring.prefer(rita, lease.review_id, lease.lease_token, said, nonce="n")
    assert preferring.prefer(rita, lease.review_id, lease.lease_token, said, nonce="n") == first
    with pytest.raises(AlreadyReviewed):
        preferring.prefer(rita, lease.review_id, lease.lease_token, said, nonce="m")
    with pytest.raises(AlreadyReviewed):
        preferring.prefer(rita, lease.review_id, lease.lease_token, {**said, OVERALL: "a"}, nonce="n")
    for _ in range(2):
        with pytest.raises(ReviewLeaseLost):
            preferring.prefer(edo, lease.review_id, "gone", said, nonce="n")
    assert Preference.objects.filter(is_late=True).count() == 1 and Preference.objects.counted().count() == 1
    with pytest.raises(NotFound):
        preferring.prefer(max_, lease.review_id, "gone", said)


@pytest.mark.django_db(transaction=True)
def test_answer_twice_at_once_is_one(ada, rita, queue):
    filled(ada, queue, 1, 1)
    lease = assigning.pull(rita, queue.pk)

    def say(letter):
        try:
            return preferring.prefer(rita, lease.review_id, lease.lease_token, {OVERALL: letter, CLEARER: "a"}).pk
        except AlreadyReviewed:
            return ""
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(map(bool, pool.map(say, ["a", "b", "equal", "neither"]))) == [False] * 3 + [True]


def test_outcomes_open_with_the_next_answer(ada, rita, queue):
    filled(ada, queue, 1, 1, 2, 2)
    first = answer(rita, queue).review
    assert sees(rita, first) == [False, False]
    second = answer(rita, queue).review
    assert sees(rita, first) == [True, True] and sees(rita, second) == [True, True], "nothing is left for them"
    with pytest.raises(NothingToReview):
        assigning.pull(rita, queue.pk)


def test_undo_takes_back_the_newest_and_stays_blind(ada, rita, edo, queue):
    filled(ada, queue, 1, 1, 2, 2)
    first = answer(rita, queue, "a")
    lease = preferring.undo(rita, queue.pk)
    assert lease.review_id == first.review_id and not Preference.objects.counted().exists()
    again = preferring.prefer(rita, lease.review_id, lease.lease_token, {OVERALL: "equal", CLEARER: "a"})
    assert (again.choice, again.is_blind) == ("equal", True)
    second = answer(rita, queue, "b")
    with pytest.raises(OutcomesOpen):
        preferring.undo(rita, queue.pk)
    assert set(Preference.objects.counted()) == {again, second}
    with pytest.raises(Invalid):
        preferring.undo(edo, queue.pk)


def test_last_answer_of_a_pair_opens_it_to_who_did_not_answer(ada, rita, edo, queue):
    filled(ada, queue, 1, 1, 2, 2)
    review = answer(rita, queue).review
    lease = assigning.claim(edo, review.pk)
    preferring.prefer(edo, review.pk, lease.lease_token, {OVERALL: "b", CLEARER: "a"})
    assert sees(rita, review) == sees(edo, review) == [False, False], "each can still undo"
    assert set(OutcomeHold.objects.filter(by=review.pk).values_list("actor_key", flat=True)) == {rita.key, edo.key}


def test_erased_episode_ends_the_holds_of_its_pairs(ada, rita, queue):
    filled(ada, queue, 1, 1)
    review = queue.reviews.get()
    assigning.claim(rita, review.pk)
    erase_episode(ada, review.episode_id)
    assert not OutcomeHold.objects.exists() and Episode.objects.filter(pk=review.other_id).exists()
    assert visibility.of_episode(rita, Episode.objects.get(pk=review.other_id)) is not None


def test_pair_opens_to_others_once_no_answer_can_be_undone(ada, rita, edo, queue):
    third = person(ada.project, "third", Role.EXPERT)
    filled(ada, queue, 1, 1, 2, 2, 3, 3)
    review = answer(rita, queue).review
    lease = assigning.claim(edo, review.pk)
    preferring.prefer(edo, review.pk, lease.lease_token, {OVERALL: "b", CLEARER: "a"})
    assert sees(third, review) == [False, False], "an undo could leave a slot to them"
    answer(rita, queue)
    assert sees(third, review) == [False, False]
    answer(edo, queue)
    assert sees(third, review) == sees(rita, review) == sees(edo, review) == [True, True]
    with pytest.raises(Invalid):
        preferring.undo(edo, queue.pk, Preference.objects.get(review=review, author_key=edo.key).pk)


def test_outcomes_open_with_the_decline_of_the_last_pair(ada, rita, queue):
    filled(ada, queue, 1, 1, 2, 2)
    first, last = answer(rita, queue).review, assigning.pull(rita, queue.pk)
    assert sees(rita, first) == [False, False]
    assigning.decline(rita, last.review_id, lease_token=last.lease_token)
    assert sees(rita, first) == [True, True] and not OutcomeHold.objects.filter(actor_key=rita.key).exists()


def test_outcomes_open_if_the_next_pair_is_gone(ada, rita, queue):
    filled(ada, queue, 1, 1, 2, 2)
    first = answer(rita, queue).review
    queue.slots.exclude(review=first).update(state=SlotState.VOID)
    with pytest.raises(NothingToReview):
        assigning.pull(rita, queue.pk)
    assert sees(rita, first) == [True, True]


def test_answer_after_an_opened_pair_of_its_episode_is_not_blind(ada, rita, queue):
    filled(ada, queue, 1, 1, 1)
    # from members who judge all three are withheld from the fill on, from others with their claim
    assert [answer(rita, queue).is_blind for _ in range(3)] == [True] * 3
    assert [answer(ada, queue).is_blind for _ in range(3)] == [True, True, False]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_named", [True, False])
def test_undo_twice_at_once_is_one(ada, rita, queue, is_named):
    filled(ada, queue, *[task for task in range(3) for _ in range(2)])
    first, newest = answer(rita, queue), answer(rita, queue)

    def take_back(_):
        try:
            return preferring.undo(rita, queue.pk, newest.pk if is_named else "").review_id
        except (Invalid, OutcomesOpen):
            return ""
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        undone = set(pool.map(take_back, range(3)))
    assert newest.review_id in undone <= {newest.review_id, ""}
    assert set(Preference.objects.counted()) == {first}


def test_repeated_undo_takes_no_other_answer_back(ada, rita):
    queue = assigning.create_queue(ada, "Seen", kind="pairwise", is_blind=False)
    filled(ada, queue, 1, 1, 2, 2)
    first, newest = answer(rita, queue), answer(rita, queue)
    lease = preferring.undo(rita, queue.pk, newest.pk)
    assert preferring.undo(rita, queue.pk, newest.pk) == lease and set(Preference.objects.counted()) == {first}


def test_agreement_of_an_open_queue_keeps_first_answers(ada, rita, edo):
    queue = assigning.create_queue(ada, "Seen", kind="pairwise", is_blind=False, reviews_required=2)
    filled(ada, queue, 1, 1)
    first = answer(rita, queue, "a")
    answer(edo, queue, "b")
    lease = preferring.undo(rita, queue.pk)
    assert not reports.preferred(ada, queue).filter(author_key=rita.key).exists()
    preferring.prefer(rita, lease.review_id, lease.lease_token, {OVERALL: "b"})
    assert reports.preferred(ada, queue).get(author_key=rita.key) == first


def test_agreement_of_pairs_counts_each_question(ada, rita, edo, queue):
    filled(ada, queue, *[task for task in range(3) for _ in range(2)])
    for review in Review.objects.select_related("queue"):
        for who, letter in ((rita, "a"), (edo, "neither")):
            lease = assigning.claim(who, review.pk)
            shown = "a" if pairs.sides(who, review)[0].pk == review.episode_id else "b"
            said = {OVERALL: shown if letter == "a" else letter, CLEARER: shown}
            preferring.prefer(who, review.pk, lease.lease_token, said)
    lines = {one.title: one.figures for one in reports.lines(ada, queue)}
    assert [lines[f"People, {one}"].percent for one in (OVERALL, CLEARER)] == [0.0, 1.0]
    assert lines[f"People, {OVERALL}"].items == 3 and len(reports.disagreeing(ada, queue)) == 3
    assert sorted(reports.progress(ada, queue).people) == [("edo", 3), ("rita", 3)]
    assert queue.kind == QueueKind.PAIRWISE
