"""The words of docs/style.md: none of its second column is in a page, a message or a document.

Pure text, without Django. `COVERED` names the folders that are checked.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STYLE = ROOT / "docs" / "style.md"
COVERED = (
    *("templates", "static", "awmclient", "awmenv", "awmweb", "bench", "curriculum", "episodes", "examples", "experts"),
    *("exports", "imports", "notices", "people", "reviews", "runs", "manage.py"),
    *(
        f"docs/{page}.md"
        for page in ("architecture", "configuration", "developing", "durable", "environment", "experts", "exports")
    ),
    *(f"docs/{page}.md" for page in ("curriculum", "frameworks", "review", "runs", "training")),
    *(f"docs/{page}.md" for page in ("import", "mcp", "operations", "packs", "pages", "protocol", "security")),
    "README.md",
)
OF_READERS = "examples"
"""Programs that people read whole: comments and docstrings are checked, too."""
OF_PAGES = (
    *("awmweb", "curriculum", "episodes", "experts", "exports", "imports", "notices", "people", "reviews", "runs"),
)
"""Packages that make pages: a string of one word can be shown, too."""
NOT_OURS = {
    "awmclient/conversation.py": "a prompt",
    "awmclient/prompts.py": "prompts",
    "awmclient/scripted.py": "words of scripted agents",
    "awmenv/server/verify/judge.py": "a prompt",
    "awmenv/server/world/rehearsal.py": "rows of a sample app",
}
ALLOWED = {
    ("gone", "awmenv/server/session/channel.py"): "an error that agents read",
    ("gone", "awmenv/server/sandbox/framing.py"): "an error that agents read",
    ("gone", "awmenv/server/session/sessions.py"): "an error that agents read",
    ("nobody", "awmclient/schema.py"): "the schema of ask_expert",
    ("nobody", "awmweb/embedded/paths.py"): "a user of the system",
    ("nothing was done", "awmclient/rollout.py"): "a message to agents",
    ("wall", "docs/environment.md"): "wall-clock time",
    ("played", "awmweb/views.py"): "a name in a template",
    ("played", "runs/rewards/__init__.py"): "a type",
    ("plays", "episodes/pages/one.py"): "a name in a template",
    ("vocabulary", "awmweb/urls.py"): "the name of an address",
    ("wall", "awmweb/views.py"): "a name in a template",
    ("wall", "episodes/pages/one.py"): "a name in a template",
}
NO_VERB = re.compile(
    r"(a|an|the|one|what|whether|who|how|where|when|which|why|every|all|each|no|nobody|any|by|of|from|until|as|at|in|this|"
    r"that|these|those|its|it|they|there|some|another|other|true|false|none|with|without|under|over|if|once)\b",
    re.IGNORECASE,
)
"""Words with which no imperative sentence begins."""
LONGEST_NAME = 60  # characters of a test, see docs/style.md
SHOWN = ("title", "aria-label", "placeholder", "alt", "value", "content")


def words_not_to_use() -> list[str]:
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", STYLE.read_text(encoding="utf-8"), re.MULTILINE)
    return sorted({word for row in rows for word in re.findall(r"`([^`]+)`", row)})


WORDS = words_not_to_use()
FORBIDDEN = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, WORDS))})(?![\w./-]*[\w/-])", re.IGNORECASE)


class _Visible(HTMLParser):
    """Text and visible attributes of a template, without Django's tags."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[int, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.said += [(self.getpos()[0], value) for name, value in attrs if name in SHOWN and value]

    def handle_data(self, data: str) -> None:
        self.said.append((self.getpos()[0], data))


