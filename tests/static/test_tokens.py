"""The colours of `tokens.css` keep their contrast in both themes: 4.5 for text, 3 for marks and field borders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOKENS = (Path(__file__).resolve().parents[2] / "static" / "tokens.css").read_text()
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+):light-dark\((#[0-9a-f]{6}),(#[0-9a-f]{6})\)", TOKENS)
}
GROUNDS = ("surface", "bg")
TEXT = ("ink", "ink-2", "ink-3", "act", "expert", "verify", "good", "bad")
SOFT = {"act": "act-soft", "expert": "expert-soft", "verify": "verify-soft", "good": "good-soft", "bad": "bad-soft"}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


PAIRS = [
    *((text, ground, 4.5) for text in TEXT for ground in GROUNDS),
    *((text, soft, 4.5) for text, soft in SOFT.items()),
    *(("ink", soft, 4.5) for soft in SOFT.values()),
    *(("expert-fill", ground, 3.0) for ground in GROUNDS),
    *(("edge", ground, 3.0) for ground in GROUNDS),
    *((f"c{n}", "surface", 3.0) for n in range(1, 6)),
    ("on-act", "act-fill", 4.5),
    ("ink-2", "hover", 4.5),
    ("ink", "raised", 4.5),
]


def test_black_on_white_is_twenty_one_to_one():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("front", "ground", "least"), PAIRS, ids=lambda value: str(value))
def test_a_pair_of_tokens_keeps_its_contrast(front, ground, least, theme):
    assert contrast(COLOURS[front][theme], COLOURS[ground][theme]) >= least


def test_no_colour_stands_outside_the_tokens():
    site = (Path(__file__).resolve().parents[2] / "static" / "site.css").read_text()
    used = set(re.findall(r"#[0-9a-fA-F]{3,8}\b", site)) - {"#1d1000"}  # ink on amber, the same in both themes
    assert used == set()
