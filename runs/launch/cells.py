"""Writes: the cells of a plan: each task under each arm with each seed, with its draws, as a try and its episode.

Owns what an episode is started with. Leaves which tasks to `selecting.py`, and states and retries to `planning.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awmclient.schema import EpisodeStart, OfferedTools
from episodes.models import Episode, ExpertMode
from episodes.record import queueing
from episodes.stored.packs import scenario_digest
from people.access import Actor
from runs.errors import BadPlan
from runs.launch import launching
from runs.launch.selecting import Task
from runs.models import Arm, Plan, PlannedTry
from runs.plan import servers
from runs.plan.plans import OF_LOOP
from runs.statistics.offers import is_for_people, is_offered
from runs.taskset import own_tools


@dataclass(frozen=True)
class NewTry:
    """One task under one arm with one seed, to be inserted. `experts` says who alone answers, where that was drawn."""

    arm: Arm
    task: Task
    seed: int
    position: int
    offered: bool | None = None
    experts: str = ""

    @property
    def expert(self) -> str:
        return ExpertMode.OFF if self.offered is False else self.arm.expert


def made(plan: Plan, arms: Sequence[Arm], tasks: Sequence[Task], seeds: range) -> list[NewTry]:
    chances, shares = chances_of(plan), people_of(plan)
    simulated = {arm["name"] for arm in plan.document["arms"] if arm.get("experts")}

    def offered(arm: Arm, task: str, seed: int) -> bool | None:
        chance = chances.get(arm.name)
        return None if chance is None else is_offered(plan.pk, arm.name, task, seed, chance)

    def experts(arm: Arm, task: str, seed: int) -> str:
        if arm.name in simulated:
            return "registry"
        share = shares.get(arm.name)
        if share is None:
            return ""
        return "people" if is_for_people(plan.pk, arm.name, task, seed, share) else "models"

    return [
        NewTry(arm, task, seed, place, offered(arm, key, seed), experts(arm, key, seed))
        for place, task, key in ((place, task, f"{task[0]}/{task[1]}") for place, task in enumerate(tasks))
        for seed in seeds
        for arm in arms
    ]


def options_of(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the options of a plan's models by arm: those of the arm replace those of the plan."""
    shared = plan.document.get("options") or {}
    return {arm["name"]: {**shared, **(arm.get("options") or {})} for arm in plan.document["arms"]}


def chances_of(plan: Plan) -> dict[str, float]:
    """Return the chance of an offer by arm, for arms that draw it."""
    return {arm["name"]: arm["offer"] for arm in plan.document["arms"] if arm.get("offer") is not None}


def people_of(plan: Plan) -> dict[str, float]:
    """Return the share of episodes that people alone answer by arm, for arms that draw it."""
    return {arm["name"]: arm["people"] for arm in plan.document["arms"] if arm.get("people") is not None}


def insert(actor: Actor, plan: Plan, cells: Sequence[NewTry], wave: int) -> None:
    limits = {name: plan.document[name] for name in OF_LOOP if name in plan.document}
    options = options_of(plan)
    policies = {
        arm.name: launching.policy_named(arm.policy, options=options[arm.name]) | limits
        for arm in {cell.arm.name: cell.arm for cell in cells}.values()
    }
    rules = rules_of(plan)
    seen = _seen_before(plan, {cell.task[0] for cell in cells}) if rules else set()
    # each pair of task and arm once: a plan can have a hundred thousand cells
    for scenario, idx, arm_name in {(*cell.task[:2], cell.arm.name) for cell in cells}:
        launching.playable(scenario, idx, policies[arm_name])
    own = _own_tools(plan, {cell.task[:2] for cell in cells})
    starts = [
        start_of(
            plan,
            cell,
            policies[cell.arm.name] | _offering(plan, cell, own) | _asking(plan, cell, rules.get(cell.arm.name), seen),
        )
        for cell in cells
    ]
    episodes = queueing.queue_many(actor, plan.run, starts, plan.document["max_steps"])
    chances = chances_of(plan)
    rows = [
        PlannedTry(
            plan=plan,
            arm=cell.arm,
            scenario=cell.task[0],
            task_idx=cell.task[1],
            seed=cell.seed,
            wave=wave,
            position=cell.position,
            episode=episode,
            offered=cell.offered,
            chance=chances.get(cell.arm.name),
        )
        for cell, episode in zip(cells, episodes, strict=True)
    ]
    PlannedTry.objects.bulk_create(rows, batch_size=queueing.BATCH)


