"""The words of docs/style.md: none of its second column is in a page, a message or a document.

Pure text, without Django. `COVERED` names the folders whose strings are checked, `CODE_COVERED` those whose docstrings,
comments and names are, too.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.nouns.sources import DECIDERS, SOURCES
from awmclient.nouns.typed import AskKind, DecidedBy
from awmclient.nouns.values import AdviceSource
from tests.parsed import nodes

ROOT = Path(__file__).resolve().parent.parent
STYLE = ROOT / "docs" / "style.md"
COVERED = (
    *("templates", "static", "awmclient", "awmenv", "awmweb", "bench", "curriculum", "episodes", "examples", "experts"),
    *("exports", "imports", "notices", "people", "reviews", "runs", "manage.py"),
    *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")) if page != STYLE),
    "README.md",
)
OF_READERS = "examples"
"""Programs that people read whole: comments and docstrings are checked, too."""
OF_PAGES = (
    *("awmweb", "curriculum", "episodes", "experts", "exports", "imports", "notices", "people", "reviews", "runs"),
)
"""Packages that make pages: a string of one word can be shown, too."""
CODE_COVERED = (
    *("awmclient", "awmenv", "awmweb", "bench", "curriculum", "episodes", "experts", "exports", "imports", "notices"),
    *("people", "reviews", "runs", "tools"),
)
"""Packages whose docstrings, comments and names keep the rules as well."""
CODE_ALLOWED = {
    ("told", "episodes/show/state_lines.py"): "a class that templates of changes read",
    ("untouched", "exports/record.py"): "`passes_untouched`, a wire name",
    ("untouched", "exports/rules/leakage.py"): "`passes_untouched`, a wire name",
    ("untouched", "exports/select/reading.py"): "`passes_untouched`, a wire name",
    ("played", "runs/rewards/__init__.py"): "a module and its class",
    ("played", "runs/rewards/played.py"): "a module and its class",
    ("wall", "episodes/show/__init__.py"): "a module and its class",
    ("wall", "episodes/show/wall.py"): "a module and its class",
    ("wall", "runs/api/runs.py"): "`wall_s`, wall-clock seconds on the wire",
    ("wall", "runs/plan/spending.py"): "`wall_s`, wall-clock seconds on the wire",
    ("wall", "runs/statistics/costs.py"): "`wall_s`, wall-clock seconds on the wire",
}
NOT_OURS = {
    "awmclient/words/conversation.py": "a prompt",
    "awmclient/words/prompts.py": "prompts",
    "awmclient/choosing/scripted.py": "words of scripted agents",
    "awmenv/server/verify/judge.py": "a prompt",
    "awmenv/server/world/rehearsal.py": "rows of a sample app",
}
ALLOWED = {
    ("gone", "awmenv/server/session/channel.py"): "an error that agents read",
    ("gone", "awmenv/server/sandbox/framing.py"): "an error that agents read",
    ("gone", "awmenv/server/session/sessions.py"): "an error that agents read",
    ("nobody", "awmclient/nouns/tools.py"): "the schema of ask_expert",
    ("nobody", "awmweb/embedded/paths.py"): "a user of the system",
    ("nothing was done", "awmclient/words/endings.py"): "a message to agents",
    ("played", "awmweb/views.py"): "a name in a template",
    ("played", "runs/rewards/__init__.py"): "a type",
    ("vocabulary", "awmweb/old_addresses.py"): "an address of before",
    ("wall", "awmweb/views.py"): "a name in a template",
    ("wall", "episodes/pages/one.py"): "a name of a module",
}
NO_VERB = re.compile(
    r"(a|an|the|one|what|whether|who|how|where|when|which|why|every|all|each|no|nobody|any|by|of|from|until|as|at|in|this|"
    r"that|these|those|its|it|they|there|some|another|other|true|false|none|with|without|under|over|if|once)\b",
    re.IGNORECASE,
)
"""Words with which no imperative sentence begins."""
LONGEST_NAME = 60  # characters of a test, see docs/style.md
LONGEST_SENTENCE = 25  # words in README.md and docs/*.md, see docs/style.md
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REPLACED = (
    "Reviewer, viewer: view only",
    "This shows outcomes of many episodes",
    "Your lease expired",
    "saved as an alternative answer",
    "your text stays in your drafts",
    "against no action, only in the",
    "by their shrunk difference",
    "few tasks draw it toward",
    "too few to speak of others",
    "It takes no more human time",
    "one mark a seed",
    "both open their episodes",
    "The unit is the episode",
    "by drawing items again",
    "or press ] to label",
    "The arguments are not JSON",
    "Please select one of these options",
    "Random sample of [",
    "made without a gold share",
    "so none is served",
    "takes the place of the one before",
    "A file is imported whole or not at all",
    "The same row twice makes one",
    "none answered or fallen back yet",
    "Exports do not have these filters",
)
"""Sentences that people misread on pages. Their replacements stand where they stood."""
SHOWN = ("title", "aria-label", "placeholder", "alt", "value", "content")


def words_not_to_use(heading: str) -> list[str]:
    section = STYLE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", section, re.MULTILINE)
    return sorted({word for row in rows for word in re.findall(r"`([^`]+)`", row)})


def pattern_of(words: list[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, words))})(?![\w./-]*[\w/-])", re.IGNORECASE)


WORDS = words_not_to_use("Words")
FORBIDDEN = pattern_of(WORDS)
NOTE_FORBIDDEN = pattern_of(WORDS + words_not_to_use("Docstrings and comments"))
NAMES = words_not_to_use("Names in code")


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


NOTE = re.compile(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", re.DOTALL)
STRING = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|`([^`]*)`")
SCRIPT_NAME = re.compile(r"(?:(?<![\w.$])|(?<=this\.)|(?<=#))[A-Za-z_]\w*")
"""A name of a script's own: fields of other objects are on the wire or the browser's."""


def _of_script(text: str) -> Iterator[tuple[int, str]]:
    """Comments, strings with a space, and names as the words they are made of."""
    for source, pattern in ((text, NOTE), (_without(NOTE, text), STRING)):
        yield from (
            (source.count("\n", 0, hit.start()) + 1, hit[0]) for hit in pattern.finditer(source) if " " in hit[0]
        )
    code = _without(STRING, _without(NOTE, text))
    for name in SCRIPT_NAME.finditer(code):
        yield code.count("\n", 0, name.start()) + 1, re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name[0])


def _without(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda hit: "\n" * hit[0].count("\n"), text)


def _of_module(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """String constants with a space, those of one word where pages are made, in `errors.py` the docstrings of classes,
    which are messages, and in examples all docstrings and comments."""
    package = path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) else path.parent.name
    is_shown, is_read = package in OF_PAGES, package == OF_READERS
    if is_read:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)
    notes = {
        id(node.value) for node in nodes(text) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes(text):
        if isinstance(node, ast.ClassDef) and path.name == "errors.py":
            yield node.lineno, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield from [(node.lineno, node.value)] if is_shown or " " in node.value else []
        elif is_read and id(node) in notes and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def notes_in(text: str) -> Iterator[tuple[int, str]]:
    """Docstrings and comments, without quotations of code."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`]*`", "x", token.string)
    for node in nodes(text):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, re.sub(r"`[^`]*`", "x", node.value.value)


