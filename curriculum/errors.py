"""Refusals of launching; the edge turns them into the envelope, a form message or a command's error."""

from __future__ import annotations

from people.errors import AppError


class UnknownTask(AppError):
    """No loaded pack holds this task."""

    code = "unknown_task"
    status = 404


class UnknownPolicy(AppError):
    """There is no such policy."""

    code = "unknown_policy"
    status = 422


class NotBroken(AppError):
    """Only an episode of ours that broke can be played again."""

    code = "not_broken"
    status = 409


class NoEndpoint(AppError):
    """No agent model is configured; set AWMWEB_AGENT_BASE_URL and AWMWEB_AGENT_MODEL."""

    code = "no_endpoint"
    status = 409


class BadPack(AppError):
    """The folder holds no pack that can be played."""

    code = "bad_pack"
    status = 422


class VerifiersUnchecked(AppError):
    """The verifiers could not be checked here."""

    code = "verifiers_unchecked"
    status = 503


class DatabasesUnchecked(AppError):
    """The databases could not be built here."""

    code = "databases_unchecked"
    status = 503
