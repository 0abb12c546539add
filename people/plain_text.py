"""Makes untrusted text safe to show on a page, in a notification or in a log.

Owns which characters are replaced. Leaves escaping to templates. Pure; called by every app.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_TURNING = re.compile(b"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
_HALVES = re.compile("[\x00\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029]")
LOOKED_AT = 4000
"""Characters that are searched for a first line."""


def _as_codes(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def clean(text: object) -> str:
    """Return text that any page can contain. Characters that break encoding or reorder lines become visible codes."""
    return _as_codes(_UNSAFE, str(text))


def cleaned(page: bytes) -> bytes:
    """Return a whole page in UTF-8 with the characters that reorder lines as codes.

    The other characters could not be written as UTF-8, or cannot end a page.
    """
    return _TURNING.sub(lambda found: clean(found[0].decode()).encode(), page)


def printable(text: object) -> str:
    """Return text for mail, terminals and files, which have no template.

    Control characters and direction marks become codes, too. Line breaks and tabs stay.
    """
    return _as_codes(_CONTROLS, clean(text))


def first_line(text: object, limit: int) -> str:
    """Return the first line with words, `printable` and at most `limit` characters long."""
    line = next((one.strip() for one in str(text)[:LOOKED_AT].splitlines() if one.strip()), "")
    line = printable(line[:limit])
    return line if len(line) < limit else f"{line[: limit - 1]}…"


def is_storable(text: str) -> bool:
    """Return whether a column of text can hold this: no U+0000 and no half of a surrogate pair."""
    return _HALVES.search(text) is None
