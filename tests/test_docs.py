"""The documents describe the present: settings, commands, links and the changelog are compared with the code.

Runs without a database.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest
from django.core.management import get_commands

from awmclient.chat import EndpointConfig
from awmclient.schema import SCHEMA_VERSION
from awmenv.version import NUMBER
from experts.metrics import statistics
from experts.rules.routing import LEASE_S as ASK_LEASE_S
from exports.assembly import datasets
from exports.formats import FORMATS
from reviews.models import LEASE_S
from tests.parsed import nodes
from tests.test_layers import Tree

ROOT = Path(__file__).resolve().parent.parent
APPS = ("people", "notices", "episodes", "reviews", "experts", "runs", "curriculum", "exports", "imports", "awmweb")
DECISIONS = ROOT / "docs" / "decisions"
CONFIGURATION = ROOT / "docs" / "configuration.md"
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
READERS = {"text", "number", "switch", "web_address", "price_table", "get", "getenv", "whole", "choice"}
READERS |= {"issuer", "required", "rights_map"}
NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree.read()


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


class Asked(dict[str, str]):
    """An environment in which every variable of a role is set, and that remembers which were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, default: object = None) -> str:  # type: ignore[override]
        self.names.add(name)
        return "http://127.0.0.1:1/v1" if name.endswith("BASE_URL") else "m" if name.endswith("MODEL") else ""


