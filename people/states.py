"""The tables of state machines, as data: each app's models hold their own.

Owns what a row says and how a table is printed in docs/developing.md. Leaves changes of state to the functions that the
rows name. `tests/test_states.py` compares the tables with the code, and with what the functions do to the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """One row of a table: `by` takes a row from any state of `before` to `after`.

    States are named by their wire values, several with a space between; an empty `before` makes the row. `by` is the
    function's dotted name. `who` is the right in `people.access` that it demands, or the part of awmweb that calls it.
    """

    before: str
    after: str
    by: str
    who: str

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each change of state that this row allows."""
        for before in self.before.split() or [""]:
            yield before, self.after


def table(moves: Sequence[Move]) -> str:
    """Return a table of moves as Markdown."""
    rows = [
        f"| {', '.join(move.before.split()) or '(new)'} | {move.after} | `{move.by}` | {_who(move.who)} |"
        for move in moves
    ]
    return "\n".join(["| from | to | by | who can |", "|---|---|---|---|", *rows])


def _who(who: str) -> str:
    return f"`{who}`" if who.startswith("may_") else who
