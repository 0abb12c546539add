"""Reads: the rows of datasets by their names, for the rounds of a learner."""

from __future__ import annotations

from collections.abc import Collection

from curriculum.show.rounds import LearnedFrom
from exports.models import Export, ExportState
from people.models import Project


def rows_of(project: Project, datasets: Collection[str]) -> dict[str, LearnedFrom]:
    """Return the rows of these datasets that an export of the project has built."""
    built = Export.objects.filter(project=project, dataset__in=datasets, state=ExportState.DONE).order_by("created_at")
    return {export.dataset: LearnedFrom(export.rows, export.get_absolute_url()) for export in built}
