"""Where the product makes an interval, or prints one or a finding: a walk over its code and its templates.

A place is a function by its dotted name, a constant of a module, or a template with the expression or word in it.
`tools/sentences.py` registers each; `tests/test_sentences.py` compares both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    *("awmclient", "awmenv", "awmweb", "curriculum", "episodes", "experts", "exports", "imports", "notices"),
    *("people", "reviews", "runs"),
)
VALUE = re.compile(r"(?:^|_)(?:interval|span|low|high|ci|ci95)$")
"""The last part of a name that holds an interval or an end of one."""
MAKERS = {"wilson", "student_quantile", "Z", "cluster_interval", "newcombe", "tango", "fieller"}
"""What an interval is made with."""
PRINTERS = {"span_text", "share_line"}
INTO_TEXT = {"format", "format_html", "str", "percent", "join", "signed", "points"}
WORDS = re.compile(
    r"95\s?%|\binterval\b|\b[Bb]etter\b|\b[Ww]orse\b|\b[Ss]hown to (?:be|help|harm)\b|\b[Nn]ot shown\b"
    r"|\b[Nn]othing shown\b|\bdifference shown\b|\bruled out\b|\b[Pp]roven\b"
)
IN_TEMPLATE = re.compile(r"95\s?%|\bintervals?\b|\b[Bb]etter\b|\b[Ww]orse\b|\bruled out\b|\b[Pp]roven\b")
EXPRESSION = re.compile(r"{{(.*?)}}|{%(.*?)%}", re.DOTALL)
SAYS = re.compile(r"(?:^|_)(?:interval|span|low|high|ci|sentence|finding|measured|itself)$")


def in_python(text: str, module: str) -> set[str]:
    """Return the functions and constants of a module that make or print an interval or a finding."""
    return {
        f"{module} {'.'.join(where)}"
        for where, nodes in _scopes(ast.parse(text))
        if _says(nodes) or (len(where) == 1 and where[0].lstrip("_") in MAKERS | {"interval"})
    }


def _scopes(tree: ast.Module) -> Iterator[tuple[list[str], list[ast.AST]]]:
    """Yield each function or constant by its name, with all that is in it but documentation."""

    def inside(body: list[ast.stmt], where: list[str]) -> Iterator[tuple[list[str], list[ast.AST]]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from inside(node.body, [*where, node.name])
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield [*where, node.name], [part for each in node.body for part in _walked(each)]
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)] or [""]
                yield [*where, names[0]] if names[0] else where, list(_walked(node))

    return inside(tree.body, [])


def _walked(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walked(child)


def _says(nodes: list[ast.AST]) -> bool:
    held = _held(nodes)
    into: list[tuple[bool, list[ast.expr]]] = []
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORDS.search(node.value):
            return True
        if isinstance(node, ast.Name) and node.id in MAKERS | PRINTERS:
            return True
        if isinstance(node, ast.FormattedValue) and _names(node.value) & held:
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            into.append((isinstance(node.left.value, str), [node.right]))
        if isinstance(node, ast.Call):
            parts = [*node.args, *(word.value for word in node.keywords)]
            into.append((_last(node.func) in INTO_TEXT, parts))
    return any(is_text and any(_names(part) & held for part in parts) for is_text, parts in into)


def _held(nodes: list[ast.AST]) -> set[str]:
    """Return the names that hold an interval here: by their own name, or because they were assigned from one."""
    held = {name for node in nodes for name in [_last(node)] if VALUE.search(name)}
    pairs: list[tuple[ast.AST, ast.AST]] = []
    for node in nodes:
        if isinstance(node, ast.Assign):
            pairs += [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.NamedExpr | ast.For | ast.comprehension):
            pairs.append((node.target, node.value if isinstance(node, ast.NamedExpr) else node.iter))
    for _ in range(3):
        for target, value in pairs:
            if _names(value) & held:
                held |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
    return held


def _names(node: ast.AST) -> set[str]:
    return {name for part in ast.walk(node) if (name := _last(part))}


def _last(node: ast.AST) -> str:
    """Return the last part of a name: of a variable, an attribute, or a key in quotes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value if isinstance(node.slice.value, str) else ""
    return ""


def in_template(text: str, name: str) -> set[str]:
    """Return the expressions and the words of a template that print an interval or a finding."""
    text = re.sub(r"{#.*?#}|{% comment.*?endcomment %}", "", text, flags=re.DOTALL)
    parts = set()
    for match in EXPRESSION.finditer(text):
        for dotted in re.findall(r"[a-z_][\w.]*", re.sub(r"\"[^\"]*\"|'[^']*'", "", match[1] or match[2] or "")):
            if any(SAYS.search(part) for part in dotted.split(".")):
                parts.add(dotted)
    words = re.sub(r"<[^>]*>", " ", EXPRESSION.sub(" ", text))
    parts |= {match[0] for match in IN_TEMPLATE.finditer(words)}
    return {f"{name} {part}" for part in parts}


def everywhere() -> set[str]:
    """Return all such places of the product."""
    found_at: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if ".migrations." not in module:
                found_at |= in_python(path.read_text(encoding="utf-8"), module)
    for path in (ROOT / "templates").rglob("*"):
        if path.is_file():
            found_at |= in_template(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT / "templates")))
    return found_at
