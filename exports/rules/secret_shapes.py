"""Secrets that only a pattern with a look at what it found can tell from other text. Pure.

Each shape has a pattern of RE2 and a check, which gets the text with the place of a match and returns where the secret
ends, or a place before its start for what is none. A check reads the match and a few bytes around it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import NamedTuple

Check = Callable[[bytes, int, int], int]
NONE = -1


class SecretShape(NamedTuple):
    """The pattern of a kind of secret, whose first group is the secret, and its check."""

    kind: str
    pattern: str
    check: Check


_IBAN_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
    "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
    "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 "
    "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
    "YE30 "
)
_LENGTHS = {one[:2].encode(): int(one[2:]) for one in _IBAN_LENGTHS.split()}
_BETWEEN = r"(?:[ .\-\x{a0}\x{2007}\x{2009}\x{202f}]|      ){0,2}"
"""What people write between groups; six blanks are an escape of JSON as rules read it."""
IBAN = rf"(?i)(?:^|[^A-Za-z0-9])([A-Z]{{2}}{_BETWEEN}\d{_BETWEEN}\d(?:{_BETWEEN}[A-Z0-9]){{11,30}})"


def _iban(seen: bytes, start: int, end: int) -> int:
    """Return the end of an account number with the length of its country and the right check digits."""
    length, signs = _LENGTHS.get(seen[start : start + 2].upper(), 0), bytearray()
    for place in range(start, end):
        if seen[place : place + 1].isalnum():
            signs += seen[place : place + 1].upper()
            if len(signs) == length:
                number = int("".join(str(int(chr(sign), 36)) for sign in signs[4:] + signs[:4]))
                return place + 1 if number % 97 == 1 and not seen[place + 1 : place + 2].isalnum() else NONE
    return NONE


_KEYS = (
    r"api[_ -]?key|apikey|secret[_ -]?key|access[_ -]?key|private[_ -]?key|account[_ -]?key|shared[_ -]?key|"
    r"signing[_ -]?key|encryption[_ -]?key|(?:client|app|webhook|consumer|shared)[_ -]?secret|secret|"
    r"(?:access|auth|api|bearer|refresh|id|session|bot|x[_-]auth)[_ -]?token|token|credentials?"
)
_WORDS_FOR_PASSWORDS = r"pass[_ -]?word|passwd|passphrase|passcode|pwd|pass"
_ASSIGNS = r"""["'`*]{0,3}\s{0,3}(?:=>|:=|==?|:)\s{0,3}["'`*]{0,3}"""
_VALUE = r"""([^\s"'`,;<>{}\[\]]{4,512})"""
ASSIGNED = rf"""(?i)(?:^|[^A-Za-z0-9])(?:[A-Za-z0-9]{{1,30}}[_.-]){{0,5}}(?:{_KEYS}){_ASSIGNS}{_VALUE}"""
PASSWORD = rf"""(?i)(?:^|[^A-Za-z0-9])(?:[A-Za-z0-9]{{1,30}}[_.-]){{0,5}}(?:{_WORDS_FOR_PASSWORDS}){_ASSIGNS}{_VALUE}"""
_NOT_SECRET = re.compile(rb"(?i)(?:next|page|previous|continuation|sync|cancel|csrf|num|max|min|total|id)[_. -]?token")
_REFERENCE = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|\w*\(.*|[$%{<*].*|.*\*{3,}|\.+|-+|x{4,}", re.IGNORECASE)
_PLAIN = b"""
    string text str int integer number boolean bool true false null none undefined required optional hidden
    password passwort secret token invalid incorrect wrong expired changed change missing unknown reset empty
    unset redacted masked field value login username protected please must should never cannot forgotten recovery
    policy bearer basic type name input output default example placeholder your_password your_api_key yourpassword
    correct
"""
_PLAIN_WORDS = frozenset(_PLAIN.split())
_QUOTES = b"\"'`"


def _assigned(seen: bytes, start: int, end: int) -> int:
    """Return the end of a key or token that is given to a name: long, with letters and digits."""
    value = seen[start:end].partition(b"&")[0].rstrip(b".:!?)")
    key = seen[max(0, start - 60) : start]
    is_mixed = any(48 <= char <= 57 for char in value) and any(chr(char).isalpha() for char in value)
    if len(value) < 8 or not is_mixed or value.startswith(b"[redacted") or _REFERENCE.fullmatch(value):
        return NONE
    return NONE if _NOT_SECRET.search(key) else start + len(value)


def _password(seen: bytes, start: int, end: int) -> int:
    """Return the end of a password that is given to a name: no plain word, unless it is quoted as a value."""
    value = seen[start:end].rstrip(b".:?)")
    if len(value) < 4 or value.startswith(b"[redacted") or _REFERENCE.fullmatch(value):
        return NONE
    if value.lower() in _PLAIN_WORDS:
        return NONE
    is_word = value.isalpha() and value[1:].islower()
    is_quoted = all(sign and sign in _QUOTES for sign in (seen[start - 1 : start], seen[end : end + 1]))
    return start + len(value) if is_quoted or not is_word else NONE


BASIC = r"(?i)\bbasic +([A-Za-z0-9+/_-]{8,}={0,2})"


def _basic(seen: bytes, start: int, end: int) -> int:
    """Return the end of credentials of HTTP Basic: base64 of a name, a colon and a password."""
    value = seen[start:end]
    try:
        decoded = base64.b64decode(value.rstrip(b"=") + b"=" * (-len(value.rstrip(b"=")) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return NONE
    return end if b":" in decoded and decoded.isascii() and decoded.decode().isprintable() else NONE


AWS = r"(?:^|[^A-Za-z0-9/+=_-])([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=_-]|\z)"
_LONG_WORD = re.compile(rb"[a-z]{9,}")


def _aws(seen: bytes, start: int, end: int) -> int:
    """Return the end of what looks like a secret key of AWS: 40 signs of base64 at random, no digest, no path."""
    value = seen[start:end]
    text = value.decode()
    digits, upper, lower = (sum(map(kind, text)) for kind in (str.isdecimal, str.isupper, str.islower))
    return end if digits and upper >= 5 and lower >= 5 and not _LONG_WORD.search(value) else NONE


SHAPES = (
    SecretShape("basic_auth", BASIC, _basic),
    SecretShape("aws_secret_key", AWS, _aws),
    SecretShape("assigned_secret", ASSIGNED, _assigned),
    SecretShape("password", PASSWORD, _password),
)
PERSONAL_SHAPES = (SecretShape("iban", IBAN, _iban),)
