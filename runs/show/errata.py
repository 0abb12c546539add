"""Reads: the numbers of runs and campaigns that a repaired verifier can change, and their errata in words.

Owns which numbers an erratum names: what a run says, its outcomes by arm, and its curve over training steps; and what
a campaign says.
`episodes.record.rejudging` reads them before and after a change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from episodes.models import COMPLETE, Episode, Erratum, Rejudging, Run
from episodes.stored import outcomes, repairs
from episodes.visible import visibility
from people.access import Actor, sees_outcomes, system
from people.models import Project
from runs.models import Campaign, CampaignPoint, Plan
from runs.show import campaigns
from runs.show.campaigns import CampaignView
from runs.show.comparison import compare_run


@dataclass(frozen=True)
class ChangedNumber:
    """One number or sentence that an erratum corrects."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class ReadableErratum:
    """An erratum as pages and the API show it."""

    at: datetime
    task: str
    verifier: str
    author: str
    why: str
    changes: list[ChangedNumber]
    rejudging: Rejudging
    run: Run | None = None
    export: str = ""
    """The ID of the export whose rows changed, if it is of one."""
    campaign: Campaign | None = None


def numbers_of_runs(project: Project, episodes: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the numbers of each run of these episodes, as they read now."""
    run_ids = Episode.objects.filter(pk__in=list(episodes), run__isnull=False).values_list("run_id", flat=True)
    runs = Run.objects.filter(pk__in=set(run_ids), project=project)
    planned = set(Plan.objects.filter(pk__in=runs.values("pk")).values_list("pk", flat=True))
    return {run.pk: _numbers(run, is_planned=run.pk in planned) for run in runs.select_related("project")}


def numbers_of_campaigns(project: Project, episodes: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return what each campaign with branches among these episodes says, as it reads now."""
    made = CampaignPoint.objects.filter(fork__branches__in=list(episodes), campaign__project=project)
    rows = Campaign.objects.filter(pk__in=made.values("campaign")).select_related("project")
    return {one.pk: {"statements": _statements(one)} for one in rows}


def _statements(campaign: Campaign) -> dict[str, str]:
    report = campaigns.seen(system(campaign.project), campaign)
    kinds = report.finding.sentences[1:] if report.finding is not None else []
    # the sentence of a kind of tasks begins with its name
    return {"What the campaign says": report.sentence} | {one.partition(":")[0]: one for one in kinds}


def _numbers(run: Run, *, is_planned: bool) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    if is_planned:
        comparison = compare_run(system(run.project), run.pk, is_bare=True)
        numbers["sentence"] = comparison.sentence
        numbers["statements"] = {
            **{f"{one.arm} against {one.control}": one.sentence for one in comparison.contrasts},
            **{f"help in {one.arm}": one.sentence for one in comparison.effects},
        }
        numbers["arms"] = {one.name: [one.complete, one.complete + one.others] for one in comparison.arms}
    else:
        numbers["arms"] = _rates(run, "arm")
    numbers["curve"] = _rates(run, "training_step")
    return numbers


def _rates(run: Run, column: str) -> dict[str, list[int]]:
    """Return (complete, counted) of a run's verified episodes by the values of a column; those without one are left
    out, but for the arm."""
    rates: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    rows = outcomes.verdicts_of(run.project).filter(episode__run=run)
    for value, reward_type in rows.values_list(f"episode__{column}", "reward_type"):
        if value is not None:
            rates[str(value)][0] += reward_type == COMPLETE
            rates[str(value)][1] += 1
    return dict(rates)


def of_run(actor: Actor, run_id: str) -> list[ReadableErratum]:
    """Return the errata of a run, the newest first; none for agents, and for who judges an episode of it blind."""
    mine = Episode.objects.filter(run=run_id)
    if not sees_outcomes(actor) or mine.filter(pk__in=visibility.held(actor)).exists():
        return []
    return [of_erratum(one) for one in repairs.errata_of_runs([run_id])]


def of_campaign(report: CampaignView) -> list[ReadableErratum]:
    """Return the errata of a campaign, the newest first; none for who does not see its outcomes."""
    if report.is_withheld:
        return []
    return [of_erratum(one) for one in repairs.errata_of_campaign(report.campaign.pk)]


def of_pass(actor: Actor, judging: Rejudging) -> list[ReadableErratum]:
    """Return the errata that followed from a pass, oldest first. One of a run or campaign whose outcomes are withheld
    from the actor has no numbers."""
    rows = judging.errata.select_related("run", "rejudging__version").order_by("pk")
    return [erratum if _is_open(actor, erratum) else replace(erratum, changes=[]) for erratum in map(of_erratum, rows)]


def _is_open(actor: Actor, erratum: ReadableErratum) -> bool:
    if erratum.campaign is not None:
        return not campaigns.is_withheld(actor, erratum.campaign)
    if erratum.run is None:
        return True
    mine = Episode.objects.filter(run=erratum.run)
    return sees_outcomes(actor) and not mine.filter(pk__in=visibility.held(actor)).exists()


def of_erratum(erratum: Erratum) -> ReadableErratum:
    """Return an erratum in words. Of an export it has no numbers: its page has the rows."""
    by = erratum.rejudging
    version = by.version
    return ReadableErratum(
        erratum.at,
        f"{by.scenario}/{by.task_idx}",
        str(version or "the verifier of the pack"),
        by.created_by,
        str(version.reason) if version is not None else "",
        [] if erratum.export else _changes(erratum),
        by,
        erratum.run,
        erratum.export,
        Campaign.objects.filter(pk=erratum.campaign).first() if erratum.campaign else None,
    )


def _changes(erratum: Erratum) -> list[ChangedNumber]:
    before, after = erratum.before, erratum.after
    changes = []
    # the sentence of a run is that of one of its statements
    statements = {**_texts(before), **_texts(after)}
    for name in statements:
        changes.append(ChangedNumber(name, _texts(before).get(name, ""), _texts(after).get(name, "")))
    for what, words in (("arms", "Complete"), ("curve", "Complete at step")):
        old, new = before.get(what) or {}, after.get(what) or {}
        for name in sorted({*old, *new}, key=lambda value: (len(value), value)):
            changes.append(ChangedNumber(f"{words} {name or 'in all'}".strip(), _share(old, name), _share(new, name)))
    return [change for change in changes if change.before != change.after]


def _texts(numbers: Mapping[str, Any]) -> dict[str, str]:
    statements = numbers.get("statements") or {}
    return statements or ({"What the run says": numbers["sentence"]} if "sentence" in numbers else {})


def _share(of: Mapping[str, Any], name: str) -> str:
    complete, counted = of.get(name) or (0, 0)
    return f"{complete:,} of {counted:,}"
