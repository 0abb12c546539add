"""Signs that draw nothing: as codes on the pages of server and scripts alike, and as they are where they belong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from people.text import invisible
from people.text.plain_text import clean

CASES = json.loads((Path(__file__).parent / "invisible_cases.json").read_text(encoding="utf-8"))
SCRIPT = Path(__file__).parents[3] / "static" / "shell" / "invisible-signs.js"


@pytest.mark.parametrize("text", CASES["stay"])
def test_joiners_stay_inside_words_and_emoji(text):
    assert clean(text) == text


@pytest.mark.parametrize(("text", "shown"), CASES["codes"].items())
def test_signs_that_draw_nothing_are_shown_as_codes(text, shown):
    assert clean(text) == shown


def test_scripts_have_the_same_table():
    tables = dict(re.findall(r'^export const ([A-Z_]+) = "(.*)";$', SCRIPT.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(tables) == 12
    assert tables == {name: getattr(invisible, name) for name in tables}


def test_long_text_of_such_signs_is_all_codes():
    text = "\u200d\U000e0041" * 50_000
    assert clean(text) == "⟨U+200D⟩⟨U+E0041⟩" * 50_000
