"""HTML of steps, rendered once per process for all pages and sockets.

Owns the context of a step's template and the lifetime of its HTML. Leaves texts to `step_cards.py`. Called by
`templatetags/marks.py` for pages and fragments, and by `live_html.py` for the sockets of live pages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from django.template.loader import render_to_string

from episodes.show.pictures import shown_pictures
from episodes.show.step_cards import card_of
from episodes.show.windows import ShownStep
from episodes.stored.strip import MARKS
from people.requests.addresses import without_project

TEMPLATE = "episodes/step/_step.html"


def context_of(
    step: Mapping[str, Any], current: bool = False, ended: bool = False, episode: str = ""
) -> dict[str, Any]:
    """Return the context of the template. `ended` means that an ask without advice no longer waits."""
    card = card_of(step)
    return {
        "card": card,
        # without the project, which finds itself: sockets draw steps, too, and know no address
        "raw_url": f"{without_project('episode', episode)}?raw={card.seq}" if episode else "",
        "words_url": without_project("briefing_words", episode, card.seq) if episode and card.briefing else "",
        "pictures": shown_pictures(step, episode) if episode else [],
        "current": current,
        "waits": card.waits and not ended,
        "mark": MARKS["c"] if card.waits and ended else card.mark,
    }


class Album:
    """A cache of rendered HTML, bounded by size; the least recently used entries are evicted first."""

    def __init__(self, room: int = 8_000_000) -> None:
        self._pictures: OrderedDict[tuple[Any, ...], str] = OrderedDict()
        self._left = room
        self._lock = Lock()

    def of(self, key: tuple[Any, ...], draw: Callable[[], str]) -> str:
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
                return self._pictures[key]
        # outside the lock: two threads can draw the same step, but none waits for a template
        drawn = draw()
        with self._lock:
            if key not in self._pictures:
                self._left -= len(drawn)
            self._pictures[key] = drawn
            while self._left < 0:
                self._left += len(self._pictures.popitem(last=False)[1])
        return drawn


_album = Album()


def picture_of(row: ShownStep, current: bool = False, ended: bool = False) -> str:
    """Return the HTML of a stored step. A step never changes once it is written, except for the advice of an ask."""
    if current:
        return _draw(row, current, ended)
    # only an ask's step changes after it is written, so only its text is part of the key
    key = (row.episode_id, row.seq, ended, row.lens, row.text if row.kind == "ask" else "")
    return _album.of(key, lambda: _draw(row, current, ended))


def _draw(row: ShownStep, current: bool, ended: bool) -> str:
    return render_to_string(TEMPLATE, context_of(row.wire(), current, ended, row.episode_id))
