"""Reads: the versions of a task's verifier, passes over its stored episodes, and errata.

Called by the worker that judges, by pages and by the API, which decide who sees them.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Count, QuerySet

from episodes.models import Erratum, RejudgedEpisode, Rejudging, VerifierVersion
from episodes.stored import packs
from people.access import scoped
from people.models import Project


def versions_of(project: Project, scenario: str, task_idx: int) -> QuerySet[VerifierVersion]:
    rows = scoped(VerifierVersion.objects.all(), project)
    return rows.filter(scenario=scenario, task_idx=task_idx).order_by("number")


def in_force(project: Project, scenario: str, task_idx: int | None, version: str = "") -> VerifierVersion | None:
    """Return the version that judges new episodes of a task; None for the pack's own. `version` is that of an episode's
    scenario."""
    if not scenario or task_idx is None:
        return None
    # another version of the pack has a verifier of its own
    digests = ["", version or packs.scenario_digest(scenario)]
    rows = versions_of(project, scenario, task_idx).filter(scenario_digest__in=digests)
    return rows.filter(in_force_at__isnull=False).order_by("-number").first()


def were_in_force(project: Project, scenarios: Collection[str]) -> QuerySet[VerifierVersion]:
    """Return the versions of tasks of these scenarios that count or have counted, the oldest first."""
    rows = scoped(VerifierVersion.objects.filter(in_force_at__isnull=False), project)
    return rows.filter(scenario__in=scenarios).order_by("scenario", "task_idx", "number")


def code_of(version: VerifierVersion | None, scenario: str, task_idx: int) -> str:
    """Return the code of a version; without one, that of the pack, "" if no pack here has it."""
    return str(version.code) if version is not None else packs.verifier_text(scenario, task_idx)


def text_in_force(project: Project, scenario: str, task_idx: int | None, version: str = "") -> str:
    """Return the code that judges a task, repaired or the pack's own, for readers with verifier access."""
    repaired = in_force(project, scenario, task_idx, version)
    return str(repaired.code) if repaired is not None else packs.verifier_text(scenario, task_idx, version)


def secrets_of(project: Project, scenario: str, task_idx: int | None, version: str = "") -> list[str]:
    """Return the code of each verifier of a task that counts or has counted: none of it must be quoted."""
    if task_idx is None:
        return []
    repaired = were_in_force(project, [scenario]).filter(task_idx=task_idx)
    own = packs.verifier_text(scenario, task_idx, version)
    return [text for text in (own, *(one.code for one in repaired)) if text]


def passes_of(project: Project, scenario: str, task_idx: int) -> QuerySet[Rejudging]:
    rows = scoped(Rejudging.objects.select_related("version"), project)
    return rows.filter(scenario=scenario, task_idx=task_idx).order_by("-created_at")


def counts_of(passes: Collection[Rejudging]) -> dict[str, dict[str, int]]:
    """Return the number of episodes of each pass by result, all results named."""
    counts = {one.pk: dict.fromkeys(RejudgedEpisode.Result.values, 0) for one in passes}
    rows = RejudgedEpisode.objects.filter(rejudging__in=counts).values_list("rejudging_id", "result")
    for pk, result, number in rows.annotate(number=Count("pk")):
        counts[pk][result] = number
    return counts


def errata() -> QuerySet[Erratum]:
    """Return errata, the newest first, with the run, and the pass and the verifier that made them."""
    return Erratum.objects.select_related("rejudging__version", "run").order_by("-at", "-pk")


def errata_of_runs(runs: Collection[str]) -> QuerySet[Erratum]:
    return errata().filter(run__in=runs)


def errata_of_campaign(campaign: str) -> QuerySet[Erratum]:
    return errata().filter(campaign=campaign)


def errata_of_exports(exports: Collection[str]) -> QuerySet[Erratum]:
    return errata().filter(export__in=exports)
