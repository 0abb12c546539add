"""Asks for tests: an expert model that nobody calls, and asks of episodes of their own. Imported by conftest files."""

from __future__ import annotations

import pytest

from awmclient.schema import AskOpen, EpisodeStart
from episodes.record import recording
from experts import queue

MODEL = "small"


@pytest.fixture
def models(settings):
    """One expert model is set up; nobody calls it here."""
    settings.EXPERT_ENDPOINTS = {MODEL: object()}


@pytest.fixture
def asked(ada):
    """Open an ask of an episode of its own."""
    count = iter(range(1000))

    def ask(question="Into which one?", task="merge the tickets", expert="plain", run=None, **more):
        start = EpisodeStart(key=f"e{next(count)}", task=task, expert=expert, run=run)
        episode, _ = recording.start_episode(ada, start)
        return queue.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question=question, **more))[0]

    return ask
