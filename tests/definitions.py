"""A Python file as its definitions, by patterns: parsing all files would take longer than the tests of a small change.

Called by `uses.py`. `tests/tools/test_selecting.py` compares it with the parser.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r'(?P<prefix>\b[rRbBuUfF]{1,2})?(?P<text>"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<comment>\#[^\n]*)",
    re.S,
)
MEMBER = re.compile(r'attr\(\s*([\w.]+),\s*"(\d+)"')
NUMBER = re.compile(r'"(\d+)"')
IMPORT = re.compile(r"^[ \t]*(?:from ([.\w]+) )?import (\([^)]*\)|[^\n]+)", re.M)
DEFINITION = re.compile(r"^(?:async )?(?:def (\w+)|class (\w+)(.*?):(?=$| \.))", re.S | re.M)
METHOD = re.compile(r"^    (?:async )?def (\w+)", re.M)
ASSIGNED = re.compile(r"(?:(?:\w+, )*\w+ = )+|\w+(?=: [^=\n]+(?:=|$)| \+?= )")
INSIDE = re.compile(r"^ +(?:(\w+)(?:: [^=\n]+)? = |(?:async )?def (\w+)|class (\w+))", re.M)


@dataclass(slots=True)
class Part:
    """One definition: its code, in which each text is a number, and these texts."""

    node: str
    code: str
    strings: list[str]
    owner: str = ""
    bases: str = ""


def stripped(text: str) -> tuple[str, list[str]]:
    """Return code without comments in which every text is its number, on one line, and the texts.

    A text keeps `\\0` where something is put in, and ends with `\\1` where something is added to it.
    """
    strings: list[str] = []

    def place(match: re.Match[str]) -> str:
        if match["comment"] is not None:
            return ""
        quoted = match["text"]
        words = quoted[3:-3] if quoted.startswith('"""') else quoted[1:-1]
        code = ""
        if "f" in (match["prefix"] or "").lower():
            inside = re.findall(r"\{([^{}]*)\}", words)
            words, code = re.sub(r"\{[^{}]*\}", "\0", words), "(" + " ".join(inside).replace("\n", " ") + ")"
        if text[match.end() : match.end() + 40].lstrip().startswith(("+", "%")):
            words += "\1"
        strings.append(words)
        return f'"{len(strings) - 1}"{code}'

    def member(match: re.Match[str]) -> str:
        name = strings[int(match[2])]
        return f"attr({match[1]}.{name}" if name.isidentifier() else match[0]

    return MEMBER.sub(member, TOKEN.sub(place, text)), strings


def statements(code: str, indent: str) -> Iterator[str]:
    """Cut code where a statement begins at this depth; decorators stay with what they decorate."""
    group: list[str] = []
    decorated = False
    for line in code.split("\n"):
        begins = line.startswith(indent) and line[len(indent) : len(indent) + 1] not in ("", " ", ")", "]", "}")
        begins = begins and not line[len(indent) :].startswith(("else", "elif", "except", "finally"))
        if begins and group and not decorated:
            yield "\n".join(group)
            group = []
        if begins:
            decorated = line[len(indent)] == "@"
        group.append(line)
    yield "\n".join(group)


def parts_of(module: str, text: str) -> tuple[list[Part], str, list[str]]:
    """Cut a module into its definitions; beside them its whole code and all its texts."""
    code, strings = stripped(text)
    parts = []

    def add(name: str, code: str, owner: str = "", bases: str = "") -> None:
        words = [strings[int(number)] for number in NUMBER.findall(code)]
        parts.append(Part(f"{module}:{name}", code, words, owner and f"{module}:{owner}", bases))

    for statement in statements(code, ""):
        head = (
            DEFINITION.search(statement) if statement.lstrip().startswith(("@", "def ", "async ", "class ")) else None
        )
        if head and head[2]:
            own = [statement[: head.end()]]
            for inner in statements(statement[head.end() :], "    "):
                method = METHOD.search(inner) if inner.lstrip().startswith(("@", "def ", "async ")) else None
                if method and not method[1].startswith("__"):
                    add(f"{head[2]}.{method[1]}", inner, head[2])
                else:
                    own.append(inner)
            add(head[2], "\n".join(own), bases=head[3])
        elif head:
            add(head[1], statement)
        elif statement.startswith(("import ", "from ", '"')):
            continue
        elif bound := ASSIGNED.match(statement):
            for name in re.findall(r"\w+", bound[0]):
                add(name, statement)
        elif statement.strip():
            add("", statement)
            for names in INSIDE.findall(statement):
                add(next(filter(None, names)), "", "")
                parts[-1].owner = f"{module}:"
    return parts, code, strings


def imports_of(module: str, path: str, code: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return what a module's names of others stand for, and the modules of which it takes all names."""
    bound: dict[str, list[str]] = defaultdict(list)
    stars = []
    here = module.split(".") if path.endswith("__init__.py") else module.split(".")[:-1]
    for source, names in IMPORT.findall(code):
        if source.startswith("."):
            dots = len(source) - len(source.lstrip("."))
            source = ".".join([*here[: len(here) - dots + 1], *filter(None, [source.lstrip(".")])])
        for item in names.strip("()").split(","):
            name, _, other = item.strip().partition(" as ")
            if name == "*":
                stars.append(source)
            elif name and source:
                bound[other.strip() or name].append(f"{source}.{name}")
            elif name:
                bound[other.strip() or name.partition(".")[0]].append(name if other else name.partition(".")[0])
    return bound, stars


def shape(part: Part) -> tuple[str, tuple[str, ...]]:
    """What a definition is, but for its comments and blank lines."""
    return NUMBER.sub('""', re.sub(r"\s*\n", "\n", part.code)).strip(), tuple(part.strings)


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
