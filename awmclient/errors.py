"""What can go wrong between a loop and the world, one class per cause, each with a `code` for machines and words for
people.

Owns the classes and how a refusal of the dashboard becomes one of them. Leaves raising to the modules that know the
rule. Adapters of the `Dashboard` port raise these classes and no others, so that the loop can tell an end from a
break.

    try:
        await episode.append(step)
    except EpisodeEnded:
        return  # somebody stopped it
    except Unreachable:
        ...     # the step is kept and goes first in the next append
"""

from __future__ import annotations

from awmclient.schema import Fault


class ClientError(Exception):
    """Base of every error of this package."""

    code = "client_error"

    def __init__(self, message: str = "", code: str | None = None) -> None:
        super().__init__(message or " ".join((type(self).__doc__ or "").split()))
        self.code = code or type(self).code

    @property
    def message(self) -> str:
        return str(self.args[0])


class DashboardError(ClientError):
    """The dashboard could not take or give what was asked."""

    code = "dashboard"


class Unreachable(DashboardError):
    """The dashboard does not answer."""

    code = "unreachable"


class Refused(DashboardError):
    """The dashboard answered no."""

    code = "refused"
    status = 400

    def __init__(self, message: str = "", code: str | None = None, status: int | None = None) -> None:
        super().__init__(message, code)
        self.status = status or type(self).status


class StepConflict(Refused):
    """Another step already stands at this number."""

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


class ExpertOff(Refused):
    """The episode was started without an expert."""

    code = "expert_off"
    status = 409


class KeyConflict(Refused):
    """The key belongs to something that was started with another body."""

    code = "key_conflict"
    status = 409


class Scope(Refused):
    """The token may not do this."""

    code = "scope"
    status = 403


class BadToken(Refused):
    """The dashboard does not know the token, or the token has ended."""

    code = "unauthenticated"
    status = 401


class NotFound(Refused):
    """No such thing in the token's project."""

    code = "not_found"
    status = 404


class TooLarge(Refused):
    """The body is larger than the dashboard takes."""

    code = "too_large"
    status = 413


class Invalid(Refused):
    """The dashboard does not take a body of this shape."""

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
    """The class for a refusal: by the code of the envelope, else by the status."""
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status, Refused)
    return kind(message, code or kind.code, status)


class MalformedCall(ClientError):
    """The agent wrote something that is meant as a tool call and cannot be read as one; it is told so and may try
    again.
    """

    code = "malformed_call"


class BoundaryFault(ClientError):
    """A boundary of the loop broke. A fault says nothing about the task and is never counted as a failed one."""

    code = "worker"
    fault: Fault = "worker"


class PolicyFault(BoundaryFault):
    """The policy could not choose an action."""

    code = fault = "policy"


class EnvironmentFault(BoundaryFault):
    """The environment could not be reached or broke."""

    code = fault = "environment"


class ExpertFault(BoundaryFault):
    """Asking the expert broke the loop."""

    code = fault = "expert"


class DashboardFault(BoundaryFault):
    """The dashboard could not record the episode."""

    code = fault = "dashboard"


class EndpointError(PolicyFault):
    """A model endpoint answered with an error; the message is the endpoint's own, without keys."""
