"""What open live pages hear: the frames of their episode with pictures in place of steps, drawn once per process.

Owns the frame `pictures`: the markup of the steps that came, and the last number. A page that gets it need
not ask for the steps of its frame, so a watcher costs the process one write and no look-up. Frames that come while
others are drawn are drawn together; at most half of the time goes into drawing, and of more than a page draws in one
frame only the newest are drawn: a page fetches what is missing by number, as after any gap. Called by `consumers.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

from django.db import close_old_connections
from django.utils import timezone

from episodes import events
from episodes.live.hub import GAP_FRAME, Listener, hub
from episodes.live.wire import Payload
from episodes.models import Step
from episodes.show import windows
from episodes.show.html_cache import picture_of
from episodes.show.windows import MOST
from episodes.visible.lens import Lens

log = logging.getLogger(__name__)
Topics = tuple[str, ...]


def pictures_frame(episode: str, last: int, pictures: Iterable[str] = ()) -> str:
    """Return a frame with the pictures of some steps up to `last`, maybe of none, each in JSON already."""
    # JSON strings without their quotes, joined to one
    html = "".join(one[1:-1] for one in pictures)
    return (
        f'{{"type":"pictures","episode":{json.dumps(episode)},"last":{last},"html":"{html}",'
        f'"now":"{events.stamp(timezone.now())}"}}'
    )


def drawn(lens: Lens, texts: Sequence[str]) -> list[str]:
    """Return the same frames for a page: those with steps become one with pictures, or some where these are large; the
    others stay as they are.
    """
    frames = [(json.loads(text), text) for text in texts]
    steps = [frame for frame, _ in frames if frame["type"] == "steps"]
    others = [text for frame, text in frames if frame["type"] != "steps"]
    seqs = sorted({step["seq"] for frame in steps for step in frame["steps"]})
    if not seqs:
        return others
    episode = steps[0]["episode"]
    # a frame is the same for everyone; a page shows what is stored, through its lens
    # only as many as one frame of a page draws; it fetches earlier ones by number
    stored = Step.objects.filter(episode=episode, seq__in=seqs[-MOST:])
    rows = windows.shown(lens, stored)
    return [*_frames_of(episode, [row.seq for row in rows], [json.dumps(picture_of(row)) for row in rows]), *others]


def _frames_of(episode: str, seqs: list[int], pictures: Sequence[str]) -> Iterator[str]:
    """Yield frames, each of the steps up to its own last picture."""
    shown = 0
    for part in events.parted(pictures):
        shown += len(part)
        yield pictures_frame(episode, seqs[shown - 1], part)


def _timed(lens: Lens, texts: Sequence[str]) -> tuple[list[str], float]:
    # CPU time of this thread: waiting for the database or for Python's lock is no drawing
    began = time.thread_time()
    close_old_connections()
    try:
        return drawn(lens, texts), time.thread_time() - began
    finally:
        close_old_connections()


class Showing:
    """One episode on the pages of this process, through one lens; it listens while a page shows it."""

    def __init__(self, lens: Lens, topics: Topics) -> None:
        self._lens = lens
        self.pages: set[Listener] = set()
        self._heard = Listener()
        self._topics = topics
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def begin(self, page: Listener) -> None:
        # known before it listens, so that it misses no frame in between
        self.pages.add(page)
        await hub().add(self._heard, *self._topics)

    def end(self) -> None:
        hub().drop(self._heard, *self._topics)
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            texts = [*(await self._heard.get()).texts]
            while (more := self._heard.take()) is not None:
                texts += more.texts
            # pauses as long as the drawing took, so that it uses at most half of a core
            await asyncio.sleep(await self._show(texts))

    async def _show(self, texts: Sequence[str]) -> float:
        """Return seconds of work that the drawing took."""
        try:
            frames, spent = await asyncio.to_thread(_timed, self._lens, texts)
        except Exception:
            log.exception("steps could not be drawn; their pages ask for them")
            frames, spent = [GAP_FRAME], 0.0
        payload = Payload(*frames)
        for page in tuple(self.pages):
            page.put(payload)
        return spent


class Showings:
    """Who watches what through one lens; as the hub to its sockets."""

    def __init__(self, lens: Lens) -> None:
        self._lens = lens
        self._showings: dict[Topics, Showing] = {}

    async def add(self, page: Listener, *topics: str) -> None:
        """Show this page what comes from now on."""
        if topics not in self._showings:
            self._showings[topics] = Showing(self._lens, topics)
        await self._showings[topics].begin(page)

    def drop(self, page: Listener, *topics: str) -> None:
        showing = self._showings.get(topics)
        if showing is None:
            return
        showing.pages.discard(page)
        if not showing.pages:
            self._showings.pop(topics).end()


_showings: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Lens, Showings]] = WeakKeyDictionary()


def showings(lens: Lens) -> Showings:
    """Return those of the running event loop, of which a web process has one, for pages that look through a lens."""
    by_lens = _showings.setdefault(asyncio.get_running_loop(), {})
    return by_lens.setdefault(lens, Showings(lens))
