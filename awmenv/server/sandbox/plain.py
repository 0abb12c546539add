"""Copies an untrusted value to plain JSON, by exact type: no method of a foreign class is ever called.

Used inside the sandboxed children on results of dataset code. Bounded in depth, nodes and number size, so that the
server, which does not trust these bounds and checks them again, accepts the values of a correct child.
"""

import math
from typing import Any

MAX_DEPTH = 32
MAX_NODES = 20_000
MAX_SIZE = 256 * 1024  # bytes of the whole as JSON
MAX_INT_BITS = 1000
MAX_TEXT = 1_000_000


class TooBig(ValueError):
    """The value is deeper or larger than any honest result."""


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return the JSON twin of `value`; NaN and infinities become text, unknown objects the name of their type."""
    budget = [MAX_NODES]
    return _copy(value, depth, budget)


def _copy(value: Any, depth: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if depth < 0 or budget[0] < 0:
        raise TooBig("the result is too deep or too large")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        if int.bit_length(value) > MAX_INT_BITS:
            raise TooBig("the result holds a huge number")
        return value
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind is str:
        return _utf8_text(value)
    if kind is bytes or kind is bytearray:
        return _utf8_text(value[:MAX_TEXT].decode("utf-8", "replace"))
    if kind is dict:
        return {_key(key): _copy(item, depth - 1, budget) for key, item in dict.items(value)}
    if kind in (list, tuple, set, frozenset):
        return [_copy(item, depth - 1, budget) for item in value]
    # By the descriptor of `type`, because a metaclass can return any `__name__`.
    return f"<{type.__dict__['__name__'].__get__(kind)}>"


def _key(key: Any) -> str:
    kind = type(key)
    if kind is str:
        return _utf8_text(key)
    if kind is int and int.bit_length(key) > MAX_INT_BITS:
        raise TooBig("the result holds a huge number")
    if kind in (int, float, bool, type(None)):
        return str(key)
    return f"<{type.__dict__['__name__'].__get__(kind)}>"


def _utf8_text(value: str) -> str:
    """Return the text without lone surrogates, which no UTF-8 stream can carry."""
    if len(value) > MAX_TEXT:
        raise TooBig("the result holds a huge text")
    return value.encode("utf-8", "replace").decode("utf-8")
