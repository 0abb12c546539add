"""When an episode that waits for an answer releases its thread, its session and its memory.

Owns the rule: after the configured time, or soon if all threads of this worker are in use and other episodes are
queued. Leaves the change of state to `episodes.record.recording`. Called by `local.py`, whose caller then ends the
attempt, and by `playing.py`, which registers its thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from episodes.models import RUN_HERE, Episode, EpisodeState
from episodes.record import recording
from experts.record import closing

PRESSED_S = 1.0
"""An episode always keeps its thread this long, because models answer many asks within it."""


class Threads:
    """The threads of a rollouts worker, and how many of them run an episode."""

    def __init__(self) -> None:
        # a worker sets its own number of threads when it is ready
        self.all = 16
        self._taken = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def occupy(self) -> Iterator[None]:
        with self._lock:
            self._taken += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken -= 1

    @property
    def are_all_taken(self) -> bool:
        return self._taken >= self.all


threads = Threads()


def park_if_due(ask_id: str, attempt: int, waited_s: float) -> bool:
    """Park the episode of an open ask if it has waited long enough. True: this attempt has ended."""
    if not is_due(waited_s):
        return False
    with transaction.atomic():
        ask = closing.locked(ask_id)
        # past its deadline it is closed by the next look, and a held answer comes in a moment: the loop continues here
        if not ask.is_open or ask.held_id is not None or ask.deadline_at <= timezone.now():
            return False
        return recording.park(ask.episode_id, attempt)


def is_due(waited_s: float) -> bool:
    """Return whether a wait is long enough to park. Asked every few seconds without a lock."""
    return waited_s >= settings.AWMWEB_PARK_AFTER_S or (waited_s >= PRESSED_S and _others_need_a_thread())


def _others_need_a_thread() -> bool:
    queued = Episode.every.filter(state=EpisodeState.QUEUED, origin__in=RUN_HERE)
    return threads.are_all_taken and queued.exists()
