"""A stranger's picture, read in a child of this process with limits of time and memory.

A decoder of pictures is written in C and reads hostile bytes; in a process of its own, with no connection, no secret
and no product, a fault of it costs one upload. The child starts for one picture: uploads are few, and nothing of it is
loaded by an installation without any.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awmclient.nouns.pictures import ImagePart
from episodes.stored.decode_picture import NO_PICTURE, TOO_LARGE_TO_READ
from people.errors import Busy, Invalid

CHILD = Path(__file__).with_name("decode_picture.py")
CHILD_S = 30.0
"""Time after which a child is ended, whatever it waits for."""
ENDED_BY_A_LIMIT = (signal.SIGKILL, signal.SIGXCPU)
MOST_UPLOADS, OF_A_SENDER = 4, 2
"""Uploads of a process at a time, and those of one sender. Further ones are refused and come again."""
_lock, _running = threading.Lock(), Counter[str]()
_one_child = threading.Lock()
"""Of the uploads one is read, and the others wait: a child takes more memory than its process."""
WAIT_S = 10.0


@dataclass(frozen=True)
class DecodedPicture:
    media_type: str
    width: int
    height: int
    data: bytes
    thumbnail: bytes

    @property
    def part(self) -> dict[str, Any]:
        """The part that a step has of it."""
        digest = hashlib.sha256(self.data).hexdigest()
        facts = {"media_type": self.media_type, "width": self.width, "height": self.height}
        return ImagePart.model_validate({"type": "image", "blob": digest, **facts}).model_dump(exclude_none=True)


def decoded(data: bytes, sender: str) -> DecodedPicture:
    """Return a picture as it is stored. Raises `Invalid` for anything that is none, or takes too much to read."""
    with _turn(sender):
        try:
            child = subprocess.run(
                [sys.executable, "-I", str(CHILD)], input=data, capture_output=True, timeout=CHILD_S, env={}
            )
        except subprocess.TimeoutExpired:
            raise Invalid(TOO_LARGE_TO_READ) from None
    head, _, rest = child.stdout.partition(b"\n")
    if child.returncode != 0:
        raise Invalid(TOO_LARGE_TO_READ if -child.returncode in ENDED_BY_A_LIMIT else NO_PICTURE)
    facts = json.loads(head)
    if "problem" in facts:
        raise Invalid(facts["problem"])
    size = facts.pop("bytes")
    return DecodedPicture(**facts, data=rest[:size], thumbnail=rest[size:])


@contextmanager
def _turn(sender: str) -> Iterator[None]:
    with _lock:
        if _running.total() >= MOST_UPLOADS or _running[sender] >= OF_A_SENDER:
            raise Busy
        _running[sender] += 1
    try:
        if not _one_child.acquire(timeout=WAIT_S):
            raise Busy
        try:
            yield
        finally:
            _one_child.release()
    finally:
        with _lock:
            _running[sender] -= 1
