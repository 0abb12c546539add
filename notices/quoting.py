"""A receiver's response, fit for a log that people read: one clean line without secrets.

Owns which words are withheld. A receiver, or a proxy before it, may repeat what it was sent: a capability in an
address, a code, a password, in any common encoding. Pure; called by `sending.py`.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

from people.text.plain_text import first_line

CHARS = 160
SHORTEST, WINDOW = 4, 8
"""Letters and digits below which a text is no secret, and those in a row that count as a leak of a longer one."""
LONGEST_WORD = 16
HELD_BACK = "(response hidden: it repeats part of the address or a secret)"
_TOKEN = re.compile(r"[A-Za-z0-9+/_=~%.-]{20,}")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{6,}")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")


def quoted(response: object, secrets: Iterable[str]) -> str:
    """Return the first line of a response, or a remark if it has one of the secrets in any encoding.

    Text that looks like another key is cut out.
    """
    line = first_line(response, CHARS)
    parts = {part for secret in secrets for part in _windows(_plain(secret))}
    if any(part in view for view in map(_plain, _views(line)) for part in parts):
        return HELD_BACK
    return _TOKEN.sub(lambda match: "[…]" if _is_keylike(match[0]) else match[0], line)


def parts_of(url: str) -> list[str]:
    """Return the parts of an address that may be a capability: its query, and path segments that are no plain words."""
    address = urlsplit(url)
    values = [value for _, value in parse_qsl(address.query, keep_blank_values=True)]
    words = [part for part in unquote(address.path).split("/") if _is_keylike(part) or len(part) >= LONGEST_WORD]
    return [*words, *values, unquote(address.query), address.fragment]


def _plain(text: str) -> str:
    """Return letters and digits only, in lower case."""
    return "".join(char for char in text.casefold() if char.isalnum())


def _windows(secret: str) -> Iterator[str]:
    if len(secret) >= SHORTEST:
        yield from (secret[start : start + WINDOW] for start in range(max(1, len(secret) - WINDOW + 1)))


def _views(line: str) -> Iterator[str]:
    """Yield the line as it is, and as common encodings would decode it."""
    yield from (line, unquote_plus(line), html.unescape(line))
    yield _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), line)
    for token in _ENCODED.findall(line):
        for start in range(4):
            yield from _decoded(token[start:])


def _decoded(token: str) -> Iterator[str]:
    """Yield the text decoded as base64 of either alphabet and as hexadecimal digits, as far as possible."""
    whole = token if len(token) % 4 != 1 else token[:-1]
    padded = whole.replace("-", "+").replace("_", "/") + "=" * (-len(whole) % 4)
    for text, decode in ((padded, base64.b64decode), (token[: len(token) // 2 * 2], bytes.fromhex)):
        try:
            yield decode(text).decode("latin-1")
        except (binascii.Error, ValueError):
            continue


def _is_keylike(token: str) -> bool:
    return any(char.isdigit() for char in token) or not (token.islower() or token.isupper())
