"""Makes untrusted text safe to show on a page, in a notification or in a log.

Owns which characters are replaced. Leaves escaping to templates. Pure; called by every app.
"""

from __future__ import annotations

import re
import unicodedata

from people.text.invisible import SIGNS, belongs

# Tabs and line ends stay. The last two ranges are marks that reorder the text around them; the group draws nothing.
_UNSAFE = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]|([{SIGNS}])")
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_NAMES = ["NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI"]
_NAMES += ["DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"]
# The same marks as UTF-8: a page is searched without decoding it.
_TURNING = re.compile(b"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
_HALVES = re.compile("[\x00\ud800-\udfff]")
_RETURNS = re.compile("\r")
LOOKED_AT = 4000
"""Characters that are searched for a first line."""


def _name(code: int) -> str:
    return _NAMES[code] if code < len(_NAMES) else "DEL" if code == 0x7F else f"U+{code:04X}"


def _as_codes(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(_as_code, text)


def _as_code(match: re.Match[str]) -> str:
    is_part = match.re is _UNSAFE and match[1] and belongs(match.string, match.start())
    return match[0] if is_part else f"⟨{_name(ord(match[0]))}⟩"


def clean(text: object) -> str:
    """Return text that any page can contain. Control characters, and those that break encoding, reorder lines or draw
    nothing, become visible names or codes; tabs and line ends stay, and joiners inside words and emoji."""
    return _as_codes(_UNSAFE, str(text))


def folded(text: object) -> str:
    """Return text to compare: without case, and with one form of each letter that has an accent."""
    return unicodedata.normalize("NFC", str(text)).casefold()


def named(name: object) -> str:
    """Return a wire name as pages show it: `no_help_asked` is "No help asked"."""
    words = clean(name).replace("_", " ")
    return words[:1].upper() + words[1:]


def writable(text: object) -> str:
    """Return text for a field that is sent back: only what UTF-8 or a text column cannot hold becomes a code."""
    return _as_codes(_UNWRITABLE, str(text))


def cleaned(page: bytes) -> bytes:
    """Return a whole page in UTF-8 with the characters that reorder lines as codes.

    The other characters could not be written as UTF-8, or cannot end a page.
    """
    return _TURNING.sub(lambda match: clean(match[0].decode()).encode(), page)


def with_line_ends(text: str) -> str:
    """Return text whose lines end with one line feed each, as agents and files have them; forms send two signs."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def printable(text: object) -> str:
    """Return text for mail, terminals and files, which have no template.

    A carriage return becomes a code, too. Line breaks and tabs stay.
    """
    return _as_codes(_RETURNS, clean(text))


def first_line(text: object, limit: int) -> str:
    """Return the first line with words, `printable` and at most `limit` characters long."""
    line = next((one.strip() for one in str(text)[:LOOKED_AT].splitlines() if one.strip()), "")
    line = printable(line[:limit])
    return line if len(line) < limit else f"{line[: limit - 1]}…"


def storable(text: str, most: int = 2000) -> str:
    """Return the first characters of what someone else wrote, as a column of text can hold them."""
    return text.replace("\x00", "")[:most].encode("utf-8", "replace").decode()


def is_storable(text: str) -> bool:
    """Return whether a column of text can hold this: no U+0000 and no half of a surrogate pair."""
    return _HALVES.search(text) is None
