"""Secrets and personal data in exported text: found by rules of libraries and of the project, replaced by their kind.

Pure. The detectors of detect-secrets find secrets, together with rules for newer tokens and the patterns of a recipe.
datafog finds personal data if a recipe asks for it. One RE2 set searches for all rules in one pass, so that a text
without a secret costs microseconds. Python's `re`, which supports look-around, replaces the matches.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import re2

from exports.recipe import Recipe

if TYPE_CHECKING:
    from datafog.processing.text_processing.regex_annotator import RegexAnnotator

PERSONAL = ("EMAIL", "PHONE", "SSN", "CREDIT_CARD", "DE_IBAN")
"""Kinds of datafog that identify a person or an account. Its postal codes, dates and addresses are common in data."""
SECRET_PART = 16
"""A group of a rule that is this long is the secret itself. For shorter groups, which are prefixes, the whole match is
replaced."""
_NOISY = {"Public IP (ipv4)", "Private Key"}
_NEWER = {
    "private_key": r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[^\"]*?(?:-----END [A-Z0-9 ]*-----|(?=\")|\Z)",
    "openai": r"\bsk-(?:proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{20,}",
    "hugging_face": r"\bhf_[A-Za-z0-9]{30,}",
    "github_fine_grained": r"\bgithub_pat_[A-Za-z0-9_]{40,}",
    "google_api": r"\bAIza[0-9A-Za-z_-]{35}",
    "groq": r"\bgsk_[A-Za-z0-9]{40,}",
    "bearer": r"(?i)\bbearer +([A-Za-z0-9._~+/-]{20,}=*)",
    "awmweb": r"\bawm_[A-Za-z0-9_-]{20,}",
}
_MARK = re.compile(rb"\[redacted:([a-z][a-z0-9_]*)(?::[0-9a-f]{6})?\]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LOOK_AROUND = re.compile(r"\(\?<?[=!](?:[^()\\]|\\.)*\)")
_ESCAPES = re.compile(r"\\(.)", re.DOTALL)
_REPEATS = re.compile(r"\{(\d+),\d{4,}\}")


class Redactor:
    """A replacer of secrets by `[redacted:KIND]`, which counts them by kind in `counts`.

    Personal data get a mark with a suffix, `[redacted:email:3fa2c1]`, the same for the same value: a reader can still
    see that an agent copied a value from a result into a call.

    """

    def __init__(self, recipe: Recipe, salt: str = "") -> None:
        self.counts: Counter[str] = Counter()
        self._salt = salt
        self._is_on = recipe.redact != "off"
        own = tuple((one.name, one.regex) for one in recipe.patterns)
        self._rules = _Rules.of(own) if self._is_on else None
        self._finds_people = recipe.redact == "personal"

    def redact(self, text: str) -> str:
        """Return the text without secrets. JSON text stays valid JSON: no quote is ever part of a match."""
        if self._rules is None:
            return text
        for number in self._rules.found_in(text):
            text = self._without(text, *self._rules.rules[number])
        return self._without_people(text) if self._finds_people else text

    def redact_all(self, texts: list[str]) -> list[str]:
        """Return the texts, each as `redact` does; one search shows whether any of them needs it."""
        if self._rules is None or not (self._finds_people or self._rules.found_in("\n".join(texts))):
            return texts
        return [self.redact(text) for text in texts]

    def _without(self, text: str, kind: str, pattern: re.Pattern[str]) -> str:
        def hidden(match: re.Match[str]) -> str:
            part = match.group(1) if pattern.groups else ""
            secret = part if part and len(part) >= SECRET_PART else match.group(0)
            if '"' in secret or (kind != "private_key" and "\\" in secret):
                return match.group(0)
            self.counts[kind] += 1
            return match.group(0).replace(secret, f"[redacted:{kind}]")

        return pattern.sub(hidden, text)

    def _without_people(self, text: str) -> str:
        found = _people().annotate(text)
        for kind in PERSONAL:
            for value in sorted(set(found.get(kind, ())), key=len, reverse=True):
                if '"' not in value and "\\" not in value and value in text:
                    digest = hashlib.sha256(f"{self._salt}/{value}".encode()).hexdigest()[:6]
                    mark = f"[redacted:{kind.casefold()}:{digest}]"
                    text, count = _marked(text, value, mark, alone=kind != "EMAIL")
                    self.counts[kind.casefold()] += count
        return text


def _marked(text: str, value: str, mark: str, *, alone: bool) -> tuple[str, int]:
    """Return the text with a mark for each place of a value, and their number.

    Digits inside a digest, a longer number or a name are none of these places (`alone`). A JSON number becomes a text.
    """
    places = re.compile(rf"(?<!\w)(?<!\d\.){re.escape(value)}(?!\w|\.\d)" if alone else re.escape(value))
    if not (value.isdecimal() and text.startswith(("{", "["))):
        return places.subn(lambda _: mark, text)
    strings = [one.span() for one in _STRING.finditer(text)]

    def of(match: re.Match[str]) -> str:
        before = bisect.bisect_right(strings, (match.start(), 0)) - 1
        return mark if before >= 0 and match.start() < strings[before][1] else f'"{mark}"'

    return places.subn(of, text)


def marks_in(line: bytes) -> Counter[str]:
    """Return how many places of a written row are redacted, by kind."""
    return Counter(kind.decode() for kind in _MARK.findall(line)) if b"[redacted:" in line else Counter()


class _Rules:
    """All rules, with one automaton that finds the rules a text needs."""

    def __init__(self, rules: list[tuple[str, re.Pattern[str]]]) -> None:
        self.rules = rules
        self._set = re2.Set.SearchSet(_quiet())
        self._always: list[int] = []
        self._numbers: list[int] = []
        for number, (_, pattern) in enumerate(rules):
            try:
                self._set.Add(_simple(pattern))
            except re2.error:
                self._always.append(number)
            else:
                self._numbers.append(number)
        self._set.Compile()

    @classmethod
    @functools.lru_cache(maxsize=32)
    def of(cls, own: tuple[tuple[str, str], ...]) -> _Rules:
        named = [*_library_rules(), *((kind, re.compile(regex)) for kind, regex in (*_NEWER.items(), *own))]
        return cls(named)

    def found_in(self, text: str) -> list[int]:
        found = self._set.Match(text.encode("utf-8", "replace"))  # a lone surrogate is never part of a secret
        places: list[int] = found if isinstance(found, list) else []  # RE2 returns None if nothing matches
        return sorted([*self._always, *(self._numbers[place] for place in places)])


def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


def _simple(pattern: re.Pattern[str]) -> str:
    """Return a pattern for RE2 that matches at least everything this one does, per line of a text: without look-around,
    with open bounds, and with anchors at lines."""
    text = _REPEATS.sub(r"{\1,}", _LOOK_AROUND.sub("", pattern.pattern))
    text = _ESCAPES.sub(lambda escape: {"A": "^", "Z": "$"}.get(escape[1], escape[0]), text)
    return f"(?im){text}" if pattern.flags & re.IGNORECASE else f"(?m){text}"


def _library_rules() -> Iterator[tuple[str, re.Pattern[str]]]:
    # imported here: they take a tenth of the start time, and most processes redact nothing
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    detectors: dict[str, Any] = get_mapping_from_secret_type_to_class()
    for name, detector in sorted(detectors.items()):
        if name not in _NOISY and issubclass(detector, RegexBasedDetector):
            kind = re.sub(r"\W+", "_", name.casefold()).strip("_")
            yield from ((kind, pattern) for pattern in detector.denylist)


@functools.cache
def _people() -> RegexAnnotator:
    from datafog.processing.text_processing.regex_annotator import RegexAnnotator

    return RegexAnnotator()
