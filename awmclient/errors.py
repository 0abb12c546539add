"""Errors of the client, one class per cause, each with a `code` for machines and a message for people.

Owns the classes and the mapping of the dashboard's error envelopes to them. Leaves raising to the modules that know the
rule. Adapters of the `Dashboard` port raise only these classes, so that the loop can tell an ended episode from a
fault.

    try:
        await episode.append(step)
    except EpisodeEnded:
        return  # someone stopped it
    except Unreachable:
        ...     # the step is kept and goes first in the next append
"""

from __future__ import annotations

from awmclient.nouns.values import Fault


class ClientError(Exception):
    """Base of all errors of this package."""

    code = "client_error"

    def __init__(self, message: str = "", code: str | None = None) -> None:
        super().__init__(message or " ".join((type(self).__doc__ or "").split()))
        self.code = code or type(self).code

    @property
    def message(self) -> str:
        return str(self.args[0])


class DashboardError(ClientError):
    """The request to the dashboard failed."""

    code = "dashboard"


class Unreachable(DashboardError):
    """Cannot reach the dashboard. Check the URL."""

    code = "unreachable"


class Refused(DashboardError):
    """The dashboard refused the request."""

    code = "refused"
    status = 400

    def __init__(self, message: str = "", code: str | None = None, status: int | None = None) -> None:
        super().__init__(message, code)
        self.status = status or type(self).status


class StepConflict(Refused):
    """This step number already exists with different content."""

    code = "step_conflict"
    status = 409


class SeqGap(Refused):
    """Steps are numbered from 1 without gaps."""

    code = "seq_gap"
    status = 409


class EpisodeEnded(Refused):
    """The episode has ended, by its own finish or because a person stopped it."""

    code = "episode_ended"
    status = 409


class Parked(ClientError):
    """The episode is parked: it waits for advice without this process, and another attempt goes on with it."""

    code = "parked"


class ExpertOff(Refused):
    """The episode was started without an expert."""

    code = "expert_off"
    status = 409


class KeyConflict(Refused):
    """This key was already used with a different request body."""

    code = "key_conflict"
    status = 409


class Scope(Refused):
    """The token's scope does not allow this."""

    code = "scope"
    status = 403


class BadToken(Refused):
    """The token is invalid, expired or revoked."""

    code = "unauthenticated"
    status = 401


class NotFound(Refused):
    """Not found in this token's project."""

    code = "not_found"
    status = 404


class TooLarge(Refused):
    """The request body is too large."""

    code = "too_large"
    status = 413


class Invalid(Refused):
    """Invalid request body."""

    code = "invalid"
    status = 422


_BY_CODE: dict[str, type[Refused]] = {
    kind.code: kind
    for kind in (
        StepConflict,
        SeqGap,
        EpisodeEnded,
        ExpertOff,
        KeyConflict,
        Scope,
        BadToken,
        NotFound,
        TooLarge,
        Invalid,
    )
}
_BY_STATUS: dict[int, type[Refused]] = {401: BadToken, 403: Scope, 404: NotFound, 413: TooLarge, 422: Invalid}


def refusal(status: int, code: str | None, message: str) -> Refused:
    """Return the error for a refusal: by the code of the envelope, else by the status."""
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status, Refused)
    return kind(message, code or kind.code, status)


class MalformedCall(ClientError):
    """The agent's text is meant as a tool call and cannot be read as one. The agent gets the error and can retry."""

    code = "malformed_call"


class BoundaryFault(ClientError):
    """A part of the loop failed. A fault never counts as a failed task."""

    code = "worker"
    fault: Fault = "worker"


class PolicyFault(BoundaryFault):
    """The policy could not choose an action."""

    code = fault = "policy"


class EnvironmentFault(BoundaryFault):
    """The environment could not be reached or failed."""

    code = fault = "environment"


class ExpertFault(BoundaryFault):
    """Asking the expert failed."""

    code = fault = "expert"


class DashboardFault(BoundaryFault):
    """The dashboard could not record the episode."""

    code = fault = "dashboard"


class ModelFault(BoundaryFault):
    """The policy's model server failed."""

    code = fault = "model"


class EndpointError(ModelFault):
    """A model endpoint returned an error; the message is the endpoint's, without keys."""
