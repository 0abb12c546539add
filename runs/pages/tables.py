"""The fragment of the replay with the environment's tables at a step.

Owns which table is shown and the text about it. Leaves changes to `episodes.show.tables`, and the initial rows to
`start_tables.py`.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from episodes.models import Episode
from episodes.show import tables, windows
from episodes.show.tables import TouchedTable
from episodes.visible.lens import lens_of
from people.access import MemberRequest, member_required, visible_or_404
from people.requests.forms import number_of, text_of
from people.requests.parts import part_of
from people.text.plain_text import clean
from runs.play.start_tables import MAX_ROWS, StartTablesPage, start_of


@require_GET
@part_of("replay", "Tables at this step")
@member_required(rows=Episode.every.all)
def tables_at(request: MemberRequest, pk: str) -> HttpResponse:
    """Return the tables after `?step=N`: the recorded changes, and for `table=` also the initial rows, from row `from=`
    on."""
    episode = visible_or_404(Episode.every.all(), request.actor, pk)
    step = number_of(request.GET, "step") or 1
    writes, count = windows.first_writes(lens_of(request.actor, episode), episode)
    changed = tables.at_step(writes, step)
    start = start_of(episode)
    # the page has and sends names as they are shown, without characters that no page can carry
    name = next((one for one in start.tables if clean(one) == text_of(request.GET, "table")), "")
    context = {"step": step, "left_out": count - len(writes), "more": start.more, "problem": clean(start.problem)}
    context["choices"] = _choices(start, changed)
    if name:
        offset = number_of(request.GET, "from") or 0
        context |= _chosen(start_of(episode, name, offset), name, writes, step)
    return render(request, "runs/_tables_at.html", {"tables": changed, **context})


def _choices(start: StartTablesPage, changed: list[TouchedTable]) -> list[dict[str, str]]:
    """Return the tables that can be chosen, with their counts."""
    touched = {table.name: sum(bool(row.steps) for row, _ in table.rows) for table in changed}
    choices = []
    for name, rows in start.tables.items():
        words = f"{rows:,} {'row' if rows == 1 else 'rows'}"
        changes = touched.get(clean(name), 0)
        choices.append({"name": clean(name), "words": f"{words}, {changes} changed" if changes else words})
    return choices


def _chosen(page: StartTablesPage, name: str, writes: list[dict[str, Any]], step: int) -> dict[str, Any]:
    """Return one table with a page of its initial rows, and the offsets of the next and the previous page."""
    count, shown = page.tables.get(name, 0), len(page.rows)
    table = tables.with_start(writes, step, name, page.rows, page.key, is_first=page.offset == 0)
    return {
        "name": clean(name),
        "tables": [table] if table.rows else [],
        "problem": clean(page.problem),
        "count": count,
        "shown": shown,
        "first": page.offset + 1,
        "last": page.offset + shown,
        "before": max(0, page.offset - MAX_ROWS) if page.offset else None,
        "after": page.offset + shown if shown and page.offset + shown < count else None,
    }
