"""CSV files: no cell of any file is a formula, however its first sign is written."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from people.text.spreadsheets import in_csv, inert

ROOT = Path(__file__).resolve().parents[3]
APPS = ("awmweb", "curriculum", "episodes", "experts", "exports", "imports", "notices", "people", "reviews", "runs")


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\u2212", "\ufe62", "\ufe66"]
)
@pytest.mark.parametrize("before", ["", " ", "\u3000", "\u00a0", "\u0301", "\t"])
def test_cell_that_begins_like_a_formula_is_text(before, sign):
    assert inert(f"{before}{sign}1+1") == f"'{before}{sign}1+1"


@pytest.mark.parametrize("before", ["\u200b", "\ufeff", "\u00ad", "\ufe0f", "\u3164", "\u2800"])
def test_sign_that_draws_nothing_is_a_code_before_a_formula(before):
    assert inert(f"{before}=1+1") == f"⟨U+{ord(before):04X}⟩=1+1"


def test_other_cells_stay_as_they_are():
    assert [inert(one) for one in ("a=1", "1-2", -1, 1.5, None, "⟨x⟩")] == ["a=1", "1-2", -1, 1.5, None, "⟨x⟩"]
    assert inert("\x1b=1\u202e") == "⟨ESC⟩=1⟨U+202E⟩"


def test_head_of_a_file_holds_no_formula():
    rows = list(csv.reader(io.StringIO(in_csv(["=a", "b"], [["\uff1d1", 2], ["x\n=1", "y, z"]]))))
    assert rows == [["'=a", "b"], ["'\uff1d1", "2"], ["x\n=1", "y, z"]]


def test_only_one_module_writes_csv():
    """Another writer would need a guard of its own."""
    files = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
    writers = [path for path in files if re.search(r"^(import|from) csv\b", path.read_text(), re.MULTILINE)]
    assert writers == [ROOT / "people/text/spreadsheets.py"]
