"""Checks before a launch: the weaknesses of a plan's comparison, and a few rollouts that show whether any reward is
earned.

Reads; the rollouts are a run of their own, which `planning` launches like any other. Called by page and commands.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awmclient.asking.rules import AskGate, asking_rule
from awmclient.schema import ASK_TOOL
from awmclient.words.prompts import system_prompt
from awmenv.health import Health
from awmenv.packs import Pack
from episodes.errors import BlindReview
from episodes.stored import outcomes
from episodes.stored.packs import find_pack
from episodes.stored.strip import outcome_words
from episodes.visible import visibility
from people.access import Actor
from people.text.in_words import count
from runs.errors import BadPlan
from runs.launch import briefings
from runs.launch.selecting import Task, shuffled
from runs.models import Arm, Plan
from runs.plan.plans import PlanDocument, PlannedArm, plan_of
from runs.statistics import power
from runs.statistics.offers import FEWEST, FEWEST_OF_A_SIDE
from runs.taskset import probes, split_checks

ROLLOUTS = 10
NAMED = 3
PREFIX = "preflight of "
OWN = {
    "expert": "expert",
    "offer": "chance of an offer",
    "people": "share of people",
    "briefing": "briefing",
    "outcomes": "briefing from outcomes",
    "ask": "rule of when to ask",
    "options": "options of the model",
}
"""Labels of the settings of an arm that change its agents' input, beside the policy."""
UNCHECKED = "verifier not checked"


def unusable(pack: Pack, scenario: str, idx: int, unfit: Mapping[str, str]) -> str:
    """Return why an outcome of this task would show nothing, or "". `unfit` holds earlier probes and rulings."""
    if (reason := unfit.get(f"{scenario}/{idx}")) is not None:
        return reason
    if pack.scenario(scenario).partial:
        return "partial scenario"
    if pack.verifier(scenario, idx, "code") is None:
        return "no code verifier"
    health = pack.report.health.get((scenario, idx))
    if health is None or health.unchecked:
        return UNCHECKED
    if health.code.state != "runs":
        return "verifier does not run"
    return "passes on the unmodified database" if health.code.says == "complete" else ""


def doubts(actor: Actor, document: PlanDocument, tasks: Sequence[Task]) -> list[str]:
    """Return the weaknesses of this plan's comparison, a sentence each; empty if none is known."""
    sentences = []
    policies = {arm.policy or document.policy for arm in document.arms}
    if len(policies) > 1 and len({arm.expert for arm in document.arms}) > 1:
        sentences.append("Arms differ in policy and in expert, so a difference cannot be put down to either.")
    if len({(arm.briefing, arm.outcomes) for arm in document.arms}) > 1 and (
        len(policies) > 1 or len({arm.expert for arm in document.arms}) > 1
    ):
        sentences.append(
            "Arms differ in briefing and in policy or expert, so a difference cannot be put down to either."
        )
    sentences += unbriefed(actor, document, tasks)
    each = len(tasks) * document.seeds
    sentences += [
        f"{arm.name} draws its offers for {count(each, 'episode')}; a result needs {_fewest(arm.offer)}."
        for arm in document.arms
        if arm.offer is not None and each < _fewest(arm.offer)
    ]
    sentences += _of_gates(actor, document, tasks)
    unfit = probes.unfit(actor.project)
    reasons = Counter(
        unusable(pack, scenario, idx, unfit)
        for scenario, idx, _ in tasks
        if (pack := find_pack(scenario)) is not None and scenario in pack.scenarios
    )
    for reason, number in sorted(reasons.items()):
        if reason not in ("", UNCHECKED):
            sentences.append(f"{count(number, 'task')} of {len(tasks):,} cannot show a difference: {reason}.")
    return sentences + split_checks.of_tasks(actor.project, tasks).doubts


def _of_gates(actor: Actor, document: PlanDocument, tasks: Sequence[Task]) -> list[str]:
    """Return the weaknesses of the gates of a plan: tasks that they were fitted on, and a run that withdrew one."""
    sentences = []
    scenarios = {scenario for scenario, _, _ in tasks}
    for arm in document.arms:
        if not isinstance(arm.ask, AskGate):
            continue
        fitted_on = arm.ask.card.get("scenarios")
        if shared := sorted(scenarios & {str(one) for one in fitted_on} if isinstance(fitted_on, list) else set()):
            some = ", ".join(shared[:NAMED]) + (", …" if len(shared) > NAMED else "")
            sentences.append(
                f"The gate of {arm.name} was fitted on {count(len(shared), 'scenario')} of this plan: {some}."
            )
        worse = Arm.objects.filter(plan__run__project=actor.project, withdrawn_at__isnull=False).select_related(
            "plan__run"
        )
        for other in worse.order_by("-withdrawn_at"):
            if any(
                one.get("name") == other.name and _digest(one) == arm.ask.digest for one in other.plan.document["arms"]
            ):
                sentences.append(f"The gate of {arm.name} was withdrawn in the run {other.plan.run.name}.")
                break
    return sentences


