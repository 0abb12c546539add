"""Errors of the curriculum."""

from __future__ import annotations

from people.errors import AppError


class StepReported(AppError):
    """This training step was already reported with different content."""

    code = "step_conflict"
    status = 409


class NoRun(AppError):
    """No run of this project has a training step. Name a run."""

    code = "no_run"
    status = 404


class BadCurriculumPlan(AppError):
    """The run's metadata holds a curriculum that cannot be read."""

    code = "bad_curriculum"
    status = 422


class NoSnapshot(AppError):
    """This run has no curriculum snapshot yet. Its trainer's next request takes one."""

    code = "no_snapshot"
    status = 404
