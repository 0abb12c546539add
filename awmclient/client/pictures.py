"""Pictures on their way to the dashboard: uploaded before the step that shows them, which then has a part for each.

One that the dashboard refuses becomes a text that says so, so no step is lost by it. While the dashboard is
unreachable, the bytes stay in their step, which the outbox keeps. Leaves the forms in which others write pictures to
`words/pictures.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from awmclient.client.wire import Wire
from awmclient.errors import Refused
from awmclient.nouns.pictures import STEP_PICTURES, ImagePart, without_parts
from awmclient.words.pictures import SHOWING, inline_pictures, with_parts

MORE = {"type": "text", "text": f"[picture left out: a step has at most {STEP_PICTURES}]"}
Send = Callable[[bytes], Awaitable[ImagePart]]
"""Uploads a picture. Raises `Refused` for what is none."""


async def upload(wire: Wire, episode: str, data: bytes) -> ImagePart:
    """Upload a picture. The dashboard knows one that comes twice, so the call can be repeated."""
    return ImagePart.read((await wire.send("POST", f"/episodes/{episode}/blobs", data)).body)


async def with_uploads(send: Send, step: dict[str, Any]) -> dict[str, Any]:
    """Return a step whose pictures are uploaded by `send`; the same step if it has none. Raises `Unreachable`.

    Pages show the first 20 of a step. Further ones become words: a world can return thousands, and each is a call.
    """
    datas = list(dict.fromkeys(inline_pictures(list(_shown(step).values()))))
    parts: dict[bytes, dict[str, Any]] = dict.fromkeys(datas[STEP_PICTURES:], MORE)
    for data in datas[:STEP_PICTURES]:
        try:
            parts[data] = (await send(data)).model_dump(exclude_none=True)
        except Refused as error:
            parts[data] = {"type": "text", "text": f"[picture left out: {error.message}]"}
    return _with(step, parts) if parts else step


def in_words(question: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a question with a text in place of each picture in it that is not uploaded."""
    words = {"type": "text", "text": "[picture]"}
    shown = _with(question, dict.fromkeys(inline_pictures(question["question"]), words))
    joined: dict[str, Any] = without_parts(shown, "question")
    return joined


def _shown(step: Mapping[str, Any]) -> dict[str, Any]:
    return {name: step[name] for name in SHOWING if isinstance(step.get(name), list | Mapping)}


def _with(step: dict[str, Any], parts: Mapping[bytes, Mapping[str, Any]]) -> dict[str, Any]:
    return {**step, **{name: with_parts(value, parts) for name, value in _shown(step).items()}}
