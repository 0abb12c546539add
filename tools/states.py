"""Writes the tables of state machines into docs/developing.md: `python -m tools.states`.

The rows are data of the models. `tests/test_states.py` fails while the page differs from them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import django

PAGE = Path(__file__).resolve().parent.parent / "docs" / "developing.md"

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "awmweb.settings")
    django.setup()

from episodes.models import EPISODE_MOVES, Episode  # noqa: E402  models need settings
from experts.models.asks import ASK_MOVES, ASSIGNMENT_MOVES, Ask, Assignment  # noqa: E402
from exports.models import EXPORT_MOVES, Export  # noqa: E402
from people.states import Move, table  # noqa: E402
from runs.models import PLAN_MOVES, Plan  # noqa: E402

MACHINES: dict[Any, tuple[Move, ...]] = {
    Episode: EPISODE_MOVES,
    Ask: ASK_MOVES,
    Assignment: ASSIGNMENT_MOVES,
    Plan: PLAN_MOVES,
    Export: EXPORT_MOVES,
}


def put(page: str, mark: str, table: str) -> str:
    """Return a page with a table between its markers."""
    begin, end = f"<!-- {mark} -->\n", "\n<!-- end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    page, places = pattern.subn(lambda _: begin + table + end, page)
    if places != 1:
        raise SystemExit(f"The page has no place for {mark}.")
    return page


def written(page: str) -> str:
    """Return the page with each table between its markers."""
    for model, moves in MACHINES.items():
        page = put(page, f"states of {model.__name__}", table(moves))
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
