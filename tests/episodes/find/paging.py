"""A list of episodes read page by page, to its end and back."""

from __future__ import annotations

from episodes.find import sorting
from episodes.find.narrowing import matching


def read_through(actor, order, limit=2):
    """Return the keys of all the actor's episodes in this order; the way back must show the same pages."""
    rows, pages, cursor = matching(actor, {}), [], ""
    keys = dict(rows.values_list("pk", "key"))
    while True:
        page = sorting.page(actor, rows, order, cursor, limit)
        pages.append(page)
        cursor = page.after
        if not cursor:
            break
    before, back = pages[-1].before, [pages[-1].ids]
    while before:
        page = sorting.page(actor, rows, order, before, limit)
        before = page.before
        back.insert(0, page.ids)
    assert [one for ids in back for one in ids] == [one for page in pages for one in page.ids]
    return [keys[pk] for page in pages for pk in page.ids]
