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
    is_task = pack is not None and scenario in pack.scenarios and task_idx < pack.scenario(scenario).task_count
    return digest(pack, scenario, task_idx) if pack is not None and is_task else None


def verifiers_now(tasks: Iterable[str]) -> dict[str, str]:
    """Return the digest of each task's verifier in the loaded packs; "" if it has none."""
    state, digests = packs.state(), {}
    for task in tasks:
        scenario, _, idx = task.rpartition("/")
        digests[task] = (_held(scenario, int(idx), state) or "") if idx.isdecimal() else ""
    return digests


def newest(before: datetime | None = None) -> list[Probe]:
    """Return the probe that counts of each task, those made before a moment only if one is given."""
    rows = Probe.objects.order_by("scenario", "task_idx", "-pk").distinct("scenario", "task_idx")
    probes: Iterable[Probe] = rows.filter(at__lt=before) if before is not None else rows
    state, version = packs.state(), functools.cache(packs.scenario_digest)
    # a probe of a verifier or a start database that was replaced says nothing about the present one
    return [
        probe
        for probe in probes
        if _held(probe.scenario, probe.task_idx, state) == probe.verifier
        and probe.scenario_digest in ("", version(probe.scenario))
    ]


def unfit(project: Project, before: datetime | None = None) -> dict[str, str]:
    """Return the tasks whose outcome shows nothing, by task key, with the reason. A ruling of the court overrides a
    probe, even if it finds nothing wrong. With `before`, only facts known at that moment."""
    reasons = {one.task: UNFIT[State(one.state)] for one in newest(before) if one.state in UNFIT}
    for task, word in rulings.rulings(project, before=before).items():
        if word == Word.SOUND:
            reasons.pop(task, None)
        else:
            reasons[task] = f"ruled {word.replace('_', ' ')}"
    return reasons


def ever_unfit(project: Project) -> set[str]:
    """Return the tasks that any probe or ruling found unfit, current or not: no other can be in `unfit`."""
    probed = Probe.objects.filter(state__in=list(UNFIT)).values_list("scenario", "task_idx")
    ruled = rulings.rulings(project).items()
    return {f"{scenario}/{idx}" for scenario, idx in probed} | {task for task, word in ruled if word != Word.SOUND}


def overview() -> Probed:
    """Return the probes as the page Environment shows them."""
    probes = newest()
    others = [one for one in probes if one.state != State.CLEAN or (one.checked and one.checked.remarks)]
    return Probed(len(probes), sum(one.state == State.CLEAN for one in probes), others[:200])


def passing_unchanged(scenarios: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the tasks of these scenarios that pass without a change, with their version: by a probe that counts (its
    own check, or the attempt that does nothing), or because their pack says so."""
    for probe in newest():
        did_nothing = probe.attempts.get("empty")
        passes = isinstance(did_nothing, dict) and did_nothing.get("outcome") == "complete"
        if probe.scenario in scenarios and (passes or (probe.checked is not None and probe.checked.passes_unchanged)):
            yield probe.task, probe.scenario_digest
    for scenario in scenarios:
        pack = packs.find_pack(scenario)
        for number in range(len(pack.tasks(scenario)) if pack is not None else 0):
            if pack is not None and pack.about(scenario, number).get("kind") == "passes_untouched":
                yield f"{scenario}/{number}", ""
