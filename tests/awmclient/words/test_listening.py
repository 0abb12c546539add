"""Patterns of scripts: heard as Python's `re` would, in linear time, or refused before they run."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from awmclient.words import listening

SOURCES = Path(__file__).resolve().parents[3] / "packs" / "sources"
WORDS = (
    *("not", "priya", "ines", "both", "pending only", "12.50", "3 weeks", "%", "10", "jonas", "only Noor", "Polar"),
    *(
        " ",
        ". ",
        "\n",
        "a",
        "b",
        "c",
        "B",
        "d",
        "é",
        "É",
        "302 1",
        "3021",
        "N-12",
        "juniors",
        "others",
        "xx",
        "y",
        "1003",
    ),
)
SYNTAX = (
    *(r"(\d+)\s*%", "^(.*)$", "(a|ab)(c|bcd)(d*)", "(?m)^b+$", "[^a-c]+", "x{2,4}?y", "(?:a|b)*?c", r"\Bb", "(a)|b"),
    *("(?-i:B)", r"(?s)\A.+?\Z", "é+", "[A-F]+", r"(?<=x)(y|\W)", "(?=a)(.)(?!b)"),
)


def listened(turns):
    for turn in turns:
        yield from turn.get("listen", {}).values()
        for inner in ("advised", "unadvised", "after"):
            yield from listened(turn.get(inner, []))


def patterns():
    files = sorted(SOURCES.glob("*/tasks/*/scripts.json"))
    return [one for file in files for script in json.loads(file.read_text()).values() for one in listened(script)]


def by_re(pattern, text):
    found = re.search(pattern, text, re.IGNORECASE)
    return found and ((found[1] if found.re.groups else found[0]) or "")


def test_patterns_are_heard_as_python_would():
    chance = random.Random(1)
    texts = ["".join(chance.choice(WORDS) + chance.choice(["", " "]) for _ in range(8)) for _ in range(200)]
    known = [*patterns(), *SYNTAX]
    assert len(known) > 30
    heard = {(pattern, text): listening.heard(pattern, text) for pattern in known for text in texts}
    assert heard == {(pattern, text): by_re(pattern, text) for pattern, text in heard}
    assert sum(found is not None for found in heard.values()) > len(heard) // 5


def test_many_patterns_of_packs_need_what_re2_has_not():
    """The reason for an engine of our own: without such patterns, RE2 could do it."""
    look_around = [one for one in {*patterns()} if re.search(r"\(\?<?[=!]", one)]
    assert len(look_around) == 11 and len({*patterns()}) == 20


def test_only_the_beginning_of_an_advice_is_searched():
    assert listening.heard("x", " " * 1_999 + "x") == "x" and listening.heard("x", " " * 2_000 + "x") is None


def test_repetition_of_nothing_takes_no_time(monkeypatch):
    """It adds no instruction, so that the limit of instructions does not end it."""
    walked, sequence = [], listening.Program._sequence

    def counted(self, parts, flags):
        assert len(walked) < 20
        walked.append(sequence(self, parts, flags))

    monkeypatch.setattr(listening.Program, "_sequence", counted)
    assert listening.heard("(?:(?:){65000}){4000000000}(x)", "a x") == "x"


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "not a regular expression"),
        ("(?<=a+)b", "not a regular expression: look-behind"),
        (r"(a)\1", "reference"),
        ("(?>a+)b", "atomic group"),
        ("a++b", "possessive"),
        ("(?=(a))", "group in a look-around"),
        ("(?:a*)*", "can be empty"),
        ("(?:a{1,30}){1,30}", "too long"),
        ("a" * 501, "more than 500 characters"),
    ],
)
def test_pattern_that_could_not_run_is_refused(pattern, why):
    with pytest.raises(listening.BadPattern, match=why):
        listening.compiled(pattern)
