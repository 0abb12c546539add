"""The registry of sentences that can be false: what prints an interval or a finding is in it, with planted worlds."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from bench.planted import worlds
from tests.findings_printed import ROOT, everywhere, in_python, in_template
from tests.parsed import nodes
from tools.sentences import OTHERWISE, SENTENCES, places

REGISTERED = {place for row in SENTENCES for place in places(row.at)}
NONE = [place for lines in OTHERWISE.values() for place in places(lines)]


def test_every_print_of_a_finding_is_registered():
    printed = everywhere()
    assert sorted(printed - REGISTERED - set(NONE)) == [], "tools/sentences.py has no row for these"
    assert sorted((REGISTERED | set(NONE)) - printed) == [], "tools/sentences.py names what prints no interval"


def test_place_is_a_sentence_or_none():
    assert Counter(NONE).most_common(1)[0][1] == 1 and not REGISTERED & set(NONE)


@pytest.mark.parametrize(
    "body",
    [
        'return f"{share} [{low}, {high}]"',
        'return "{} to {}".format(*rate.interval)',
        'return "%s to %s" % row["span"]',
        'least, most = rate.interval\n    return f"at least {least}"',
        'for least, most in spans_of(rate.ci):\n        print(f"{most}")',
        "return span_text((0, 1))",
        "return wilson(3, 4)",
        'return "The gate is better." if gate else ""',
        'return f"{count} tasks: no difference shown"',
        'return f"Differences beyond {limit} points are ruled out"',
        'return f"Shown to help on {count} episodes"',
    ],
)
def test_print_outside_of_the_registry_is_seen(body):
    text = f"def words(rate):\n    {body}\n"
    assert in_python(text, "runs.show.new") == {"runs.show.new words"}
    assert not REGISTERED & in_python(text, "runs.show.new")


@pytest.mark.parametrize(
    "text",
    [
        "<p>{{ rate.low|percent }} to {{ rate.high|percent }}</p>",
        "{% share_line lane.share lane.interval 'treated' %}",
        "<h1>{{ found.sentence }}</h1>",
        "{% if proof.finding %}<b>yes</b>{% endif %}",
        "<small>{{ share }} (95%)</small>",
        "<p>The new arm is better.</p>",
        "<p>{{ arm }} is proven</p>",
    ],
)
def test_template_outside_of_the_registry_is_seen(text):
    seen = in_template(text, "runs/new.html")
    assert seen and not REGISTERED & seen


@pytest.mark.parametrize(
    "text",
    [
        "def words(rate):\n    '''Return the 95% interval.'''\n    return f'{rate.part} of {rate.of}'\n",
        "class Row:\n    low: float\n    '''The lower end; better is higher.'''\n",
        "def key(row):\n    return row.below, row.following\n",
    ],
)
def test_text_without_a_finding_is_no_place(text):
    assert in_python(text, "runs.show.new") == set()


def test_template_without_a_finding_is_no_place():
    assert in_template("{# better #}<p class='interval'>{{ row.below }} follow</p>", "a.html") == set()


@pytest.mark.parametrize("row", SENTENCES, ids=lambda row: row.says[:40])
def test_rule_of_a_sentence_exists(row):
    module, _, name = row.rule.rpartition(".")
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():  # a method
        path = ROOT.joinpath(*module.split(".")[:-1]).with_suffix(".py")
    assert name in {node.name for node in nodes(path.read_text()) if isinstance(node, ast.FunctionDef)}


def test_every_sentence_has_its_planted_worlds():
    planted = worlds.subjects()
    named = {world for row in SENTENCES for world in row.worlds}
    assert all(row.worlds for row in SENTENCES) and sorted(named - planted) == []
    assert sorted(planted - named) == [], "a planted world tests no sentence"


def test_every_kind_of_finding_is_registered():
    kinds = {"runs", "forks", "campaigns", "errata", "metrics", "asking", "agreement", "curriculum", "exports"}
    assert kinds <= {row.of for row in SENTENCES}
