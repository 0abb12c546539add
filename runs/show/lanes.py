"""Reads: the tree of an episode as lanes: the episode itself, and one lane for each arm of each fork below it.

Owns the order of lanes and where their lines are. Leaves which branches there are, and who sees how they ended, to
`runs.show.forks`. Called by pages.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from episodes.models import BranchArm, Episode, Fork
from episodes.show.wall import EpisodeRow
from episodes.stored import trees
from people.access import Actor
from people.rates import wilson
from runs.show import answers, forks
from runs.show.forks import ContinuedEpisode
from runs.statistics import forked
from runs.statistics.forked import ForkArm
from runs.statistics.paired import Interval

BEFORE = 6
"""Steps before the first fork that are drawn: all branches have them in common."""


@dataclass(frozen=True)
class TreeLane:
    """The branches of an arm of a fork, the first of them drawn; or the episode itself, which has no fork. `place` is
    where its first mark is, `wires` the places of the lines of later lanes, `own_wires` of those that begin here."""

    rows: list[EpisodeRow]
    words: str
    arm: ForkArm
    fork: Fork | None = None
    is_treated: bool = False
    since: int = 1
    place: int = 0
    parent: int | None = None
    wires: list[int] = field(default_factory=list)
    own_wires: list[int] = field(default_factory=list)
    once: ForkArm | None = None
    """The arm with branches that went on alike as one, if any did."""
    one_draw: str = ""
    """Why its branches are not independent, if none of them is."""

    @property
    def first(self) -> EpisodeRow:
        return self.rows[0]

    @property
    def why(self) -> str:
        """The change of treated branches, in a line."""
        change = self.fork.change if self.fork is not None and self.is_treated else {}
        if call := change.get("call"):
            return f"{call['name']} {json.dumps(call.get('arguments') or {}, ensure_ascii=False)}"
        if asked := change.get("ask"):
            return str(asked["question"])
        return str(change.get("advice") or change.get("words") or change.get("policy") or "")

    @property
    def begins(self) -> int:
        """The number of the first step that is drawn."""
        return self.first.episode.branch_seq or 1

    @property
    def interval(self) -> Interval | None:
        """The interval of the share of complete branches, whichever way lost ones had ended; with branches that went on
        alike both each for itself and as one. None where `why_no_interval` says why."""
        if not self.arm.known or self.why_no_interval:
            return None
        lows, highs = zip(*[_interval(arm) for arm in (self.arm, self.once) if arm is not None], strict=True)
        return min(lows), max(highs)

    @property
    def why_no_interval(self) -> str:
        """Why its share has no interval; empty if it has one, or nothing has ended."""
        if not self.arm.known or not (self.one_draw or (self.once or self.arm).known < 2):
            return ""
        return f"{self.one_draw or ('branches went on alike' if self.once else 'one branch')}, no interval"

    @property
    def share(self) -> float:
        return self.arm.complete / self.arm.known if self.arm.known else 0.0


def _interval(arm: ForkArm) -> Interval:
    of = arm.known + arm.lost
    return wilson(arm.complete, of)[0], wilson(arm.complete + arm.lost, of)[1]


@dataclass(frozen=True)
class EpisodeTree:
    """The lanes of a tree, from the step `since` on."""

    root: Episode
    lanes: list[TreeLane]
    since: int
    sees_ends: bool
    continued: list[ContinuedEpisode] = field(default_factory=list)

    @property
    def branches(self) -> int:
        return sum(len(one.rows) for one in self.lanes if one.fork is not None)

    @property
    def live(self) -> int:
        return sum(one.arm.live for one in self.lanes)


def lanes_of(actor: Actor, episode_id: str) -> EpisodeTree:
    """Return the tree that an episode is in, each fork after the lane that it was made of."""
    root, episodes = forks.members(actor, episode_id)
    sees = forks.sees_ends(actor, root)
    shown = {row.episode.pk: row for row in forks.rows_of(actor, root, episodes)}
    ends, done = forks.ends_of(actor, root, episodes), forks.ended(episodes)
    went_on = trees.continuations(forks.ended_alike(episodes, ends))
    read = answers.of_branches([one.pk for one in episodes if one.fork is not None])
    cuts = [one.branch_seq for one in episodes if one.branch_seq is not None]
    since = max(1, min(cuts, default=1) - BEFORE)
    lanes: list[TreeLane] = []
    below: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.fork is not None:
            below.setdefault(episode.fork.parent_id, []).append(episode)
    # a list, because a tree can be deeper than calls may be
    left: list[tuple[Sequence[Episode], str, Fork | None, int | None]] = [([root], "The episode itself", None, None)]
    while left:
        members, words, fork, parent = left.pop()
        tries, pks = fork.tries if fork is not None else 1, [one.pk for one in members]
        alike = forks.alike_in(members, members[0].branch_arm, ends, went_on)
        own = [pk for pk in pks if pk not in alike]
        lane = TreeLane(
            [shown[pk] for pk in pks],
            words,
            forked.arm_of(tries, pks, ends, done),
            fork,
            members[0].branch_arm == BranchArm.TREATED,
            since,
            max(0, (members[0].branch_seq or 1) - since),
            parent,
            once=forked.arm_of(tries - len(alike), own, ends, done) if alike else None,
            one_draw=_one_draw(members, read),
        )
        lanes.append(lane)
        left += reversed(_arms_below([row for one in members for row in below.get(one.pk, ())], len(lanes) - 1))
    for number, lane in enumerate(lanes):
        if lane.parent is not None:
            lanes[lane.parent].own_wires.append(lane.place)
            for between in lanes[lane.parent + 1 : number]:
                between.wires.append(lane.place)
    return EpisodeTree(root, lanes, since, sees, forks.continued(actor, root, episodes))


def _one_draw(members: Sequence[Episode], read: Mapping[str, Collection[str]]) -> str:
    """Return why the branches of a lane are not independent; empty if they are."""
    if any(one.policy_kind == "script" for one in members) and len(members) > 1:
        return "a script repeats itself"
    return "branches read one answer" if forks.shares_an_answer(members, read) else ""


def _arms_below(
    branches: Sequence[Episode], parent: int
) -> list[tuple[Sequence[Episode], str, Fork | None, int | None]]:
    """Return the arms of the forks that were made of one lane, oldest fork first, the control first."""
    of_fork: dict[Fork, list[Episode]] = {}
    for branch in sorted(branches, key=lambda episode: (episode.created_at, episode.key)):
        if branch.fork is not None:
            of_fork.setdefault(branch.fork, []).append(branch)
    arms: list[tuple[Sequence[Episode], str, Fork | None, int | None]] = []
    for made, mine in of_fork.items():
        changed, kept = forked.labels(made.change)
        for name, of in ((kept.capitalize(), BranchArm.CONTROL), (changed, BranchArm.TREATED)):
            if arm := [one for one in mine if one.branch_arm == of]:
                arms.append((arm, name, made, parent))
    return arms
