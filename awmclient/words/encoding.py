"""What is sent as JSON: in ASCII, and nothing that JSON has no form for."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from awmclient.errors import Invalid


def encode(body: Any) -> bytes:
    """Return JSON in ASCII, so that lone surrogates and U+0000 pass unchanged. Raises for NaN and other non-JSON."""
    try:
        return json.dumps(body, ensure_ascii=True, allow_nan=False, default=_plain, separators=(",", ":")).encode(
            "ascii"
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"not JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    raise TypeError(f"{type(value).__name__} has no JSON form")
