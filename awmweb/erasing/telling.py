"""What fell from where, as lines of a table."""

from __future__ import annotations

from collections.abc import Iterator

from people.models import Tombstone


def lines_of(tombstone: Tombstone) -> Iterator[str]:
    """Yield the lines of a tombstone: rows by table, datasets, and what is out of reach."""
    rows = [(where, f"{count:,}") for where, count in tombstone.fell.items()]
    for dataset in tombstone.datasets:
        then = f"export {dataset['next']}" if "next" in dataset else dataset["not_built_again"]
        if dataset.get("stopped"):
            rows.append(
                (f"export {dataset['export']} ({dataset['format']})", f"stopped while it was built; again: {then}")
            )
        else:
            where = f"dataset {dataset['dataset'][:12]} ({dataset['format']})"
            rows.append((where, f"{dataset['fallen']:,} of {dataset['of']:,} rows; again: {then}"))
    width = max((len(where) for where, _ in rows), default=0)
    yield f"{'fell from':{width}}  what"
    for where, what in rows:
        yield f"{where:{width}}  {what}"
    for words in tombstone.left:
        yield f"Left: {words}."
