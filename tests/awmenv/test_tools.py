"""From OpenAPI to tools and back to requests; differences of databases; copies to plain JSON."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awmenv.server.sandbox.framing import BadFrame, encode, only_body
from awmenv.server.sandbox.plain import TooBig, plain
from awmenv.server.verify.diffing import MAX_ROWS, MAX_SHOWN, diff
from awmenv.server.world.tools import Operation, operations, request, shown

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
PYTHON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)
DOCUMENT: dict[str, Any] = {
    "paths": {
        "/items/{item_id}": {
            "put": {
                "operationId": "change_item",
                "summary": "Change",
                "description": "It changes.",
                "parameters": [
                    {"name": "item_id", "in": "path", "required": True, "schema": {"type": "integer"}},
                    {"name": "tag", "in": "query", "schema": {"type": "array"}, "description": "Tags"},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}},
                },
            },
            "get": {"summary": "no operation id"},
        },
        "/raw": {
            "post": {
                "operationId": "raw",
                "requestBody": {"content": {"application/json": {"schema": {"type": "array"}}}},
            }
        },
    },
    "components": {
        "schemas": {
            "Item": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "parent": {"$ref": "#/components/schemas/Item"}},
            }
        }
    },
}


def tool(name: str) -> Operation:
    return next(operation for operation in operations(DOCUMENT) if operation.name == name)


def test_path_query_and_body_merge_with_references_resolved() -> None:
    schema = tool("change_item").input_schema
    assert list(schema["properties"]) == ["item_id", "tag", "name", "parent"]
    assert schema["required"] == ["item_id", "name"]
    assert schema["properties"]["tag"]["description"] == "Tags"
    assert "$ref" not in json.dumps(schema)
    assert tool("change_item").description == "Change\n\nIt changes."


def test_a_call_goes_where_each_argument_belongs() -> None:
    made = request(tool("change_item"), {"item_id": "a/b", "tag": ["x", "y z"], "name": "n", "unknown": 1})
    assert (made.method, made.path, made.query) == ("PUT", "/items/a%2Fb", "tag=x&tag=y+z")
    assert json.loads(made.body) == {"name": "n"}
    assert json.loads(request(tool("raw"), {"body": [1]}).body) == [1]


@given(st.dictionaries(st.sampled_from(["item_id", "tag", "name", "body"]), JSON))
def test_any_arguments_make_a_request(arguments: dict[str, Any]) -> None:
    arguments = json.loads(json.dumps(arguments).encode("utf-8", "replace"))
    for operation in operations(DOCUMENT):
        made = request(operation, json.loads(json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace")))
        assert "?" not in made.path and " " not in made.path


@pytest.mark.parametrize(
    ("body", "text"),
    [(b'{"a":"\xc3\xa9"}', '{\n  "a": "é"\n}'), (b"plain", "plain"), (b'"text"', '"text"'), (b"5", "5"), (b"", "")],
)
def test_an_answer_is_shown_as_json_with_indent_or_as_text(body: bytes, text: str) -> None:
    assert shown(body) == text


def database(path: Path, rows: list[tuple[Any, ...]], extra: str = "") -> str:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x, y)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    if extra:
        connection.executescript(extra)
    connection.commit()
    connection.close()
    return str(path)


def test_row_changes_are_reported_by_key(tmp_path: Path) -> None:
    before = database(tmp_path / "a.db", [(1, "a", None), (2, "b", 1), (3, "c", 1)])
    after = database(tmp_path / "b.db", [(1, "a", 5), (3, "c", 1), (4, "d", b"xyz")])
    assert diff(before, after) == {
        "t": {
            "added": [{"id": 4, "x": "d", "y": "<3 bytes>"}],
            "removed": [{"id": 2, "x": "b", "y": 1}],
            "changed": [{"key": {"id": 1}, "before": {"y": None}, "after": {"y": 5}}],
            "more": 0,
        }
    }


def test_diff_omits_unchanged_tables_and_adds_new_ones(tmp_path: Path) -> None:
    before = database(tmp_path / "a.db", [(1, "a", None)])
    after = database(tmp_path / "b.db", [(1, "a", None)], 'CREATE TABLE "o""dd" (n); INSERT INTO "o""dd" VALUES (7);')
    assert diff(before, after) == {'o"dd': {"added": [{"n": 7}], "removed": [], "changed": [], "more": 0}}


def test_a_difference_is_bounded_and_says_how_much_it_leaves_out(tmp_path: Path) -> None:
    before = database(tmp_path / "a.db", [])
    after = database(tmp_path / "b.db", [(n, "x" * 100, n) for n in range(MAX_ROWS + 50)])
    change = diff(before, after)["t"]
    assert (len(change["added"]), change["more"]) == (MAX_ROWS, 50)


def test_a_difference_of_long_rows_is_bounded_as_a_whole(tmp_path: Path) -> None:
    tables = "".join(f"CREATE TABLE t{n} (x); INSERT INTO t{n} VALUES (printf('%.9000c', 'x'));" for n in range(30))
    before = database(tmp_path / "a.db", [])
    after = database(tmp_path / "b.db", [(n, "é" * 5000, n) for n in range(50)], tables)
    changes = diff(before, after)
    shown = [row for change in changes.values() for row in change["added"]]
    assert len(json.dumps(changes)) < MAX_SHOWN + 100 * len(changes)
    assert len(shown) > 5 and sum(change["more"] for change in changes.values()) == 80 - len(shown)
    assert all(len(row["x"]) < 2100 for row in shown)


@given(PYTHON)
def test_whatever_is_made_plain_can_be_written_as_strict_json(value: Any) -> None:
    try:
        text = json.dumps(plain(value), allow_nan=False)
    except TooBig:
        return
    text.encode("utf-8")
    assert plain(json.loads(text)) == json.loads(text)


@given(st.binary(max_size=40))
def test_bytes_that_are_not_exactly_one_frame_are_refused(data: bytes) -> None:
    good = encode({"a": 1})
    assert json.loads(only_body(good)) == {"a": 1}
    for stream in (data, good + data[:1] if data else good[:-1], good[:-1]):
        if len(stream) < 4 or int.from_bytes(stream[:4], "big") != len(stream) - 4:
            with pytest.raises(BadFrame):
                only_body(stream)
