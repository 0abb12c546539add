"""Reads: the verifier court: doubted tasks that an actor can see, and rulings on them.

Every count, export and selection of tasks reads `at_fault`. Leaves doubting and ruling to `reviews/record/court.py`.

"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet

from episodes.errors import BlindReview
from episodes.models import Episode, VerifierVersion
from episodes.stored.splits import task_key
from episodes.visible import visibility
from people.access import Actor, holds, may_see_reviews, may_set_reviews, scoped
from people.models import Project
from reviews.models import CourtCase, Disagreement, Ruling, Verdict, Word


def open_cases(actor: Actor) -> QuerySet[CourtCase]:
    """Return the cases without a ruling since the last doubt, oldest doubt first."""
    waiting = Q(ruled_at__isnull=True) | Q(ruled_at__lt=F("doubted_at"))
    return cases_of(actor).filter(waiting).order_by("doubted_at")


def cases_of(actor: Actor) -> QuerySet[CourtCase]:
    """Return the cases that an actor can see: none of a task that they still have to judge blind, because doubts and
    rulings reveal the outcome."""
    # the same key as of cases, made from the columns of episodes
    held = Episode.objects.filter(pk__in=visibility.held(actor), project=actor.project)
    places = held.order_by().values_list("scenario", "task_idx", "task").distinct()
    return scoped(CourtCase.objects.exclude(task_key__in={task_key(*place) for place in places}), actor.project)


def with_doubts(cases: Iterable[CourtCase]) -> list[tuple[CourtCase, str, str]]:
    """Return each case with the text of its task and its doubts in words, such as "2 times: the verifier is wrong".

    The cases are those that the actor can see, so none of their tasks is withheld from them."""
    rows = []
    for case in cases:
        reasons: Counter[str] = Counter()
        task = ""
        for doubt in doubts_of(case).select_related("verdict__episode"):
            task = task or doubt.verdict.episode.task
            reasons[doubt.get_explanation_display()] += 1
        words = "; ".join(f"{reason} ({times})" if times > 1 else reason for reason, times in reasons.most_common())
        rows.append((case, task, words))
    return rows


def refuse_while_blind(actor: Actor, case: CourtCase) -> None:
    """Raise `BlindReview` while this actor has to judge an episode of the case's task blind."""
    if not cases_of(actor).filter(pk=case.pk).exists():
        raise BlindReview


def at_fault(project: Project) -> dict[str, str]:
    """Return by task key the fault that the newest ruling finds with a task or its verifier; sound ones are absent."""
    return {task: word for task, word in rulings(project).items() if word != Word.SOUND}


def rulings(project: Project, *, before: datetime | None = None) -> dict[str, str]:
    """Return the newest ruling of each task by its key, including those that find no fault. `before`: as of then."""
    # ascending, so the newest ruling wins in the dictionary
    rows = scoped(Ruling.objects.all(), project, "case__project").order_by("created_at", "pk")
    if before is not None:
        rows = rows.filter(created_at__lt=before)
    return dict(rows.values_list("case__task_key", "word"))


def report(actor: Actor) -> list[dict[str, Any]]:
    """Return every ruling of the project for the authors of the dataset, with the doubts that led to it."""
    may_see_reviews(actor)
    rows = Ruling.objects.filter(case__in=cases_of(actor)).select_related("case").order_by("created_at", "pk")
    doubts = _doubts_by_task(actor.project)
    # viewers read rulings, and no verifier
    repaired = _repairs(actor.project) if holds(actor, may_set_reviews) else {}
    return [
        {
            "task": row.case.task_key,
            "scenario": row.case.scenario,
            "task_idx": row.case.task_idx,
            "ruling": row.word,
            "reason": row.reason,
            "ruled_at": row.created_at.isoformat(),
            "doubts": doubts[row.case.task_key],
            **({"repaired": repaired[place]} if (place := (row.case.scenario, row.case.task_idx)) in repaired else {}),
        }
        for row in rows
    ]


def _repairs(project: Project) -> dict[tuple[str, int | None], dict[str, Any]]:
    """Return the repaired verifier in force of each task, with its code."""
    rows = scoped(VerifierVersion.objects.filter(in_force_at__isnull=False), project).order_by("number")
    # ascending, so the newest version wins in the dictionary
    return {
        (row.scenario, row.task_idx): {
            "version": row.number,
            "sha256": row.sha256,
            "scenario_digest": row.scenario_digest,
            "reason": row.reason,
            "code": row.code,
        }
        for row in rows
    }


def _doubts_by_task(project: Project) -> Counter[str]:
    """Return how many doubts each task of a project has, by its key."""
    rows = scoped(Disagreement.objects.all(), project, "verdict__episode__project")
    tasks = rows.values_list(*(f"verdict__episode__{name}" for name in ("scenario", "task_idx", "task")))
    doubts = Counter[str]()
    for *task, count in tasks.annotate(count=Count("pk")):
        doubts[task_key(*task)] += count
    return doubts


def episodes_of(case: CourtCase) -> QuerySet[Episode]:
    """Return every episode of the case's task, newest first."""
    rows = scoped(Episode.objects.all(), case.project)
    if case.scenario and case.task_idx is not None:
        return rows.filter(scenario=case.scenario, task_idx=case.task_idx).order_by("-created_at")
    # without a number of the task, only its text distinguishes it
    doubted = [one.verdict.episode.task for one in doubts_of(case).select_related("verdict__episode")[:1]]
    return rows.filter(task__in=doubted, task_idx__isnull=True).order_by("-created_at")


def doubts_of(case: CourtCase) -> QuerySet[Disagreement]:
    rows = Disagreement.objects.filter(verdict__episode__project=case.project_id)
    if case.scenario and case.task_idx is not None:
        return rows.filter(verdict__episode__scenario=case.scenario, verdict__episode__task_idx=case.task_idx)
    rows = rows.filter(Q(verdict__episode__scenario="") | Q(verdict__episode__task_idx__isnull=True))
    # the key of a text has its digest, so texts are read and compared here
    tasks = set(rows.values_list("verdict__episode__task", flat=True))
    texts = {text for text in tasks if task_key("", None, text) == case.task_key}
    return rows.filter(verdict__episode__task__in=texts)


def verdicts_of(case: CourtCase) -> QuerySet[Verdict]:
    rows = Verdict.objects.counted().filter(episode__in=episodes_of(case).values("pk"))
    return rows.select_related("disagreement", "episode").order_by("-created_at")


def ruling_of(episode: Episode) -> Ruling | None:
    """Return the newest ruling on an episode's task."""
    key = task_key(episode.scenario, episode.task_idx, episode.task)
    rows = Ruling.objects.filter(case__project=episode.project_id, case__task_key=key)
    return rows.order_by("-created_at", "-pk").first()
