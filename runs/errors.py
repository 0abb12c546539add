"""Errors of launching; callers turn them into error envelopes, form messages or command errors."""

from __future__ import annotations

from people.errors import AppError


class UnknownTask(AppError):
    """No loaded pack contains this task."""

    code = "unknown_task"
    status = 404


class UnknownPolicy(AppError):
    """Unknown policy."""

    code = "unknown_policy"
    status = 422


class NotBroken(AppError):
    """Only a failed built-in episode can be rerun."""

    code = "not_broken"
    status = 409


class NotForkable(AppError):
    """The episode cannot be forked at this step."""

    code = "not_forkable"
    status = 409


class UnknownEnvironment(AppError):
    """There is no environment server by this name."""

    code = "unknown_environment"
    status = 422


class NotPlayable(AppError):
    """The environment server offers nothing that an agent can use, or breaks the protocol."""

    code = "not_playable"
    status = 422


class NoEndpoint(AppError):
    """No agent model is configured. Set AWMWEB_AGENT_BASE_URL and AWMWEB_AGENT_MODEL."""

    code = "no_endpoint"
    status = 409


class OtherVersion(AppError):
    """The pack of the scenario was replaced."""

    code = "other_version"
    status = 409


class BadPack(AppError):
    """The folder contains no pack that can run."""

    code = "bad_pack"
    status = 422


class LoadedAlready(BadPack):
    """The pack is loaded in this version."""


class VerifiersUnchecked(AppError):
    """The verifiers could not be checked."""

    code = "verifiers_unchecked"
    status = 503


class DatabasesUnchecked(AppError):
    """The databases could not be built."""

    code = "databases_unchecked"
    status = 503


class NotFitted(AppError):
    """A gate cannot be fitted from what a run drew."""

    code = "not_fitted"
    status = 409


class NoServer(AppError):
    """The environment server does not respond."""

    code = "environment_unreachable"
    status = 503


class NoWorker(AppError):
    """No worker can be called. Try again later."""

    code = "no_worker"
    status = 503


class BadPlan(AppError):
    """The plan is not valid."""

    code = "bad_plan"
    status = 422


class NoExpertModel(AppError):
    """No expert model has this name. Set AWMWEB_EXPERTS."""

    code = "no_expert_model"
    status = 422


class StillLive(AppError):
    """The episode has not ended. Only an ended episode can be certified."""

    code = "still_live"
    status = 409


class WrongState(AppError):
    """The run is in another state."""

    code = "wrong_state"
    status = 409
