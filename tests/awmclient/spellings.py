"""How a hostile or careless endpoint may spell a secret that it was sent, for every test of what is blotted out."""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus


class Spelling(NamedTuple):
    """A secret inside a text. Of base64 the outer letters of `spelled` hold bits of what stands before and after."""

    name: str
    spelled: str
    before: str = "it is "
    after: str = ", thanks"

    @property
    def text(self) -> str:
        return self.before + self.spelled + self.after


def spellings(secret: str) -> Iterator[Spelling]:
    yield Spelling("verbatim", secret)
    yield Spelling("twice", secret * 2)
    yield Spelling("capitals", secret.upper())
    yield Spelling("small letters", secret.lower())
    yield Spelling("other case", secret.swapcase())
    yield from _percent(secret)
    yield from _json(secret)
    yield from _base64(secret.encode())
    yield Spelling("hex", secret.encode().hex().upper())
    yield Spelling("html", "".join(f"&#{ord(letter)};" for letter in secret))
    yield Spelling("html, hex", "".join(f"&#X{ord(letter):x};" for letter in secret))


def _percent(secret: str) -> Iterator[Spelling]:
    every = "".join(f"%{byte:02x}" for byte in secret.encode())
    yield Spelling("percent, signs", quote(secret, safe=""), "/v1?key=", "&x=1")
    yield Spelling("percent, form", quote_plus(secret).replace("+", "%20"))
    yield Spelling("percent, every letter", every)
    yield Spelling("percent, capital digits", every.upper())
    yield Spelling("percent, first letter", f"%{ord(secret[0]):02X}{secret[1:]}")
    other = (quote(letter, safe="") if n % 2 else letter for n, letter in enumerate(secret))
    yield Spelling("percent, every other letter", "".join(other))
    yield Spelling("percent, twice", quote(every, safe=""))


def _json(secret: str) -> Iterator[Spelling]:
    codes = "".join(f"\\u{ord(letter):04x}" for letter in secret)
    quoted = json.dumps(secret)[1:-1]
    yield Spelling("json", quoted, '{"key": "', '"}')
    yield Spelling("json, slashes", quoted.replace("/", "\\/"))
    yield Spelling("json, codes", codes, '{"key": "', '"}')
    yield Spelling("json, capital codes", codes.upper().replace("\\U", "\\u"))
    yield Spelling("json in json", json.dumps(quoted)[1:-1], '{\\"key\\": \\"', '\\"}')
    yield Spelling("json, codes in json", json.dumps(codes)[1:-1])


def _base64(secret: bytes) -> Iterator[Spelling]:
    alphabets: list[tuple[str, Callable[[bytes], bytes]]]
    alphabets = [("base64", base64.b64encode), ("base64, urlsafe", base64.urlsafe_b64encode)]
    for name, encode in alphabets:
        yield Spelling(name, encode(secret).decode())
        yield Spelling(f"{name}, no padding", encode(secret).decode().rstrip("="))
        for shift in range(1, 4):
            whole = encode(b"~" * shift + secret + b"?>tail").decode()
            first, last = shift * 8 // 6, -(-(shift + len(secret)) * 8 // 6)
            inside = (whole[first:last], whole[:first], whole[last:])
            yield Spelling(f"{name}, {shift} before it", *inside)
            yield Spelling(f"{name}, {shift} before it, in percent", quote(inside[0], safe=""), *inside[1:])
    yield Spelling("base64, capitals inside", base64.b64encode(secret.decode().upper().encode()).decode())
    lines = textwrap.wrap(base64.b64encode(secret).decode(), 4)
    yield Spelling("base64, lines", "\n".join(lines))
    yield Spelling("base64, lines in json", json.dumps("\r\n".join(lines))[1:-1])