def start_of(plan: Plan, cell: NewTry, policy: dict[str, Any], again: int = 0) -> EpisodeStart:
    scenario, idx, text = cell.task
    # the key of the replaced episode stays taken
    suffix = f"/try{again}" if again else ""
    return EpisodeStart(
        key=f"{plan.pk}/{cell.arm.place}/{scenario[:100]}/{idx}/{cell.seed}{suffix}",
        run=plan.pk,
        environment=plan.document.get("environment", servers.BUILTIN),
        task=text,
        scenario=scenario,
        task_idx=idx,
        scenario_digest=_version(plan, scenario),
        arm=cell.arm.name,
        seed=cell.seed,
        policy=policy | ({"experts": cell.experts} if cell.experts else {}) | _gates(plan, cell.arm),
        expert=cell.expert,
    )


def _gates(plan: Plan, arm: Arm) -> dict[str, Any]:
    """Return the tools whose calls wait for an approval in this arm, as an episode's policy holds them."""
    approvals = next((one.get("approve") for one in plan.document["arms"] if one["name"] == arm.name), None)
    return {"approve": approvals} if approvals else {}


def _own_tools(plan: Plan, tasks: Collection[tuple[str, int]]) -> dict[tuple[str, int], list[str]]:
    """Return the tools that each task needs, if the plan offers fewer than all. Raises `BadPlan` for a task of which
    that is unknown."""
    if plan.document.get("tools") is None:
        return {}
    own = {task: own_tools.needed_by(*task) for task in tasks}
    if missing := sorted(task for task, names in own.items() if not names):
        scenario, idx = missing[0]
        raise BadPlan(f"plan.tools: {scenario}/{idx} has no script that calls a tool, so its own tools are unknown.")
    return own


def _offering(plan: Plan, cell: NewTry, own: Mapping[tuple[str, int], list[str]]) -> dict[str, Any]:
    """Return the tools that an episode offers, as its policy holds them: the same ones in every arm."""
    if not own:
        return {}
    scenario, idx, _ = cell.task
    draw = hashlib.sha256(f"{plan.document['shuffle']}\n{scenario}/{idx}\n{cell.seed}".encode()).hexdigest()[:16]
    return {
        "tools": OfferedTools(
            per_task=plan.document["tools"]["per_task"], own=own[scenario, idx], draw=draw
        ).model_dump()
    }


def rules_of(plan: Plan) -> dict[str, Any]:
    """Return the rule of when to ask by arm, for arms that have one: its words, or a whole gate."""
    return {arm["name"]: arm["ask"] for arm in plan.document["arms"] if arm.get("ask") is not None}


def _seen_before(plan: Plan, scenarios: Collection[str]) -> set[tuple[str, int | None]]:
    """Return the tasks of these scenarios with an ended episode from before the run was launched."""
    earlier = Episode.objects.filter(project=plan.run.project, ended_at__lt=plan.run.created_at)
    rows = earlier.filter(scenario__in=scenarios).order_by().values_list("scenario", "task_idx").distinct()
    return {(scenario, idx) for scenario, idx in rows if idx is not None}


def _asking(plan: Plan, cell: NewTry, rule: Any, seen: Collection[tuple[str, int | None]]) -> dict[str, Any]:
    """Return the rule of when to ask as an episode's policy holds it: a gate by its digest, as the plan has it whole.
    A retry keeps it, with its draws."""
    if rule is None:
        return {}
    key = hashlib.sha256(f"{plan.pk}\n{cell.arm.name}\n{cell.task[0]}/{cell.task[1]}\n{cell.seed}".encode()).hexdigest()
    rule_id = rule if isinstance(rule, str) else rule["digest"]
    return {"ask": {"rule": rule_id, "key": key, "seen": cell.task[:2] in seen}}


def _version(plan: Plan, scenario: str) -> str | None:
    """Return the loaded version of a scenario; None on servers that have packs of their own."""
    is_ours = plan.document.get("environment", servers.BUILTIN) == servers.BUILTIN
    return (scenario_digest(scenario) or None) if is_ours else None
