"""Removes a model endpoint's secrets from its responses, in any common spelling.

Pure, and only the standard library. `awmclient/words/blotting.py` is a link to this file, since neither package
may import the other (decision 18). Called where a response arrives, before any of it is recorded or shown.

A secret is found in upper and lower case, in base64 of both alphabets (at each of its three alignments, padded or not,
also over line breaks), in hex, and with single characters as percent, JSON or HTML escapes, repeatedly escaped ones
too. Not found are secrets of fewer than `SHORTEST` characters and those that were split, encrypted or paraphrased.
"""

from __future__ import annotations

import base64
import functools
import html
import re
from array import array
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

MARK = "[key]"
SHORTEST = 6
"""Shorter values are words such as `1` or `blue`; removing them would spoil most responses."""
PUBLIC_HEADERS = frozenset({"accept", "content-type", "http-referer", "referer", "user-agent", "x-title"})
"""What says who asks, such as the name of a site, is a word of every second task."""
SCHEMES = frozenset({"apikey", "api-key", "basic", "bearer", "key", "token"})
NO_KEYS = frozenset({"lm-studio", "not-needed", "ollama", "sk-no-key-required"})
"""What servers without a key document as one."""
DATE = re.compile(r"\d{4}-\d\d-\d\d(-preview)?")
"""What Azure's `api-version` holds. It is no secret, and an agent may have to write the same day into a form."""

