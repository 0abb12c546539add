"""The errors of the environment package, each with a code for machines and a message for people.

Raised by `packs` (reading rows), `client` (talking to a server) and `awmenv.server`; callers translate them once, at
their edge.
"""

from awmenv.models import BuildReport


class EnvironmentFault(Exception):
    """Base of every error this package raises on purpose."""

    code = "environment_error"


class PackError(EnvironmentFault):
    """A folder is not a pack, or a named scenario or task is not in it."""

    code = "pack_error"


class UnknownScenario(PackError):
    code = "unknown_scenario"


class ServerUnreachable(EnvironmentFault):
    """No environment server answers at the address."""

    code = "environment_unreachable"


class SessionLost(EnvironmentFault):
    """The socket dropped, so the episode's world is gone: never silently continued in a new one."""

    code = "session_lost"


class WorldLost(SessionLost):
    """The episode's process ended from outside, and its world with it; the connection stands."""

    code = "world_lost"


class ServerTimeout(SessionLost):
    """No answer in time; the socket is closed, because a late answer would be taken for the next one."""

    code = "environment_timeout"


class ServerRefused(EnvironmentFault):
    """The server answered with an error frame; `code` is the server's own, in lower case."""

    def __init__(self, message: str, code: str = "environment_error") -> None:
        super().__init__(message)
        self.code = code


class CapacityReached(ServerRefused):
    """All session slots of the server are taken."""


class ResetFailed(EnvironmentFault):
    """The scenario could not be started; the message says why."""

    def __init__(self, message: str, code: str = "reset_error") -> None:
        super().__init__(message)
        self.code = code


class SandboxMissing(EnvironmentFault):
    """The code may not run here: the isolation reached is below the configured minimum."""

    code = "sandbox_missing"


class HostFailed(EnvironmentFault):
    """A scenario's process did not start, or broke its limits."""

    code = "scenario_failed"


class DatabaseBroken(EnvironmentFault):
    """The scenario's database could not be built as its rows say; `report` tells how far it came, if it could."""

    code = "database_broken"

    def __init__(self, message: str, report: BuildReport | None = None) -> None:
        super().__init__(message)
        self.report = report
