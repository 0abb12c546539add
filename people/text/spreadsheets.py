"""CSV files: one guard for every cell, so that no spreadsheet runs a name or a reason as a formula. Pure."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from people.text.plain_text import clean

# U+2212 is the minus sign of typography, which NFKC leaves as it is.
_FORMULA = ("=", "+", "-", "@", "\u2212")
_BREAKS = ("\t", "\r", "\n")


def in_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV; `inert` guards each of its cells, those of the head included."""
    text = io.StringIO()
    writer = csv.writer(text)  # its line ends, CR LF, are what makes it quote a CR in a cell
    writer.writerows([inert(value) for value in row] for row in [columns, *rows])
    return text.getvalue()


def inert(value: Any) -> Any:
    """Return a cell that spreadsheets read as text: an apostrophe precedes what they would run.

    Spreadsheets read full-width signs as their plain ones, and skip blanks before them. What draws nothing is a code.
    """
    if not isinstance(value, str):
        return value
    shown = clean(value)
    seen = "".join(sign for sign in unicodedata.normalize("NFKC", shown) if not _is_skipped(sign))
    return f"'{shown}" if seen.startswith(_FORMULA) or value.startswith(_BREAKS) else shown


def _is_skipped(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "CZM"
