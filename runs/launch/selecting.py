"""Reads: the tasks that a plan names: listed, of a split, or those that a filter finds in the packs.

Owns their order and their spelling. Tasks of a server without packs are `foreign_tasks.py`'s.
"""

from __future__ import annotations

import fnmatch
import random
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from episodes.models import Split, SplitTask
from episodes.stored.packs import blockers_of, packs
from people.access import Actor
from runs.errors import BadPlan, UnknownTask
from runs.launch import foreign_tasks, launching
from runs.plan import servers
from runs.plan.plans import PlanDocument, TaskFilter

Task = tuple[str, int, str]
IDX = re.compile("0|[1-9][0-9]{0,9}")


def tasks_of(actor: Actor, document: PlanDocument) -> list[Task]:
    """Return the tasks that a plan names, in the order of packs and lists, or of its server's own list. Raises
    `BadPlan`, also where there is none, `UnknownTask` or `NotPlayable`."""
    at = servers.profile(document.environment)
    server = None if at.name == servers.BUILTIN else servers.report_of(at)
    if server is not None and server.plain:
        return foreign_tasks.tasks_of(actor, document, at, server)
    return of_packs(actor, document, server)


def of_packs(actor: Actor, document: PlanDocument, server: servers.ServerReport | None) -> list[Task]:
    try:
        tasks = _selected(actor, document)
    except UnknownTask as unknown:
        # its own tasks are known once it responds
        if server is None or not server.problem:
            raise
        raise UnknownTask(f"{unknown.message} The server {document.environment} {server.words}.") from unknown
    if not tasks:
        raise BadPlan(f"The plan selects no task{_without_scripts(document)}.")
    return tasks


def _without_scripts(document: PlanDocument) -> str:
    """Return which scripts a filter wants of each task; "" for lists, splits and models."""
    is_filter = isinstance(document.tasks, TaskFilter) and not document.tasks.split
    policies = {arm.policy or document.policy for arm in document.arms} if is_filter else set()
    scripts = sorted(one.removeprefix("script:") for one in policies if one.startswith("script:"))
    return f": none that fits the filter has the script {' and '.join(scripts)}" if scripts else ""


def _selected(actor: Actor, document: PlanDocument) -> list[Task]:
    selection = document.tasks
    # a task that is listed twice is one task
    if isinstance(selection, list):
        return [_named(one, document.texts or {}) for one in dict.fromkeys(selection)]
    if selection.split:
        if not Split.objects.filter(project=actor.project, name=selection.split).exists():
            raise BadPlan(f"plan.tasks.split: There is no split named {selection.split!r}.")
        listed = SplitTask.objects.filter(
            split__project=actor.project, split__name=selection.split, side=selection.side
        ).values_list("task", flat=True)
        # sorted, because a split keeps no order
        return [_named(one) for one in sorted(listed) if _matches(one.rpartition("/")[0], selection)][: selection.limit]
    tasks = [
        (scenario, idx, text)
        for pack in packs()
        for scenario in sorted(pack.scenarios)
        if _matches(scenario, selection) and (selection.partial or not pack.scenario(scenario).partial)
        for idx, text in enumerate(pack.tasks(scenario))
        if _is_playable(document, scenario, idx)
    ]
    return tasks[: selection.limit]


def _named(key: str, texts: Mapping[str, str] = MappingProxyType({})) -> Task:
    scenario, _, idx = key.rpartition("/")
    # one task has one spelling: 00 would be the task 0 a second time
    if not scenario or not IDX.fullmatch(idx):
        raise BadPlan(f"plan.tasks: {key[:100]!r} is not a task such as workflow_automation_1/0.")
    return scenario, int(idx), texts.get(key) or launching.task_text(scenario, int(idx))


def _matches(scenario: str, selection: TaskFilter) -> bool:
    return any(fnmatch.fnmatchcase(scenario, pattern) for pattern in selection.scenarios)


def _is_playable(document: PlanDocument, scenario: str, idx: int) -> bool:
    """Tell whether every arm can play a task: a filter leaves others out, a list that names one is refused."""
    names = {arm.policy or document.policy for arm in document.arms}
    scripts = {name.partition(":")[2] for name in names if name.startswith("script:")}
    return scripts <= set(launching.pack_with(scenario).scripts(scenario, idx)) if scripts else True


def shuffled(tasks: Sequence[Task], seed: int) -> list[Task]:
    """Return all tasks in one shuffled order; the e-process reads them in it."""
    order = list(tasks)
    random.Random(seed).shuffle(order)
    return order


def refuse_no_registry(document: PlanDocument, tasks: Sequence[Task]) -> None:
    """Refuse a registry as expert where no task has one. Tasks without one can stand beside: there, no question is
    right."""
    arm = next((one.name for one in document.arms if one.experts), None)
    if arm is not None and not any(blockers_of(scenario, idx) for scenario, idx, _ in tasks):
        raise BadPlan(f"The arm {arm} asks the registry of blockers, and no task of the plan has one.")
