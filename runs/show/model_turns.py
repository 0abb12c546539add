"""How the turns of a run's models ended and how their calls came, by arm: cut off, not read, or written as text.

Counts what a worker has read of the steps so far. Called by the page of a run, its report and the API.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Aggregate, Count, Q, Sum

from episodes.models import Episode, EpisodeFacts, Run
from people.access import Actor
from people.text.in_words import count
from people.text.plain_text import clean
from runs.models import Plan

KINDS = ("unread", "in_text", "stopped")
CHECK = "Check the tool parser of the model's server."


@dataclass(frozen=True)
class ArmTurns:
    """Turns of one arm, and in how many of its `episodes` they are. `unread` look like calls that called nothing,
    `in_text` had calls in their words, and `stopped` ended at a limit or by a filter."""

    arm: str
    episodes: int
    unread: int
    unread_in: int
    in_text: int
    in_text_in: int
    stopped: int
    stopped_in: int

    @property
    def lines(self) -> list[str]:
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        name = f"{clean(self.arm)}: " if self.arm else ""
        if self.unread:
            calls = "looks like a call" if self.unread == 1 else "look like calls"
            yield f"{name}{self._share(self.unread, self.unread_in)} {calls} and called nothing. {CHECK}"
        if self.in_text:
            turns = self._share(self.in_text, self.in_text_in)
            yield f"{name}{turns} had calls in the text, and awmweb read them. {CHECK}"
        if self.stopped:
            was = "was" if self.stopped == 1 else "were"
            yield f"{name}{self._share(self.stopped, self.stopped_in)} {was} cut off at a limit or stopped by a filter."

    def _share(self, turns: int, episodes: int) -> str:
        return f"{count(turns, 'turn')} in {episodes:,} of {count(self.episodes, 'episode')}"


def turns_of(actor: Actor, run: Run) -> list[ArmTurns]:
    """Return the arms that have such turns, by name. Of a retried episode only the newest try counts."""
    mine = Episode.objects.filter(run=run, project=actor.project)
    if Plan.objects.filter(run=run).exists():
        mine = mine.filter(planned__isnull=False)
    # before the sums, which have the names of the columns
    counts: dict[str, Aggregate] = {f"{name}_in": Count("pk", Q(**{f"{name}__gt": 0})) for name in KINDS}
    counts |= {name: Sum(name) for name in KINDS}
    rows = EpisodeFacts.objects.filter(episode__in=mine).values("episode__arm").order_by("episode__arm")
    columns = ("episode__arm", "read", *counts)
    sums = [
        ArmTurns(arm, read, **dict(zip(counts, values, strict=True)))
        for arm, read, *values in rows.annotate(read=Count("pk"), **counts).values_list(*columns)
    ]
    return [arm for arm in sums if arm.lines]
