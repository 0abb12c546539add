"""The table of what exports look for is the same as data and in the documentation, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.exports.leaks import LEAKS, table

ROOT = Path(__file__).resolve().parents[2]


def test_table_of_the_documentation_is_that_of_the_code():
    text = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
    section = text.split("## What is looked for", 1)[1].split("\n## ", 1)[0]
    assert [line for line in section.splitlines() if line.startswith("|")] == table()


@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.what)
def test_canary_of_each_leak_is_a_test(leak):
    file, _, name = leak.canary.partition("::")
    (found,) = ROOT.glob(f"tests/**/{file}")
    assert re.search(rf"^def {name}\(", found.read_text(encoding="utf-8"), re.MULTILINE)
