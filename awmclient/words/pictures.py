"""Pictures inside of a step's values, as OpenAI, Anthropic and MCP write them: base64 in JSON.

Owns their forms. Leaves their upload to the client, which puts a part in the place of each.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

SHOWING = ("content", "question", "result", "observation")
"""The fields of a step in which a picture is one; anywhere else it is a text."""
_DEEPEST = 100


def inline_pictures(value: Any, depth: int = 0) -> list[bytes]:
    """Return the bytes of all pictures inside of a value, in order.

    >>> inline_pictures([{"type": "image", "data": "AAEC", "mimeType": "image/png"}])
    [b'\\x00\\x01\\x02']
    """
    if (data := picture_in(value)) is not None:
        return [data]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [data for one in inner for data in inline_pictures(one, depth + 1)] if depth < _DEEPEST else []


def with_parts(value: Any, parts: Mapping[bytes, Mapping[str, Any]], depth: int = 0) -> Any:
    """Return a value with the part of each of its pictures in the place of it."""
    if (data := picture_in(value)) is not None and data in parts:
        return dict(parts[data])
    if depth >= _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {name: with_parts(one, parts, depth + 1) for name, one in value.items()}
    return [with_parts(one, parts, depth + 1) for one in value] if isinstance(value, list) else value


def picture_in(value: Any) -> bytes | None:
    """Return the bytes of the picture that a value is, or None."""
    if not isinstance(value, Mapping) or value.get("type") not in ("image", "image_url", "input_image"):
        return None
    source, address = value.get("source"), value.get("image_url")
    if isinstance(source, Mapping) and source.get("type") == "base64":  # Anthropic
        return _decoded(source.get("data"))
    if isinstance(address, Mapping):  # OpenAI's chat; its responses have the address alone
        address = address.get("url")
    if isinstance(address, str) and (data := picture_at(address)) is not None:
        return data
    return _decoded(value.get("data")) if str(value.get("mimeType", "")).startswith("image/") else None  # MCP


def picture_at(address: str) -> bytes | None:
    """Return the bytes of a picture whose address has them as data, or None.

    >>> picture_at("data:image/png;base64,AAEC")
    b'\\x00\\x01\\x02'
    """
    head, _, text = address.partition(",")
    return _decoded(text) if head.startswith("data:image/") and head.endswith(";base64") else None


def _decoded(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None