_ESCAPE = re.compile(
    # An escaped percent sign is `%25`: escapes that were escaped again count, too.
    rb"%(?:25)*(?P<percent>[0-9a-f]{2})"
    # JSON inside JSON doubles backslashes, so any number of them is read.
    rb"|\\+u(?P<high>d[89ab][0-9a-f]{2})\\+u(?P<low>d[c-f][0-9a-f]{2})|\\+u(?P<code>[0-9a-f]{4})"
    rb"|\\+(?P<sign>[\"/nrt])|(?P<slashes>\\{2,})"
    rb"|&(?:amp;)*(?P<entity>#x[0-9a-f]{1,6}|#[0-9]{1,7}|quot|apos|lt|gt|amp);",
    re.IGNORECASE,
)
_SIGNS = {b'"': b'"', b"/": b"/", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
# The URL-safe alphabet of base64 is read as the usual one, and line breaks inside it are skipped.
_ONE_ALPHABET, _BREAKS = bytes.maketrans(b"-_", b"+/"), b" \t\r\n"


def secrets_of(api_key: str, headers: Mapping[str, str], query: Mapping[str, str]) -> frozenset[str]:
    """Return what of an endpoint's configuration must not come back: its key, header and query values."""
    values = [api_key, *query.values()]
    values += [value for name, value in headers.items() if name.casefold() not in PUBLIC_HEADERS]
    parts = {part for value in values for part in (value, _without_scheme(value)) if part.casefold() not in NO_KEYS}
    return frozenset(part for part in parts if len(part) >= SHORTEST and not DATE.fullmatch(part))


def _without_scheme(value: str) -> str:
    """Return the KEY of `Bearer KEY`, and any other value as it is: its last word may be any word."""
    scheme, _, key = value.partition(" ")
    return key.strip() if scheme.casefold() in SCHEMES else value


def blotted(value: Any, secrets: Collection[str]) -> Any:
    """Return a JSON value with the secrets blotted out of all its texts, names of fields and whole numbers."""
    if isinstance(value, str):
        return blot(value, secrets)
    if isinstance(value, Mapping):
        return {blot(str(name), secrets): blotted(item, secrets) for name, item in value.items()}
    if isinstance(value, list):
        return [blotted(item, secrets) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and blot(str(value), secrets) != str(value):
        return MARK
    return value


def blot(text: str, secrets: Collection[str]) -> str:
    """Return the text with `MARK` in the place of every secret. Takes time in proportion to the text."""
    needles = _needles(frozenset(secrets))
    data = text.encode("utf-8", "surrogatepass")
    # Most texts have no escape, and are searched as they are.
    read = _ESCAPE.sub(_plain, data) if any(sign in data for sign in b"%\\&") else data
    squeezed = _squeezed(read)
    spans = list(_spans(data.lower(), needles.plain))
    # Places take memory for each byte, so only a text with a secret gets them.
    if read != data and any(needle in read.lower() for needle in needles.plain):
        whole, begins, ends = _read_with_places(data)
        spans += [(begins[at], ends[end - 1]) for at, end in _spans(whole.lower(), needles.plain)]
    if any(needle in squeezed for needle in needles.packed):
        whole, begins, ends = _read_with_places(data)
        kept = [place for place, byte in enumerate(whole) if byte not in _BREAKS]
        spans += [(begins[kept[at]], ends[kept[end - 1]]) for at, end in _spans(squeezed, needles.packed)]
    return _without(data, spans).decode("utf-8", "surrogatepass") if spans else text


class _Needles(NamedTuple):
    """The search strings in lower case: for the text, and for the text without breaks and in one base64 alphabet."""

    plain: tuple[bytes, ...]
    packed: tuple[bytes, ...]


@functools.lru_cache(maxsize=64)
def _needles(secrets: frozenset[str]) -> _Needles:
    plain, packed = set(), set()
    for secret in secrets:
        if len(secret) < SHORTEST:
            continue
        cases = {one.encode("utf-8", "surrogatepass") for one in (secret, secret.lower(), secret.upper())}
        read = {_ESCAPE.sub(_plain, one) for one in cases}  # a secret may look like an escape itself
        plain |= {one.lower() for one in cases | read if len(one) >= SHORTEST} | {one.hex().encode() for one in cases}
        packed |= {core.lower() for one in cases for core in _cores(one)}
    return _Needles(tuple(plain), tuple(packed))


def _cores(secret: bytes) -> Iterator[bytes]:
    """Yield the base64 letters that depend on the secret only, for each of its three alignments."""
    # The letters at both ends also depend on the bytes around the secret, and are left out.
    for shift, first in ((0, 0), (1, 2), (2, 3)):
        letters = base64.b64encode(bytes(shift) + secret)
        yield letters[first : (shift + len(secret)) * 8 // 6]


def _plain(match: re.Match[bytes]) -> bytes:
    """Return the character of an escape."""
    if match["percent"]:
        return bytes.fromhex(match["percent"].decode())
    if match["high"]:
        pair = bytes.fromhex((match["high"] + match["low"]).decode())
        return pair.decode("utf-16-be").encode()
    if match["code"]:
        return chr(int(match["code"], 16)).encode("utf-8", "surrogatepass")
    if match["entity"]:
        return html.unescape(f"&{match['entity'].decode().lower()};").encode("utf-8", "surrogatepass")
    return _SIGNS[match["sign"].lower()] if match["sign"] else b"\\"


def _squeezed(read: bytes) -> bytes:
    return read.lower().translate(_ONE_ALPHABET, _BREAKS)


def _read_with_places(data: bytes) -> tuple[bytes, array[int], array[int]]:
    """Return the text with its escapes decoded, and the start and end in the text of each of its bytes."""
    begins, ends = array("Q"), array("Q")
    pieces, at = [], 0

    def keep(piece: bytes, first: int, last: int) -> None:
        pieces.append(piece)
        one_each = len(piece) == last - first
        begins.extend(range(first, last) if one_each else [first] * len(piece))
        ends.extend(range(first + 1, last + 1) if one_each else [last] * len(piece))

    for match in _ESCAPE.finditer(data):
        keep(data[at : match.start()], at, match.start())
        keep(_plain(match), match.start(), match.end())
        at = match.end()
    keep(data[at:], at, len(data))
    return b"".join(pieces), begins, ends


def _spans(view: bytes, needles: Collection[bytes]) -> Iterator[tuple[int, int]]:
    for needle in needles:
        at = view.find(needle)
        while at >= 0:
            yield at, at + len(needle)
            # From the next byte, so that finds can overlap.
            at = view.find(needle, at + 1)


def _without(data: bytes, spans: Collection[tuple[int, int]]) -> bytes:
    """Return the text with each range of the spans replaced by one mark."""
    pieces, kept_to = [], 0
    for begin, end in sorted(spans):
        if begin >= kept_to:
            pieces += [data[kept_to:begin], MARK.encode()]
        kept_to = max(kept_to, end)
    return b"".join([*pieces, data[kept_to:]])
