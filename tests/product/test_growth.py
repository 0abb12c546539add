"""Wherever a stranger's text meets a pattern, a parser, an aligner or a loop, time grows no faster than the text,
memory stays within a bound, and other threads go on.

`docs/security.md` has the table of these places with their bounds; each has a row in `growth_places.py`. A text and one
of eight times its size are read, and their processor times compared. `make attack` measures what a megabyte costs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from people.text.prose import LONGEST, prose
from tests.examples import some_of
from tests.product.growth_places import PLACES, SECRETS, Place

pytestmark = pytest.mark.attack("growth")
ROOT = Path(__file__).resolve().parents[2]
SMALL, LARGE = 1.5**4, 1.5**9
"""How many times the first size of a place."""
MOST = 3.0
"""How much more than in proportion the larger may take: caches of the processor and n log n cost something."""
LEAST_S = 0.002
HOLD = 40
"""How often a parser could read a megabyte of JSON while nothing else runs: a tenth of a second here."""
MARKDOWN = 150
"""How many times the cost of plain words a text may have as Markdown; one of 499 numbered lines has a hundred."""


def spent(read, made):
    """Processor seconds of one call."""
    began = time.process_time()
    read(made)
    return time.process_time() - began


@pytest.mark.parametrize("name", some_of(PLACES, 12))
def test_time_grows_no_faster_than_the_text(name):
    """The least of some counts for each size; the second of the larger is needed where the first would not do."""
    place = PLACES[name]
    small, large = (place.make(round(place.first * times)) for times in (SMALL, LARGE))
    most = MOST * LARGE / SMALL * max(min(spent(place.read, small) for _ in range(5)), LEAST_S)
    times = [spent(place.read, large)]
    if times[0] >= most:
        times.append(spent(place.read, large))
    assert max(min(times), LEAST_S) < most, (most, times)


def test_measure_sees_a_quadratic_loop(monkeypatch):
    def quadratic(text):
        return sum(1 for _ in re.finditer("a+b", text))

    monkeypatch.setitem(PLACES, "quadratic", Place(lambda n: "a" * n, quadratic, 800))
    with pytest.raises(AssertionError):
        test_time_grows_no_faster_than_the_text("quadratic")


@cache
def figures(*names):
    """What a megabyte costs at all places or those named, each in a process of its own."""
    command = [sys.executable, "-m", "tests.product.growth_figures", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, env=os.environ)
    assert done.returncode == 0, done.stderr[-2000:]
    return {one.pop("place"): one for one in map(json.loads, done.stdout.splitlines())}


@pytest.mark.long
@pytest.mark.parametrize("name", PLACES)
def test_megabyte_takes_bounded_memory_and_holds_no_one(name, record_property):
    found = figures()[name]
    record_property("place", {"name": name, "most": PLACES[name].memory, **found})
    assert found["memory"] <= PLACES[name].memory, found
    assert found["hold"] <= HOLD * found["unit"], found


def test_measure_sees_memory_and_a_hold():
    """One place of each kind to refuse: hundreds of megabytes of objects, and a call that lets no other thread run."""
    found = figures("measure: memory", "measure: hold", "measure: neither")
    assert found["measure: memory"]["memory"] > 100 and found["measure: neither"]["memory"] < 16
    assert found["measure: hold"]["hold"] > HOLD * found["measure: hold"]["unit"]
    assert found["measure: neither"]["hold"] < HOLD * found["measure: neither"]["unit"]


PATTERNS = [
    *(
        "**a** ",
        "*_",
        "*a ",
        "_a_",
        "`a` ",
        "``a",
        "*",
        "**",
        "\\*",
        "a*b_c`d",
        "~~a~~",
        "![",
        "<b>",
        "&amp;",
        "[a](b)",
    ),
    *("- a\n", "1. a\n", "# a\n", "> a\n", "    a\n", "```\n", "|a|\n", "|-|\n", "a|", "> - ", "a\n\n", "* * "),
]
STARTS = ["", "> ", "|a|b|\n|-|-|\n", "|" + "a|" * 280 + "\n|" + "-|" * 280 + "\n"]


@pytest.mark.parametrize("pattern", some_of(PATTERNS, 3))
def test_markdown_costs_a_bounded_multiple_of_plain_words(pattern):
    plain = min(spent(prose, ("some words of an agent " * LONGEST)[:LONGEST]) for _ in range(5))
    for start in STARTS:
        lines = (start + pattern * LONGEST)[:LONGEST].split("\n")[:499]
        assert min(spent(prose, "\n".join(lines)) for _ in range(3)) < MARKDOWN * plain, start[:20]


def test_each_row_of_the_table_has_its_measure():
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    table = text.split("## Where a stranger's text is read", 1)[1].split("\n## ", 1)[0]
    measured = [line.rsplit("|", 2)[1] for line in table.splitlines() if line.startswith("| ")][1:]
    assert {one.strip() for names in measured for one in names.split(";")} - {"none"} == set(PLACES)


def test_json_of_the_corpus_is_read():
    assert json.loads(SECRETS.redact_json('"AKIAIOSFODNN7EXAMPLE\\n"')) == "[redacted:aws_access_key]\n"
