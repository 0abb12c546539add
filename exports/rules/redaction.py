"""Secrets and personal data in exported text: found by rules of libraries and of the project, replaced by their kind.

Pure. Secrets are found by the detectors of detect-secrets, by rules for newer tokens beside them, and by the patterns
of a recipe; personal data, where a recipe asks for it, by datafog. One RE2 set looks for all rules at once, so that a
text without a secret costs microseconds; what it finds is replaced by Python's `re`, which knows look-around.
"""

from __future__ import annotations

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
"""Kinds of datafog that name a person or an account; its postal codes, dates and addresses are common words of data."""
SECRET_PART = 16
"""A group of a rule that is this long is the secret alone; shorter ones are prefixes, and all that matched goes."""
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
_LOOK_AROUND = re.compile(r"\(\?<?[=!](?:[^()\\]|\\.)*\)")
_ESCAPES = re.compile(r"\\(.)", re.DOTALL)
_REPEATS = re.compile(r"\{(\d+),\d{4,}\}")


class Redactor:
    """Replaces secrets by `[redacted:KIND]` and counts them by kind in `counts`.

    Personal data keep a mark of their own, `[redacted:email:3fa2c1]`, the same for the same value: what an agent copied
    from a result into a call can still be told to be the same.
    """

    def __init__(self, recipe: Recipe, salt: str = "") -> None:
        self.counts: Counter[str] = Counter()
        self._salt = salt
        self._is_on = recipe.redact != "off"
        own = tuple((one.name, one.regex) for one in recipe.patterns)
        self._rules = _Rules.of(own) if self._is_on else None
        self._finds_people = recipe.redact == "personal"

    def redact(self, text: str) -> str:
        """Return the text without what it should not say. JSON text stays JSON: no quote is ever part of a match."""
        if self._rules is None:
            return text
        for number in self._rules.found_in(text):
            text = self._without(text, *self._rules.rules[number])
        return self._without_people(text) if self._finds_people else text

    def redact_all(self, texts: list[str]) -> list[str]:
        """Return the texts, each as `redact` does; where none says anything, one look tells so for all."""
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
                    self.counts[kind.casefold()] += text.count(value)
                    mark = hashlib.sha256(f"{self._salt}/{value}".encode()).hexdigest()[:6]
                    text = text.replace(value, f"[redacted:{kind.casefold()}:{mark}]")
        return text


class _Rules:
    """All rules, with one automaton that says which of them a text needs."""

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
        found = self._set.Match(text.encode("utf-8", "replace"))  # half of a pair is part of no secret
        places: list[int] = found if isinstance(found, list) else []  # None where nothing matches
        return sorted([*self._always, *(self._numbers[place] for place in places)])


def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


def _simple(pattern: re.Pattern[str]) -> str:
    """Return a pattern that RE2 takes and that matches wherever this one does, in a text of several lines in each line:
    look-around is left out, bounds are opened, a text's ends are a line's.
    """
    text = _REPEATS.sub(r"{\1,}", _LOOK_AROUND.sub("", pattern.pattern))
    text = _ESCAPES.sub(lambda escape: {"A": "^", "Z": "$"}.get(escape[1], escape[0]), text)
    return f"(?im){text}" if pattern.flags & re.IGNORECASE else f"(?m){text}"


def _library_rules() -> Iterator[tuple[str, re.Pattern[str]]]:
    # libraries that take a tenth of a start, in processes that mostly redact nothing
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
