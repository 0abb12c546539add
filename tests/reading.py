"""Steps as the API gives them, without the way there."""

from __future__ import annotations

import json
from typing import Any

from episodes.visible import trajectory
from episodes.visible.lens import lens_of
from people.access import Actor


def steps_read_by(actor: Actor, episode_id: str) -> list[dict[str, Any]]:
    """The first page of an episode's steps, as this actor reads them."""
    episode = trajectory.visible_episode(actor, episode_id)
    steps: list[dict[str, Any]] = json.loads(trajectory.page_text(lens_of(actor, episode), episode))["steps"]
    return steps
