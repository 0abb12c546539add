"""Asks for tests: an expert model that nobody calls, and asks of episodes of their own. Imported by conftest files."""

from __future__ import annotations

import struct
import zlib

import pytest

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import AskOpen, EpisodeStart
from episodes.record import recording
from experts.record import opening

MODEL = "small"


def picture(shade=0, width=1):
    """Return a gray PNG."""

    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height = max(1, width // 2)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\0" + bytes([shade]) * width) * height
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


@pytest.fixture
def models(settings):
    """One expert model is set up; nobody calls it here."""
    settings.EXPERT_ENDPOINTS = {MODEL: EndpointConfig("http://127.0.0.1:9/v1", "small-1")}


@pytest.fixture
def asked(ada):
    """Open an ask of an episode of its own."""
    count = iter(range(1000))

    def ask(question="Into which one?", task="merge the tickets", expert="plain", run=None, **more):
        start = EpisodeStart(key=f"e{next(count)}", task=task, expert=expert, run=run)
        episode, _ = recording.start_episode(ada, start)
        return opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question=question, **more))[0]

    return ask
