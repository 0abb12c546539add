"""Refusals of the episode book; the edge turns them into the envelope."""

from __future__ import annotations

from people.errors import AppError


class KeyConflict(AppError):
    """This key was used with another body."""

    code = "key_conflict"
    status = 409


class StepConflict(AppError):
    """Another step already stands at this number."""

    code = "step_conflict"
    status = 409


class SeqGap(AppError):
    """Steps are numbered from 1 without gaps."""

    code = "seq_gap"
    status = 409


class EpisodeEnded(AppError):
    """The episode has ended."""

    code = "episode_ended"
    status = 409


class SplitExists(AppError):
    """A split of this name exists and holds other tasks."""

    code = "split_exists"
    status = 409
