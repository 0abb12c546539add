"""JSON of strangers: what is within bounds is read as ever, and what is not is refused before anything is built."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awmenv.server.strict import Bounds, Unreadable, read, read_text

pytestmark = pytest.mark.attack("frames")

ROOMY = Bounds(size=1 << 20)
TIGHT = Bounds(size=1 << 20, values=20, depth=4)
JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


def size_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + sum(map(size_of, inner))


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return isinstance(value, dict | list) + max(map(depth_of, inner), default=0)


@given(JSON, st.booleans())
def test_strict_reads_what_the_standard_library_reads(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "replace")
    assert read(text, ROOMY) == json.loads(text)


@given(JSON)
def test_strict_refuses_by_values_and_depth_and_nothing_else(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    size, depth = size_of(value), depth_of(value)
    if size <= TIGHT.values / 2 and depth <= TIGHT.depth:
        assert read(text, TIGHT) == json.loads(text)
    if depth > TIGHT.depth or size > 2 * TIGHT.values:
        with pytest.raises(Unreadable):
            read(text, TIGHT)


@pytest.mark.parametrize(
    "text",
    ["[,{" * 50, "\\", '"', '\\"', '\\\\"', '\\\\\\"[,[', "[]{}" * 30, 'a "b" [c], {d: "e\\"f"}', "\x01\n\t" * 20],
)
def test_strict_counts_nothing_inside_texts(text: str) -> None:
    value = {"code": text, "more": [text, text]}
    assert read(json.dumps(value).encode(), TIGHT) == value


HUGE = {
    "lists": b"[" + b"[]," * 5_000_000 + b"[]]",
    "numbers": b"[" + b"1," * 7_000_000 + b"1]",
    "deep": b"[" * 15_000_000,
    "deep_and_closed": b"[" * 7_000_000 + b"]" * 7_000_000,
    "keys": b'{"' + b'":0,"' * 3_000_000 + b'":0}',
    "texts": b'["' + b'","' * 5_000_000 + b'"]',
    "not_json": b'"' + b'[]"' * 5_000_000,
}


@pytest.mark.parametrize("kind", HUGE)
def test_strict_json_refuses_15_mb_before_parsing(kind: str) -> None:
    """Even if its size is allowed: then the values are counted, and nothing is built."""
    for bounds, limit_s in ((ROOMY, 0.005), (Bounds(size=64 << 20), 0.4)):
        started = time.thread_time()
        with pytest.raises(Unreadable):
            read(HUGE[kind], bounds)
        assert time.thread_time() - started < limit_s


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", '"\\ud800"', "", "[1,]", "\xff", "1 2", "'a'"])
def test_strict_refuses_what_is_not_strict_json(text: str) -> None:
    with pytest.raises(Unreadable):
        read(text.encode("latin-1"), ROOMY)


@pytest.mark.parametrize("text", [b"[]", b"5", b"", b'"a" "b"', b'{"a":"b"}', b'"\\ud800"', b' "a"'])
def test_read_text_takes_one_text_only(text: bytes) -> None:
    with pytest.raises(Unreadable):
        read_text(text)
    assert read_text(b'"a\\n\\u00e9"') == "a\né"