def _of_template(text: str) -> Iterator[tuple[int, str]]:
    parser = _Visible()
    parser.feed(re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", lambda tag: re.sub(r"[^\n]", " ", tag[0]), text))
    return iter(parser.said)


def _of_script(text: str) -> Iterator[tuple[int, str]]:
    """Strings with a space, outside comments."""
    bare = re.sub(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", lambda note: "\n" * note[0].count("\n"), text, flags=re.DOTALL)
    for found in re.finditer(r"\"([^\"\n]*)\"|'([^'\n]*)'|`([^`]*)`", bare):
        if " " in found[0]:
            yield bare.count("\n", 0, found.start()) + 1, found[0]


def _of_module(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """String constants with a space, those of one word where pages are made, in `errors.py` the docstrings of classes,
    which are messages, and in examples all docstrings and comments."""
    package = path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) else path.parent.name
    is_shown, is_read = package in OF_PAGES, package == OF_READERS
    tree = ast.parse(text)
    if is_read:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)
    notes = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and path.name == "errors.py":
            yield node.lineno, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield from [(node.lineno, node.value)] if is_shown or " " in node.value else []
        elif is_read and id(node) in notes and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _of_document(text: str) -> Iterator[tuple[int, str]]:
    """Prose, without code, addresses and quotations of names."""
    prose = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", " x ", prose)
    return enumerate(prose.split("\n"), 1)


def said_in(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return _of_module(path, text)
    return {".html": _of_template, ".js": _of_script, ".md": _of_document}[path.suffix](text)


def files() -> list[str]:
    found = []
    for name in COVERED:
        place = ROOT / name
        inside = sorted(one for kind in ("*.html", "*.py", "*.js") for one in place.rglob(kind))
        found += (
            [place] if place.is_file() else [one for one in inside if not {"migrations", "vendor"} & set(one.parts)]
        )
    return [str(one.relative_to(ROOT)) for one in found]


def faults(name: str) -> list[str]:
    found = [(line, hit[0]) for line, text in said_in(ROOT / name) for hit in FORBIDDEN.finditer(text)]
    return [f"{name}:{line}: {word}" for line, word in found if (word.lower(), name) not in ALLOWED]


def test_style_names_words_not_to_use():
    assert len(WORDS) > 60 and "whoever" in WORDS


def test_no_covered_file_uses_a_word_not_to_use():
    found = [fault for name in files() if name not in NOT_OURS for fault in faults(name)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(("word", "name"), ALLOWED)
def test_exception_is_still_needed(word, name):
    assert any(hit[0].lower() == word for _, text in said_in(ROOT / name) for hit in FORBIDDEN.finditer(text))


@pytest.mark.parametrize("text", ['"""Whoever reads this."""\n', "answers = 3  # stop after so many\n"])
def test_words_are_found_in_notes_of_examples_only(tmp_path, text):
    for folder, found in ((OF_READERS, True), ("bench", False)):
        (tmp_path / folder).mkdir()
        (path := tmp_path / folder / "one.py").write_text(text)
        assert any(FORBIDDEN.search(words) for _, words in said_in(path)) == found


@pytest.mark.parametrize(
    ("suffix", "text", "found"),
    [
        (".html", '<p title="Nobody">{% if gone %}yes{% endif %}</p>', True),
        (".html", '<p class="wall" data-wall>{{ nobody }} wall.js</p>', False),
        (".py", 'say = "it stands here"\n', True),
        (".py", '"""Whoever reads this."""\nname = "whoever"\n', False),
        (".js", 'say("nobody answers"); // nobody sees this', True),
        (".js", 'say("ok"); // nobody sees this', False),
        (".md", "It plays `nobody`.", True),
        (".md", "See [it](wall.md) and `wall`.\n```\nnobody\n```\n", False),
    ],
)
def test_words_are_found_in_visible_text_only(tmp_path, suffix, text, found):
    (tmp_path / f"one{suffix}").write_text(text)
    said = said_in(tmp_path / f"one{suffix}")
    assert any(FORBIDDEN.search(words) for _, words in said) == found


def test_names_of_tests_are_short_enough_to_read():
    names = [
        name
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    ]
    assert len(names) > 1000 and [name for name in names if len(name) > LONGEST_NAME] == []


def test_docstrings_of_functions_begin_with_a_verb():
    found = []
    for name in files():
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8")) if name.endswith(".py") else ast.Module([], [])
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (said := ast.get_docstring(node)):
                is_value = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
                if not is_value and NO_VERB.match(said):
                    found.append(f"{name}:{node.lineno} {said.splitlines()[0]}")
    assert found == []
