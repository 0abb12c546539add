"""The tasks of a plan on a plain OpenEnv server: of its Task API, by seed, or by IDs that the plan lists.

Reads only. `selecting` asks before a launch and for previews. Scripts of packs are for the worlds of packs, so such a
plan has a model as its policy, or an operator's own.
"""

from __future__ import annotations

import fnmatch
import re
from itertools import islice

from awmenv.offers import SEED
from episodes.models import Split, SplitTask
from people.access import Actor
from runs.errors import BadPlan, UnknownPolicy, UnknownTask
from runs.plan.plans import MAX_EPISODES, PlanDocument, TaskFilter
from runs.plan.servers import ServerProfile, ServerReport, task_texts

Task = tuple[str, int, str]
SEEDS = 10
"""How many seeds a plan has that says nothing of tasks."""
NUMBER = re.compile("0|[1-9][0-9]{0,9}")


def tasks_of(actor: Actor, document: PlanDocument, at: ServerProfile, server: ServerReport) -> list[Task]:
    """Return the tasks of a plan with their texts, in the server's order or that of the list."""
    for policy in sorted({arm.policy or document.policy for arm in document.arms}):
        if policy.startswith("script:"):
            raise UnknownPolicy(
                f"{policy} is for tasks of packs. On the environment {at.name} a policy is `model`, `model:NAME`, "
                "`file:NAME` or `python:NAME`."
            )
    named = _listed(actor, document, server)
    if not named:
        raise BadPlan("The plan selects no task.")
    if len(named) > MAX_EPISODES:
        raise BadPlan(f"The plan has more than {MAX_EPISODES:,} episodes.")
    texts = {
        split: task_texts(at, split, [idx for of, idx in named if of == split])
        for split, _ in named
        if split in server.splits
    }
    own = document.texts or {}
    return [(of, idx, _task_text(own, texts.get(of, {}).get(idx), server, of, idx)) for of, idx in named]


def _listed(actor: Actor, document: PlanDocument, server: ServerReport) -> list[tuple[str, int]]:
    selection = document.tasks
    if isinstance(selection, list):
        return [_named(one, server) for one in dict.fromkeys(selection)]
    if selection.split:
        return _of_split(actor, selection, server)
    if not server.splits:
        return (
            [(SEED, number) for number in range(min(selection.limit or SEEDS, MAX_EPISODES + 1))]
            if _matches(SEED, selection)
            else []
        )
    named = (
        (split, index)
        for split, number in server.splits.items()
        if _matches(split, selection)
        for index in range(number)
    )
    # no more than are needed: a server can name billions
    return list(islice(named, selection.limit or MAX_EPISODES + 1))


def _of_split(actor: Actor, selection: TaskFilter, server: ServerReport) -> list[tuple[str, int]]:
    if not Split.objects.filter(project=actor.project, name=selection.split).exists():
        raise BadPlan(f"plan.tasks.split: There is no split named {selection.split!r}.")
    mine = SplitTask.objects.filter(split__project=actor.project, split__name=selection.split, side=selection.side)
    names = sorted(mine.values_list("task", flat=True))
    return [_named(one, server) for one in names if _matches(one.rpartition("/")[0], selection)][: selection.limit]


def _matches(name: str, selection: TaskFilter) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in selection.scenarios)


def _named(key: str, server: ServerReport) -> tuple[str, int]:
    """Return a listed task: `SPLIT/INDEX`, `seed/NUMBER`, or the ID of a task."""
    of, _, idx = key.rpartition("/")
    if of in server.splits or of == SEED:
        if not NUMBER.fullmatch(idx):
            raise BadPlan(f"plan.tasks: {key[:100]!r} is not a task such as {of[:80]}/0.")
        if of in server.splits and int(idx) >= server.splits[of]:
            raise UnknownTask(f"{of} has tasks 0 to {server.splits[of] - 1}.")
        return of, int(idx)
    if not 0 < len(key) <= 200 or not key.isprintable():
        raise BadPlan(f"plan.tasks: {key[:100]!r} is no ID of a task.")
    return key, 0


def _task_text(own: dict[str, str], server_text: str | None, server: ServerReport, of: str, idx: int) -> str:
    # an ID has no number of its own
    own_text = own.get(f"{of}/{idx}") or (own.get(of) if of != SEED and of not in server.splits else None)
    return own_text or server_text or server.about or f"Play the environment {server.title or 'of this server'}."
