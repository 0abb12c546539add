"""Every fenced block and command of README.md and docs/ has a test that proves it.

Here are the proofs that need no product; `tests/product/test_documented.py` has the others.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from experts.rules.model_replies import parse as parse_reply
from exports.recipe import Recipe
from runs.plan.plans import plan_from_yaml
from runs.statistics.costs import rates_in
from tests.commands import ROOT
from tests.documented import BLOCKS, COMPARED, ONLY_READ, PAGES, Block, proven_by, proves
from tests.test_docs import variables_documented

LANGUAGES = {"bash", "console", "http", "ini", "json", "python", "text", "yaml"}
TYPED = re.compile(r"(\$ |> \{|\.venv|python |curl |make |pip |(GET|POST) /|import |from )")
"""How a line begins that someone copies; a block of `text` is a drawing, and has none."""
OF_YAML = [one for one in BLOCKS if one.language == "yaml"]
OF_SHELL = [one for one in BLOCKS if one.language in ("bash", "console")]
INLINE = re.compile(
    r"`(?:\$ )?((?:\.venv\S*/)?(?:python |make |pip |npx |claude )[^`]+|manage\.py [a-z][^`]+)`", re.DOTALL
)
OF_OTHERS = {"npx", "claude", "harbor", "docker", "helm", "kubectl"}
"""Programs that no test has."""


def test_every_block_names_its_language() -> None:
    assert [str(one) for one in BLOCKS if one.language not in LANGUAGES] == []


def test_every_block_has_its_proof() -> None:
    tests = [file.read_text() for file in (ROOT / "tests").rglob("test_*.py")]
    asked = [one for text in tests if "@proves(" in text for one in proven_by(text)]
    without = [one for one in BLOCKS if not _is_proven(one, asked)]
    assert [str(one) for one in without] == []


def _is_proven(block: Block, asked: list[tuple[str, str]]) -> bool:
    if any(page == block.page and block.text.startswith(start) for page, start in asked):
        return True
    if (block.page, block.language) in COMPARED or block in OF_YAML:
        return True
    if block.language == "text":
        return not any(TYPED.match(line) for line in block.text.splitlines())
    return any(block.text.startswith(start) for start in ONLY_READ)


def test_exceptions_and_comparisons_are_about_blocks() -> None:
    for start, reason in ONLY_READ.items():
        assert len([one for one in BLOCKS if one.text.startswith(start)]) == 1 and reason, start
    for (page, language), test in COMPARED.items():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text() and Path(page).name in (ROOT / file).read_text()
        assert any((one.page, one.language) == (page, language) for one in BLOCKS)


@pytest.mark.parametrize("block", OF_YAML, ids=str)
def test_documented_yaml_is_accepted(block: Block) -> None:
    """A plan, a recipe, a table of prices, or a line that goes into a plan."""
    given = yaml.safe_load(block.text)
    if "format" in given:
        assert Recipe.from_yaml(block.text).format == given["format"]
    elif "arms" in given:
        assert plan_from_yaml(block.text).name == given["name"]
    elif "environment" in given:
        rest = "" if "tasks" in given else "tasks: [a/0]\n"
        assert plan_from_yaml(f"{block.text}{rest}name: x\narms: [{{name: one}}]\n").environment == "lab"
    elif "publicUrl" in given:
        chart = yaml.safe_load((ROOT / "deploy" / "helm" / "awmweb" / "values.yaml").read_text())
        assert given.keys() <= chart.keys()  # tests/awmweb/test_chart.py renders it
    else:
        assert set(rates_in(block.text)) == set(given)


@pytest.mark.parametrize("block", OF_SHELL, ids=str)
def test_documented_shell_lines_are_accepted(block: Block) -> None:
    """Also those that a test runs: the options of each command, targets, settings and files exist."""
    for line in block.shell():
        _accept(re.sub(r"\s+# .*", "", line))


def test_commands_within_sentences_are_accepted() -> None:
    for page in PAGES:
        text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"))
        for found in INLINE.findall(text):
            _accept(" ".join(found.split()), whole=False)


def _accept(line: str, whole: bool = True) -> None:
    words = shlex.split(line.replace("\\|", "|"))
    while words and re.fullmatch(r"(export|[A-Z][A-Z0-9_]+=.*|scope|agent>)", words[0]):
        _is_setting(words.pop(0).partition("=")[0])
    if not words or words[0].rpartition("/")[2] in OF_OTHERS | {"pip", "python3", "curl", "cp", "openenv"}:
        return
    if words[0] == "make":
        targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets, line
        return
    if words[0] == "awmclient":
        words = ["python", "-m", *words]
    python, *words = words if words[0] != "manage.py" else ["python", *words]
    assert python.rpartition("/")[2] == "python", line
    if words[0] == "manage.py":
        _is_command(words[1], words[2:], whole and "[" not in line)
        return
    module = words[1] if words[0] == "-m" else words[0].removesuffix(".py").replace("/", ".")
    source = _source(module)
    if words[2:3] == ["hook"]:
        source = _source("awmclient.hooks.installing")
    options = {option for option in words if option.startswith("--")}
    assert all(f'"{one}"' in source for one in options), (line, options)


def _source(module: str) -> str:
    """The text of a module of ours, or that of its `__main__`."""
    place = ROOT / module.replace(".", "/")
    [file] = [one for one in (place / "__main__.py", place.with_suffix(".py")) if one.is_file()]
    return file.read_text()


def _is_setting(name: str) -> None:
    known = {*variables_documented(), "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "PATH", "PYTHONPATH", "export"}
    examples = " ".join(one.read_text() for one in (ROOT / "examples").rglob("*.py"))
    served = re.fullmatch(r"AWMWEB_ENVIRONMENT_[A-Z]+_URL|AWMWEB_AGENT_[A-Z]+_(BASE_URL|MODEL)", name)
    assert name in known or f'"{name}"' in examples or served or not name.isupper(), name


def _is_command(name: str, given: list[str], whole: bool) -> None:
    if name == "--version":  # the only word that is no command
        return
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    if whole:
        parser.parse_args(["1" if one == "N" else one for one in given])
        return
    options = {one.strip("[].|") for one in given if one.strip("[|").startswith("--")}
    assert options <= set(parser._option_string_actions), (name, options)


@proves("docs/experts.md", '{"advice"')
def test_documented_reply_of_a_model_is_read(block: Block) -> None:
    said = parse_reply(block.text, prose=True)
    assert (said.text, said.confidence, len(said.calls), said.needs_person) == ("Merge 8 into 7.", 0.8, 1, False)


@proves("docs/exports.md", "import json\nfrom datasets", "from trl")
def test_documented_training_lines_are_those_of_the_readme(block: Block) -> None:
    """`tests/exports/test_trainers.py` runs the lines of README.md."""
    [readme] = [one.text for one in BLOCKS if one.page == "README.md" and one.language == "python"]
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Call)]
    known = {ast.unparse(node.func): node for node in ast.walk(ast.parse(readme)) if isinstance(node, ast.Call)}
    assert [name for name in calls if name not in known and not name.endswith(".train")] == []
