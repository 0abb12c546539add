"""Planted truth: runs without an effect that a person attacks, in the fast form of `make planted`, and through the
product's own calls. The whole form plays every attack at every size and writes docs/measured/planted.md."""

from __future__ import annotations

import random

import pytest
from django.test import Client

from awmclient.schema import AskOpen, StepBatch
from bench.planted import asking, draws, truth
from bench.planted.power import fixed
from episodes.errors import OtherLoop
from episodes.models import Episode
from episodes.record import recording
from episodes.record.appending import Append, append_together
from episodes.stored.entries import entries_of
from experts.record import attaching, opening
from people.access import system
from runs.launch import planning
from runs.models import Plan
from runs.show.comparison import compare_run, evaluate
from runs.statistics.anytime import Unit, Wave, interval
from runs.statistics.deciding import PLANNED, RUNNING, statements
from tests.browsing import as_person, html
from tests.examples import some_of
from tests.people_by_name import token
from tests.runs.planned import end, ended_rows, launched, rows_of_run


def false_words(attack, tasks, runs, *, seeds=1, world=0):
    """How many of these runs without an effect say something; the fixed seeds are their numbers."""
    step = len(truth.WORLDS)
    return sum(truth.attacked(attack, tasks, seeds, step * number + world).false for number in range(runs))


@pytest.mark.long
def test_cancelled_tries_make_nothing_true():
    """A person who sees the control first cancels open tries: 13 of these 40 runs said better before."""
    assert false_words("cancel", 150, 40) <= 3


@pytest.mark.long
def test_shared_answers_make_nothing_true():
    """A person gives tasks one answer by what the control showed: 5 of these 40 runs said something before."""
    assert false_words("shared answers", 300, 40) <= 3


@pytest.mark.long
def test_retried_crashes_make_nothing_true():
    assert false_words("retry", 300, 8) <= 1


def test_all_attacks_at_once_make_nothing_true():
    assert false_words("everything", 60, 8) <= 1
    assert false_words("everything", 60, 2, seeds=4, world=2) == 0


@pytest.mark.parametrize(("tasks", "share"), [(300, 0.3), (1000, 0.3)])
def test_arm_whose_failures_crash_stays_withheld_after_retries(tasks, share):
    """Three in ten failures crash and are retried: 49% and 93% of such runs said better before."""
    run = truth.planted(tasks, 1, "even", "crash")
    crashed = [
        truth._ended(one, "fault worker")
        if one.arm == truth.TREATED and not one.complete and run.dice.random() < share
        else one
        for one in run.tries
    ]
    retried = truth._retried(run, crashed)
    for tries in (crashed, retried):
        [found], _ = evaluate(run.said, tries)
        assert found.verdict == "withheld" and set(found.exclusions.treated) <= {"fault worker", "replaced by a retry"}


@pytest.mark.parametrize(
    ("arms", "drawing", "parts"),
    [
        (["control", "one"], [], [(PLANNED, RUNNING)]),
        (["control", "one", "two"], [], [(PLANNED, RUNNING / 2)] * 2),
        (["control", "one"], ["one"], [(PLANNED / 2, RUNNING / 2)] * 2),
        (["control"], [], []),
    ],
)
def test_statements_of_a_run_share_five_percent(arms, drawing, parts):
    found = statements(arms, "control", drawing)
    assert [(one.planned, one.running) for one in found] == parts
    kinds = {one.is_contrast: one.planned for one in found}
    assert sum(kinds.values()) + sum(one.running for one in found) in (0, pytest.approx(0.05))


def test_runs_without_an_effect_say_something_in_five_percent():
    """300 tasks: one look of 5% at the end or a running one of 5% made 6.5 to 7.5%."""
    assert false_words("none", 300, 60) <= 6