def names_in(text: str) -> Iterator[tuple[int, str]]:
    """Names that are given here, those of functions with brackets behind."""
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, f"{node.name}()"
        elif isinstance(node, ast.ClassDef):
            yield node.lineno, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name)
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def faults_of_code(text: str) -> Iterator[tuple[int, str]]:
    for line, words in notes_in(text):
        yield from ((line, hit[0].lower()) for hit in NOTE_FORBIDDEN.finditer(words))
    for line, name in names_in(text):
        bare = name.lower().strip("_").removesuffix("()").strip("_")
        if bare in NAMES or (name.endswith("()") and f"{bare}()" in NAMES):
            yield line, bare
        yield from ((line, hit[0].lower()) for hit in FORBIDDEN.finditer(bare.replace("_", " ")))


def code_files() -> list[Path]:
    return [
        path
        for package in CODE_COVERED
        for path in sorted((ROOT / package).rglob("*.py"))
        if not {"migrations", "node_modules"} & set(path.parts)
    ]


def _of_document(text: str) -> Iterator[tuple[int, str]]:
    """Prose, without code, addresses and quotations of names."""
    prose = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", " x ", prose)
    return enumerate(prose.split("\n"), 1)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, headings and items of lists, each with its first line; no code blocks and no tables."""
    text = re.sub(r"^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    found: list[tuple[int, str]] = []
    for line, said in enumerate([*text.split("\n"), ""], 1):
        of_heading = found and found[-1][1].startswith("#")
        if found and (of_heading or not said.strip() or re.match(r"\s*([-*]|\d+\.)\s|#|\|", said)):
            yield found[0][0], " ".join(part for _, part in found)
            found = []
        if said.strip() and not said.startswith("|"):
            found.append((line, said.strip()))


def long_sentences(text: str) -> list[tuple[int, str]]:
    """Sentences of more than `LONGEST_SENTENCE` words, each with the first line of its block.

    A sentence ends with its block, or at a period, question mark or exclamation mark before a space. Colons,
    semicolons and brackets do not end one; each item of a list is a block of its own. A piece of code is one word, and
    a link is its text.
    """
    found = []
    for line, block in _blocks(text):
        plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "x", block))
        for sentence in re.split(r"(?<=[.!?])[\"')*_]*\s+", plain):
            if len(re.findall(r"\S*\w\S*", sentence)) > LONGEST_SENTENCE:
                found.append((line, sentence))
    return found


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


def test_no_covered_code_uses_a_word_not_to_use():
    found = [(path.relative_to(ROOT), *fault) for path in code_files() for fault in faults_of_code(path.read_text())]
    assert not [f"{name}:{line}: {word}" for name, line, word in found if (word, str(name)) not in CODE_ALLOWED]


@pytest.mark.parametrize(("word", "name"), CODE_ALLOWED)
def test_exception_of_code_is_still_needed(word, name):
    assert word in [found for _, found in faults_of_code((ROOT / name).read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def give_back(): ...", ["give back"]),
        ("def _told(whoever): ...", ["told", "whoever"]),
        ("def one(): ...", ["one"]),
        ("one = found = 1", []),
        ("def f(): self.is_away = 1", ["is away"]),
        ("class WhoIsHere: ...", ["who is here"]),
        ('x = "nobody"', []),
        ('"""Nobody is told of `wall`."""', ["nobody", "told"]),
        ("x = 1  # stands", ["stands"]),
    ],
)
def test_words_are_found_in_notes_and_names_of_code(code, found):
    assert [word for _, word in faults_of_code(f"{code}\n")] == found


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
        (".js", 'say("nobody answers");', True),
        (".js", 'say("ok"); // nobody sees this', True),
        (".js", "/** Hand it up. */\nconst key = 'hand-up';", True),
        (".js", "function handUp() {}", True),
        (".js", "this.gone = row.dataset.gone;", True),
        (".js", 'row.gone = "gone"; // see wall.js', False),
        (".md", "It plays `nobody`.", True),
        (".md", "See [it](wall.md) and `wall`.\n```\nnobody\n```\n", False),
    ],
)
def test_words_are_found_where_people_read_them(tmp_path, suffix, text, found):
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_of_a_page_have_at_most_25_words(page):
    assert long_sentences(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("word " * 26, [1]),
        ("word " * 25 + "\n", []),
        ("# Title\n\nShort one. " + "word\n" * 26, [3]),
        ("word " * 20 + "word: " + "word " * 6, [1]),
        ("word " * 20 + "end. " + "word " * 20, []),
        ("Choose:\n\n- " + "word " * 20 + "\n- " + "word " * 26, [4]),
        ("```\n" + "word " * 26 + "\n```\n| " + "word " * 26 + "|\n`" + "word " * 26 + "`", []),
        ("word " * 24 + "[" + "word " * 2 + "](page.md)", [1]),
    ],
)
def test_long_sentences_are_found_in_prose_only(text, lines):
    assert [line for line, _ in long_sentences(text)] == lines


READS_OF_KIND = {
    "awmclient": 21,
    "awmenv": 3,
    "awmweb": 1,
    "episodes": 14,
    "experts": 2,
    "exports": 3,
    "runs": 3,
}
"""Places of each package that read a `kind` themselves. Those of steps are in `awmclient.nouns.kinds`; the others read
kinds of other things, or so many rows that a call for each would cost. A number only falls."""


def reads_of_kind(package: Path) -> int:
    """Return how often the code of a package reads the field `kind` of a mapping."""
    return sum(_reads_kind(node) for path in package.rglob("*.py") for node in nodes(path.read_text(encoding="utf-8")))


def _reads_kind(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        is_get = isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        return is_get and bool(node.args) and _is_kind(node.args[0])
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_kind(node.slice)


def _is_kind(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "kind"


@pytest.mark.parametrize("package", sorted({*OF_PAGES, "awmclient", "awmenv"}))
def test_kind_of_a_step_is_read_by_the_client_s_view(package):
    """Ask `is_call`, `is_ask` or `by_agent` of `awmclient.nouns.kinds`; lower the number when a read goes."""
    assert reads_of_kind(ROOT / package) == READS_OF_KIND.get(package, 0)


def test_read_of_a_kind_is_counted(tmp_path):
    (tmp_path / "one.py").write_text('a = step["kind"] == "ask"\nb = step.get("kind")\nstep["kind"] = "note"\n')
    assert reads_of_kind(tmp_path) == 2


KINDS_OF_ASKS, SOURCES_OF_ADVICE = set(ASK_KINDS), set(SOURCES) | set(DECIDERS)
RAW = {
    "awmclient/nouns/kinds.py": 1,  # steps, which a loop reads by the thousand
    "awmclient/nouns/typed.py": 1,  # a name before it is checked
    "awmclient/adapters/pydantic_ai.py": 2,  # calls of that framework
    "exports/rules/pairs.py": 1,  # a stored mark that can have any name
}
"""Comparisons by name of kinds of asks, sources of advice and deciders. A number only falls."""


def raw_comparisons(text: str) -> int:
    """Return how often code compares the kind of an ask, the source of advice or a decider with a name."""
    return sum(isinstance(node, ast.Compare) and _is_raw(node) for node in nodes(text))


def _is_raw(node: ast.Compare) -> bool:
    names = {one.value for side in node.comparators for one in ast.walk(side) if isinstance(one, ast.Constant)}
    field = ast.unparse(node.left)
    if re.search(r"\bkind\b", field) and not re.search(r"\bknob\b", field):
        return bool(names & KINDS_OF_ASKS)
    return bool(re.search(r"\b(source|by)\b", field) and names & SOURCES_OF_ADVICE)


def test_kind_of_an_ask_and_source_are_asked_of_their_tables():
    """Ask `is_approval` of `ask_kind(typed)`, `is_answer` of `source_of(advice)`."""
    packages = (*OF_PAGES, "awmclient")
    paths = [path for package in packages for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts]
    counts = {str(path.relative_to(ROOT)): raw_comparisons(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: number for name, number in counts.items() if number} == RAW


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ('typed["kind"] == "approval"', 1),
        ('ask.kind not in ("choice", "form")', 1),
        ('advice.get("source") != "fallback"', 1),
        ('said.by in ("person", "model")', 1),
        ('line.kind == "model" or knob.kind == "choice"', 0),
        ("ask_kind(typed).is_approval", 0),
    ],
)
def test_raw_comparison_is_counted(code, number):
    assert raw_comparisons(code) == number


def test_tables_of_asks_and_sources_are_those_of_the_wire():
    assert get_args(AskKind) == tuple(ASK_KINDS) and get_args(DecidedBy) == tuple(DECIDERS)
    assert get_args(AdviceSource) == tuple(SOURCES)


def test_sql_names_no_source_that_the_table_lacks():
    texts = [path.read_text(encoding="utf-8") for name in OF_PAGES for path in (ROOT / name).rglob("*.py")]
    named = {word for text in texts for word in re.findall(r"advice\.source = '(\w+)'", text)}
    assert named and named <= set(SOURCES)


LONGEST_MODULE = 500  # lines


def test_no_product_module_has_more_than_500_lines():
    paths = [path for package in (*OF_PAGES, "awmclient", "awmenv") for path in (ROOT / package).rglob("*.py")]
    sizes = {str(one.relative_to(ROOT)): len(one.read_text(encoding="utf-8").splitlines()) for one in paths}
    long = {name: size for name, size in sizes.items() if size > LONGEST_MODULE and "/migrations/" not in name}
    assert long == {}


READS_OF_FORMS = {
    "awmweb/middleware.py": 3,  # the line ends of all forms, before anything reads them
    "episodes/api.py": 1,  # names of a list's filters, which `texts_of` reads
    "people/keyed_calls.py": 3,  # the digest of a whole call
    "people/pages/provider.py": 1,  # the query that the library for sign-in gets
    "reviews/pages/adding.py": 2,  # episodes come by a form or by an address
}
"""Files that read a form or an address by themselves, with the number of places. A number only falls."""
PARSERS_OF_NUMBERS = {
    **dict.fromkeys((f"runs/management/commands/{name}.py" for name in ("briefing", "campaign", "run", "timing")), 1),
    **dict.fromkeys(("awmweb/embedded/postgres.py", "awmweb/variables.py"), 1),  # settings, and a server's own file
    **dict.fromkeys(("curriculum/next_tasks.py", "exports/select/ground.py", "runs/taskset/probes.py"), 1),  # tasks
    "experts/mcp/sessions.py": 1,  # a field of a session's address
    "people/requests/bodies.py": 1,  # the length that a header names
}
"""Functions of a file that check digits and convert them by themselves. A number only falls."""
SENT = ("POST", "GET")


def own_reads_of_forms(path: Path) -> int:
    """Return how often a file takes a value out of a form, looks into it, or gives it another name."""
    tree = nodes(path.read_text(encoding="utf-8"))
    passed = {id(one) for node in tree if isinstance(node, ast.Call | ast.Dict) for one in _passed(node)}
    own = [one for one in tree if isinstance(one, ast.Attribute) and one.attr in SENT and id(one) not in passed]
    return len(own) + sum(isinstance(one, ast.Attribute) and one.attr == "getlist" for one in tree)


def _passed(node: ast.Call | ast.Dict) -> Iterator[ast.AST]:
    """Yield what a call or a page's context gets as a whole."""
    parts = node.values if isinstance(node, ast.Dict) else [*node.args, *(one.value for one in node.keywords)]
    for part in parts:
        branches = (part.body, part.orelse) if isinstance(part, ast.IfExp) else ()
        either = part.values if isinstance(part, ast.BoolOp) else ()
        yield from (part, *branches, *either)


