"""The errors of the environment package, each with a code for machines and a message for people.

Raised by `packs` (reading rows), `client` (talking to a server) and `awmenv.server`; callers translate them once, at
their edge.
"""

from awmenv.models import BuildReport


class AwmenvError(Exception):
    """Base of all errors of this package."""

    code = "environment_error"


class PackError(AwmenvError):
    """The folder is not a pack, or the scenario or task is not in it."""

    code = "pack_error"


class UnknownScenario(PackError):
    code = "unknown_scenario"


class ServerUnreachable(AwmenvError):
    """Cannot reach the environment server."""

    code = "environment_unreachable"


class SessionLost(AwmenvError):
    """The connection was lost and the environment state was discarded. Call reset."""

    code = "session_lost"


class WorldLost(SessionLost):
    """The scenario's process was ended from outside and its state was discarded. The connection is open; call reset."""

    code = "world_lost"


class Diverged(AwmenvError):
    """A world that was made again from its calls is not the one that was lost."""

    code = "diverged"


class WorldDiffers(AwmenvError):
    """The recorded world cannot be made again."""

    code = "world_differs"


class ServerTimeout(SessionLost):
    """The environment server did not respond in time. The connection is closed, so a late reply can't be misread."""

    code = "environment_timeout"


class ServerRefused(AwmenvError):
    """The server replied with an error frame; `code` is the server's code in lower case, `errors` are its details."""

    def __init__(self, message: str, code: str = "environment_error") -> None:
        super().__init__(message)
        self.code = code
        self.errors: list[object] = []


class CapacityReached(ServerRefused):
    """All session slots of the server are in use; `sessions` is their number, if the server said it."""

    def __init__(self, message: str, code: str = "capacity_reached", sessions: int | None = None) -> None:
        super().__init__(message, code)
        self.sessions = sessions


class ResetFailed(AwmenvError):
    """The scenario could not be started; the message says why."""

    def __init__(self, message: str, code: str = "reset_error") -> None:
        super().__init__(message)
        self.code = code


class SandboxMissing(AwmenvError):
    """Pack code is blocked: the sandbox level is below AWMENV_MIN_TIER."""

    code = "sandbox_missing"


class HostFailed(AwmenvError):
    """The scenario's process did not start or exceeded its limits."""

    code = "scenario_failed"


class DatabaseBroken(AwmenvError):
    """The scenario database could not be built from its rows; `report` has the details, if there are any."""

    code = "database_broken"

    def __init__(self, message: str, report: BuildReport | None = None) -> None:
        super().__init__(message)
        self.report = report


class BrokenServer(AwmenvError):
    """The server does something that OpenEnv does not allow, or other than it said; the message says what."""

    code = "server_broken"


class NothingToPlay(AwmenvError):
    """The server offers an agent neither tools nor actions."""

    code = "nothing_to_play"
