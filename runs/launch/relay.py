"""The next episode of a run, played by the thread that has just ended one, without a call by way of the broker.

Owns the rule: for some seconds after its own call, so that calls of others wait no longer than that. Of an episode that
takes half a second, a call is a tenth. Used by `planning.py`, which knows what is next, and by `playing.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from celery.worker import state as worker

from runs.launch.launching import wake_worker

HOLDS_S = 5.0
AGAIN_S = 1


class Relay(threading.local):
    """What one thread plays next."""

    def __init__(self) -> None:
        self._until, self._next = 0.0, ""

    def play(self, episode_id: str, play: Callable[[str], None]) -> None:
        """Play an episode, then each that was taken meanwhile. One that breaks is called for again, but for the first:
        its own call is tried again."""
        self._until = time.monotonic() + HOLDS_S
        at_hand = episode_id
        try:
            while at_hand:
                play(at_hand)
                at_hand, self._next = self._next, ""
        except BaseException:
            if at_hand != episode_id:
                wake_worker(at_hand, AGAIN_S)
            raise
        finally:
            self._until = 0.0
            self.pass_on()

    def take(self, episode_id: str) -> bool:
        """Take an episode as the next of this thread. False: a worker must be called for it."""
        if not self.is_free:
            return False
        self._next = episode_id
        return True

    @property
    def is_free(self) -> bool:
        """Whether this thread plays and can take one more."""
        return not self._next and time.monotonic() < self._until and worker.should_stop is None

    def pass_on(self) -> None:
        """Call for what was taken, as what is at hand takes long."""
        taken, self._next = self._next, ""
        if taken:
            wake_worker(taken)


thread = Relay()
