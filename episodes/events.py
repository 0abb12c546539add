"""Live hints: which topics there are, what a frame holds, and the only publisher.

Owns the words of every frame. A hint leaves after the commit; losing every one of them costs a delay, never a fact.
Called by the write modules; heard by `hub.py` in each web process and by waiting loops of ours.
"""

from __future__ import annotations

import functools
import json
import logging
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone

log = logging.getLogger(__name__)
CHANNEL = "awmweb:hints"
Frame = dict[str, Any]


def episode_topic(episode_id: str) -> str:
    """What everybody in the project may hear, agents included."""
    return f"episode:{episode_id}"


def people_topic(episode_id: str) -> str:
    """What an agent never hears: verification."""
    return f"episode:{episode_id}:people"


def queue_topic(project_id: str) -> str:
    return f"queue:{project_id}"


@functools.cache
def connection() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)


def publish(topic: str, frame: Frame) -> None:
    """Tell after the commit. The frame goes through JSON at once, so that a bad one fails where it was made."""
    message = json.dumps({"topic": topic, "frame": {**frame, "now": stamp(timezone.now())}})
    transaction.on_commit(functools.partial(_send, message))


def _send(message: str) -> None:
    try:
        connection().publish(CHANNEL, message)
    except redis.RedisError as error:
        log.warning("a live hint was lost, readers catch up by themselves: %s", error)


def stamp(moment: Any) -> str:
    return str(moment.isoformat().replace("+00:00", "Z"))


def steps_frame(episode_id: str, steps: list[dict[str, Any]]) -> Frame:
    return {"type": "steps", "episode": episode_id, "steps": steps}