def test_interval_of_several_seeds_covers_at_every_look():
    """Nine of ten tasks tie and the others vary in one arm: 36% of these missed the truth at some look before."""
    missed = 0
    for number in range(40):
        dice = random.Random(number)
        units = [Unit(0.0) if dice.random() < 0.9 else Unit(0.9 if dice.random() < 0.1 else -0.1) for _ in range(150)]
        looks = (interval([Wave(tuple(units[:read]))], 0.05) for read in range(10, 151, 20))
        missed += any(not low <= 0 <= high for low, high in looks)
    assert missed <= 4


@pytest.mark.parametrize("chance", some_of([0.1, 0.2]))
def test_offers_have_no_interval_below_thirty_on_a_side(chance):
    """With 60 episodes they covered 65% and 84%."""
    found = [draws.drawn(chance, 100, number) for number in range(10)]
    assert all(one.interval is None and one.verdict in ("few", "none") for one, _ in found)
    large = [draws.drawn(chance, int(45 / chance), number) for number in range(15)]
    assert sum(one.interval[0] <= effect <= one.interval[1] for one, effect in large if one.interval) >= 12


@pytest.mark.long
def test_interval_of_rare_outcomes_with_offers_covers():
    """At most 2% complete without an offer: 21 of these 58 missed the effect before."""
    found = [draws.drawn(0.1, 400, number, "at most 2%") for number in range(60)]
    held = [one.interval[0] <= effect <= one.interval[1] for one, effect in found if one.interval]
    assert len(held) > 50 and sum(held) >= 0.93 * len(held)


@pytest.mark.long
def test_split_of_the_error_costs_little_power():
    runs = [truth.planted(60, 1, "even", f"power/{number}", uplift=0.25) for number in range(80)]
    before = sum(fixed(run.tries, 1) for run in runs)
    now = sum(evaluate(run.said, run.tries)[0][0].verdict == "better" for run in runs)
    assert before > 60 and now >= before - 4


def contrast_at(actor, plan):
    [found] = as_person(actor).get(f"/api/v1/runs/{plan.pk}/comparison").json()["contrasts"]
    return found


@pytest.mark.django_db
def test_person_who_stops_open_tries_gains_no_word(ada):
    """Six tasks are won of 60, and two that can only be lost are still open in one arm when a person stops them. Left
    out, they made "better" of it: they are too few for a count of losses."""
    plan = rows_of_run(ada, 60)
    tries = list(plan.tries.order_by("position").values_list("episode_id", "arm__name", "position"))
    chosen = [one for one, arm, position in tries if arm == "expert" and position >= 58]
    ended_rows(
        {
            one: position >= 58 if arm == "baseline" else position < 6
            for one, arm, position in tries
            if one not in chosen
        }
    )
    before = contrast_at(ada, plan)
    assert before["state"] == "running" and before["verdict"] == "none"
    for one in chosen:
        assert as_person(ada).post(f"/episodes/{one}/stop", {"reason": "stuck"}).status_code in (200, 302)
    found = contrast_at(ada, plan)
    assert found["exclusions"]["treated"] == {"cancelled": 2} and found["verdict"] == "withheld"
    assert "better" not in html(as_person(ada).get(f"/runs/{plan.pk}/")).split("</h1>")[0].lower()