def own_parsers_of_numbers(path: Path) -> int:
    """Return how many functions of a file ask whether a text is digits, and convert it."""
    functions = [one for one in nodes(path.read_text(encoding="utf-8")) if isinstance(one, ast.FunctionDef)]
    return sum(_parses_numbers(list(ast.walk(one))) for one in functions)


def _parses_numbers(body: Sequence[ast.AST]) -> bool:
    asks = any(isinstance(one, ast.Attribute) and one.attr in ("isdecimal", "isdigit", "isnumeric") for one in body)
    return asks and any(isinstance(one, ast.Call) and getattr(one.func, "id", "") == "int" for one in body)


def counted_in_pages(count: Callable[[Path], int]) -> dict[str, int]:
    """Return the files of the packages with pages in which something is found."""
    paths = (path for package in OF_PAGES for path in sorted((ROOT / package).rglob("*.py")))
    counts = {str(path.relative_to(ROOT)): count(path) for path in paths if "migrations" not in path.parts}
    return {name: number for name, number in counts.items() if number and name != "people/requests/forms.py"}


def test_forms_and_addresses_are_read_by_the_one_reader():
    """Use `people.requests.forms`; lower the number when a read goes."""
    assert counted_in_pages(own_reads_of_forms) == READS_OF_FORMS


