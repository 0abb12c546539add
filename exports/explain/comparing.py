"""Reads: differences between two datasets, row by row, and their reasons.

Owns the comparison by the keys of rows. The index of each dataset goes into a temporary database on disk, so that
memory stays constant at any size. `explaining.py` answers why an episode is in only one of the datasets.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from exports.explain import reasons
from exports.explain.explaining import Dataset, not_selected

BATCH = 1_000
LISTED = 100
"""Rows of each kind that are listed. All are counted."""
_TABLES = """
    -- the key is the table: a row ID would be a second index
    CREATE TABLE {side}_row (key TEXT PRIMARY KEY, number INTEGER, episode TEXT, sha TEXT, outcome TEXT) WITHOUT ROWID;
    -- of each episode without a row, the rule that left it out
    CREATE TABLE {side}_out (episode TEXT PRIMARY KEY, reason TEXT) WITHOUT ROWID;
"""
_ONE_SIDE = """
    -- rows without a row of the same key on the other side, with what the other side recorded about their episode
    SELECT {one}_row.key, {one}_row.number, {one}_row.episode, {other}_out.reason,
           EXISTS (SELECT 1 FROM {other}_used WHERE {other}_used.episode = {one}_row.episode)
    FROM {one}_row LEFT JOIN {other}_row USING (key) LEFT JOIN {other}_out ON {other}_out.episode = {one}_row.episode
    WHERE {other}_row.key IS NULL ORDER BY {one}_row.number
"""
_CHANGED = """
    -- an outcome can change while the content of its row stays the same
    SELECT old_row.key, new_row.number, new_row.episode, old_row.outcome, new_row.outcome, old_row.sha <> new_row.sha
    FROM old_row JOIN new_row USING (key)
    WHERE old_row.sha <> new_row.sha OR old_row.outcome <> new_row.outcome ORDER BY new_row.number
"""


@dataclass(frozen=True)
class RowChange:
    """A row that differs. `number` is its position in the new dataset; for a removed row, in the old one."""

    key: str
    number: int
    episode: str
    why: str


@dataclass
class Change:
    """Rows that were added, removed or changed: the count, the reasons and the first rows."""

    count: int = 0
    why: Counter[str] = field(default_factory=Counter)
    rows: list[RowChange] = field(default_factory=list)

    def take(self, row: RowChange) -> None:
        self.count += 1
        self.why[row.why] += 1
        if len(self.rows) < LISTED:
            self.rows.append(row)


@dataclass(frozen=True)
class DatasetComparison:
    """The differences from the old dataset to the new. `recipe` holds field, old and new value where they differ."""

    old: str
    new: str
    recipe: list[tuple[str, str, str]]
    same: int
    added: Change
    removed: Change
    changed: Change


def compare(old: Dataset, new: Dataset) -> DatasetComparison:
    """Compare two datasets by the keys of their rows."""
    # "" is a temporary file that SQLite deletes with the connection
    with contextlib.closing(sqlite3.connect("")) as db:
        for side, dataset in (("old", old), ("new", new)):
            _fill(db, side, dataset)
        # the old dataset explains an added row: its files record why the row was not in it
        added = _one_side(db, "new", "old", old)
        removed = _one_side(db, "old", "new", new)
        changed = Change()
        for key, number, episode, before, after, is_other in db.execute(_CHANGED):
            changed.take(RowChange(key, number, episode, _why_changed(before, after, is_other=bool(is_other))))
        (total,) = db.execute("SELECT count(*) FROM new_row").fetchone()
    # each row of the new dataset is added, changed or the same
    same = total - added.count - changed.count
    return DatasetComparison(old.name, new.name, _recipes(old, new), same, added, removed, changed)


def _fill(db: sqlite3.Connection, side: str, dataset: Dataset) -> None:
    db.executescript(_TABLES.format(side=side))
    rows = (
        (_key(row), number, row["episode"], row["sha256"], row.get("outcome", ""))
        for number, row in enumerate(dataset.rows(), 1)
    )
    db.executemany(f"INSERT OR IGNORE INTO {side}_row VALUES (?, ?, ?, ?, ?)", rows)
    db.executemany(f"INSERT OR IGNORE INTO {side}_out VALUES (?, ?)", dataset.left_out())
    # episodes with a row: what explains that one of their rows is missing
    db.execute(f"CREATE TABLE {side}_used AS SELECT DISTINCT episode FROM {side}_row")
    db.execute(f"CREATE UNIQUE INDEX {side}_used_episode ON {side}_used (episode)")


def _key(row: dict[str, Any]) -> str:
    """Return the key of a row; the key of a pair names both sides."""
    return f"{row['key']} against {row['rejected']}" if "rejected" in row else str(row["key"])


def _one_side(db: sqlite3.Connection, side: str, other: str, lacking: Dataset) -> Change:
    """Return the rows that `lacking` does not hold, with the reasons."""
    change = Change()
    rows = db.execute(_ONE_SIDE.format(one=side, other=other))
    # in batches, because each asks the database once for its episodes
    for some in _batches(rows):
        unnamed = {episode for _, _, episode, reason, is_used in some if reason is None and not is_used}
        fates = not_selected(lacking, unnamed) if unnamed else {}
        for key, number, episode, reason, is_used in some:
            if is_used:
                why = "Other rows of this episode are in both."
            else:
                why = reasons.sentence(reason) if reason is not None else fates[episode].why
            change.take(RowChange(key, number, episode, why))
    return change


def _batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _why_changed(before: str, after: str, *, is_other: bool) -> str:
    if before != after:
        return f"The outcome changed from {before or 'none'} to {after or 'none'}."
    return "The content changed." if is_other else ""


def _recipes(old: Dataset, new: Dataset) -> list[tuple[str, str, str]]:
    """Return the fields in which the recipes differ, and whether packs differ."""
    before, after = (one.shown_recipe.model_dump(mode="json") for one in (old, new))
    # with other verifiers, the same rules can leave out other rows
    before["packs"], after["packs"] = (one.manifest["packs"] for one in (old, new))
    return [(name, _words(before[name]), _words(after[name])) for name in before if before[name] != after[name]]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}={_words(one)}" for name, one in sorted(value.items())) or "none"
    if isinstance(value, list):
        return ", ".join(_words(one) for one in value) or "none"
    return str(value) if value not in ("", None) else "none"
