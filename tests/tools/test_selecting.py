"""`make test` selects the tests that a change can break; which ones do was seen by breaking it."""

import ast
import re

import pytest

from tests import selecting
from tests.definitions import parts_of
from tests.selecting import Reach, selected, tree
from tests.uses import PRODUCT

BROKEN = [
    ("awmclient/words/faults.py", "fault_of", ["tests/awmclient/words/test_faults.py"]),
    ("awmenv/blockers.py", "words_of", ["tests/awmenv/test_blockers.py"]),
    ("awmweb/embedded/known_settings.py", "text", ["tests/awmweb/test_known_settings.py"]),
    ("curriculum/rules/ratio.py", "group", ["tests/curriculum/rules/test_ratio.py"]),
    ("episodes/show/tables.py", "touched", ["tests/episodes/show/test_tables.py"]),
    ("experts/rules/decision_fields.py", "type_of", ["tests/experts/rules/test_decision_fields.py"]),
    ("exports/rules/leakage.py", "reason_against", ["tests/exports/rules/test_leakage.py"]),
    ("imports/readers/tau2.py", "knows_tau2", ["tests/imports/test_tau2.py"]),
    ("notices/outbound.py", "refuse_private", ["tests/notices/test_outbound.py"]),
    ("people/text/spreadsheets.py", "inert", ["tests/people/text/test_spreadsheets.py"]),
    ("reviews/statistics/agreement.py", "share", ["tests/reviews/statistics/test_agreement.py"]),
    ("runs/rewards/bundle_v1.py", "reward", ["tests/runs/test_rewards.py"]),
]
"""A function of each package, and files that failed when its first line raised an error."""


@pytest.fixture(scope="module")
def texts():
    return tree()


@pytest.fixture(scope="module")
def reach(texts):
    return Reach(texts)


def broken(text: str, function: str) -> str:
    head = re.search(rf'^(?:async )?def {function}\(.*?:\n(?:    """.*?"""\n)?', text, re.S | re.M)
    return text[: head.end()] + '    raise RuntimeError("broken")\n' + text[head.end() :]


@pytest.mark.parametrize(("path", "function", "failed"), BROKEN)
def test_what_fails_by_a_broken_function_is_selected(texts, reach, path, function, failed):
    selection = reach.select({path: broken(texts[path], function)})
    assert set(failed) <= set(selection.files) < set(reach.tests)


def test_a_function_of_each_package_was_broken():
    assert {path.partition("/")[0] for path, _, _ in BROKEN} == set(PRODUCT.split())


def test_comment_or_other_line_breaks_select_no_page(texts, reach):
    path = "experts/record/advising.py"
    assert not [test for test in reach.select({path: "# more\n\n" + texts[path]}).files if "/pages/" in test]


def test_changed_test_selects_itself_and_no_product(reach):
    files = reach.select({"tests/people/text/test_spreadsheets.py": ""}).files
    assert "tests/people/text/test_spreadsheets.py" in files
    assert not [path for path in files if path.startswith(("tests/browser/", "tests/runs/"))]


def test_changed_helper_selects_its_users(texts, reach):
    path = "tests/asking.py"
    files = reach.select({path: broken(texts[path], "asked")}).files
    assert "tests/experts/pages/test_ask_pages.py" in files and "tests/awmenv/test_frames.py" not in files


def test_template_selects_tests_of_its_page(texts, reach):
    files = reach.select({"templates/people/tokens.html": ""}).files
    assert [path for path in files if path.startswith("tests/people/")]
    assert not [path for path in files if path.startswith("tests/awmenv/")]


def test_script_selects_browsers_and_tests_of_scripts(reach):
    files = reach.select({"static/shell/keys.js": ""}).files
    assert {"tests/browser/test_answering.py", "tests/static/test_modules.py"} <= set(files)
    assert not [path for path in files if path.startswith("tests/experts/")]


def test_page_of_the_docs_selects_who_reads_it(reach):
    files = reach.select({"docs/protocol.md": ""}).files
    assert "tests/test_docs.py" in files and "tests/experts/test_queue.py" not in files


@pytest.mark.parametrize("path", ["requirements.lock", "awmweb/variables.py", "tests/conftest.py", "Makefile"])
def test_what_all_tests_stand_on_selects_everything(texts, path):
    selection = selected(texts, {path: ""})
    assert selection.everything == path and len(selection.files) > 400


def test_file_that_no_test_names_selects_everything(reach):
    name = "-".join(["not", "there"])  # in one piece this file would name it
    assert reach.select({f"deploy/{name}": ""}).everything


def test_everything_runs_without_a_branch_point(monkeypatch, capsys):
    monkeypatch.setattr(selecting, "git", lambda *words: None)
    selecting.main()
    assert capsys.readouterr().out == "tests\n"


def test_everything_runs_if_nothing_changed(monkeypatch, capsys):
    monkeypatch.setattr(selecting, "changes_since", lambda base: {})
    selecting.main()
    assert capsys.readouterr().out == "tests\n"


def test_definitions_are_those_that_the_parser_sees(texts):
    for path in (path for path in texts if re.match(r"(experts|tests/product)/.*\.py$", path)):
        seen = {part.node.partition(":")[2] for part in parts_of("module", texts[path])[0]}
        for node in ast.parse(texts[path]).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                assert node.name in seen, path
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                names = ast.walk(ast.Module([node], [])) if isinstance(node, ast.AnnAssign) else node.targets
                assert {name.id for name in names if isinstance(name, ast.Name) and name.col_offset == 0} <= seen, path
