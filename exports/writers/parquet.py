"""Parquet with the column types that `datasets` reads back: JSON columns as `arrow.json`, the features in the schema.

Owns the translation of `Features` to Arrow. Plain readers (pyarrow, pandas) get JSON columns as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from exports.writers import jsonl

ROWS_AT_ONCE = 200


def schema_of(features: dict[str, Any]) -> pa.Schema:
    """Return the Arrow schema of these features, which it carries as `datasets` wants them."""
    fields = [pa.field(name, _type(feature)) for name, feature in features.items()]
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _type(feature: dict[str, Any]) -> pa.DataType:
    kind = feature.get("_type")
    if kind == "List":
        return pa.list_(_type(feature["feature"]))
    if kind == "Json":
        return pa.json_(pa.utf8())
    if kind == "Value":
        return pa.type_for_alias(feature["dtype"])
    return pa.struct([pa.field(name, _type(inner)) for name, inner in feature.items()])


def _storage(kind: pa.DataType) -> pa.DataType:
    """Return the same type with JSON as text, in which rows can be given."""
    if isinstance(kind, pa.JsonType):
        return pa.utf8()
    if pa.types.is_list(kind):
        return pa.list_(_storage(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _storage(field.type)) for field in kind])
    return kind


class Writer:
    """Writes rows of one part; `close` ends the file."""

    def __init__(self, path: Path, features: dict[str, Any]) -> None:
        self._schema = schema_of(features)
        self._given = pa.schema([pa.field(field.name, _storage(field.type)) for field in self._schema])
        self._texts = {name: _to_text(feature) for name, feature in features.items() if _holds_json(feature)}
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def write(self, row: dict[str, Any]) -> None:
        self._rows.append(
            {name: self._texts[name](value) if name in self._texts else value for name, value in row.items()}
        )
        if len(self._rows) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_pylist(self._rows, schema=self._given)
        self._writer.write_table(table.cast(self._schema))
        self._rows.clear()

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()


def _holds_json(feature: dict[str, Any]) -> bool:
    if feature.get("_type") == "Json":
        return True
    inner = feature.get("feature") if feature.get("_type") == "List" else None
    if inner is not None:
        return _holds_json(inner)
    return "_type" not in feature and any(_holds_json(one) for one in feature.values())


def _to_text(feature: dict[str, Any]) -> Any:
    """Return a function that writes the JSON inside a value of this feature as text."""
    kind = feature.get("_type")
    if kind == "Json":
        return lambda value: jsonl.text(value).decode()
    if kind == "List":
        each = _to_text(feature["feature"])
        return lambda value: None if value is None else [each(item) for item in value]
    parts = {name: _to_text(inner) for name, inner in feature.items() if _holds_json(inner)}
    return lambda value: {name: parts[name](inner) if name in parts else inner for name, inner in value.items()}


def join(parts: Iterable[Path], target: Path, features: dict[str, Any]) -> None:
    """Write the row groups of several files of these features into one."""
    with pq.ParquetWriter(target, schema_of(features), compression="zstd") as writer:
        for part in parts:
            with pq.ParquetFile(part) as file:
                for number in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(number))
