"""A gate from drawn offers to an arm: fitted by the command, stored with the plan, read by the worker, withdrawn."""

from __future__ import annotations

import json
import random

import pytest
from django.core.management import CommandError, call_command

from awmclient.asking import rules
from awmclient.asking.rules import AskGate, AskingRule, Seen, Side, row_of
from awmclient.record.progress import LoopProgress
from awmclient.schema import StepBatch
from episodes.models import Episode, Fork, VerifierOutcome, VerifierVersion
from episodes.record import ending, recording
from people.access import system
from people.models import AuditEntry
from runs.errors import BadPlan, NotFitted
from runs.launch import launching, planning, preflight, selecting, withdrawing
from runs.models import Arm, Plan, PlanState
from runs.pages import runs as run_pages
from runs.plan.plans import plan_from_yaml, plan_of, to_yaml
from runs.play.playing import rule_of
from runs.show import curve
from runs.show.comparison import compare_run
from runs.show.gating import decisions_of, drawn_in, fit_run
from tests.browsing import as_person, html
from tests.runs.planned import document, ended_rows, launched, rows_of_run
from tools import printed

pytestmark = pytest.mark.django_db(transaction=True)
DRAWN = [{"name": "drawn", "expert": "plain", "ask": "random:0.5"}]


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)


def a_gate():
    return AskGate(
        alone=Side(intercept=0, weights={}), offered=Side(intercept=-9, weights={"errors": 40}), threshold=0.1
    )


def call(turn, name, error=None):
    step = {"kind": "tool_call", "name": name, "arguments": {"turn": turn}, "turn": turn}
    return step | ({"error": error} if error else {"result": f"{turn}"})


def played(dice, needs):
    """Steps of an episode that gets stuck in its third turn or does not, its draws, and whether it is complete."""
    nudge = {"kind": "nudge", "content": "Ask.", "turn": 0}
    steps, draws = [], [dice.random() < 0.5 for _ in range(4)]
    for turn, drawn in enumerate(draws, 1):
        failed = needs and turn == 3
        steps += [call(turn, "set_price" if failed else "get_item", "no" if failed else None)]
        steps += [nudge | {"turn": turn}] if drawn else []
    return steps, draws, dice.random() < (0.6 if not needs else 0.95 if draws[2] else 0.05)


@pytest.fixture
def drawn(ada):
    """An ended run with an arm that drew its offers: half of its tasks get stuck, and only an offer then helps."""
    plan = rows_of_run(system(ada.project), tasks=120, scenarios=10, arms=DRAWN)
    dice, ends, steps, draws = random.Random(7), {}, {}, {}
    for one in plan.tries.order_by("position"):
        assert recording.begin(one.episode_id, "w")
        steps[one.episode_id], draws[one.episode_id], ends[one.episode_id] = played(dice, one.task_idx % 4 < 2)
        batch = StepBatch.model_validate(
            {"steps": [step | {"seq": n} for n, step in enumerate(steps[one.episode_id], 1)]}
        )
        recording.append_steps(system(ada.project), one.episode_id, batch.steps)
    ended_rows(ends)
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.FINISHED)
    return plan, draws


def test_command_fits_what_was_drawn_and_the_arm_decides_by_it(ada, drawn, tmp_path):
    plan, draws = drawn
    found = compare_run(ada, plan.pk)
    decisions = list(decisions_of(found, {"drawn": 0.5}))
    assert {pk: [one.offered for one in decisions if one.episode == pk] for pk in draws} == draws
    call_command("asking", run=plan.pk, out=tmp_path / "gate.json", project=ada.project.slug)
    gate = AskGate.model_validate(json.loads((tmp_path / "gate.json").read_text()))
    assert gate.card["run"] == plan.pk and gate.card["decisions"] == 480 and len(gate.card["scenarios"]) == 10
    assert fit_run(found).claims and fit_run(found).gate == gate
    stuck, fine = (
        row_of(Seen(steps, LoopProgress.after(steps)))
        for steps in ([call(1, "get_item"), call(2, "set_price", "no")], [call(1, "get_item"), call(2, "get_item")])
    )
    assert gate.offers(stuck) and not gate.offers(fine)

    arms = "arms: [{name: off}, {name: gated, expert: plain, ask: gate.json}]"
    said = plan_from_yaml(f"name: gated\ntasks: {{limit: 2}}\npolicy: script:oracle\n{arms}", tmp_path)
    assert plan_from_yaml(to_yaml(said)) == said, "the plan holds the gate whole"
    launched_plan, _ = planning.launch(ada, said)
    episode = Episode.objects.filter(run=launched_plan.run, arm="gated").first()
    assert episode.policy["ask"]["rule"] == gate.digest and episode.policy["ask"]["seen"] is False
    rule = rule_of(Episode.objects.get(pk=episode.pk))
    assert rule.rule == gate and rule.key == episode.policy["ask"]["key"]
    made = {"project": ada.project, "parent": episode, "seq": 1, "tries": 1, "knowledge": "blind", "grade": "exact"}
    branch = Episode(origin="branch", fork=Fork.objects.create(**made), policy=episode.policy)
    assert rule_of(branch) == rule, "a branch asks as its root did"
    assert rule_of(Episode.objects.filter(run=launched_plan.run, arm="off").first()) is None


