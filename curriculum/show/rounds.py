"""Reads: the rounds of a learner: each checkpoint that its run reported, what it learned from, and how it did.

Nothing here is a trainer's word but the names: rows are those of the export, and outcomes, asks and people's time those
of the record. `exports` is above this package, and registers how rows are found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from awmclient import schema
from curriculum import snapshots
from curriculum.models import TrainingStep
from episodes.errors import BlindReview
from episodes.models import Run
from episodes.visible import visibility
from people.access import Actor, sees_outcomes
from people.errors import WrongScope
from people.models import Project
from runs.show.held_out import CountedShare, TriedModel, tried

SHOWN = 50


@dataclass(frozen=True)
class LearnedFrom:
    """A dataset that a round names: its rows, and the page of the export that has them."""

    rows: int
    url: str


RowsOf = Callable[[Project, Collection[str]], Mapping[str, LearnedFrom]]
_sources: list[RowsOf] = []


def register(source: RowsOf) -> None:
    """Let rounds find the rows of datasets."""
    _sources.append(source)


@dataclass(frozen=True)
class Round:
    """One checkpoint. The first can be the model that training began from: it has no step."""

    step: int | None
    checkpoint: str
    at: datetime | None
    dataset: str
    learned_from: LearnedFrom | None
    tried: TriedModel

    @property
    def shares(self) -> list[tuple[str, CountedShare]]:
        """The counts of the page, with the heads of their columns."""
        done = self.tried
        return [
            ("Complete", done.complete),
            ("Without an expert", done.alone),
            ("Needed asks", done.needed),
            ("Needless asks", done.needless),
        ]

    @property
    def minutes(self) -> float:
        return self.tried.human_s / 60


def rounds_of(run: Run) -> list[Round]:
    """Return the last rounds of a run, oldest first; none before a step named a checkpoint."""
    rows = TrainingStep.objects.filter(run=run).exclude(checkpoint="").order_by("-training_step")[:SHOWN]
    steps = list(rows)[::-1]
    if not steps:
        return []
    start = (run.metadata or {}).get("start")
    began = start if isinstance(start, str) else ""
    counts = tried(run.project, {began, *(step.checkpoint for step in steps)} - {""})
    datasets = {step.dataset for step in steps} - {""}
    found_rows = {name: rows for source in _sources for name, rows in source(run.project, datasets).items()}
    first = [Round(None, began, None, "", None, counts[began])] if began else []
    return first + [
        Round(step.training_step, step.checkpoint, step.at, step.dataset, found_rows.get(step.dataset),
              counts[step.checkpoint])
        for step in steps
    ]  # fmt: skip


def shown_to(actor: Actor, run: Run) -> list[Round]:
    """Return the rounds for a page: none for a reviewer from whom any outcome is withheld."""
    try:
        visibility.refuse_while_blind(actor)
    except BlindReview:
        return []
    return rounds_of(run)


def listed(actor: Actor, run_pk: str) -> schema.LearnerRounds:
    """Return the rounds for the API. Raises `WrongScope` for a token that sees no outcomes, and `BlindReview` while
    any outcome is withheld from this reviewer: held-out tasks are tried in any run."""
    run = snapshots.run_of(actor, run_pk)
    if not sees_outcomes(actor):
        raise WrongScope("Agent tokens cannot read outcomes.")
    visibility.refuse_while_blind(actor)
    return schema.LearnerRounds(run=run.pk, items=[_item(one) for one in rounds_of(run)])


def _item(shown: Round) -> schema.LearnerRound:
    def tally(counts: CountedShare) -> schema.Tally:
        return schema.Tally(part=counts.part, of=counts.of)

    shares = {name: tally(getattr(shown.tried, name)) for name in ("complete", "alone", "needed", "needless")}
    about = {
        "training_step": shown.step,
        "checkpoint": shown.checkpoint,
        "at": shown.at,
        "dataset": shown.dataset or None,
    }
    rows = shown.learned_from.rows if shown.learned_from else None
    return schema.LearnerRound(**about, rows=rows, **shares, human_minutes=round(shown.minutes, 2))