def _digest(arm: Mapping[str, Any]) -> str:
    return str(arm["ask"].get("digest")) if isinstance(arm.get("ask"), Mapping) else ""


def _fewest(chance: float) -> int:
    """Return the episodes that an arm needs for the effect of its offers: enough on its smaller side, too."""
    # 1e-9: 1 - 0.9 is a little less than 0.1, which would need one episode more
    return max(FEWEST, math.ceil(FEWEST_OF_A_SIDE / min(chance, 1 - chance) - 1e-9))


def unbriefed(actor: Actor, document: PlanDocument, tasks: Sequence[Task]) -> list[str]:
    """Return, for each arm with a briefing, the number of tasks without one."""
    sentences = []
    for name, missing in briefings.lacking(actor, document, tasks).items():
        some = ", ".join(missing[:NAMED]) + (", …" if len(missing) > NAMED else "")
        sentences.append(f"{count(len(missing), 'task')} of {len(tasks):,} would have no briefing in {name}: {some}.")
    return sentences


def trial(document: PlanDocument, tasks: Sequence[Task]) -> PlanDocument:
    """Return the plan of at most ten rollouts: the control arm on the first tasks in the planned order, or the first
    arm of an agent. Raises `BadPlan` if there is none."""
    chosen = shuffled(tasks, document.shuffle)[:ROLLOUTS]
    of_agents = [arm for arm in document.arms if not arm.person]
    if not of_agents:
        raise BadPlan("A preflight needs an arm of an agent.")
    control = next((arm for arm in of_agents if arm.name == document.control), of_agents[0])
    keys = [f"{scenario}/{idx}" for scenario, idx, _ in chosen]
    changed = {
        "name": f"{PREFIX}{document.name}"[:100],
        # a plan refuses texts of tasks that it does not list
        "texts": {key: text for key, text in (document.texts or {}).items() if key in keys} or None,
        "tasks": keys,
        "arms": [control.model_dump()],
        "control": "",
        # the same number on each task, so that no task weighs more
        "seeds": ROLLOUTS // max(len(chosen), 1),
        "start": True,
    }
    return plan_of({**document.model_dump(), **changed})


def is_trial(plan: Plan) -> bool:
    """Return whether a run is the rollouts of a preflight."""
    return plan.run.name.startswith(PREFIX)


def newest(actor: Actor, document: PlanDocument, tasks: Sequence[Task]) -> Plan | None:
    """Return the last preflight of such a plan, under any name; none of a plan without agents."""
    if all(arm.person for arm in document.arms):
        return None
    content = trial(document, tasks).model_dump(exclude={"name"})
    # by content: a plan that was renamed since is the same trial
    trials = Plan.objects.filter(run__project=actor.project, run__name__startswith=PREFIX, document__contains=content)
    return trials.select_related("run").order_by("-run__created_at").first()


def checked(actor: Actor, document: PlanDocument, tasks: Sequence[Task]) -> list[str]:
    """Return the arguments for this plan's comparison, and how far each was checked, a sentence each."""
    sentences = []
    if len(document.arms) > 1:
        sentences += _shared(document)
    keys = {f"{scenario}/{idx}" for scenario, idx, _ in tasks}
    if len(document.arms) > 1:
        claim_count = len(document.arms) - 1 + sum(arm.offer is not None for arm in document.arms)
        # every statement gets the smallest share of the error that Holm can leave it
        sentences.append(_power(len(keys - set(probes.unfit(actor.project))), document.seeds, claim_count))
    probed = [one for one in probes.newest() if one.task in keys]
    clean = f"{sum(one.state == probes.State.CLEAN for one in probed):,} of {count(len(keys), 'task')} clean"
    missing = f", {len(keys) - len(probed):,} not probed (manage.py probe)" if len(probed) < len(keys) else ""
    sentences.append(f"Probes: {clean}{missing}.")
    if probed:
        sentences.append(_verifiers([one.checked for one in probed], len(keys)))
    if passed := split_checks.of_tasks(actor.project, tasks).passed:
        sentences.append(passed)
    return sentences


