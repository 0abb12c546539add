"""Pictures of a step: the part that refers to one, and content that is a list of parts.

The bytes are stored by their digest; a step holds the part alone. Pure, for both sides of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, WithJsonSchema
from pydantic_core import PydanticCustomError

from awmclient.nouns.fields import Line, Shape

PICTURE_BYTES = 8 * 1024 * 1024
STEP_PICTURES = 20
PICTURE_SIDE = 16_384
DIGEST = r"^[0-9a-f]{64}$"
_DEEPEST = 100
_UPLOAD_FIRST = "Upload a picture with POST /episodes/{id}/blobs, and send the part that comes back"


class ImagePart(Shape):
    """A stored picture: the digest of its bytes, which `GET /blobs/{digest}` returns, its type and its size."""

    type: Literal["image"]  # without a default: a step is stored as it came, and shown by it
    blob: Annotated[str, Field(pattern=DIGEST)]
    media_type: Literal["image/png", "image/jpeg", "image/webp"]
    width: Annotated[StrictInt, Field(ge=1, le=PICTURE_SIDE)]
    height: Annotated[StrictInt, Field(ge=1, le=PICTURE_SIDE)]
    alt: Line | None = None
    """What it shows, for readers who do not see it."""


Pictures = Annotated[list[ImagePart], Field(min_length=1, max_length=STEP_PICTURES)]


def in_parts(text: Mapping[str, Any]) -> WithJsonSchema:
    """Return how the document describes a text that can come as a list of parts."""
    words = {"type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}
    picture = ImagePart.model_json_schema()
    return WithJsonSchema({"anyOf": [dict(text), {"type": "array", "items": {"anyOf": [words, picture]}}]})


def without_parts(fields: Any, name: str) -> Any:
    """Return a body whose `name` can be a list of parts, with its texts as one text and its pictures in `pictures`.

    >>> without_parts({"content": [{"type": "text", "text": "Look"}]}, "content")
    {'content': 'Look'}
    """
    if not isinstance(fields, dict) or not isinstance(parts := fields.get(name), list):
        return fields
    texts = [part["text"] for part in parts if _is_text(part)]
    pictures = [part for part in parts if isinstance(part, Mapping) and "blob" in part]
    if len(texts) + len(pictures) != len(parts):
        raise PydanticCustomError("parts", "Each part is a text or a picture. {how}", {"how": f"{_UPLOAD_FIRST}."})
    joined, own = {**fields, name: "\n".join(texts)}, fields.get("pictures")
    if not pictures or not isinstance(own, list | None):  # anything else is refused by its own field
        return joined
    return {**joined, "pictures": [*(own or []), *pictures]}


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def pictures_of(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of pictures that a step has, in order: its own, and those in what came back.

    A result can be anything, so what only looks like a part is left out, and of many the first are returned. A step in
    its cut form has them under its mark, if they are in what is left out.
    """
    cut = step.get("cut")
    left_out = cut.get("pictures") if isinstance(cut, Mapping) else None
    parts = list[dict[str, Any]]()
    todo = [left_out] if left_out else [step.get("observation"), step.get("result"), step.get("pictures")]
    # what came back is bounded as a step is, and no value is looked at twice
    while todo and len(parts) < STEP_PICTURES:
        value = todo.pop()
        if isinstance(value, list):
            todo += reversed(value)
        elif isinstance(value, dict) and value.get("type") == "image" and "blob" in value:
            parts += _checked(value)
        elif isinstance(value, dict):
            todo += reversed(value.values())
    return parts


def picture_words(part: Mapping[str, Any]) -> str:
    """Return what a text has in the place of a picture.

    >>> picture_words({"alt": "An empty cart"})
    '[picture: An empty cart]'
    """
    return f"[picture: {part['alt']}]" if part.get("alt") else "[picture]"


def taken_out(value: Any, parts: list[dict[str, Any]], depth: int = 0) -> Any:
    """Return what came back with words in the place of each picture, and add the parts of these to `parts`."""
    if depth >= _DEEPEST or not isinstance(value, list | Mapping):
        return value
    if isinstance(value, list):
        return [taken_out(inner, parts, depth + 1) for inner in value]
    is_part = value.get("type") == "image" and "blob" in value and len(parts) < STEP_PICTURES
    if is_part and (own := _checked(dict(value))):
        parts += own
        return picture_words(own[0])
    return {name: taken_out(inner, parts, depth + 1) for name, inner in value.items()}


def _checked(value: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return [ImagePart.model_validate(value).model_dump(exclude_none=True)]
    except ValueError:
        return []
