"""The desk around an ask: tiers, budgets, groups, presence, drafts, and answers changed before they are read."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import RunStart
from episodes.models import Episode, Step
from episodes.record import ending, recording
from episodes.stored.entries import entry_of
from experts.errors import AlreadyDeclined, AtCapacity, DraftConflict, NotForYou, NotYours, StillOpen, TooLate, Used
from experts.find import board
from experts.metrics import records
from experts.models import Advice, Ask, AskEvent, Assignment, Draft, Presence
from experts.record import advising, closing, desk, queue
from experts.who import advisers, arriving, online, placing, policies
from people.access import bearer, expert_model, system
from people.errors import Forbidden, Invalid, NotFound
from people.models import Membership
from people.record.members import issue_token
from tests.asking import MODEL
from tests.browsing import as_person, html
from tests.reading import steps_read_by


def fresh(ask):
    return Ask.objects.select_related("accepted", "assignment").get(pk=ask.pk)


def answered(actor, ask, text="The oldest."):
    lease = queue.claim(actor, ask.pk)
    return advising.answer(actor, lease.assignment_id, lease.lease_token, text, "n1")


def passes(actor, ask, reason=""):
    lease = queue.claim(actor, ask.pk)
    queue.decline(actor, lease.assignment_id, lease.lease_token, reason)


def verbs(ask):
    return list(AskEvent.objects.filter(ask=ask).order_by("pk").values_list("verb", "reason"))


def test_an_ask_keeps_its_plan_its_reason_and_its_probability(asked, ada, models):
    desk.set_policy(ada, model_first=True, audit_share=0.0)
    ask = fresh(asked())
    assert (ask.tiers, ask.tier, ask.tier_reason, ask.chance) == (["llm", "people"], "llm", "model_first", 0.0)
    assert verbs(ask) == [("opened", ""), ("to_llm", "model_first")]
    assert ask.draft_at is not None and ask.draft_at < ask.deadline_at


def test_model_first_holds_with_an_open_tab_on_page_and_row(asked, ada, settings, project):
    settings.EXPERT_ENDPOINTS = {MODEL: EndpointConfig("http://127.0.0.1:1", "small-1", "")}
    desk.seen(ada)
    desk.set_policy(ada, model_first=True, audit_share=0.0)
    ask = fresh(asked())
    assert (ask.tier, ask.tier_reason, ask.chance, ask.expected_wait_s) == ("llm", "model_first", 0.0, 0.0)
    page = html(as_person(ada).get("/routing/")).replace("\u00a0", " ")
    assert "Model first; 0% and asks with low model confidence" in page
    assert board.reached(ask) == "Model first; 0% go to people."
    assert board.underline(online.outlook(project, timezone.now())).startswith("Expert models answer first.")


def test_people_come_first_while_free_where_that_is_set(asked, ada, settings, project):
    settings.EXPERT_ENDPOINTS = {MODEL: EndpointConfig("http://127.0.0.1:1", "small-1", "")}
    desk.seen(ada)
    desk.set_policy(ada, model_first=True, audit_share=0.0, people_while_free=True)
    ask = fresh(asked())
    assert (ask.tier, ask.tier_reason, ask.chance) == ("people", "people_free", 1.0)
    assert "People first while they have capacity" in html(as_person(ada).get("/routing/"))
    assert "Expert models answer first" not in board.underline(online.outlook(project, timezone.now()))


def test_declined_ask_can_be_claimed_by_others_only(asked, ada, edo):
    ask = asked()
    passes(edo, ask, "not my field")
    with pytest.raises(AlreadyDeclined):
        queue.claim(edo, ask.pk)
    assert queue.claim(ada, ask.pk).ask_id == ask.pk


def test_ask_falls_back_when_every_expert_declined(asked, ada, edo):
    ask = asked()
    passes(edo, ask)
    assert fresh(ask).is_open
    passes(ada, ask)
    ask = fresh(ask)
    assert (ask.status, ask.reason, ask.accepted.source, ask.accepted.text) == ("fell_back", "declined", "fallback", "")


def test_when_everybody_passed_the_model_is_asked_before_that(asked, ada, edo, models):
    ask = asked()
    passes(edo, ask)
    assert fresh(ask).tier == "llm"  # ada is not at the desk, and nothing is reserved for people who are away
    assert verbs(ask)[-1] == ("to_llm", "human_passed")


def test_an_ask_waits_for_whoever_is_at_the_desk(asked, ada, edo, models):
    desk.seen(ada)
    ask = asked()
    passes(edo, ask)
    assert fresh(ask).tier == "people"
    desk.seen(ada, away=True)
    assert not advisers.pool(fresh(ask), timezone.now())[1]


def test_a_skill_that_nobody_has_is_a_refusal_that_says_so(asked, edo, project):
    ask = asked(skills=["refunds"])
    with pytest.raises(NotForYou):
        queue.claim(edo, ask.pk)
    Membership.objects.filter(user=edo.person, project=project).update(skills=["refunds", "returns"])
    assert queue.claim(edo, ask.pk)


def test_nobody_hoards_and_the_own_lease_may_be_taken_again(asked, ada, edo):
    desk.set_policy(ada, capacity=2)
    first, second, third = asked(), asked("May I refund?"), asked("Who decides?")
    queue.claim(edo, first.pk)
    queue.claim(edo, second.pk)
    with pytest.raises(AtCapacity, match=r"^You hold 2 asks in all your projects, and the limit is 2\. Answer or"):
        queue.claim(edo, third.pk)
    assert queue.claim(edo, first.pk)


def test_the_senior_tier_is_for_the_senior(asked, ada, edo, rita, project):
    with pytest.raises(Invalid):
        lease = queue.claim(edo, asked().pk)
        queue.escalate(edo, lease.assignment_id, lease.lease_token, "senior", "over my head")
    desk.set_policy(ada, senior=Membership.objects.get(user=ada.person, project=project))
    ask = asked("May I refund?")
    lease = queue.claim(edo, ask.pk)
    queue.escalate(edo, lease.assignment_id, lease.lease_token, "senior", "over my head")
    assert verbs(ask)[-1] == ("to_people", "over my head") and fresh(ask).tier == "senior"
    with pytest.raises(NotForYou):
        queue.claim(edo, ask.pk)
    assert answered(ada, ask).source == "human"


def test_what_is_left_to_models_is_no_persons_to_take(asked, ada, edo, models):
    desk.set_policy(ada, per_hour=0)
    with pytest.raises(NotForYou, match="Only models"):
        queue.claim(edo, asked().pk)


def test_human_budget_counts_human_asks_of_its_run_only(asked, ada):
    desk.set_policy(ada, per_hour=2)
    mine, other = (recording.start_run(ada, RunStart(name=name))[0].pk for name in ("mine", "other"))
    asks = [asked(run=mine) for _ in range(3)]
    assert [fresh(ask).status for ask in asks] == ["open", "open", "fell_back"]
    last = fresh(asks[-1])
    assert (last.reason, last.accepted.text) == ("budget", "")
    assert fresh(asked(run=other)).is_open


def test_long_queue_is_refused_only_if_the_project_wants_it(asked, ada):
    run = recording.start_run(ada, RunStart(name="busy"))[0].pk
    busy = [asked(f"Question number {n} about thing {n}?", run=run) for n in range(4)]
    assert all(fresh(ask).is_open for ask in busy)
    desk.set_policy(ada, wait_limit_s=60)
    ask = fresh(asked("One more?", run=run))
    assert (ask.status, ask.reason, ask.expected_wait_s) == ("fell_back", "backpressure", 300)
    assert Episode.objects.get(pk=ask.episode_id).state == "running"


def test_exact_repeat_is_cached_only_if_the_policy_allows(asked, ada, edo):
    answered(edo, asked())
    assert fresh(asked()).is_open
    desk.set_policy(ada, cache="models")
    assert fresh(asked()).is_open  # people's answers serve again only if told to
    desk.set_policy(ada, cache="all")
    ask = fresh(asked())
    assert (ask.status, ask.accepted.source, ask.accepted.author, ask.accepted.text) == (
        "answered",
        "cache",
        "edo",
        "The oldest.",
    )
    assert fresh(asked(expert="informed")).is_open  # what a blind answerer said is no answer of one who saw more
    assert fresh(asked(task="another task")).is_open


def test_answer_to_one_who_was_told_outcomes_is_not_cached(asked, ada, edo):
    desk.set_policy(ada, cache="all")
    ask = asked()
    briefing = {"seq": 2, "kind": "briefing", "text": "It checks the fee.", "privilege": "sees_verifier"}
    said = entry_of(briefing, ask.created_at)
    Step.objects.create(episode=ask.episode, seq=2, kind=said.kind, body=said.text, at=said.at)
    answered(edo, ask)
    assert fresh(asked()).is_open


def test_same_question_of_a_task_is_a_group(asked, ada, edo):
    group = [asked(f"Into which one?{'!' * n}") for n in range(3)]
    other = asked("May I refund order 7?")
    assert {ask.group for ask in map(fresh, group)} == {group[0].pk} != {fresh(other).group}
    first = answered(edo, group[0])
    said = advising.answer_group(
        edo, fresh(group[0]), first.text, None, "n1", [group[1].pk, group[2].pk, other.pk, group[0].pk]
    )
    assert said == {group[1].pk: "", group[2].pk: ""}
    assert fresh(other).is_open
    assert Advice.objects.filter(text="The oldest.").count() == 3  # each is logged by itself
    again = advising.answer_group(edo, fresh(group[0]), first.text, None, "n1", [group[1].pk])
    assert again == {group[1].pk: ""} and Advice.objects.filter(ask=group[1]).count() == 1
    ada_says = advising.answer_group(ada, fresh(group[0]), "No, this.", None, "n2", [group[1].pk])
    assert ada_says[group[1].pk] and Advice.objects.filter(ask=group[1]).count() == 1


def test_answer_to_a_group_has_one_time(asked, ada, edo):
    """Its first ask took a minute, and each of the others a moment: people do not answer at once."""
    group = [asked(f"Into which one?{'!' * n}") for n in range(6)]
    lease = queue.claim(edo, group[0].pk)
    Assignment.objects.filter(ask=group[0]).update(claimed_at=timezone.now() - timedelta(seconds=60))
    first = advising.answer(edo, lease.assignment_id, lease.lease_token, "The oldest.", "n1")
    advising.answer_group(edo, fresh(group[0]), first.text, None, "n1", [one.pk for one in group[1:]])
    assert Advice.objects.filter(took_s__lt=10).count() == 5
    assert 60 <= arriving.usual_time(ada.project) < 90
    took = records.metrics_of(ada, records.Look(), timezone.now()).desk.took
    assert took.n == 1 and 60 <= took.median < 90


def test_informed_asks_and_their_answers_are_marked(asked, edo):
    ask = asked(expert="informed")
    assert fresh(ask).privilege == "sees_verifier"
    assert desk.save_draft(edo, ask.pk, "half a tho").privilege == "sees_verifier"
    assert answered(edo, ask).privilege == "sees_verifier"


def test_an_answer_may_be_bettered_until_the_agent_reads_it(asked, ada, edo):
    ask = asked()
    first = answered(edo, ask)
    closing.look(ada, ask.pk)
    better = advising.edit(edo, ask.pk, "The newest.", None, "n2")
    assert advising.edit(edo, ask.pk, "The newest.", None, "n2").pk == better.pk
    assert better.supersedes_id == first.pk
    read = closing.consume(ada, ask.pk)
    assert read.accepted.text == "The newest."
    (step,) = steps_read_by(ada, ask.episode_id)
    assert step["advice"]["text"] == "The newest."
    with pytest.raises(Used):
        advising.edit(edo, ask.pk, "No, the first.", None, "n3")
    with pytest.raises(Used):
        advising.withdraw(edo, ask.pk)


def test_an_answer_may_be_taken_back_until_the_agent_reads_it(asked, ada, edo):
    ask = asked()
    answered(edo, ask)
    closing.look(ada, ask.pk)
    with pytest.raises(NotYours):
        advising.withdraw(ada, ask.pk)
    lease = advising.withdraw(edo, ask.pk)
    assert Episode.objects.get(pk=ask.episode_id).state == "waiting"
    assert "advice" not in steps_read_by(ada, ask.episode_id)[0]
    with pytest.raises(StillOpen):
        closing.consume(ada, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "On second thought, the newest.", "n2")
    assert closing.consume(ada, ask.pk).accepted.text == "On second thought, the newest."


def test_past_the_deadline_an_answer_stands(asked, edo):
    ask = asked()
    answered(edo, ask)
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now())
    with pytest.raises(TooLate):
        advising.withdraw(edo, ask.pk)


def test_a_stranger_changes_nothing(asked, edo, max_, rita):
    ask = asked()
    answered(edo, ask)
    for stranger, refusal in ((max_, NotFound), (rita, Forbidden)):
        with pytest.raises(refusal):
            advising.edit(stranger, ask.pk, "mine", None)
        with pytest.raises(refusal):
            advising.withdraw(stranger, ask.pk)
        with pytest.raises(refusal):
            desk.save_draft(stranger, ask.pk, "mine")
    for other in (rita, edo):
        with pytest.raises(Forbidden):
            desk.set_policy(other, capacity=9)


def test_a_draft_of_an_older_tab_overwrites_nothing(asked, edo):
    ask = asked()
    first = desk.save_draft(edo, ask.pk, "The ol")
    second = desk.save_draft(edo, ask.pk, "The oldest, bec", version=first.version)
    with pytest.raises(DraftConflict) as refused:
        desk.save_draft(edo, ask.pk, "The new", version=first.version)
    assert (refused.value.text, refused.value.version) == ("The oldest, bec", second.version)
    assert desk.save_draft(edo, ask.pk, "The oldest, bec", version=first.version).text == "The oldest, bec"


def test_a_draft_outlives_the_ask_and_is_gone_once_it_was_sent(asked, edo):
    ask, other = asked(), asked("May I?")
    desk.save_draft(edo, ask.pk, "The oldest")
    desk.save_draft(edo, other.pk, "You may")
    answered(edo, ask)
    ending.fail(system(other.project), other.episode_id, "worker", "gone")
    assert list(Draft.objects.values_list("text", flat=True)) == ["You may"]
    assert fresh(other).status == "cancelled"


def test_prepared_draft_is_used_only_at_the_deadline(asked, edo, models, project):
    ask, model = asked(), expert_model(project, MODEL)
    assert desk.begin_draft(model) is None  # not yet: people have the first 60 % of the time
    Ask.objects.filter(pk=ask.pk).update(draft_at=timezone.now())
    assert desk.begin_draft(model).pk == ask.pk
    assert desk.begin_draft(model) is None  # begun
    desk.keep_model_draft(model, ask, "Take the oldest.", None, 0.7)
    assert fresh(ask).accepted is None
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now())
    ask = closing.close_if_due(ask.pk)
    assert (ask.status, ask.reason) == ("fell_back", "deadline")
    assert (ask.accepted.source, ask.accepted.author, ask.accepted.text) == ("llm", MODEL, "Take the oldest.")


def test_a_draft_that_was_used_is_measured(asked, edo, models, project):
    ask, model = asked(), expert_model(project, MODEL)
    desk.want_draft(edo, ask.pk)
    desk.begin_draft(model)
    desk.keep_model_draft(model, ask, "Take the oldest.")
    lease = queue.claim(edo, ask.pk)
    advice = advising.answer(
        edo, lease.assignment_id, lease.lease_token, "Take the oldest one.", "n", drafted_by=model.key
    )
    assert (advice.source, advice.drafted_by) == ("human", MODEL)
    assert 0.8 < advice.draft_kept < 1


def test_a_hint_asks_for_another_draft(asked, edo, models, project):
    ask, model = asked(), expert_model(project, MODEL)
    desk.want_draft(edo, ask.pk)
    desk.begin_draft(model)
    desk.keep_model_draft(model, ask, "Take the oldest.")
    desk.want_draft(edo, ask.pk)
    assert desk.begin_draft(model) is None
    desk.want_draft(edo, ask.pk, "think of the customer")
    assert desk.begin_draft(model).draft_hint == "think of the customer"


def test_a_broken_draft_is_not_advice(asked, models, project, edo):
    ask, model = asked(), expert_model(project, MODEL)
    desk.want_draft(edo, ask.pk)
    desk.begin_draft(model)
    desk.keep_model_draft(model, ask, None)
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now())
    assert closing.close_if_due(ask.pk).accepted.source == "fallback"


def test_presence_counts_claims_and_not_agent_reads(asked, ada, project):
    script = bearer(issue_token(ada, "script", "expert")[0])
    agent = bearer(issue_token(ada, "loop", "agent")[0])
    queue.claim(script, asked().pk)
    desk.seen(agent)
    assert [one.actor_key for one in online.here(project, timezone.now())] == [script.key]
    Presence.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    assert not online.here(project, timezone.now())


def test_what_stands_before_people_is_counted_by_run(asked, ada):
    large = recording.start_run(ada, RunStart(name="large"))[0].pk
    mine, other = asked(run=large), asked()
    asked(run=large)
    asked()
    policy = policies.policy_of(policies.desk_of(ada.project), mine.episode)
    load = placing.load_for(mine, policy, timezone.now())
    assert (load.ahead, load.ahead_of_run, load.runs) == (3, 1, 3)
    queue.claim(ada, other.pk)
    assert online.served(ada.project) == {other.episode_id: 1}


def test_a_look_at_an_open_ask_reads_once(asked, ada, django_assert_num_queries):
    ask = asked()
    with django_assert_num_queries(1):
        assert closing.look(ada, ask.pk).is_open
