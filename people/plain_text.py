"""Text that strangers wrote, made fit to be shown: on a page, in a notification, in a log.

Owns which characters never pass as they are. Leaves escaping to templates. Pure; called by every app.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_TURNING = re.compile(b"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029]")
LOOKED_AT = 4000
"""Characters that are looked through for a first line."""


def _as_codes(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def clean(text: object) -> str:
    """Return text that any page can carry: what breaks encoding or turns lines around becomes a visible code."""
    return _as_codes(_UNSAFE, str(text))


def cleaned(page: bytes) -> bytes:
    """Return a whole page in UTF-8 with the characters that turn lines around as the same codes, whichever text they
    came in. The others could not be written as UTF-8, or end no page."""
    return _TURNING.sub(lambda found: clean(found[0].decode()).encode(), page)


def printable(text: object) -> str:
    """Return text for mail, terminals and files, where no template stands in between: control characters and marks of
    direction become codes, too. Line breaks and tabs stay."""
    return _as_codes(_CONTROLS, clean(text))


def first_line(text: object, limit: int) -> str:
    """Return the first line with words in it, `printable` and at most `limit` characters long."""
    line = next((one.strip() for one in str(text)[:LOOKED_AT].splitlines() if one.strip()), "")
    line = printable(line[:limit])
    return line if len(line) < limit else f"{line[: limit - 1]}…"
