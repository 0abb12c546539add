"""Python files as their nodes, parsed once for all tests that read the product's own code."""

import ast
from functools import cache


@cache
def nodes(text: str) -> list[ast.AST]:
    """Return all nodes of a file's text, the module first."""
    return list(ast.walk(ast.parse(text)))


def is_named(node: ast.AST, words: str) -> bool:
    """Tell whether this is a dotted name such as `Step.objects`; `ast.unparse` would take a hundred times as long."""
    *before, last = words.split(".")
    if not before:
        return isinstance(node, ast.Name) and node.id == last
    return isinstance(node, ast.Attribute) and node.attr == last and is_named(node.value, ".".join(before))
