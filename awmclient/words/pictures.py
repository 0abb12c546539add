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
    if (data := _bytes_of(value)) is not None:
        return [data]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [data for one in inner for data in inline_pictures(one, depth + 1)] if depth < _DEEPEST else []


def with_parts(value: Any, parts: Mapping[bytes, Mapping[str, Any]], depth: int = 0) -> Any:
    """Return a value with the part of each of its pictures in the place of it."""
    if (data := _bytes_of(value)) is not None and data in parts:
        return dict(parts[data])
    if depth >= _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {name: with_parts(one, parts, depth + 1) for name, one in value.items()}
    return [with_parts(one, parts, depth + 1) for one in value] if isinstance(value, list) else value


def _bytes_of(value: Any) -> bytes | None:
    """Return the picture that a value is, or None."""
    if not isinstance(value, Mapping) or value.get("type") not in ("image", "image_url", "input_image"):
        return None
    source, address = value.get("source"), value.get("image_url")
    if isinstance(source, Mapping) and source.get("type") == "base64":  # Anthropic
        return _decoded(source.get("data"))
    if isinstance(address, Mapping):  # OpenAI's chat; its responses have the address alone
        address = address.get("url")
    if isinstance(address, str) and address.startswith("data:image/"):
        head, _, text = address.partition(",")
        return _decoded(text) if head.endswith(";base64") else None
    return _decoded(value.get("data")) if str(value.get("mimeType", "")).startswith("image/") else None  # MCP


def _decoded(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None
