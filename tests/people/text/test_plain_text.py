"""Which characters of strangers pass as they are, and which are shown as codes."""

from __future__ import annotations

import pytest

from people.text.plain_text import clean, first_line, writable


def test_clean_leaves_ordinary_text_alone():
    assert clean("Grüße, 你好 👍\n\ttab") == "Grüße, 你好 👍\n\ttab"


def test_first_line_skips_empty_lines_and_marks_its_cut():
    assert first_line("\n  \n  one two \nthree", 160) == "one two"
    assert first_line("abcdef", 5) == "abcd…" and first_line("", 5) == ""


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_first_line_ends_at_every_kind_of_line_break(end):
    assert first_line(f"safe{end}Bcc: max@example.org", 160) == "safe"


NAMED = {"\x00": "NUL", "\x07": "BEL", "\x1b": "ESC", "\x7f": "DEL"}


@pytest.mark.parametrize("sign", [*NAMED, "\x9b", "\u200f", "\u061c", "\u202e", "\u2066", "\udc00"])
def test_first_line_shows_controls_and_directions_as_codes(sign):
    assert first_line(f"a{sign}b", 160) == f"a⟨{NAMED.get(sign, f'U+{ord(sign):04X}')}⟩b"


def test_writable_text_keeps_what_was_typed():
    assert writable("a\x1b\u202e\r\n\tb\x00\ud800") == "a\x1b\u202e\r\n\tb⟨NUL⟩⟨U+D800⟩"
