"""The import rules of scripts, read from their text: folders of `static/` have floors, and arrows point down.

`shell` serves every page; `steps` and `forms` are parts that pages share; `lists`, `ask` and `review` are the pages.
Runs without a database and without Node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = (("shell",), ("steps", "forms"), ("lists", "ask", "review"))
ALONE = ("theme.js", "typed-ahead.js", "sw.js")
"""Scripts at the root: plain scripts that run before the first paint, and the service worker. They import nothing."""
LONGEST = 500
IMPORT = re.compile(r'(?:^import |\bfrom |\bimport\()"(\.[^"]+)"', re.MULTILINE)
NOTE = re.compile(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", re.DOTALL)
LOADED = re.compile(r"\{% static '([^']+\.js)' %\}|\.register\(\"/([^\"]+\.js)\"")


@dataclass(frozen=True)
class Scripts:
    """The scripts of a tree by path below `static/`, with what each imports when it runs and names in types."""

    texts: dict[str, str]
    runs: dict[str, set[str]]
    types: dict[str, set[str]]
    loaded: set[str]

    @classmethod
    def read(cls, root: Path = ROOT) -> Scripts:
        static = root / "static"
        paths = sorted(path for path in static.rglob("*.js") if "vendor" not in path.parts)
        texts = {str(path.relative_to(static)): path.read_text(encoding="utf-8") for path in paths}
        runs, types = {}, {}
        for name, text in texts.items():
            bare = set(IMPORT.findall(NOTE.sub("", text)))
            runs[name] = _below(static, name, bare)
            types[name] = _below(static, name, set(IMPORT.findall(text)) - bare)
        pages = [path.read_text(encoding="utf-8") for path in (root / "templates").rglob("*.html")]
        loaded = {"".join(hit) for text in [*pages, *texts.values()] for hit in LOADED.findall(text)}
        return cls(texts, runs, types, loaded)

    def reached(self, start: set[str]) -> set[str]:
        seen: set[str] = set()
        todo = list(start)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += self.runs.get(name, ())
        return seen


def _below(static: Path, name: str, sources: set[str]) -> set[str]:
    folder = (static / name).parent
    return {str((folder / source).resolve().relative_to(static.resolve())) for source in sources}


def floor(name: str) -> int:
    folder = name.rpartition("/")[0]
    found = next((number for number, folders in enumerate(FLOORS) if folder in folders), None)
    assert found is not None, f"{name}: say in tests/test_script_layers.py on which floor its folder stands"
    return found


def upward(scripts: Scripts) -> list[str]:
    """Return arrows to a higher floor, and to another folder of the same floor."""
    return sorted(
        f"{name} imports {target}"
        for name in scripts.texts.keys() - set(ALONE)
        for target in scripts.runs[name] | scripts.types[name]
        if target in ALONE or (floor(target) >= floor(name) and Path(target).parent != Path(name).parent)
    )


def missing(scripts: Scripts) -> list[str]:
    named = ((name, target) for name in scripts.texts for target in scripts.runs[name] | scripts.types[name])
    return sorted(f"{name} imports {target}" for name, target in named if target not in scripts.texts)


def circles(scripts: Scripts) -> list[str]:
    return sorted(name for name in scripts.texts if name in scripts.reached(scripts.runs[name]))


def unreached(scripts: Scripts) -> list[str]:
    return sorted(scripts.texts.keys() - scripts.reached(scripts.loaded))


def too_long(scripts: Scripts) -> list[str]:
    return sorted(name for name, text in scripts.texts.items() if text.count("\n") >= LONGEST)


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    found = Scripts.read()
    assert len(found.texts) > 50 and sum(map(len, found.runs.values())) > 100
    return found


def test_no_script_imports_upward_or_sideways(scripts: Scripts) -> None:
    assert upward(scripts) == []
    assert [name for name in ALONE if scripts.runs[name]] == []


def test_every_import_of_a_script_is_there(scripts: Scripts) -> None:
    assert missing(scripts) == []


def test_no_script_reaches_itself(scripts: Scripts) -> None:
    assert circles(scripts) == []


def test_every_script_is_reached_from_a_template(scripts: Scripts) -> None:
    assert unreached(scripts) == []


def test_no_script_has_500_lines(scripts: Scripts) -> None:
    assert too_long(scripts) == []


def tree(root: Path, files: dict[str, str]) -> Scripts:
    for name, text in {"templates/page.html": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Scripts.read(root)


def test_script_rules_find_each_violation(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        {
            "templates/page.html": "<script src=\"{% static 'ask/ask.js' %}\"></script>",
            "static/ask/ask.js": 'import { a } from "../shell/shell.js";\nimport "../review/review.js";\n',
            "static/shell/shell.js": '/** @param {import("../steps/steps.js").Step} step */\nimport "./toast.js";\n',
            "static/shell/toast.js": 'export { b } from "./shell.js";\n' + "\n" * LONGEST,
            "static/steps/steps.js": '// import "./alone.js";\nconst late = () => import("./none.js");\n',
            "static/review/review.js": 'navigator.serviceWorker.register("/sw.js", { scope: "/" });\n',
            "static/sw.js": "",
        },
    )
    assert upward(found) == [
        "ask/ask.js imports review/review.js",
        "shell/shell.js imports steps/steps.js",
    ]
    assert missing(found) == ["steps/steps.js imports steps/none.js"]
    assert circles(found) == ["shell/shell.js", "shell/toast.js"]
    assert unreached(found) == ["steps/steps.js"]
    assert too_long(found) == ["shell/toast.js"]


def test_script_of_an_unknown_folder_is_refused(tmp_path: Path) -> None:
    found = tree(tmp_path, {"static/utils/one.js": 'import "../shell/two.js";\n', "static/shell/two.js": ""})
    with pytest.raises(AssertionError, match=r"utils/one\.js"):
        upward(found)
