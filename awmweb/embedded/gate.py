"""A child that loads its modules while the database starts, and goes on once its parent says so.

Importing the product takes longer than all else of a start, and needs no database. Called by `supervisor`, and at the
other end of the pipe by `awmweb.asgi` and `manage.py prepare`.
"""

import os
import sys

VARIABLE = "AWMWEB_GATE"  # the file descriptor to wait for; only a supervisor sets it


class StartGate:
    """The parent's end. A gate that closes before it opened ends the children, also when the parent is killed."""

    def __init__(self, readers: int = 1) -> None:
        self.inner, self._outer = os.pipe()
        self._readers = readers

    @property
    def environment(self) -> dict[str, str]:
        """The variable that makes the child wait."""
        return self.environment_of(self.inner)

    @staticmethod
    def environment_of(end: int) -> dict[str, str]:
        """Return the variable that makes a process wait for this file descriptor."""
        return {VARIABLE: str(end)}

    def open(self) -> None:
        """Let the children go on; each takes a byte."""
        os.write(self._outer, b"1" * self._readers)
        self.close()

    def close(self) -> None:
        """Close both ends, once."""
        for end in (self.inner, self._outer):
            if end >= 0:
                os.close(end)
        self.inner = self._outer = -1


def is_ahead() -> bool:
    """Return whether this process was started before the database."""
    return VARIABLE in os.environ


def wait() -> None:
    """Wait for the parent's word; without a gate return immediately."""
    if end := os.environ.pop(VARIABLE, ""):
        word = os.read(int(end), 1)
        os.close(int(end))
        if not word:
            sys.exit("The supervisor ended before the database was ready.")