def test_numbers_are_read_by_the_one_parser():
    """Use `number_in` or `whole` of `people.requests.forms`."""
    assert counted_in_pages(own_parsers_of_numbers) == PARSERS_OF_NUMBERS


def test_read_of_a_form_is_counted(tmp_path):
    lines = [
        *("a = request.POST.get('a')", "b = request.GET['b']", "c = request.POST", "d = 'd' in request.GET"),
        *("e = read(request.POST, Shape)", "f = {'given': request.POST if p else {}}", "g = query.getlist('g')"),
    ]
    (tmp_path / "one.py").write_text("\n".join(lines))
    assert own_reads_of_forms(tmp_path / "one.py") == 5


def test_parser_of_numbers_is_counted(tmp_path):
    text = "def a(text):\n    return int(text) if text.isdecimal() else 0\n\ndef b(text):\n    return int(text)\n"
    (tmp_path / "one.py").write_text(text)
    assert own_parsers_of_numbers(tmp_path / "one.py") == 1


def test_reply_of_a_model_is_read_by_the_one_reader():
    """Use `model_replies.words_of`: a model thinks in its content, and a draft in a thought is no answer."""
    asking = [file for app in OF_PAGES for file in (ROOT / app).rglob("*.py") if "ChatClient(" in file.read_text()]
    assert [file.name for file in asking if re.search(r"""[\[(]["']content["'][\])]""", file.read_text())] == []
    assert {"llm.py", "looking.py", "distilling.py"} <= {file.name for file in asking}