def test_run_that_drew_too_little_says_what_is_missing(ada, drawn, tmp_path):
    plan, _ = drawn
    few = compare_run(ada, plan.pk)
    few.tries[:] = few.tries[:20]
    with pytest.raises(NotFitted, match="20 counted episodes of 60 needed"):
        fit_run(few)
    undrawn = rows_of_run(system(ada.project), tasks=1)
    with pytest.raises(CommandError, match="The run has not ended"):
        call_command("asking", run=undrawn.pk, project=ada.project.slug)
    Plan.objects.filter(pk=undrawn.pk).update(state=PlanState.FINISHED)
    with pytest.raises(CommandError, match="No arm of this run draws its offers by turn"):
        call_command("asking", run=undrawn.pk, project=ada.project.slug)


def test_decision_that_declined_counts_where_nothing_follows():
    ends = [call(1, "get_item"), call(2, "get_item")]
    assert [offered for _, offered, _ in drawn_in(ends, 5, 30)] == [False, False]
    assert len(list(drawn_in(ends, 5, 2))) == 1, "no turn is left after the second"
    assert list(drawn_in(ends, 0, 30)) == []
    asked = [*ends[:1], {"kind": "nudge", "content": "Ask.", "turn": 1}, {"kind": "ask", "question": "?", "turn": 2}]
    assert [(offered, asks) for _, offered, asks in drawn_in(asked, 1, 30)] == [(True, True)]


def test_seen_is_what_was_played_before_the_launch(ada):
    first = launched(ada, arms=DRAWN, tasks={"limit": 2})
    ended_rows({first.tries.first().episode_id: True})
    again = launched(ada, arms=DRAWN, tasks={"limit": 2})
    seen = {row.task: row.episode.policy["ask"]["seen"] for row in again.tries.select_related("episode")}
    assert seen == {first.tries.first().task: True, first.tries.last().task: False}


class EveryOther(AskingRule):
    name = example = "every-other"
    words = "after every other turn"
    is_untimed = True

    def offers(self, seen, key):
        return seen.progress.turn % 2 == 0


def test_new_rule_is_one_class_of_the_registry(ada, monkeypatch):
    arms = [{"name": "off"}, {"name": "new", "expert": "plain", "ask": "every-other"}]
    with pytest.raises(BadPlan, match="one of own, always, random:0.3, a gate"):
        document(arms=arms)
    monkeypatch.setattr(rules, "RULES", [*rules.RULES, EveryOther])
    monkeypatch.setattr(run_pages, "RULES", rules.RULES)
    assert "Offers help after every other turn" in html(as_person(ada).get("/runs/"))
    assert "| `every-other` | after every other turn |" in printed.asking_rules()
    plan = launched(ada, arms=arms, tasks={"limit": 2})
    assert "Arms differ in rule of when to ask: off none, new every-other." in preflight.checked(
        ada, plan_of(plan.document), []
    )
    ended_rows(dict.fromkeys(plan.tries.values_list("episode_id", flat=True), True))
    off, new = curve.points_of(compare_run(ada, plan.pk), None)
    assert (new.rule, new.is_untimed, off.rule) == ("every-other", True, "never")
    rule = rule_of(plan.tries.filter(arm__name="new").first().episode)
    assert [rule.offers([], LoopProgress.after([call(1, "get_item")] * turns)) for turns in (0, 1)] == [True, False]


def test_retry_keeps_the_draws(ada):
    plan = launched(ada, arms=DRAWN, tasks={"limit": 1})
    before = plan.tries.get().episode
    assert recording.begin(before.pk, "w")
    ending.fail(system(ada.project), before.pk, "environment", "stopped")
    assert planning.retry(ada, plan.run_id) == 1
    after = plan.tries.get().episode
    assert after.pk != before.pk and after.policy["ask"] == before.policy["ask"]


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ({"ask": "gate.json"}, "only the command run reads a file"),
        ({"ask": "random:0.95"}, "a chance from 0.1 to 0.9"),
        ({"ask": "own", "expert": "off"}, "has an expert in every episode"),
        ({"ask": "own", "offer": 0.5}, "has an expert in every episode"),
        ({"ask": {**a_gate().model_dump(), "threshold": 0.2}}, "changed after it was fitted"),
    ],
)
def test_wrong_rule_is_refused_by_name(arm, words):
    with pytest.raises(BadPlan, match=words):
        document(arms=[{"name": "a", "expert": "plain", **arm}])


