"""Reads: what the same words to the agent are worth at several times of one episode, by its forks.

Each time is a fork of its own: branches that read the words before that turn, and branches that go on without them.
Leaves the arithmetic to `runs.statistics.forked`. Called by the command `timing`, which makes the forks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from awmclient.nouns.kinds import is_nudge
from episodes.models import Episode, Fork
from episodes.visible import trajectory
from episodes.visible.lens import MODEL
from people.access import Actor
from runs.show import forks
from runs.statistics.forked import ForkFinding

SHARES = (0, 10, 25, 50, 75)
"""Shares of an episode's turns, in percent, at which the words are given."""


@dataclass(frozen=True)
class AdviceTime:
    """A turn of an episode, and the first step of it."""

    turn: int
    turns: int
    seq: int

    @property
    def words(self) -> str:
        return f"turn {self.turn} of {self.turns} ({100 * (self.turn - 1) // self.turns}%)"


@dataclass(frozen=True)
class TimedAdvice:
    """What the words are worth at one time; nothing is known of the ends that an actor does not see."""

    at: AdviceTime
    finding: ForkFinding | None

    @property
    def words(self) -> str:
        finding = self.finding
        if finding is None:
            return f"{self.at.words}: outcomes are withheld until your verdict."
        if finding.difference is None:
            return f"{self.at.words}: {finding.sentence}"
        counts = f"{finding.treated.counts} complete with the words, {finding.control.counts} without"
        _, _, numbers = finding.sentence.partition(". ")
        return f"{self.at.words}: {counts}. {numbers}"


def times_of(episode: Episode) -> list[AdviceTime]:
    """Return the turns in which the agent of an episode chose something."""
    return times_in(trajectory.steps_of(episode, lens=MODEL))


def times_in(steps: Sequence[Mapping[str, Any]]) -> list[AdviceTime]:
    """Return the turns of these steps. Pure."""
    firsts: dict[int, int] = {}
    for step in steps:
        if step.get("turn") is not None and not is_nudge(step):
            firsts.setdefault(step["turn"], step["seq"])
    return [AdviceTime(place, len(firsts), seq) for place, (_, seq) in enumerate(sorted(firsts.items()), 1)]


def times_at(times: Sequence[AdviceTime], shares: Sequence[int]) -> list[AdviceTime]:
    """Return the turn that begins after each share of the turns, in percent; two shares of one turn are one. Pure."""
    return [times[place] for place in sorted({share * len(times) // 100 for share in shares})] if times else []


def timed(actor: Actor, parent: Episode) -> dict[str, list[TimedAdvice]]:
    """Return what each text is worth at the times at which an episode was forked with it. All forks of its tree share
    the error, since the best of them would be picked."""
    made = list(Fork.objects.filter(parent=parent).select_related("parent__project", "parent__fork").order_by("seq"))
    times = times_of(parent)
    by_words: dict[str, list[TimedAdvice]] = {}
    for fork in made:
        if "words" not in fork.change:
            continue
        at = next(one for one in reversed(times) if one.seq <= fork.seq)
        seen = forks.finding_of(actor, fork, list(Episode.every.filter(fork=fork)))
        by_words.setdefault(fork.change["words"], []).append(TimedAdvice(at, seen))
    return by_words
