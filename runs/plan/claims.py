"""What a run will say, fixed at its launch as data: each statement with its error, its units and what is left out.

`comparison` evaluates these claims and nothing else. What happens later (a cancel, a retry, a ruling, added seeds) can
only take a statement away. Whatever else a person looks at is exploratory. The claims are stored with the plan, and
their digest shows that they are still those of the launch. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.plan.plans import PlanDocument
from runs.statistics.compare import GAP, LOST_CLEARLY, Try
from runs.statistics.deciding import Statement, statements

VERSION = "awmweb.claims/1"
RULES = {
    "outcome": "the verifier's complete or not",
    "scopes": "these tasks; then scenarios like these, if a difference on these tasks is shown",
    "unit": "task, joined with those that share an answer; scenario in the second scope",
    "planned": "when every planned try has ended, if no person ended the run before; Holm among statements of a kind",
    "running": "at any moment, on the complete prefix of the planned order, also of seeds that are added",
    "intervals": "at 95%, each for itself: of several arms, one or more can miss",
    "lost": "lost, replaced and cancelled tries stay: a statement must hold however they are counted",
}
"""How the statements are evaluated, in words; the version names the code."""


@dataclass(frozen=True)
class Claims:
    """The claims of one run. `plan` is the digest of its document, `order` that of its tasks in the planned order.
    `left_out` holds the tasks that a probe or a ruling found at fault before the launch, with the reason."""

    plan: str
    order: str
    tasks: int
    seeds: int
    arms: tuple[str, ...]
    left_out: Mapping[str, str]
    said: tuple[Statement, ...]

    def stored(self) -> dict[str, Any]:
        """Return the claims as they are stored and shown."""
        return {
            "version": VERSION,
            "plan": self.plan,
            "units": {"tasks": self.tasks, "seeds": self.seeds, "order": self.order, "arms": list(self.arms)},
            "left_out": dict(self.left_out),
            "statements": [_stored(one) for one in self.said],
            "withheld_above": {"gap": GAP, "p": LOST_CLEARLY},
            "rules": RULES,
        }

    @property
    def digest(self) -> str:
        return digest_of(self.stored())


def _stored(statement: Statement) -> dict[str, Any]:
    kind = {"kind": "contrast", "control": statement.control} if statement.is_contrast else {"kind": "offer"}
    return {**kind, "arm": statement.arm, "planned_error": statement.planned, "running_error": statement.running}


def digest_of(stored: Mapping[str, Any]) -> str:
    # sorted: PostgreSQL keeps no order of keys, and the digest must survive being stored
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


def made(document: PlanDocument, tasks: Sequence[str], left_out: Mapping[str, str]) -> Claims:
    """Return the claims of a plan. `tasks` are in the planned order; `left_out` can name others, too."""
    arms = [arm.name for arm in document.arms]
    drawing = [arm.name for arm in document.arms if arm.offer is not None]
    task_set = set(tasks)
    return Claims(
        plan=document.digest,
        order=_order(tasks),
        tasks=len(tasks),
        seeds=document.seeds,
        arms=tuple(arms),
        left_out={task: why for task, why in sorted(left_out.items()) if task in task_set},
        said=tuple(statements(arms, document.control, drawing)),
    )


def of_stored(stored: Mapping[str, Any]) -> Claims:
    """Return stored claims."""
    units = stored["units"]
    return Claims(
        plan=stored["plan"],
        order=units["order"],
        tasks=units["tasks"],
        seeds=units["seeds"],
        arms=tuple(units["arms"]),
        left_out=stored["left_out"],
        said=tuple(
            Statement(
                statement["arm"], statement.get("control", ""), statement["planned_error"], statement["running_error"]
            )
            for statement in stored["statements"]
        ),
    )


def _order(tasks: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(tasks).encode("utf-8", "surrogatepass")).hexdigest()


def broken(claims: Claims, tries: Sequence[Try]) -> str:
    """Return why the claims are no longer about these tries, which are in the planned order; "" if they are."""
    planned = [one for one in tries if one.wave == 0]
    cells = {(one.task, one.arm, one.seed) for one in planned}
    full = claims.tasks * claims.seeds * len(claims.arms)
    # tries are in the planned order, so the first try of each task is as well
    same = _order(dict.fromkeys(one.task for one in planned)) == claims.order
    if same and len(cells) == full and {one.arm for one in planned} == set(claims.arms):
        return ""
    return "The planned episodes of this run are no longer those of its launch."
