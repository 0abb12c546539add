"""Reads: which forks of episodes show a difference, with the numbers that a snapshot pins.

Owns the counts of many forks together. Leaves what they show to `runs.show.forks`. Who may have an export was
asked before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet

from episodes.models import Episode, Fork
from episodes.stored import outcomes, trees
from episodes.stored.settled import settled
from runs.show import campaigns
from runs.show.forks import asked_in, share_of, shown_by
from runs.statistics import rereading
from runs.statistics.forked import ForkFinding
from runs.statistics.worth import ChangePrior

ACTIONS = ("call", "ask")
"""Changes that are an action of the agent: only these make a pair."""


class PinnedFork(NamedTuple):
    """A fork that shows a difference: who is better, wins and tries of both arms, the interval of what the change is
    worth, the grade of all of its branches, and what was known to its author.

    `worth` is the mean of that, treated minus control, `wrong` the chance that the change does nothing or the opposite,
    and `asked` how many forks were compared. Snapshots of before have none of the three, and another interval. `first`
    are wins and tries of both arms before verifiers were repaired, if that changed them."""

    fork: str
    verdict: str
    wins: int
    tries: int
    kept_wins: int
    kept_tries: int
    low: float
    high: float
    grade: str
    privilege: str
    worth: float | None = None
    wrong: float | None = None
    asked: int = 0
    first: Sequence[int] = ()

    @property
    def pinned(self) -> list[Any]:
        """The values that a snapshot holds."""
        last = 0 if self.first else 1 if self.worth is not None else 4
        return list(self[: len(self) - last])


def measured(episodes: QuerySet[Episode]) -> dict[str, list[PinnedFork]]:
    """Return the forks of these episodes that show a difference between two actions, by episode. Both arms must have
    been restored alike."""
    made = list(Fork.objects.filter(parent__in=episodes.order_by().values("pk")).order_by("created_at", "pk"))
    # all of their trees, because the forks of one share its error
    asked = asked_in({one.parent_id for one in made})
    # a campaign asks the same in many trees, and its best forks would be the pairs
    beside = campaigns.forks_beside([one.pk for one in made])
    compared: list[tuple[Fork, ForkFinding, set[str]]] = []
    rows = list(_branches([one for one in made if any(name in one.change for name in ACTIONS)]))
    went_on = trees.continuations([one for _, branches, _, types in rows for one in branches if one.pk in types])
    first_types = outcomes.first_types(one.pk for _, branches, _, _ in rows for one in branches)
    for fork, branches, ended, types in rows:
        grades = {one.grade for one in branches}
        is_fixed = any(one.policy_kind == "script" for one in branches)
        others, of_tree = beside.get(fork.pk, 0), asked[fork.parent_id]
        share = share_of(fork, of_tree) / (1 + others)
        count = len(of_tree) + others
        about: dict[str, Any] = {
            "asked": count,
            "share": share,
            "fixed": is_fixed,
            "went_on": went_on,
            "first_types": first_types,
        }
        shown = shown_by(fork, branches, ended, types, **about)
        # without one its branches are live or lost, or an arm is one observation
        if shown.difference is not None:
            compared.append((fork, shown, grades))
    priors = rereading.priors([shown for _, shown, _ in compared])
    by_episode: dict[str, list[PinnedFork]] = {}
    for fork, shown, grades in compared:
        if shown.verdict and len(grades) == 1:
            pinned = _pinned(fork, shown, grades.pop(), priors, len(compared))
            by_episode.setdefault(fork.parent_id, []).append(pinned)
    return by_episode


def _pinned(
    fork: Fork, shown: ForkFinding, grade: str, priors: tuple[ChangePrior, ChangePrior], asked: int
) -> PinnedFork:
    treated, control = shown.treated, shown.control
    change = rereading.worth(shown, *priors)
    mean, low, high, wrong = (round(part, 4) for part in (change.mean, change.low, change.high, change.wrong))
    counts = (treated.complete, treated.known, control.complete, control.known)
    first = [number for arm in shown.first or () for number in (arm.complete, arm.known)] or ()
    return PinnedFork(fork.pk, shown.verdict, *counts, low, high, grade, fork.knowledge, mean, wrong, asked, first)


def _branches(forks: Collection[Fork]) -> Iterable[tuple[Fork, list[Episode], set[str], dict[str, str]]]:
    """Yield each fork with its branches, which of them have ended, and their reward types."""
    rows = Episode.every.filter(fork__in=[one.pk for one in forks]).order_by("pk")
    by_fork: dict[str, list[Episode]] = defaultdict(list)
    for branch in rows.only("pk", "fork_id", "branch_arm", "branch_seq", "grade", "policy_kind"):
        by_fork[str(branch.fork_id)].append(branch)
    ids = [one.pk for branches in by_fork.values() for one in branches]
    ended = set(settled().filter(pk__in=ids).values_list("pk", flat=True))
    types = dict(outcomes.of_episodes(ids).verdicts().values_list("episode_id", "reward_type"))
    for fork in forks:
        yield fork, by_fork[fork.pk], ended, types
