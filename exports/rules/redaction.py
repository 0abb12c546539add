"""Secrets and personal data in exported text: found by rules of libraries and of the project, replaced by their kind.

Pure. The detectors of detect-secrets find secrets, together with rules for newer tokens and the patterns of a recipe;
rules of our own find personal data if a recipe asks for it. RE2 alone runs them, over bytes: finding and replacing take
time in proportion to the text, whatever an agent wrote. One RE2 set searches for all rules in one pass, so that a text
without a secret costs microseconds.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import re2

from exports.errors import PatternTooSlow
from exports.recipe import Recipe, linear, quiet
from exports.rules.secret_shapes import PERSONAL_SHAPES, SHAPES, Check

MOST_S = 60.0
"""The time that one rule can take on one text in a build."""
SECRET_PART = 16
"""A group of a rule that is this long is the secret itself. For shorter groups, which are prefixes, the whole match is
replaced."""
# the library finds only the first line of a key; `private_key` below takes all of it
_NOISY = {"Public IP (ipv4)", "Private Key"}
_NEWER = {
    # never past a quote, so that JSON stays valid; a key without an end goes to the end of its text
    "private_key": r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[^\"]*?-----END [A-Z0-9 ]*-----|[^\"]*)",
    "openai": r"\bsk-(?:proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{20,}",
    "hugging_face": r"\bhf_[A-Za-z0-9]{30,}",
    "github_fine_grained": r"\bgithub_pat_[A-Za-z0-9_]{40,}",
    "google_api": r"\bAIza[0-9A-Za-z_-]{35}",
    "groq": r"\bgsk_[A-Za-z0-9]{40,}",
    # the group is the token; the word before it stays
    "bearer": r"(?i)\bbearer +([A-Za-z0-9._~+/-]{20,}=*)",
    "openai_key": r"\bsk-[A-Za-z0-9]{40,}",
    "slack_app": r"\bxapp-\d-[A-Z0-9]+-\d+-[a-f0-9]{20,}",
    "google_oauth": r"\b(?:ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",
    "vault": r"\bhv[sb]\.[A-Za-z0-9_-]{20,}",
    "docker": r"\bdckr_pat_[A-Za-z0-9_-]{20,}",
    "digitalocean": r"\bdo[opr]_v1_[a-f0-9]{64}",
    "shopify": r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "npm": r"\bnpm_[A-Za-z0-9]{36}",
    "awmweb": r"\bawm_[A-Za-z0-9_-]{20,}",
}
_MARK = re.compile(rb"\[redacted:([a-z][a-z0-9_]*)(?::[0-9a-f]{6})?\]")
# RE2 has no look-around: a rule reads one character on each side, outside of its group
_PERSONAL = {
    "email": r"([A-Za-z0-9_][A-Za-z0-9._%+&'~-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})",
    "phone": r"(?:^|[^A-Za-z0-9])((?:\+?1[-. ]?)?(?:\(\d{3}\)|\d{3})[-. ]?\d{3}[-. ]?\d{4}"
    r"|\+\d{1,3}[ .-]?\d{1,4}(?:[ .-]?\d{2,4}){2,3})(?:[^A-Za-z0-9-]|\z)",
    "ssn": r"(?:^|[^A-Za-z0-9-])(\d{3}-\d{2}-\d{4})(?:[^A-Za-z0-9-]|\z)",
    "credit_card": r"\b(4\d{12}(?:\d{3})?|5[1-5]\d{14}|3[47]\d{13}"
    r"|(?:4\d{3}|5[1-5]\d{2})[- ]?\d{4}[- ]?\d{4}[- ]?\d{4}|3[47]\d{2}[- ]?\d{6}[- ]?\d{5})\b",
}
"""What identifies a person or an account. Postal codes, dates, and nine digits in a row are common in data."""
_LIMITS = frozenset(str(2**bits + more).encode() for bits in (31, 32) for more in (-1, 0))
"""Limits of integers, which have the form of phones. As numbers of JSON they are bounds in schemas of tools."""
_BOUND = re.compile(
    rb'"(?:minimum|maximum|exclusiveM(?:in|ax)imum|multipleOf|m(?:in|ax)(?:Length|Items|Properties))"\s*:\s*\Z'
)
_BOUND_LONGEST = 40
_BEHIND = r"(?:(?<=\W)|(?<=^))"
_AHEAD = re.compile(r"\(\?!\[([^\]]+)\]\)\).*")
_NO_WORD = r"(?!\w)"
_BETWEEN = re.compile(r"""(\(\?:\\s\|=\|:\|"\|\^\))(.+)(\(\?:\\s\|"\|\$\))""")
_ESCAPES = re.compile(r"\\(.)", re.DOTALL)
# RE2 refuses more than 1,000 repeats
_REPEATS = re.compile(r"\{(\d+),\d{4,}\}")
_ESCAPED = tuple(f"\\{char}".encode() for char in "nrtbf/")
_WHOLE_ESCAPES = re.compile(rb"(?:[^\\]|\\u[0-9a-fA-F]{4})*")
_UNICODE = re.compile(rb"\\u[0-9a-fA-F]{4}")
# what can be around a number in JSON
_BEFORE_VALUE, _AFTER_VALUE = b":,[ \n", b",]} \n"


@dataclass(frozen=True)
class _Rule:
    kind: str
    pattern: Any
    part: int = SECRET_PART
    is_personal: bool = False
    check: Check | None = None

    def secret(self, match: Any, seen: bytes) -> tuple[int, int]:
        """Return where the secret of a match begins and ends: a long first group, or the whole match. It ends before
        its start if its check says that this is none."""
        if self.check is not None:
            return int(match.start(1)), self.check(seen, *match.span(1))
        group = 1 if match.re.groups and match.end(1) - match.start(1) >= self.part else 0
        return int(match.start(group)), int(match.end(group))


class Redactor:
    """A replacer of secrets by `[redacted:KIND]`, which counts them by kind in `counts`.

    Personal data get a mark with a suffix, `[redacted:email:3fa2c1]`, the same for the same value: a reader can still
    see that an agent copied a value from a result into a call.

    """

    def __init__(self, recipe: Recipe, salt: str = "", until: float | None = None) -> None:
        """Set the rules; `until` is the moment of the monotonic clock at which the work ends with `PatternTooSlow`."""
        self.counts: Counter[str] = Counter()
        self._salt, self._until = salt, until
        own = tuple((one.name, one.regex) for one in recipe.patterns)
        self._rules = _Rules.of(own, recipe.redact == "personal") if recipe.redact != "off" else None

    def redact(self, text: str) -> str:
        """Return plain text without secrets."""
        return self._redacted(text, is_json=False)

    def redact_json(self, text: str) -> str:
        """Return JSON text without secrets. It stays valid: no quote and no part of an escape is ever replaced, and a
        number becomes a string."""
        return self._redacted(text, is_json=True)

    def redact_texts(self, texts: list[str]) -> list[str]:
        """Return plain texts, each as `redact` does; one search shows whether any of them needs it."""
        if self._rules is None or not self._rules.found_in("\n".join(texts).encode("utf-8", "surrogatepass")):
            return texts
        return [self.redact(text) for text in texts]

    def redact_value(self, value: Any) -> Any:
        """Return a value of JSON without secrets, in names and texts at any depth."""
        text = json.dumps(value)
        hidden = self.redact_json(text)
        return value if hidden == text else json.loads(hidden)

    def redact_all(self, texts: list[str]) -> list[str]:
        """Return texts of JSON, each as `redact_json` does; one search shows whether any of them needs it."""
        if self._rules is None:
            return texts
        if not self._rules.found_in(_seen("\n".join(texts).encode("utf-8", "surrogatepass"))):
            return texts
        return [self.redact_json(text) for text in texts]

    def _redacted(self, text: str, *, is_json: bool) -> str:
        if self._rules is None:
            return text
        # a lone surrogate that an agent wrote must not stop an export
        data = text.encode("utf-8", "surrogatepass")
        seen = _seen(data)
        numbers = self._rules.found_in(seen)
        # in the order of the rules, so that a text always gets the same marks
        for number in numbers:
            changed = self._without(data, seen, self._rules.rules[number], is_json=is_json)
            if changed is not None:
                # places have moved, so the next rule reads the new text
                data, seen = changed, _seen(changed)
        return data.decode("utf-8", "surrogatepass") if numbers else text

    def _without(self, data: bytes, seen: bytes, rule: _Rule, *, is_json: bool) -> bytes | None:
        """Return the data without what a rule finds in it; None if that is nothing."""
        parts: list[bytes] = []
        kept = at = counted = quotes = 0
        until = self._until or time.monotonic() + MOST_S
        while at <= len(seen) and (match := rule.pattern.search(seen, at)) is not None:
            # Each search is linear, but a pattern that reads to the end after each short match is not over all of them.
            if time.monotonic() > until:
                raise PatternTooSlow
            start, end = rule.secret(match, seen)
            if end < start:
                at = max(start, at + 1)  # what the match took along can hold another one
                continue
            quotes, counted = quotes + seen.count(b'"', counted, start), start
            mark = self._mark(data, start, end, rule, is_bare=is_json and quotes % 2 == 0)
            # A rule can end with one character that it only looks at, and that can begin the next match.
            at = max(end if mark is not None else match.end(), at + 1)
            if mark is not None:
                parts += [data[kept:start], mark]
                kept = end
        return b"".join([*parts, data[kept:]]) if parts else None

    def _mark(self, data: bytes, start: int, end: int, rule: _Rule, *, is_bare: bool) -> bytes | None:
        """Return what replaces a secret; None for one that cannot be taken out. `is_bare`: it is in no JSON string."""
        secret = data[start:end]
        if not secret or b'"' in secret or (b"\\" in secret and not _may_hold_escapes(rule, secret)):
            return None
        # a schema whose bound became a string is none
        if is_bare and (secret in _LIMITS or _BOUND.search(data[max(0, start - _BOUND_LONGEST) : start])):
            return None
        # only a whole number can become a string
        if is_bare and (data[start - 1 : start] not in _BEFORE_VALUE or data[end : end + 1] not in _AFTER_VALUE):
            return None
        self.counts[rule.kind] += 1
        mark = f"[redacted:{rule.kind}]"
        if rule.is_personal:
            suffix = hashlib.sha256(self._salt.encode() + b"/" + secret).hexdigest()[:6]
            mark = f"[redacted:{rule.kind}:{suffix}]"
        return (f'"{mark}"' if is_bare else mark).encode()


def _may_hold_escapes(rule: _Rule, secret: bytes) -> bool:
    """Return whether a secret goes with escapes of JSON inside it: the lines of a key, or blanks between digits."""
    return rule.kind == "private_key" or (rule.is_personal and _WHOLE_ESCAPES.fullmatch(secret) is not None)


def marks_in(line: bytes) -> Counter[str]:
    """Return how many places of a written row are redacted, by kind."""
    # most rows have none, which `in` sees faster than a pattern
    return Counter(kind.decode() for kind in _MARK.findall(line)) if b"[redacted:" in line else Counter()


class _Rules:
    """All rules, with one automaton that finds the rules a text needs."""

    def __init__(self, rules: list[_Rule]) -> None:
        self.rules = rules
        self._set = re2.Set.SearchSet(quiet())
        for rule in rules:
            self._set.Add(_per_line(rule.pattern.pattern))
        self._set.Compile()

    @classmethod
    @functools.lru_cache(maxsize=32)
    def of(cls, own: tuple[tuple[str, str], ...], finds_people: bool) -> _Rules:
        rules = list(_library_rules())
        rules += [_Rule(kind, linear(regex)) for kind, regex in (*_NEWER.items(), *own)]
        rules += [_Rule(kind, linear(regex), 0, check=check) for kind, regex, check in SHAPES]
        if finds_people:
            rules += [_Rule(kind, linear(regex), 0, True, check) for kind, regex, check in PERSONAL_SHAPES]
            rules += [_Rule(kind, linear(regex), 0, is_personal=True) for kind, regex in _PERSONAL.items()]
        return cls(rules)

    def found_in(self, seen: bytes) -> list[int]:
        matches = self._set.Match(seen)
        return sorted(matches) if isinstance(matches, list) else []  # RE2 returns None if nothing matches


def _seen(data: bytes) -> bytes:
    """Return what rules read, byte for byte as long as the data: blanks for the escapes of JSON text.

    Without this, the letter of a line break is the first letter of the key that follows it.
    """
    if b"\\" not in data:
        return data
    # escaped backslashes first, so that their second half begins no escape
    seen = data.replace(b"\\\\", b"\0\0").replace(b'\\"', b'""')
    for escape in _ESCAPED:
        seen = seen.replace(escape, b"  ")
    return _UNICODE.sub(b" " * 6, seen)


def _per_line(pattern: str) -> str:
    """Return a pattern that matches at least everything this one does, per line of a text: with anchors at lines."""
    return "(?m)" + _ESCAPES.sub(lambda escape: {"A": "^", "z": "$"}.get(escape[1], escape[0]), pattern)


def _library_rules() -> Iterator[_Rule]:
    # imported here: they take a tenth of the start time, and most processes redact nothing
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    detectors: dict[str, Any] = get_mapping_from_secret_type_to_class()
    for name, detector in sorted(detectors.items()):
        if name not in _NOISY and issubclass(detector, RegexBasedDetector):
            kind = re.sub(r"\W+", "_", name.casefold()).strip("_")
            yield from (_translated(kind, pattern) for pattern in detector.denylist)


def _translated(kind: str, pattern: re.Pattern[str]) -> _Rule:
    """Return a rule of the library for RE2, which has no look-around: what is only looked at is outside a group.

    Raises re2.error for a form that no rule had before; the tests read all rules.
    """
    text = _AHEAD.sub(r")(?:[^\1]|\\z)", pattern.pattern.replace(_BEHIND, r"(?:^|\W)"))
    text = _REPEATS.sub(r"{\1,}", text)
    part = SECRET_PART
    if text.endswith(_NO_WORD):
        text, part = rf"({text.removesuffix(_NO_WORD)})(?:\W|\z)", 0
    elif match := _BETWEEN.fullmatch(text):
        text, part = f"{match[1]}({match[2]}){match[3]}", 0
    return _Rule(kind, linear(f"(?i){text}" if pattern.flags & re.IGNORECASE else text), part)
