"""Errors of episodes; `people.envelope` turns them into error envelopes."""

from __future__ import annotations

from people.errors import AppError


class StepConflict(AppError):
    """This step number already exists with different content."""

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


class StepsErased(AppError):
    """A retention rule erased the words of this episode's steps. It takes no more steps and does not reopen."""

    code = "steps_erased"
    status = 409


class PictureMissing(AppError):
    """A picture of this step was not uploaded to its episode. Upload it with POST /episodes/{id}/blobs first."""

    code = "picture_missing"
    status = 409


class TooManyPictures(AppError):
    """This episode has as many pictures as an episode can have."""

    code = "too_many_pictures"
    status = 409


class NotWaiting(AppError):
    """The episode does not wait for an answer. Only a waiting episode can be parked."""

    code = "not_waiting"
    status = 409


class OtherLoop(AppError):
    """awmweb's own worker runs this episode and alone records it. Cancel it to end it."""

    code = "other_loop"
    status = 409


class WheelTaken(AppError):
    """Someone else has the wheel of this episode."""

    code = "wheel_taken"
    status = 409


class WheelLost(AppError):
    """You no longer have the wheel of this episode."""

    code = "wheel_lost"
    status = 409


class AlreadySent(AppError):
    """It was sent to the loop already, and a call cannot be unmade."""

    code = "already_sent"
    status = 409


class NotSteerable(AppError):
    """The wheel of this episode cannot be taken now."""

    code = "not_steerable"
    status = 409


class BriefingLate(AppError):
    """A briefing is recorded once, before the first action."""

    code = "briefing_late"
    status = 409


class AlreadyRejudging(AppError):
    """The episodes of this task are being judged again by another version. Wait until that has ended."""

    code = "already_rejudging"
    status = 409


class SplitExists(AppError):
    """A split with this name exists with different tasks."""

    code = "split_exists"
    status = 409


class BlindReview(AppError):
    """These outcomes are hidden until your blind reviews are done. Give them, or leave their queue on its page."""

    code = "blind_review"
    status = 409
