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


@needs_npm
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('import { clock } from "./clock.js";\nclock("soon");\n', "not assignable to parameter of type 'number'"),
        ("const [row] = document.querySelectorAll('li');\nrow.value.trim();\n", "Property 'trim' does not exist"),
        ('import { nothing } from "./clock.js";\nnothing();\n', "has no exported member 'nothing'"),
        ("/** @param {string} a */\nexport const far = (a) => a.lenght;\n", "'lenght' does not exist"),
    ],
)
def test_types_of_scripts_are_checked(tmp_path: Path, text: str, said: str) -> None:
    shutil.copytree(ROOT / "static", tmp_path / "static")
    (tmp_path / "tools").mkdir()
    for name in ("tsconfig.json", "dom.d.ts"):
        shutil.copy(TOOLS / name, tmp_path / "tools" / name)
    (tmp_path / "static" / "wrong.js").write_text(text)
    code, words = checked(TOOLS / "node_modules/.bin/tsc", "--project", tmp_path / "tools", "--pretty", "false")
    assert code != 0 and said in words
    assert {line.split("(")[0].rpartition("/")[2] for line in words.splitlines() if "error TS" in line} == {"wrong.js"}


@needs_npm
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("const unused = 1;\n", "no-unused-vars"),
        ("if (document.title == 1) location.reload();\n", "eqeqeq"),
        ("eval(document.title);\n", "no-eval"),
        ("undefinedName();\n", "no-undef"),
    ],
)
def test_scripts_are_linted(tmp_path: Path, text: str, rule: str) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "wrong.js").write_text(text)
    config = TOOLS / "eslint.config.js"
    code, words = checked(TOOLS / "node_modules/.bin/eslint", "--config", config, "static", cwd=tmp_path)
    assert code == 1 and rule in words


@needs_npm
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a{colour:red}\n", "property-no-unknown"),
        ("a{color:#ggg}\n", "declaration-property-value-no-unknown"),
        ("a{width:10pixels}\n", "declaration-property-value-no-unknown"),
        ("a{color:red;color:red}\n", "declaration-block-no-duplicate-properties"),
    ],
)
def test_styles_are_linted(tmp_path: Path, text: str, rule: str) -> None:
    (tmp_path / "wrong.css").write_text(text)
    config = TOOLS / "stylelint.json"
    code, words = checked(TOOLS / "node_modules/.bin/stylelint", "--config", config, tmp_path / "wrong.css")
    assert code == 2 and rule in words


def test_templates_are_laid_out_by_the_formatter(tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text("<ul><li>{{ one }}</li><li><p>two</p></li></ul>\n")
    formatter = Path(sys.executable).parent / "djangofmt"
    assert checked(formatter, "--check", page)[0] == 1
    assert checked(formatter, "--quiet", page)[0] == 0
    assert checked(formatter, "--check", page)[0] == 0
