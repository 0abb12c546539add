"""Files of others are those that their table names, bit by bit, and each has its license beside it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "static" / "vendor"
ROWS = re.findall(
    r"^\| `([^`]+)` \| ([\d.]+) \| [^|]+ \| [^|]+`([^`]+)` \| `([0-9a-f]{64})` \|$",
    (FOLDER / "README.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_every_file_of_others_is_in_the_table():
    named = {name for name, *_ in ROWS} | {license for _, _, license, _ in ROWS}
    assert ROWS and named == {path.name for path in FOLDER.iterdir()} - {"README.md"}


def test_a_file_of_others_is_what_its_table_says():
    for name, version, _, digest in ROWS:
        assert version in name and hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest


def test_scripts_load_the_files_that_are_there():
    scripts = "".join(path.read_text(encoding="utf-8") for path in FOLDER.parent.rglob("*.js") if path.parent != FOLDER)
    assert {name for name, *_ in ROWS} == set(re.findall(r'"\.{1,2}/vendor/([^"]+)"', scripts))
