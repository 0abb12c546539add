"""What fell from where, as lines of a table."""

from __future__ import annotations

from collections.abc import Iterator

from people.models import Tombstone


def lines_of(tombstone: Tombstone) -> Iterator[str]:
    """Yield the lines of a tombstone: rows by table, datasets, and what is out of reach."""
    rows = [(where, f"{count:,}") for where, count in tombstone.fell.items()]
    for one in tombstone.datasets:
        then = f"export {one['next']}" if "next" in one else one["not_built_again"]
        if one.get("stopped"):
            rows.append((f"export {one['export']} ({one['format']})", f"stopped while it was built; again: {then}"))
        else:
            where = f"dataset {one['dataset'][:12]} ({one['format']})"
            rows.append((where, f"{one['fallen']:,} of {one['of']:,} rows; again: {then}"))
    width = max((len(where) for where, _ in rows), default=0)
    yield f"{'fell from':{width}}  what"
    for where, what in rows:
        yield f"{where:{width}}  {what}"
    for words in tombstone.left:
        yield f"Left: {words}."
