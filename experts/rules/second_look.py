"""The second look: rules of a project that return an answer before it leaves, with their reason. Pure.

Each line of the setting is a pattern and a reason, with `=>` between. Patterns are RE2's, which take linear time.
"""

from __future__ import annotations

from collections.abc import Iterable

import re2

from people.errors import Invalid
from people.text.plain_text import clean

RULES_MAX, PATTERN_CHARS = 20, 300
MEMORY = 8 << 20
"""Bytes of one compiled pattern, so that repetitions of repetitions are refused."""


class Returned(Invalid):
    """A rule of the project returned this answer."""

    code = "second_look"


def problem_of(setting: str) -> str:
    """Return what is wrong with a setting; empty if it can be used."""
    rules = _rules(setting)
    if len(rules) > RULES_MAX:
        return f"Enter at most {RULES_MAX} rules, one a line."
    for number, (pattern, reason) in enumerate(rules, 1):
        if not pattern or not reason or len(pattern) > PATTERN_CHARS:
            return f"Line {number}: enter a pattern of at most {PATTERN_CHARS} characters, => and a reason."
        try:
            _compiled(pattern)
        except re2.error as error:
            return f"Line {number}: this is no pattern ({clean(str(error))[:80]})."
    return ""


def refuse(setting: str, parts: Iterable[str]) -> None:
    """Raise with the reason of the first rule that finds its pattern in one of these texts."""
    # RE2 reads UTF-8, which has no lone surrogates
    texts = [text.encode("utf-8", "replace").decode() for text in parts]
    for pattern, reason in _rules(setting):
        compiled = _compiled(pattern)
        if any(compiled.search(text) for text in texts):
            raise Returned(f"Not sent: a rule of this project says: {reason}")


def _rules(setting: str) -> list[tuple[str, str]]:
    lines = [line.partition("=>") for line in setting.splitlines() if line.strip()]
    return [(pattern.strip(), reason.strip()) for pattern, _, reason in lines]


def _compiled(pattern: str) -> re2._Regexp[str]:
    options = re2.Options()
    # without it the library prints each pattern that it refuses
    options.log_errors = False
    options.case_sensitive, options.max_mem = False, MEMORY
    return re2.compile(pattern, options=options)
