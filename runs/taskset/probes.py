"""Reads: the newest probes of the tasks in loaded packs. Leaves probing to `probing.py`.

A probe belongs to one version of a verifier and of its scenario. If one has changed since, the probe no longer counts.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from awmenv.packs import Pack
from episodes.stored import packs
from people.models import Project
from reviews.models import Word
from reviews.visible import rulings
from runs.models import Probe

State = Probe.State
UNFIT = {
    State.TRIVIAL: "passes without work, by probe",
    State.ANSWER_ONLY: "passes on an answer alone, by probe",
    State.UNVERIFIABLE: "verifier does not run, by probe",
}
"""States in which an outcome shows nothing, with the text of the reason. An error is not about the task."""


@dataclass(frozen=True)
class Probed:
    """The number of tasks with a probe that counts, the number of clean ones, and by task the others and those with a
    verifier warning."""

    tasks: int
    clean: int
    others: list[Probe]


def digest(pack: Pack, scenario: str, task_idx: int) -> str:
    """Return the SHA-256 of a task's code verifier; empty if it has none."""
    verifier = pack.verifier(scenario, task_idx, "code")
    return hashlib.sha256(verifier.code.encode("utf-8", "replace")).hexdigest() if verifier is not None else ""


@functools.lru_cache(maxsize=20_000)
# the state of the packs is part of the key: a verifier that changes on disk is hashed again
def _held(scenario: str, task_idx: int, _state: Hashable) -> str | None:
    pack = packs.find_pack(scenario)
    known = pack is not None and scenario in pack.scenarios and task_idx < pack.scenario(scenario).task_count
    return digest(pack, scenario, task_idx) if pack is not None and known else None


def verifiers_now(tasks: Iterable[str]) -> dict[str, str]:
    """Return the digest of each task's verifier in the loaded packs; "" if it has none."""
    state, found = packs.state(), {}
    for task in tasks:
        scenario, _, idx = task.rpartition("/")
        found[task] = (_held(scenario, int(idx), state) or "") if idx.isdecimal() else ""
    return found


def newest(before: datetime | None = None) -> list[Probe]:
    """Return the probe that counts of each task, those made before a moment only if one is given."""
    rows = Probe.objects.order_by("scenario", "task_idx", "-pk").distinct("scenario", "task_idx")
    found: Iterable[Probe] = rows.filter(at__lt=before) if before is not None else rows
    state, version = packs.state(), functools.cache(packs.scenario_digest)
    # a probe of a verifier or a start database that was replaced says nothing about the present one
    return [
        one
        for one in found
        if _held(one.scenario, one.task_idx, state) == one.verifier
        and one.scenario_digest in ("", version(one.scenario))
    ]


def unfit(project: Project, before: datetime | None = None) -> dict[str, str]:
    """Return the tasks whose outcome shows nothing, by task key, with the reason. A ruling of the court overrides a
    probe, even if it finds nothing wrong. With `before`, only facts known at that moment."""
    found = {one.task: UNFIT[State(one.state)] for one in newest(before) if one.state in UNFIT}
    for task, word in rulings.rulings(project, before=before).items():
        if word == Word.SOUND:
            found.pop(task, None)
        else:
            found[task] = f"ruled {word.replace('_', ' ')}"
    return found


def ever_unfit(project: Project) -> set[str]:
    """Return the tasks that any probe or ruling found unfit, current or not: no other can be in `unfit`."""
    probed = Probe.objects.filter(state__in=list(UNFIT)).values_list("scenario", "task_idx")
    ruled = rulings.rulings(project).items()
    return {f"{scenario}/{idx}" for scenario, idx in probed} | {task for task, word in ruled if word != Word.SOUND}


def overview() -> Probed:
    """Return the probes as the page Environment shows them."""
    found = newest()
    others = [one for one in found if one.state != State.CLEAN or (one.checked and one.checked.remarks)]
    return Probed(len(found), sum(one.state == State.CLEAN for one in found), others[:200])


def passing_unchanged(scenarios: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the tasks of these scenarios that pass without a change, with their version: by a probe that counts (its
    own check, or the attempt that does nothing), or because their pack says so."""
    for one in newest():
        did_nothing = one.attempts.get("empty")
        passes = isinstance(did_nothing, dict) and did_nothing.get("outcome") == "complete"
        if one.scenario in scenarios and (passes or (one.checked is not None and one.checked.passes_unchanged)):
            yield one.task, one.scenario_digest
    for scenario in scenarios:
        pack = packs.find_pack(scenario)
        for number in range(len(pack.tasks(scenario)) if pack is not None else 0):
            if pack is not None and pack.about(scenario, number).get("kind") == "passes_untouched":
                yield f"{scenario}/{number}", ""
