"""The pages that are printed from the code: error codes in both directions, limits and lives."""

from __future__ import annotations

import ast
import re

import pytest

from tests.parsed import nodes
from tests.test_docs import APPS, sources
from tools import limits, printed


@pytest.mark.parametrize("page", sorted({page for page, _ in printed.BLOCKS}))
def test_page_is_as_the_code_prints_it(page):
    text = (printed.DOCS / page).read_text(encoding="utf-8")
    assert text == printed.written(page, text), "python -m tools.printed writes it"


def codes_in_code():
    """Codes of refusals by the classes that set them, and by calls that give one."""
    found = set()
    for path in sources(*APPS):
        for node in nodes(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) != "Exception" for base in node.bases):
                found |= {text for one in node.body if (text := code_of(one))}
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "AppError":
                given = [one.value for one in node.keywords if one.arg == "code"]
                found |= {one.value for one in given if isinstance(one, ast.Constant)}
    return found


def code_of(node):
    named = isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == ["code"]
    return node.value.value if named and isinstance(node.value, ast.Constant) else None


def test_page_of_codes_has_each_code_and_no_other():
    table = printed.codes().splitlines()[2:]
    named = {re.match(r"\| `(\w+)` \| ", line)[1] for line in table}
    assert named == codes_in_code() | set(printed.OF_FRAMEWORK) and len(named) == len(table) > 80
    assert [line for line in table if not re.search(r"\| [45]\d\d(, [45]\d\d)* \| \S", line)] == []


def test_limits_name_constants_once_and_say_what_ends():
    rows = [row for rows in limits.LIMITS.values() for row in rows]
    assert len({name for _, name in rows}) == len(rows) == len({words for words, _ in rows})
    with pytest.raises(SystemExit, match="is no constant"):
        printed.value_of("people.record.keyed_writes.GONE")
