"""Pictures on their way to the dashboard: uploaded before the step that shows them, which then has a part for each.

A picture never keeps a step from being recorded: one that the dashboard does not take is a text that says so. Leaves
the forms in which others write pictures to `words/pictures.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awmclient.client.wire import Wire
from awmclient.errors import DashboardError, Unreachable
from awmclient.nouns.pictures import ImagePart
from awmclient.words.pictures import SHOWING, inline_pictures, with_parts

RETRY_S = 10.0
"""An agent waits meanwhile."""


async def upload(wire: Wire, episode: str, data: bytes, retry_s: float | None = None) -> ImagePart:
    """Upload a picture. The dashboard knows one that comes twice, so the call can be repeated."""
    return ImagePart.read((await wire.send("POST", f"/episodes/{episode}/blobs", data, retry_s=retry_s)).body)


async def with_uploads(wire: Wire, episode: str, step: dict[str, Any]) -> dict[str, Any]:
    """Return a step whose pictures are uploaded; the same step if it has none."""
    shown = {name: step[name] for name in SHOWING if isinstance(step.get(name), list | Mapping)}
    parts: dict[bytes, dict[str, Any]] = {}
    retry_s = RETRY_S
    for data in dict.fromkeys(inline_pictures(list(shown.values()))):
        try:
            parts[data] = (await upload(wire, episode, data, retry_s)).model_dump(exclude_none=True)
        except DashboardError as error:
            parts[data] = {"type": "text", "text": f"[picture left out: {error.message}]"}
            retry_s = 0 if isinstance(error, Unreachable) else retry_s  # the others are tried once
    return {**step, **{name: with_parts(value, parts) for name, value in shown.items()}} if parts else step
