"""The state machine of an ask: claim, answer, deadline, cancellation, and what races between them."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pydantic import ValidationError

from awmclient.schema import AskOpen, EpisodeStart, Finish, ToolCall
from episodes.errors import EpisodeEnded, StepConflict
from episodes.models import Episode
from episodes.record import ending, recording
from experts.errors import AlreadyClaimed, AskConflict, ExpertOff, LeaseLost, StillOpen, TooLate
from experts.models import Advice, Ask, Assignment
from experts.record import advising, closing, opening, queue
from people.access import bearer
from people.errors import Forbidden, Invalid, KeyConflict, NotFound
from people.record.members import issue_token
from tests.people_by_name import token
from tests.reading import steps_read_by


@pytest.fixture
def episode(ada):
    return recording.start_episode(ada, EpisodeStart(key="one", task="merge the tickets", expert="plain"))[0]


def wanted(episode, **more):
    return AskOpen(**{"key": "q1", "episode": episode.pk, "seq": 1, "question": "Into which one?", **more})


@pytest.fixture
def ask(ada, episode):
    return opening.open_ask(ada, wanted(episode))[0]


def pass_deadline(ask):
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))


def lapse(ask):
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_an_answer_reaches_the_step_and_the_episode_goes_on(ada, edo, episode, ask):
    assert Episode.objects.get(pk=episode.pk).state == "waiting"
    lease = queue.claim(edo, ask.pk)
    call = ToolCall(name="merge", arguments={"into": 4127})
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Into the oldest.", "n1", [call])
    assert Episode.objects.get(pk=episode.pk).state == "running"
    (step,) = steps_read_by(ada, episode.pk)
    assert step["advice"] == {
        "text": "Into the oldest.",
        "source": "human",
        "author": "edo",
        "privilege": "blind",
        "tool_calls": [{"name": "merge", "arguments": {"into": 4127}}],
    }
    assert Episode.objects.get(pk=episode.pk).strip == "a"


def test_a_second_claim_is_refused_and_names_the_holder(ada, edo, ask):
    queue.claim(edo, ask.pk)
    with pytest.raises(AlreadyClaimed, match="edo"):
        queue.claim(ada, ask.pk)


def test_the_holder_may_claim_again_and_the_old_lease_is_void(edo, ask):
    first, second = queue.claim(edo, ask.pk), queue.claim(edo, ask.pk)
    with pytest.raises(LeaseLost):
        queue.renew(edo, first.assignment_id, first.lease_token)
    assert queue.renew(edo, second.assignment_id, second.lease_token) > timezone.now()


def test_a_lapsed_lease_that_nobody_took_still_answers(edo, ask):
    lease = queue.claim(edo, ask.pk)
    lapse(ask)
    assert advising.answer(edo, lease.assignment_id, lease.lease_token, "Yes.", "n1").late is False


def test_expired_lease_claimed_by_another_keeps_the_text(ada, edo, ask):
    old = queue.claim(edo, ask.pk)
    lapse(ask)
    queue.claim(ada, ask.pk)
    with pytest.raises(LeaseLost):
        advising.answer(edo, old.assignment_id, old.lease_token, "My text.", "n1")
    kept = Advice.objects.get(ask=ask)
    assert (kept.text, kept.late) == ("My text.", True)
    assert Ask.objects.get(pk=ask.pk).is_open


def test_a_repeated_nonce_is_one_answer(edo, ask):
    lease = queue.claim(edo, ask.pk)
    first = advising.answer(edo, lease.assignment_id, lease.lease_token, "Once.", "n1")
    again = advising.answer(edo, lease.assignment_id, lease.lease_token, "Once.", "n1")
    assert first.pk == again.pk and Advice.objects.filter(ask=ask).count() == 1
    with pytest.raises(KeyConflict, match="another answer"):
        advising.answer(edo, lease.assignment_id, lease.lease_token, "No, twice.", "n1")
    assert Advice.objects.get(ask=ask).text == "Once."


def test_at_the_deadline_the_reader_settles_a_typed_fallback(ada, episode, ask):
    pass_deadline(ask)
    closed = closing.close_if_due(ask.pk)
    assert (closed.status, closed.reason) == ("fell_back", "deadline")
    assert closed.accepted.value().observation() == {"status": "no_advice", "reason": "deadline"}
    (step,) = steps_read_by(ada, episode.pk)
    assert step["advice"]["text"] == "" and step["advice"]["source"] == "fallback"
    assert Episode.objects.get(pk=episode.pk).state == "running"


def test_answer_after_the_deadline_is_late_and_not_delivered(edo, ask):
    lease = queue.claim(edo, ask.pk)
    pass_deadline(ask)
    with pytest.raises(TooLate):
        advising.answer(edo, lease.assignment_id, lease.lease_token, "Too slow.", "n1")
    with pytest.raises(TooLate):
        advising.answer(edo, lease.assignment_id, lease.lease_token, "Too slow.", "n1")
    closed = Ask.objects.get(pk=ask.pk)
    assert closed.status == "fell_back" and closed.accepted.source == "fallback"
    assert [one.text for one in Advice.objects.filter(ask=ask, late=True)] == ["Too slow."]


def test_the_sweep_settles_what_is_due(ask):
    assert closing.close_due() == 0
    pass_deadline(ask)
    assert closing.close_due() == 1


def test_an_ending_episode_cancels_its_asks_and_voids_the_lease(ada, edo, episode, ask):
    lease = queue.claim(edo, ask.pk)
    ending.finish(ada, episode.pk, Finish(stop_reason="gave_up"))
    closed = Ask.objects.get(pk=ask.pk)
    assert (closed.status, closed.reason, closed.assignment.state) == ("cancelled", "episode_ended", "void")
    assert Episode.objects.get(pk=episode.pk).state == "finished"
    with pytest.raises(TooLate):
        advising.answer(edo, lease.assignment_id, lease.lease_token, "Hello?", "n1")


def test_a_pass_frees_the_ask_for_the_others(ada, edo, ask):
    lease = queue.claim(edo, ask.pk)
    queue.decline(edo, lease.assignment_id, lease.lease_token, "not my trade")
    assert ask.declines.get().reason == "not my trade"
    assert queue.claim(ada, ask.pk).lease_token


def test_ask_key_with_another_body_is_a_conflict(ada, episode, ask):
    again, made = opening.open_ask(ada, wanted(episode))
    assert (again.pk, made) == (ask.pk, False)
    with pytest.raises(
        AskConflict, match="The key 'q1' was already used for an ask with different values of: question"
    ):
        opening.open_ask(ada, wanted(episode, question="Something else?"))


@pytest.mark.parametrize(
    ("other", "names"),
    [
        ({"question": "Which?", "context": "none left", "turn": 2}, "question, context, turn"),
        ({"seq": 2, "priority": 3, "skills": ["law"]}, "seq, priority, skills"),
        ({"deadline_s": 299}, "deadline_s"),
        ({"human_deadline_s": 60, "group_key": "g", "call_id": "c"}, "human_deadline_s, group_key, call_id"),
    ],
)
def test_conflict_of_asks_names_the_fields_that_differ(ada, episode, ask, other, names):
    with pytest.raises(AskConflict) as refused:
        opening.open_ask(ada, wanted(episode, **other))
    assert str(refused.value) == f"The key 'q1' was already used for an ask with different values of: {names}."


def test_conflict_leaves_out_a_priority_that_a_person_set(ada, episode, ask):
    queue.set_priority(ada, ask.pk, 7)
    with pytest.raises(AskConflict, match="of: question.$"):
        opening.open_ask(ada, wanted(episode, question="Which?"))


def test_ask_is_refused_if_expert_off_ended_or_number_taken(ada, episode, ask):
    off, _ = recording.start_episode(ada, EpisodeStart(key="off", task="alone"))
    with pytest.raises(ExpertOff):
        opening.open_ask(ada, wanted(off))
    with pytest.raises(StepConflict):
        opening.open_ask(ada, wanted(episode, key="q2"))
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    with pytest.raises(EpisodeEnded):
        opening.open_ask(ada, wanted(episode, key="q3", seq=2))


def test_strangers_reviewers_and_agents_cannot_answer(ada, max_, rita, ask):
    with pytest.raises(NotFound):
        queue.claim(max_, ask.pk)
    with pytest.raises(Forbidden):
        queue.claim(rita, ask.pk)
    token, _ = issue_token(ada, "loop", "agent")
    with pytest.raises(Exception, match="scope"):
        queue.claim(bearer(token), ask.pk)


def test_delivery_and_consumption_are_noted_once(ada, edo, episode, ask):
    with pytest.raises(StillOpen):
        closing.consume(ada, ask.pk)
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Yes.", "n1")
    agent, _ = token(ada.project, "agent")
    first = closing.look(agent, ask.pk).delivered_at
    assert first is not None and closing.look(agent, ask.pk).delivered_at == first
    consumed = closing.consume(ada, ask.pk).consumed_at
    assert closing.consume(ada, ask.pk).consumed_at == consumed


def test_an_empty_question_or_answer_is_refused(edo, episode, ask):
    with pytest.raises(ValidationError):
        wanted(episode, key="q2", seq=2, question="  ")
    lease = queue.claim(edo, ask.pk)
    with pytest.raises(Invalid):
        advising.answer(edo, lease.assignment_id, lease.lease_token, " ", "n1")


def test_episode_waits_until_its_last_ask_is_closed(ada, edo, episode, ask):
    other, _ = opening.open_ask(ada, wanted(episode, key="q2", seq=2))
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Yes.", "n1")
    assert Episode.objects.get(pk=episode.pk).state == "waiting"
    closing.cancel(ada, other.pk)
    assert Episode.objects.get(pk=episode.pk).state == "running"


def at_once(*calls):
    """Run these in threads of their own, each with its own connection, and say what became of each."""
    results = []

    def run(call):
        try:
            results.append(call())
        except Exception as error:
            results.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.django_db(transaction=True)
def test_of_many_claims_at_once_one_wins(project, ada, edo):
    from tests.people_by_name import person

    episode, _ = recording.start_episode(ada, EpisodeStart(key="race", task="race", expert="plain"))
    ask, _ = opening.open_ask(ada, wanted(episode))
    experts = [person(project, f"expert{n}", "expert") for n in range(6)]
    results = at_once(*[lambda one=one: queue.claim(one, ask.pk) for one in experts])
    assert sum(isinstance(result, queue.AskClaim) for result in results) == 1
    assert sum(isinstance(result, AlreadyClaimed) for result in results) == 5


@pytest.mark.django_db(transaction=True)
def test_of_many_claims_by_one_token_one_wins(ada):
    from people.access import bearer
    from people.record.members import issue_token

    episode, _ = recording.start_episode(ada, EpisodeStart(key="race", task="race", expert="plain"))
    script = bearer(issue_token(ada, "script", "expert")[0])
    for seq in range(1, 6):
        ask, _ = opening.open_ask(ada, wanted(episode, key=f"q{seq}", seq=seq))
        results = at_once(*[lambda ask=ask: queue.claim(script, ask.pk) for _ in range(6)])
        assert sum(isinstance(result, queue.AskClaim) for result in results) == 1
        assert sum(isinstance(result, AlreadyClaimed) for result in results) == 5


@pytest.mark.django_db(transaction=True)
def test_an_answer_and_a_finish_at_once_end_in_one_of_two_states(ada, edo):
    for number in range(5):
        episode, _ = recording.start_episode(ada, EpisodeStart(key=f"race{number}", task="race", expert="plain"))
        ask, _ = opening.open_ask(ada, wanted(episode))
        lease = queue.claim(edo, ask.pk)
        results = at_once(
            lambda lease=lease: advising.answer(edo, lease.assignment_id, lease.lease_token, "Now.", "n1"),
            lambda episode=episode: ending.finish(ada, episode.pk, Finish(stop_reason="done")),
        )
        assert [one for one in results if isinstance(one, Exception) and not isinstance(one, TooLate)] == []
        closed = Ask.objects.get(pk=ask.pk)
        answered = not any(isinstance(one, TooLate) for one in results)
        assert closed.status == ("answered" if answered else "cancelled")
        assert Episode.objects.get(pk=episode.pk).state == "finished"


CALLS = [{"id": "1", "name": "send_reply", "arguments": {"ticket": 4127}}]
APPROVED = {"calls": [{"id": "1", "verdict": "approve"}]}


@pytest.mark.parametrize(
    ("fields", "said"),
    [({}, {"text": "Into 4127."}), ({"kind": "approval", "calls": CALLS}, {"text": "", "decision": APPROVED})],
    ids=["question", "approval"],
)
@pytest.mark.django_db(transaction=True)
def test_ask_claim_and_answer_take_few_statements(ada, client, fields, said):
    """With the look at the token, begin and commit of each; a decision takes no more than an answer.

    The append of the ask's step is sent past Django's cursor, so it is not among them.
    """
    secrets = {scope: issue_token(ada, scope, scope)[1] for scope in ("agent", "expert")}

    def post(scope, path, body):
        with CaptureQueriesContext(connection) as found:
            given = {"content_type": "application/json", "HTTP_AUTHORIZATION": f"Bearer {secrets[scope]}"}
            answer = client.post(f"/api/v1{path}", json.dumps(body), **given)
        assert answer.status_code in (200, 201), answer.content
        return answer.json(), len(found)

    started, _ = post("agent", "/episodes", {"key": "e", "task": "merge", "expert": "plain"})
    taken = []
    for seq in (1, 2):  # the first use of a token is noted
        about = {"key": f"q{seq}", "episode": started["id"], "seq": seq, "question": f"Which one, {seq}?"}
        ask, asking = post("agent", "/asks", {**about, "deadline_s": 600, **fields})
        lease, claiming = post("expert", f"/asks/{ask['id']}/claim", {})
        body = {"lease_token": lease["lease_token"], "nonce": str(seq), **said}
        _, answering = post("expert", f"/assignments/{lease['assignment']}/answer", body)
        taken = [asking, claiming, answering]
    assert taken == [6, 7, 10]
