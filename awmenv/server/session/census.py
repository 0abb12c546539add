"""Compares a scenario's processes with those that the server started, and ends the others.

A template may fork, because each session is a fork of it; untrusted code decides what else it forks. So the server
checks from outside: a child of a template that is no session, or a child of a session, is a stray. Orphans are
reparented to the zygote, which ends them. Called by `scenario`, once a second.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

DEEP_EVERY = (
    5  # looks; sessions cannot fork once they are confined, so that below them it is enough to look now and then
)


@dataclass
class Census:
    """The earlier observations of one template's processes; `offences` counts the checks that found strays."""

    template: int
    offences: int = 0
    _looks: int = 0
    _first_seen: dict[tuple[int, int], float] = field(default_factory=dict)

    def look(self, sessions: frozenset[int], starting_s: float) -> int:
        """End the strays; return how many. Can take milliseconds, so it does not run on the loop.

        A process younger than `starting_s` may be a session that has not sent its hello; 0 while none is being started.
        A process seen for the first time is left alone: it may have started after `sessions` was read.
        """
        now, deep = time.monotonic(), self._looks % DEEP_EVERY == 0
        suspects = {(pid, self.template) for pid in children(self.template) if pid not in sessions}
        if deep:
            suspects |= {(pid, session) for session in sessions for pid in children(session)}
        before = self._first_seen
        # Between deep looks no child of a session is seen: earlier sightings are kept.
        unseen = set() if deep else {one for one in before if one[1] != self.template}
        self._first_seen = {one: before.get(one, now) for one in suspects | unseen}
        strays = [one for one in suspects if one in before and now - before[one] >= starting_s]
        count = sum(_end(pid, parent) for pid, parent in strays)
        self._looks += 1
        self.offences += bool(count)
        return count


def children(pid: int) -> list[int]:
    """Return the current children of a process."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text()
            pids += [int(part) for part in text.split()]
    return pids


def _end(pid: int, parent: int) -> bool:
    """Kill a process if it is still a child of this parent; its pid may have been reused."""
    # The descriptor first: what is read after it is of this process, or nothing.
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        state, ppid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        if int(ppid) != parent or state in "ZX":
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except (OSError, ValueError):
        return False
    finally:
        os.close(pidfd)
    return True
