"""Pictures as cards show them: an address, words in place of them, and the room that a thumbnail takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from awmclient.nouns.pictures import pictures_of
from people.requests.addresses import without_project
from people.text.plain_text import clean

SHOWN_SIDE = 160
"""Half of a thumbnail's, for screens with two pixels in one."""


@dataclass(frozen=True)
class ShownPicture:
    url: str
    words: str
    width: int
    height: int


def shown_pictures(step: Mapping[str, Any], episode: str) -> list[ShownPicture]:
    """Return the pictures of a step of this episode. Their room is known before they are loaded."""
    parts = pictures_of(step)
    many = len(parts) > 1
    names = [f"Picture {number} of {len(parts)}" if many else "Picture" for number in range(1, len(parts) + 1)]
    return [_shown(part, f"{name} of step {step['seq']}", episode) for name, part in zip(names, parts, strict=True)]


def _shown(part: Mapping[str, Any], name: str, episode: str) -> ShownPicture:
    width, height = part["width"], part["height"]
    scale = min(1.0, SHOWN_SIDE / max(width, height))
    words = clean(part.get("alt") or name)
    return ShownPicture(
        # without the project, which finds itself: sockets draw steps, too, and know no address
        url=without_project("picture", episode, part["blob"]),
        words=f"{words}, {width:,} × {height:,}",
        width=max(1, round(width * scale)),
        height=max(1, round(height * scale)),
    )
