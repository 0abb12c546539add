"""The next episode of a run, started by the thread that has just ended one, without a call through the broker.

Owns the rule: a thread does this for some seconds after its own call, so that other calls wait no longer than that. For
an episode of half a second, a call would take a tenth of the time. Used by `planning.py`, which knows the next episode,
and by `playing.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from celery.worker import state as worker

from runs.launch.launching import wake_worker

HOLDS_S = 5.0
AGAIN_S = 1


# each thread of the worker has a next episode of its own
class Relay(threading.local):
    """The next episode of one thread."""

    def __init__(self) -> None:
        self._until, self._next = 0.0, ""

    def play(self, episode_id: str, play: Callable[[str], None]) -> None:
        """Run an episode, then each one that was taken meanwhile. After an error a worker is called again for it,
        except for the first: the broker retries its call."""
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
            # what was taken and did not run goes to another thread
            self.pass_on()

    def take(self, episode_id: str) -> bool:
        """Take an episode as the next of this thread. False: a worker must be called for it."""
        if not self.is_free:
            return False
        self._next = episode_id
        return True

    @property
    def is_free(self) -> bool:
        """Whether this thread is running an episode and can take one more."""
        # a worker that is asked to stop runs its episode to the end, and takes no further one
        return not self._next and time.monotonic() < self._until and worker.should_stop is None

    def pass_on(self) -> None:
        """Call a worker for the episode that was taken, because the current one takes long."""
        taken, self._next = self._next, ""
        if taken:
            wake_worker(taken)


thread = Relay()
