"""Which test files can see a change? `make test` asks; `python -m tests.selecting` prints the answer.

A test file is selected when arrows (`uses.py`) lead from one of its definitions (`definitions.py`) to one that differs
from the branch point, or when it reads a changed file. `docs/developing.md` says what this can leave out.
"""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.definitions import module_of
from tests.uses import APART, BROWSERS, PACKAGES, PROCESSES, SKELETON, Graph

ROOT = Path(__file__).resolve().parent.parent
EVERYTHING = re.compile(
    r"requirements[-\w]*\.(txt|lock)|pyproject\.toml|Makefile|manage\.py|\.ci/.*|.*/migrations/.*|packs/.*"
    r"|people/postgres/.*|\w+/apps\.py|awmweb/(settings|variables)\.py|tests/(conftest|house|schema)\.py"
)
"""What each test stands on."""
TEST_FILE = re.compile(r"tests/(.*/)?test_\w+\.py")
IGNORED = {".gitignore", ".dockerignore", "LICENSE"}


@dataclass
class Selection:
    """Test files with the reason of each, or why all run."""

    files: dict[str, str]
    everything: str = ""


class Reach:
    """What the test files of a tree can see, each file a bit."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.tests = {path: 1 << number for number, path in enumerate(sorted(filter(TEST_FILE.fullmatch, texts)))}
        self.graph = graph = Graph(texts)
        start: dict[str, int] = {}
        for module, path in graph.files.items():
            bits = self.tests.get(path, 0)
            below = self._in(path.removesuffix("conftest.py")) if path.endswith("/conftest.py") else 0
            for part in graph.parts[module]:
                for_all = "autouse=" in part.code or part.node.partition(":")[2].startswith("pytest_")
                if bits or below and for_all:
                    start[part.node] = start.get(part.node, 0) | bits | below
        apart = sum(self._in(f"tests/{folder}/") for folder in APART)
        self.running, browsed = graph.tests_with(PROCESSES, start), graph.tests_with(BROWSERS, start)
        self.seen = graph.seen_by(start, ~apart, self.running, browsed)

    def _in(self, folder: str) -> int:
        return sum(bit for path, bit in self.tests.items() if path.startswith(folder))

    def files(self, bits: int) -> list[str]:
        return [path for path, bit in self.tests.items() if bits & bit]

    def select(self, before: Mapping[str, str | None]) -> Selection:
        """Return the test files that can see how files differ from what they were."""
        chosen: dict[str, str] = {}
        for path, old in before.items():
            bits = self.of_change(path, old)
            if not bits and not path.endswith((".md", ".png", ".py")) and path not in IGNORED:
                return Selection(dict.fromkeys(self.tests, path), f"{path}, which no test names")
            for test in self.files(bits):
                chosen.setdefault(test, path)
        return Selection(chosen)

    def of_change(self, path: str, old: str | None) -> int:
        """Return the tests of one changed file."""
        graph, seen = self.graph, self.seen
        bits = self.tests.get(path, 0) | graph.reading(path, seen)
        if path.endswith(".py") and path.partition("/")[0] in PACKAGES:
            for node in graph.changed(path, old):
                here = seen.get(node, 0)
                bits |= here if here or path.startswith("tests/") else self.near(path)
            if SKELETON.fullmatch(path):
                bits |= seen.get(PROCESSES, 0)
        elif path.startswith("templates/"):
            drawn = seen.get(f"template {path.removeprefix('templates/')}", 0)
            bits |= drawn or self.running | self._in(f"tests/{path.split('/')[1]}/")
        elif path.startswith("static/"):
            bits |= (seen.get(f"static {path.removeprefix('static/')}", 0) or self.running) | self._in("tests/static/")
        if path.endswith(".mjs"):
            bits |= self._in("tests/static/")
        return bits

    def near(self, path: str) -> int:
        """Return the tests for a definition that nothing names: those of its file, or of its package."""
        bits = 0
        for part in self.graph.parts.get(module_of(path), ()):
            bits |= self.seen.get(part.node, 0)
        return bits or self._in(f"tests/{path.partition('/')[0]}/")


def selected(texts: Mapping[str, str], before: Mapping[str, str | None]) -> Selection:
    """Return the test files that can see how `texts`, the tree, differs from what its files had `before`."""
    for path in before:
        if EVERYTHING.fullmatch(path):
            return Selection(dict.fromkeys(filter(TEST_FILE.fullmatch, texts), path), path)
    return Reach(texts).select(before)


SUFFIXES = (".py", ".html", ".svg", ".js", ".css", ".txt", ".xml")
"""Files with arrows between them; of others only the names count."""


def git(*words: str) -> str | None:
    """Return what git says in this checkout; `None` without git or where it refuses."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True)
    except FileNotFoundError:
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def branch_point(ref: str) -> str:
    """Return the commit at which this branch left `ref`, or the main branch; empty if there is none."""
    for other in [ref] if ref else ["origin/main", "main"]:
        if base := git("merge-base", "HEAD", other):
            return base.strip()
    return ""


def changes_since(base: str) -> dict[str, str | None]:
    """Return the files that differ from a commit, each with its text there."""
    names = (git("diff", "--name-only", "--no-renames", "-z", base) or "").split("\0")
    names += (git("ls-files", "-z", "--others", "--exclude-standard") or "").split("\0")
    return {name: git("show", f"{base}:{name}") for name in sorted({*names} - {""})}


def tree() -> dict[str, str]:
    """Return the texts of all files in which definitions, pages and scripts are."""
    names = (git("ls-files", "-z", "--cached", "--others", "--exclude-standard") or "").split("\0")
    paths = [name for name in names if name.endswith(SUFFIXES) and not name.startswith(("packs/", "tests/packs/"))]
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in paths if (ROOT / name).is_file()}


def main(ref: str = "") -> None:
    """Print the selected files, or `tests` for all; say on stderr what was selected and why."""
    gc.disable()
    base = branch_point(ref)
    before = changes_since(base) if base else {}
    if not before:
        why = f"nothing changed since {base[:7]}" if base else "there is no branch point to compare with"
        print("tests")
        print(f"All test files, because {why}.", file=sys.stderr)
        return
    texts = tree()
    selection = selected(texts, before)
    changed = f"{len(before)} file{'s' * (len(before) != 1)} changed since {base[:7]}"
    if selection.everything:
        print("tests")
        print(f"All test files: {changed}, one of them {selection.everything}.", file=sys.stderr)
        return
    count = sum(1 for path in texts if TEST_FILE.fullmatch(path))
    print("\n".join(sorted(selection.files)))
    print(f"{len(selection.files)} of {count} test files, because {changed}. ALL=1 runs all.", file=sys.stderr)
    reasons = Counter(selection.files.values()).most_common()
    for path, number in reasons[:8]:
        print(f"  {number} by {path}", file=sys.stderr)
    if len(reasons) > 8:
        print(f"  {sum(number for _, number in reasons[8:])} by {len(reasons) - 8} other files", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
