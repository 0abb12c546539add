"""Parquet with the column types that `datasets` reads back: JSON columns as `arrow.json`, the features in the schema.

Owns the translation of `Features` to Arrow. Other readers (pyarrow, pandas) get JSON columns as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from exports.writers import jsonl

# rows that wait in memory, and bytes of their pictures
ROWS_PER_GROUP, BYTES_PER_GROUP = 200, 32 * 1024 * 1024


def schema_of(features: dict[str, Any]) -> pa.Schema:
    """Return the Arrow schema of these features, with the metadata that `datasets` reads."""
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
    if kind == "Image":
        return pa.struct({"bytes": pa.binary(), "path": pa.string()})
    return pa.struct([pa.field(name, _type(inner)) for name, inner in feature.items()])


class Writer:
    """A writer of the rows of one part; `close` ends the file. `fetch` returns the bytes of a picture by its path."""

    def __init__(
        self, path: Path, features: dict[str, Any], fetch: Callable[[str], bytes | None] = lambda _path: None
    ) -> None:
        self._features = features
        self._schema = schema_of(features)
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._fetch, self._size = fetch, 0

    def write(self, row: dict[str, Any]) -> None:
        if "images" in row:
            row = {**row, "images": [{"bytes": self._fetch(path), "path": path} for path in row["images"]]}
            self._size += sum(len(one["bytes"] or b"") for one in row["images"])
        self._rows.append(row)
        if len(self._rows) >= ROWS_PER_GROUP or self._size >= BYTES_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        columns = [_column(feature, [row.get(name) for row in self._rows]) for name, feature in self._features.items()]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self._rows.clear()
        self._size = 0

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()


def _column(feature: dict[str, Any], values: Sequence[Any]) -> pa.Array:
    """Return values of one feature as an Arrow array. Nested values become separate columns, which takes half the time
    of passing whole rows."""
    kind = feature.get("_type")
    if kind == "Json":
        return pa.ExtensionArray.from_storage(_type(feature), pa.array(jsonl.texts(values), pa.utf8()))
    if kind in ("Value", "Image"):
        return pa.array(values, _type(feature))
    if kind == "List":
        ends = accumulate((len(value or ()) for value in values), initial=0)
        # a null among the offsets makes the list null; () is for the last end
        offsets = [None if value is None else start for value, start in zip([*values, ()], ends, strict=True)]
        items = _column(feature["feature"], list(chain.from_iterable(value or () for value in values)))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)
    parts = [_column(inner, [value.get(name) for value in values]) for name, inner in feature.items()]
    return pa.StructArray.from_arrays(parts, fields=list(_type(feature)))


def join(parts: Iterable[Path], target: Path, features: dict[str, Any]) -> None:
    """Write the row groups of several files with these features into one file."""
    with pq.ParquetWriter(target, schema_of(features), compression="zstd") as writer:
        for part in parts:
            with pq.ParquetFile(part) as file:
                # group by group, so that one is in memory
                for number in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(number))