@pytest.mark.django_db
def test_token_and_person_record_no_episode_of_a_run(ada):
    """They have seen the other arm: a fault of the policy, an own step or a closed ask would decide a try."""
    plan = rows_of_run(ada, 2)
    one = plan.tries.filter(arm__name="expert").first().episode_id
    house, said = system(ada.project), {"key": "q", "episode": one, "seq": 1, "question": "Which?"}
    recording.begin(one, "w")
    ask, _ = opening.open_ask(house, AskOpen.model_validate(said))
    note, calls = {"seq": 2, "kind": "note", "content": "x"}, f"/api/v1/episodes/{one}"
    agent = Client(headers={"Authorization": f"Bearer {token(ada.project, 'agent')[1]}"})
    for client in (agent, as_person(ada)):
        for path, body in (
            (f"{calls}/finish", {"stop_reason": "error", "fault": "policy", "detail": "x"}),
            (f"{calls}/finish", {"stop_reason": "error", "fault": "environment", "detail": "x"}),
            (f"{calls}/steps", {"steps": [note]}),
            (f"{calls}/heartbeat", {}),
            (f"{calls}/park", {}),
            ("/api/v1/asks", {**said, "key": "r", "seq": 2}),
            (f"/api/v1/asks/{ask.pk}/cancel", {}),
        ):
            answer = client.post(path, body, content_type="application/json")
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "other_loop"), path
    with pytest.raises(OtherLoop):
        attaching.attach(token(ada.project, "agent")[0], ask.pk, "hint.txt", b"complete on the other arm")
    batch = StepBatch.model_validate({"steps": [note]}).steps
    [refused] = append_together([Append(token(ada.project, "agent")[0], one, entries_of(batch))])
    assert isinstance(refused, OtherLoop) and Episode.objects.get(pk=one).last_seq == 1


@pytest.mark.django_db
def test_launch_fixes_what_a_run_says(ada, settings):
    plan = launched(ada, tasks={"limit": 2}, parallel=4)
    shown = as_person(ada).get(f"/api/v1/runs/{plan.pk}/comparison").json()
    assert shown["claims"] == plan.claims and shown["claims_digest"] == plan.claims_digest
    assert [one["planned_error"] for one in plan.claims["statements"]] == [PLANNED]
    assert shown["exploratory"] == ["difficulty", "scenarios", "added", "price", "corrected", "against_itself"]
    page = html(as_person(ada).get(f"/runs/{plan.pk}/"))
    assert "each for itself" in shown["claims"]["rules"]["intervals"] and "Each interval is for itself" in page
    assert "What this run says" in page and "exploratory, not part of the plan" in page


@pytest.mark.django_db
@pytest.mark.parametrize("change", ["claims", "control", "limits", "tries"])
def test_changed_plan_of_a_run_withholds_everything(ada, change):
    plan = launched(ada, tasks={"limit": 2}, parallel=4)
    for one in plan.tries.all():
        end(one.episode_id)
    if change == "claims":
        plan.claims["statements"][0]["planned_error"] = 0.2
    elif change == "control":
        plan.document["control"] = plan.document["arms"][1]["name"]
    elif change == "limits":
        plan.document["max_steps"] = 99
    else:
        plan.tries.filter(position=0).delete()
    Plan.objects.filter(pk=plan.pk).update(claims=plan.claims, document=plan.document)
    found = compare_run(ada, plan.pk)
    assert [one.verdict for one in found.contrasts] == ["withheld"] and "Withheld: " in found.sentence


@pytest.mark.django_db
def test_added_seeds_leave_the_planned_result(ada):
    plan = launched(ada, tasks={"limit": 6}, parallel=50)
    for one in plan.tries.select_related("arm"):
        end(one.episode_id, complete=one.arm.name == "expert")
    before = contrast_at(ada, plan)
    assert before["verdict"] == "better"
    planning.add_seeds(ada, plan.pk, 1)
    for one in plan.tries.filter(wave=1):
        end(one.episode_id, complete=False)
    after = contrast_at(ada, plan)
    assert (after["sentence"], after["delta"], after["added"]) == (before["sentence"], 1.0, 0.5)
    assert "With the seeds that were added: +50 points" in html(as_person(ada).get(f"/runs/{plan.pk}/"))


def test_gate_finds_a_planted_need_with_few_asks():
    found = asking.fitted(0, needs=True)
    reached = asking.tried(found, 0)
    gate, always = reached["learned gate"], reached["always"]
    assert found.claims and gate.asking.f1 >= asking.F1
    assert gate.asking.per_task <= asking.ASKS * always.asking.per_task
    assert gate.point.complete > 1.5 * reached["never"].point.complete