def test_gate_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "no.json").write_text("{")
    for name in ("no.json", "missing.json", "."):
        with pytest.raises(BadPlan, match=f"The gate {name} cannot be read"):
            plan_from_yaml(f"name: a\narms: [{{name: a, expert: plain, ask: {name}}}]", tmp_path)


def test_gate_that_is_worse_is_withdrawn_and_its_episodes_go_on(ada):
    gate = a_gate()
    arms = [{"name": "off"}, {"name": "gated", "expert": "plain", "ask": gate.model_dump()}]
    plan = rows_of_run(system(ada.project), tasks=30, arms=arms)
    tries = list(plan.tries.select_related("arm").order_by("position"))
    ask = {"ask": {"rule": gate.digest, "key": "k", "seen": False}}
    Episode.objects.filter(run=plan.run, arm="gated").update(policy=ask)
    [running] = [one for one in tries if one.arm.name == "gated"][20:21]
    assert recording.begin(running.episode_id, "w")
    ended_rows({one.episode_id: one.arm.name == "off" for one in tries if one.position < 5})
    assert withdrawing.gated() == [plan.pk] and withdrawing.withdraw_if_worse(plan.pk) == []
    ended_rows({one.episode_id: one.arm.name == "off" for one in tries if 5 <= one.position < 20})
    assert withdrawing.withdraw_if_worse(plan.pk) == ["gated"] and withdrawing.withdraw_if_worse(plan.pk) == []
    assert withdrawing.gated() == []
    arm = Arm.objects.get(plan=plan, name="gated")
    assert "worse" in arm.withdrawn and AuditEntry.objects.get(verb="run.gate_withdrawn").target == plan.pk
    assert rule_of(Episode.objects.get(pk=running.episode_id)).rule == gate, "it began with the gate"
    later = [one for one in tries if one.arm.name == "gated"][25].episode_id
    assert recording.begin(later, "w")
    assert rule_of(Episode.objects.get(pk=later)) is None
    assert compare_run(ada, plan.pk).contrasts[0].verdict == "worse", "what was said stays"
    page = html(as_person(ada).get(f"/runs/{plan.pk}/"))
    assert 'id="curve"' in page and "The gate of gated was withdrawn" in page and "curve.csv" in page
    again = document(name="again", arms=arms)
    assert preflight.doubts(ada, again, selecting.tasks_of(ada, again))[0] == (
        "The gate of gated was withdrawn in the run planted."
    )


def test_gate_is_not_withdrawn_by_corrected_outcomes_alone(ada):
    """A repair finds all episodes of the gate incomplete: the first outcomes showed no difference."""
    arms = [{"name": "off"}, {"name": "gated", "expert": "plain", "ask": a_gate().model_dump()}]
    plan = rows_of_run(system(ada.project), tasks=30, arms=arms)
    ended_rows({one.episode_id: True for one in plan.tries.filter(position__lt=20)})
    about = {"scenario": "planted_1", "task_idx": 0, "number": 2, "code": "", "sha256": "", "reason": "r"}
    version = VerifierVersion.objects.create(project=ada.project, created_by="ada", **about)
    first = VerifierOutcome.objects.filter(episode__run=plan.run, episode__arm="gated")
    hit = list(first.values_list("episode_id", flat=True))
    assert len(hit) == 20 and first.update(source="superseded") == 20
    VerifierOutcome.objects.bulk_create(
        VerifierOutcome(episode_id=pk, source="verifier", version=version, reward_type="others", reward=0.0)
        for pk in hit
    )
    assert withdrawing.withdraw_if_worse(plan.pk) == [] and not Arm.objects.exclude(withdrawn="").exists()
    found = compare_run(ada, plan.pk).contrasts[0]
    assert found.treated_rate == 0 and found.running.verdict == "withheld"


def test_gate_names_what_it_was_fitted_on_in_the_next_plan(ada):
    said = document(arms=[{"name": "off"}])
    scenario = selecting.tasks_of(ada, said)[0][0]
    known = AskGate(**{**a_gate().model_dump(exclude={"digest"}), "card": {"scenarios": [scenario]}})
    said = document(arms=[{"name": "off"}, {"name": "gated", "expert": "plain", "ask": known.model_dump()}])
    assert preflight.doubts(ada, said, selecting.tasks_of(ada, said))[0] == (
        f"The gate of gated was fitted on 1 scenario of this plan: {scenario}."
    )
    assert any("rule of when to ask" in one for one in preflight.checked(ada, said, selecting.tasks_of(ada, said)))