def test_words_of_others_are_cut_for_a_column_in_one_place():
    """Use `plain_text.storable`: a column takes no half of a surrogate pair either."""
    own = re.compile(r"""replace\(["']\\x00["'], ["']["']\)\[\s*:|\[:\w+\]\.replace\(["']\\x00""")
    files = [file for app in OF_PAGES for file in (ROOT / app).rglob("*.py") if own.search(file.read_text())]
    assert [str(file.relative_to(ROOT)) for file in files] == ["people/text/plain_text.py"]


SAME_NAMES = {
    "Command": "the class that Django looks for in each command",
    **dict.fromkeys(("Recording", "Pauses"), "one for each agent framework, by the same calls"),
    "_Needles": "one file in two packages (decision 18)",
    **dict.fromkeys(("Advice", "Briefing"), "a row, and its shape on the wire"),
    **dict.fromkeys(
        ("EpisodeEnded", "ExpertOff", "Invalid", "KeyConflict", "NotFound", "SeqGap", "StepConflict", "TooLarge"),
        "a refusal, and the client's error for its code",
    ),
}
"""Names that two classes have, each with its reason."""


def classes_by_name() -> dict[str, list[str]]:
    """Return the modules of each class at the top of a product module, by its name."""
    found: dict[str, list[str]] = {}
    for package in (*OF_PAGES, "awmclient", "awmenv", "tools"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not {"migrations", "node_modules"} & set(path.parts):
                for node in ast.parse(path.read_text(encoding="utf-8")).body:
                    if isinstance(node, ast.ClassDef):
                        found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    return found


def test_name_of_a_class_is_unique_in_the_product():
    assert {name for name, modules in classes_by_name().items() if len(modules) > 1} == set(SAME_NAMES)


def test_replaced_sentences_come_back_nowhere():
    found = []
    sources = (path for folder in COVERED for path in (ROOT / folder).rglob("*") if "vendor" not in path.parts)
    for path in sources:
        if path.suffix not in {".html", ".py", ".js"}:
            continue
        # a string of several lines is one sentence
        text = re.sub(r"\"\s*\n\s*f?\"", "", path.read_text(encoding="utf-8"))
        words = " ".join(text.split()).casefold()
        found += [(sentence, str(path.relative_to(ROOT))) for sentence in REPLACED if sentence.casefold() in words]
    assert not found


def test_no_property_is_red_because_a_machine_is_slow():
    """One profile, in `tests/conftest.py`, is without limits of time."""
    words = ("suppress_health_check", "HealthCheck", "deadline=timedelta")
    here = (ROOT / "tests/conftest.py", Path(__file__))
    files = [path for path in (ROOT / "tests").rglob("*.py") if "hypothesis" in path.read_text() and path not in here]
    assert len(files) > 10
    assert [path.name for path in files if any(word in path.read_text() for word in words)] == []


EMPTY_NAMES = {"one", "found", "said", "given", "known", "wanted"}
EMPTY_FUNCTIONS = {"_read", "_text", "_said"}
BOUND = {
    "awmclient": 6,
    "awmenv": 6,
    "awmweb": 1,
    "curriculum": 1,
    "episodes": 12,
    "experts": 14,
    "exports": 4,
    "imports": 4,
    "people": 1,
    "reviews": 2,
    "runs": 22,
}
"""By package, how often a name is bound that does not say what it holds. A number only falls."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def empty_names(text: str) -> list[str]:
    """Return the names that code binds and that say nothing, but for a comprehension in one line."""
    tree = nodes(text)
    short = {id(part) for node in tree if isinstance(node, COMPREHENSIONS) for part in _in_one_line(node)}
    names = [
        one.id for one in tree if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and id(one) not in short
    ]
    names += [one.arg for one in tree if isinstance(one, ast.arg)]
    functions = [one.name for one in tree if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in names if name in EMPTY_NAMES] + [name for name in functions if name in EMPTY_FUNCTIONS]


def _in_one_line(node: ast.expr) -> Iterator[ast.AST]:
    if node.lineno == node.end_lineno:
        yield from (part for generator in getattr(node, "generators", ()) for part in ast.walk(generator.target))


@pytest.mark.parametrize("package", [*OF_PAGES, "awmclient", "awmenv"])
def test_a_name_says_what_it_holds(package):
    """Name a value after what it is: `ask`, `row`, `digest`; lower the number when one goes."""
    paths = [path for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts]
    bound = [name for path in paths for name in empty_names(path.read_text(encoding="utf-8"))]
    assert len(bound) == BOUND.get(package, 0)


def test_name_that_says_nothing_is_counted():
    lines = [
        "one = 1",
        "def _read(given): pass",
        "a = [one for one in b]",
        "for said in b: pass",
        "c = [",
        " one for one in b",
        "]",
    ]
    assert empty_names("\n".join(lines)) == ["one", "said", "one", "given", "_read"]


LARGEST_FILE = 1_250_000  # bytes: plotly's script


def test_no_large_file_is_in_the_checkout_by_accident():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no checkout of git")
    sizes = {name: path.stat().st_size for name in listed.stdout.split("\0") if (path := ROOT / name).is_file()}
    assert {name: size for name, size in sizes.items() if size > LARGEST_FILE} == {}


OWN_JSON = {
    "awmenv/server/channels/start_tables.py": "signed by our own key",
    "awmenv/server/session/loading.py": "a process of our own, in 4 kB",
    "awmenv/server/settings.py": "an operator's setting",
    "awmenv/server/strict.py": "its depth is counted first",
    "awmenv/server/verifier.py": "a process of our own, in 4 kB",
    "awmweb/embedded/backup.py": "a file of the data folder",
    "awmweb/embedded/known_settings.py": "a file of the data folder",
    "awmweb/embedded/paths.py": "a file of the data folder",
    "awmweb/embedded/processes.py": "a file of the data folder",
    "awmweb/embedded/upgrades.py": "a file of the data folder",
    "awmweb/variables.py": "an operator's setting",
    "people/identity.py": "an operator's setting",
}
"""Modules whose JSON no stranger writes, or whose depth is known; the others catch what a deep text raises."""


def parsed_in_vain(text: str) -> int:
    """Return how often code parses JSON and catches `ValueError` without `RecursionError`, which is none."""
    tries = [node for node in nodes(text) if isinstance(node, ast.Try)]
    return sum(
        "json.loads(" in "".join(map(ast.unparse, node.body))
        and "ValueError" in (caught := " ".join(ast.unparse(one.type) for one in node.handlers if one.type))
        and "RecursionError" not in caught
        for node in tries
    )


def test_json_of_others_that_is_too_deep_is_caught():
    paths = [path for name in (*OF_PAGES, "awmclient", "awmenv") for path in (ROOT / name).rglob("*.py")]
    at_fault = {str(path.relative_to(ROOT)) for path in paths if parsed_in_vain(path.read_text(encoding="utf-8"))}
    assert at_fault == set(OWN_JSON)
    deep = "try:\n    a = json.loads(b)\nexcept ValueError:\n    a = 0\n"
    assert (parsed_in_vain(deep), parsed_in_vain(deep.replace("ValueError", "(ValueError, RecursionError)"))) == (1, 0)