def variables_read() -> set[str]:
    """Names that the code reads from the environment: by the settings' readers, `environ`, model roles and compose."""
    found: set[str] = set()
    for path in [*sources(*APPS, "awmenv", "awmclient"), *sources("tests/browser")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found |= set(_names_in(node))
    # a value in an address of the file, or one that Compose takes for a secret
    compose = (ROOT / "docker-compose.yml").read_text()
    return found | set(re.findall(r"(?:\$\{|environment: )([A-Z0-9_]+)", compose))


def _names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and node.args:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "endpoint" and _text(node.args[0]):
            yield from _role(_text(node.args[0]))
        elif called in READERS and NAME.fullmatch(_text(node.args[0])):
            yield _text(node.args[0])
    elif _is_looked_up(node) and NAME.fullmatch(_text(node.slice)):
        yield _text(node.slice)


def _is_looked_up(node: ast.AST) -> TypeGuard[ast.Subscript]:
    """`environ["NAME"]` or `env["NAME"]`, read and not set."""
    is_read = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
    return is_read and "env" in ast.unparse(node.value)


def _role(prefix: str) -> set[str]:
    asked = Asked()
    EndpointConfig.from_environment(prefix, asked)
    return asked.names


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def variables_documented() -> list[str]:
    """Names in the first cell of the tables' rows."""
    rows = [line for line in CONFIGURATION.read_text().splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([A-Z0-9_]+)`", row.split("|")[1])]


def test_every_setting_has_a_line_and_every_line_a_setting() -> None:
    read, documented = variables_read(), variables_documented()
    assert {"AWMWEB_PORT", "DATABASE_URL", "AWMENV_VERIFIER_TIMEOUT", "AWMWEB_EXPERT_QUERY"} <= read
    assert read - set(documented) == set(), "read, but not in docs/configuration.md"
    assert set(documented) - read == set(), "in docs/configuration.md, but nobody reads it"
    assert sorted(documented) == sorted(set(documented)), "a setting has two lines"


def test_documented_commands_equal_existing_commands() -> None:
    ours = {path.stem for app in APPS for path in (ROOT / app).glob("management/commands/[!_]*.py")}
    written = {
        name for page in DOCUMENTS for name in re.findall(r"manage\.py ([a-z_]+)", page.read_text(encoding="utf-8"))
    }
    assert ours - written == set(), "in no document"
    assert written - set(get_commands()) == set(), "documented, but not there"


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in DOCUMENTS:
        assert set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))) <= targets, page.name


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_in_a_document_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    local = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchor_in_a_document_is_a_heading_of_its_page(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*\.md)?#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert [f"{name}#{anchor}" for name, anchor in links if anchor not in anchors(page.parent / name, page)] == []


def anchors(target: Path, page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them; a folder means the page itself."""
    text = (page if target.is_dir() else target).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_that_the_code_points_to_exists() -> None:
    """A message that says `see docs/...` must not lead nowhere."""
    texts = [*sources(*APPS, "awmenv", "awmclient", "tests"), ROOT / "Makefile", ROOT / "requirements.txt", *DOCUMENTS]
    named = {page for path in texts for page in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))}
    assert [page for page in sorted(named) if not (ROOT / page).exists()] == []


def test_the_changelog_has_an_entry_for_the_present_version() -> None:
    entries = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    present = [entry for entry in entries if NUMBER in entry.splitlines()[0]]
    assert present and "\n- " in present[0]


def test_operations_lists_the_number_of_each_format() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    numbers = {SCHEMA_VERSION, datasets.VERSION, NUMBER, *(one.version for one in FORMATS.values())}
    section = page.split("## What a version number promises", 1)[1].split("\n## ", 1)[0]
    assert [number for number in sorted(numbers) if f"`{number}`" not in section] == []


def rules() -> list[tuple[str, str, str]]:
    """The rows of the index of rules: a question, a file and a name in it."""
    page = (ROOT / "docs" / "developing.md").read_text(encoding="utf-8")
    return re.findall(r"^\| ([^|]+\?) \| `([^`]+)` \| `(\w+)` \|$", page, re.MULTILINE)


@pytest.mark.parametrize(("question", "file", "name"), rules())
def test_index_of_rules_names_a_definition_that_exists(question: str, file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    defined = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    targets = [target for one in tree.body if isinstance(one, ast.Assign) for target in one.targets]
    targets += [one.target for one in tree.body if isinstance(one, ast.AnnAssign)]
    defined |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    assert name in defined


def test_index_of_rules_has_a_row_for_every_question() -> None:
    page = (ROOT / "docs" / "developing.md").read_text(encoding="utf-8")
    table = page.partition("| question | file | name |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) == len({question for question, _, _ in rules()}) >= 25


def test_files_that_a_recipe_names_exist() -> None:
    page = (ROOT / "docs" / "developing.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.(?:py|js|md|html))`", page.partition("## Recipes")[2].partition("## Words")[0])
    places = (ROOT, ROOT / "imports" / "readers", ROOT / "runs")
    assert len(named) > 15 and [one for one in named if not any((place / one).exists() for place in places)] == []


MAPS = [
    path.parent
    for package in (*APPS, "awmclient", "awmenv")
    for path in sorted((ROOT / package).rglob("__init__.py"))
    if not {"migrations", "management"} & set(path.parts)
]


def map_of(folder: Path) -> str:
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")), clean=False) or ""


@pytest.mark.parametrize("folder", MAPS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_map_of_a_folder_names_its_modules_in_eight_words(folder: Path) -> None:
    said = map_of(folder)
    rows = dict(re.findall(r"^ {4}(\w+/?) +(\S.*)$", said, re.MULTILINE))
    inside = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    inside |= {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")} - {"migrations/"}
    assert set(rows) == inside
    assert [words for words in rows.values() if len(words.split()) > 8] == []


@pytest.mark.parametrize("folder", MAPS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_map_of_a_folder_says_truly_who_imports_it(folder: Path, tree: Tree) -> None:
    """A map that says "Only `x` imports it" is right."""
    said = map_of(folder)
    only = re.search(r"[Oo]nly ((?:`[\w./]+`(?:, | and )?)+) imports? it", said)
    if only is None:
        return
    named = {one.removesuffix(".py").replace("/", ".") for one in re.findall(r"`([\w./]+)`", only[1])}
    room = ".".join(folder.relative_to(ROOT).parts)
    users = {one.module for one in tree.imports if f"{one.target}.".startswith(f"{room}.")}
    outside = {one for one in users if not f"{one}.".startswith(f"{room}.")}
    assert {one for one in outside if not any(f"{one}.".startswith(f"{name}.") for name in named)} == set()
    assert all(any(f"{one}.".startswith(f"{name}.") for one in outside) for name in named), outside


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("experts", f"A lease lasts {ASK_LEASE_S} s"),
        ("review", f"A claim lasts {LEASE_S // 60} minutes"),
        ("experts", f"from {statistics.RATE_FROM_H * 60:.0f} minutes of work on"),
    ],
)
def test_number_in_a_document_is_that_of_the_code(page: str, said: str) -> None:
    assert said in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted(DECISIONS.glob("[0-9]*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_decision_is_in_the_index_once() -> None:
    lines = re.findall(r"^- \[(\d+)\]\(([\w.-]+)\): .+\.$", (DECISIONS / "README.md").read_text(), re.MULTILINE)
    assert sorted(name for _, name in lines) == sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))
    assert [name for number, name in lines if int(number) != int(name[:4])] == []


STATE = re.compile(r"\*(?:In force|(In force, changed|Superseded) by \[(\d+)\]\((\d{4})-[\w.-]+\.md\))\.\*")


def test_every_decision_has_its_state() -> None:
    """A later decision that supersedes or changes one names it, and the index says which are not in force."""
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        state = STATE.fullmatch(path.read_text(encoding="utf-8").split("\n")[2])
        assert state is not None, f"{path.name}: its second line is no state"
        (line,) = (line for line in index.splitlines() if f"]({path.name})" in line)
        assert ("Superseded by" in line) == (state[1] == "Superseded"), path.name
        if state[1]:
            (later,) = DECISIONS.glob(f"{state[3]}-*.md")
            assert int(state[2]) == int(state[3]) > int(path.name[:4]), path.name
            assert f"({path.name})" in later.read_text(encoding="utf-8"), (path.name, later.name)
        if state[1] == "Superseded":
            assert line.endswith(f" Superseded by {state[2]}."), path.name


def promises() -> list[tuple[str, str, str]]:
    """The rows of the table of promises: what is promised, what enforces it, which tests prove it."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3 and "::test_" in row[2]]


@pytest.mark.parametrize(("promise", "enforced", "proofs"), promises())
def test_promise_names_code_and_tests_that_exist(promise: str, enforced: str, proofs: str) -> None:
    files = re.findall(r"`([\w/.-]+\.(?:py|js|lock))`", enforced)
    assert promise and files and all((ROOT / file).is_file() for file in files), files
    for file, test in re.findall(r"`([\w/.]+\.py)::(test_\w+)`", proofs):
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"


@cache
def names_of(path: Path) -> set[str]:
    """The names that a module defines, in classes too."""
    found = set()
    for node in nodes(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_names_on_the_page_of_security_exist() -> None:
    """In the table after their file, in sentences behind the last part of their module, or alone."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = [
        ([ROOT / file], name.rpartition(".")[2])
        for file, after in re.findall(r"`([\w/]+\.py)`: ((?:`[^`]+`(?:, | and )?)+)", text)
        for name in re.findall(r"`([^`]+)`", after)
    ]
    modules = sources(*APPS, "awmenv", "awmclient")
    for dotted in set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", text)):
        *path, name = dotted.split(".")
        homes = [one for one in modules if one.with_suffix("").parts[-len(path) :] == tuple(path)]
        if homes and name not in ("py", "lock"):
            named.append((homes, name))
    alone = set(re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", text))
    named += [(modules, name) for name in sorted(alone)]
    assert len(named) > 20
    assert [name for homes, name in named if not any(name in names_of(home) for home in homes)] == []


def test_table_of_promises_has_a_proof_in_every_row() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    table = text.partition("| promise |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) == len(promises()) >= 30


OF_ONE_MACHINE = {"cache", "beat", "worlds", "backups", "postgres", "valkey", "logs"}
"""Folders of the data folder that are made again, or that no other process reads."""


def test_pages_name_each_key_and_folder_of_the_data_folder():
    """Of a second machine, too: what only one of them has is missing on the other."""
    product = sources("awmweb", "people", "episodes", "experts", "exports", "imports", "notices", "reviews", "runs")
    text = "\n".join(path.read_text(encoding="utf-8") for path in product)
    kept = set(re.findall(r"""\b(?:VAR|VAR\)|var|Path\(var\)) / "([a-z]+(?:_key)?)\"""", text)) - {
        "lock",
        "elsewhere",
        "address",
    }
    assert {"files", "packs", "exports", "secret_key", "vapid_key"} <= kept
    operations, team = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("operations.md", "team.md"))
    table = operations.partition("## The data folder")[2].partition("\n## ")[0]
    second = team.partition("## 7. A second machine")[2]
    assert [name for name in kept - {"beat"} if f"`{name}" not in table] == []
    assert [name for name in kept - OF_ONE_MACHINE if f"`{name}`" not in second] == []


def test_every_command_stands_in_the_table_of_operations():
    table = (ROOT / "docs/operations.md").read_text()
    commands = {path.stem for path in ROOT.glob("*/management/commands/[a-z]*.py")} - {"migrate"}  # Django's own
    assert len(commands) > 40
    assert {name for name in commands if not re.search(rf"^\| [^|]*\b{name}\b", table, re.M)} == set()
