"""What checks scripts, styles and templates is pinned, names no registry, and notices what it should."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
needs_npm = pytest.mark.skipif(
    shutil.which("npm") is None and os.environ.get("AWMWEB_REQUIRE_BROWSER") != "1", reason="needs npm"
)


def checked(*command: str | Path, cwd: Path = ROOT) -> tuple[int, str]:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_npm_lock_names_no_registry_and_hashes_every_package() -> None:
    text = (TOOLS / "package-lock.json").read_text()
    packages = {name: entry for name, entry in json.loads(text)["packages"].items() if name}
    assert len(packages) > 100
    assert "resolved" not in text
    assert [name for name, entry in packages.items() if not entry.get("integrity", "").startswith("sha512-")] == []


def test_npm_packages_are_exact_and_run_no_code_at_install() -> None:
    wanted = json.loads((TOOLS / "package.json").read_text())
    assert "dependencies" not in wanted
    assert all(version[0].isdigit() for version in wanted["devDependencies"].values())
    settings = (TOOLS / ".npmrc").read_text().splitlines()
    assert {"omit-lockfile-registry-resolved=true", "ignore-scripts=true"} <= set(settings)


def test_product_installs_nothing_from_npm() -> None:
    assert "!tools" not in (ROOT / ".dockerignore").read_text().split()
    assert json.loads((ROOT / "static" / "package.json").read_text()) == {"private": True, "type": "module"}


WRONG_TYPES = {
    "number.js": (
        'import { clock } from "./shell/clock.js";\nclock("soon");\n',
        "not assignable to parameter of type 'number'",
    ),
    "element.js": (
        "const [row] = document.querySelectorAll('li');\nrow.value.trim();\n",
        "Property 'trim' does not exist",
    ),
    "import.js": ('import { nothing } from "./shell/clock.js";\nnothing();\n', "has no exported member 'nothing'"),
    "spelling.js": (
        "/** @param {string} a */\nexport const far = (a) => a.lenght;\n",
        "'lenght' does not exist",
    ),
}
WRONG_SCRIPTS = {
    "unused.js": ("const unused = 1;\n", "no-unused-vars"),
    "equal.js": ("if (document.title == 1) location.reload();\n", "eqeqeq"),
    "eval.js": ("eval(document.title);\n", "no-eval"),
    "undefined.js": ("undefinedName();\n", "no-undef"),
}
WRONG_STYLES = {
    "property.css": ("a{colour:red}\n", "property-no-unknown"),
    "color.css": ("a{color:#ggg}\n", "declaration-property-value-no-unknown"),
    "unit.css": ("a{width:10pixels}\n", "declaration-property-value-no-unknown"),
    "twice.css": ("a{color:red;color:red}\n", "declaration-block-no-duplicate-properties"),
}


def write(folder: Path, files: dict[str, tuple[str, str]]) -> None:
    for name, (text, _) in files.items():
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> tuple[int, str]:
    """What the compiler says of our scripts with the wrong ones among them; it takes long to start."""
    folder = tmp_path_factory.mktemp("types")
    shutil.copytree(ROOT / "static", folder / "static")
    write(folder / "static", WRONG_TYPES)
    (folder / "tools").mkdir()
    for name in ("tsconfig.json", "dom.d.ts"):
        shutil.copy(TOOLS / name, folder / "tools" / name)
    return checked(TOOLS / "node_modules/.bin/tsc", "--project", folder / "tools", "--pretty", "false")


@pytest.fixture(scope="module")
def linted(tmp_path_factory) -> tuple[int, list]:
    """What eslint says of the wrong scripts."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "static").mkdir()
    write(folder / "static", WRONG_SCRIPTS)
    config = TOOLS / "eslint.config.js"
    command = (TOOLS / "node_modules/.bin/eslint", "--config", config, "--format", "json", "static")
    code, said = checked(*command, cwd=folder)
    return code, json.loads(said)


@pytest.fixture(scope="module")
def styled(tmp_path_factory) -> tuple[int, list]:
    """What stylelint says of the wrong styles."""
    folder = tmp_path_factory.mktemp("styles")
    write(folder, WRONG_STYLES)
    command = (TOOLS / "node_modules/.bin/stylelint", "--config", TOOLS / "stylelint.json", "--formatter", "json")
    code, said = checked(*command, folder)
    return code, json.loads(said)


@needs_npm
@pytest.mark.parametrize("name", WRONG_TYPES)
def test_types_of_scripts_are_checked(compiled: tuple[int, str], name: str) -> None:
    code, words = compiled
    errors = [line for line in words.splitlines() if "error TS" in line]
    assert code != 0 and [line for line in errors if f"/{name}(" in line and WRONG_TYPES[name][1] in line]
    assert {line.split("(")[0].rpartition("/")[2] for line in errors} == set(WRONG_TYPES), "ours are right"


@needs_npm
@pytest.mark.parametrize("name", WRONG_SCRIPTS)
def test_scripts_are_linted(linted: tuple[int, list], name: str) -> None:
    code, files = linted
    (found,) = [one["messages"] for one in files if Path(one["filePath"]).name == name]
    assert code == 1 and WRONG_SCRIPTS[name][1] in [message["ruleId"] for message in found]


@needs_npm
@pytest.mark.parametrize("name", WRONG_STYLES)
def test_styles_are_linted(styled: tuple[int, list], name: str) -> None:
    code, files = styled
    (found,) = [one["warnings"] for one in files if Path(one["source"]).name == name]
    assert code == 2 and WRONG_STYLES[name][1] in [warning["rule"] for warning in found]


def test_templates_are_laid_out_by_the_formatter(tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text("<ul><li>{{ one }}</li><li><p>two</p></li></ul>\n")
    formatter = Path(sys.executable).parent / "djangofmt"
    assert checked(formatter, "--check", page)[0] == 1
    assert checked(formatter, "--quiet", page)[0] == 0
    assert checked(formatter, "--check", page)[0] == 0