def _shared(document: PlanDocument) -> list[str]:
    """Return the settings that all arms share, and each setting in which they differ. Tasks, seeds and limits belong to
    the plan: an arm has none of its own."""
    prompts = {arm.name: _prompt(document, arm) for arm in document.arms}
    same = "tasks, seeds and limits" if len(set(prompts.values())) > 1 else "tasks, seeds, limits and prompt"
    sentences = [f"All arms get the same {same}."]
    for name in ("policy", *OWN):
        values = {arm.name: _value(document, arm, name) for arm in document.arms}
        if len(set(values.values())) > 1:
            sentences.append(f"Arms differ in {OWN.get(name, name)}: {_each(values)}.")
    if len(set(prompts.values())) > 1:
        reminds = " and its reminders" if document.nudge_after or document.stall_after else ""
        sentences.append(f"Prompts differ only by {ASK_TOOL}{reminds}: {_each(prompts)}.")
    return sentences


def _value(document: PlanDocument, arm: PlannedArm, name: str) -> str:
    value = arm.policy or document.policy if name == "policy" else getattr(arm, name)
    if name == "ask" and value is not None:
        return str(asking_rule(value))
    if name == "options":
        options = {**(document.options or {}), **(arm.options or {})}
        return json.dumps(options, sort_keys=True) if options else "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _prompt(document: PlanDocument, arm: PlannedArm) -> str:
    """Return which system prompt an arm's agents get, as the start of its SHA-256."""
    # an arm that draws its offers has agents with the expert and agents without
    offers = {arm.expert != "off"} | ({False} if arm.offer is not None else set())
    prompts = (system_prompt(expert=offered) for offered in sorted(offers))
    return " or ".join(hashlib.sha256(prompt.encode()).hexdigest()[:8] for prompt in prompts)


def _each(values: Mapping[str, str]) -> str:
    return ", ".join(f"{arm} {value}" for arm, value in values.items())


def _verifiers(checks: Sequence[Health | None], tasks: int) -> str:
    """Return how many tasks have a verifier without findings on the unmodified database, and the findings of the
    others."""
    reports = [one for one in checks if one is not None]
    remarks = Counter(one.remarks[0] for one in reports if one.remarks)
    healthy = f"{len(reports) - remarks.total():,} of {count(tasks, 'task')} healthy"
    others = [f"{number:,}: {remark}" for remark, number in remarks.most_common()]
    missing = [f"{tasks - len(reports):,} not checked"] if len(reports) < tasks else []
    return f"Verifiers: {'; '.join([healthy, *others, *missing])}."


def _power(tasks: int, seeds: int, contrasts: int) -> str:
    delta = power.smallest(tasks, seeds, contrasts)
    if delta is None:
        return f"Power: {count(tasks, 'task')} can hardly show a difference."
    return f"Power: {count(tasks, 'task')} show a difference of about {round(100 * delta)} points in 4 of 5 such runs."


@dataclass(frozen=True)
class PreflightResult:
    """The result of the rollouts: how many earned a reward above zero, and the results of the others, by wire name."""

    rollouts: int
    earned: int
    others: Mapping[str, int]

    @property
    def words(self) -> str:
        sentence = f"{self.earned} of {count(self.rollouts, 'rollout')} earned a reward"
        if not self.others:
            return f"{sentence}."
        left = (f"{outcome_words(name).lower()} {number}" for name, number in self.others.items())
        return f"{sentence}; {', '.join(left)}."


def finding(plan: Plan) -> PreflightResult:
    """Return the result of an ended trial."""
    states = dict(plan.tries.values_list("episode_id", "episode__state"))
    rows = outcomes.of_episodes(states).unaided().found_here()
    judged = {episode: (reward_type, reward) for episode, reward_type, reward in rows.values_list(
        "episode_id", "reward_type", "reward"
    )}  # fmt: skip
    # no reward is none above zero
    earned = {episode for episode, (_, reward) in judged.items() if (reward or 0) > 0}
    left = [judged[one][0] if one in judged else states[one] for one in states if one not in earned]
    return PreflightResult(len(states), len(earned), dict(Counter(left).most_common()))


def earned(actor: Actor, trial: Plan | None) -> str:
    """Return the result of a preflight in words, unless its outcomes are withheld from the reader."""
    if trial is None:
        return ""
    try:
        visibility.refuse_while_blind(actor, trial.pk)
    except BlindReview as blind:
        return blind.message
    return finding(trial).words
