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
from runs.show import answers
from runs.show.forks import asked_in, ended_alike, forks_beside, share_of, shown_by
from runs.statistics import rereading
from runs.statistics.forked import ForkFinding
from runs.statistics.worth import ChangePrior

ACTIONS = ("call", "ask")
"""Changes that are an action of the agent: only these make a pair."""


class PinnedFork(NamedTuple):
    """A fork that shows a difference: who is better, wins and tries of both arms, the interval of what the change is
    worth, the grade of all of its branches, and what was known to its author.

    `worth` is the mean of that, treated minus control, `wrong` the chance that the change does nothing or the opposite,
    and `asked` how many forks of the project were compared. `first` are wins and tries of both arms before verifiers
    were repaired, if that changed them. `least` and `most` are the ends of `wrong` that all forks allow for. Snapshots
    of before have no such ends, older ones none of these and another interval."""

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
    least: float | None = None
    most: float | None = None

    @property
    def pinned(self) -> list[Any]:
        """The values that a snapshot holds."""
        last = 0 if self.most is not None else 2 if self.first else 3 if self.worth is not None else 6
        return list(self[: len(self) - last])


def measured(episodes: QuerySet[Episode]) -> dict[str, list[PinnedFork]]:
    """Return the forks of these episodes that show a difference between two actions, by episode. Both arms must have
    been restored alike. All forks of the project say what such changes are worth, whichever episodes are chosen: those
    could be the ones that show something."""
    roots = episodes.order_by().values("pk")
    chosen = dict(Fork.objects.filter(parent__in=roots).values_list("pk", "parent_id"))
    if not chosen:
        return {}
    projects = Fork.objects.filter(pk__in=chosen).values("project")
    made = Fork.objects.filter(project__in=projects).order_by("created_at", "pk")
    # all of their trees, because the forks of one share its error
    asked = asked_in(set(chosen.values()))
    # a campaign asks the same in many trees, and its best forks would be the pairs
    beside = forks_beside(chosen)
    compared: list[tuple[Fork, ForkFinding, set[str]]] = []
    rows = list(_branches([one for one in made if any(name in one.change for name in ACTIONS)]))
    went_on = trees.continuations([one for _, branches, _, types in rows for one in ended_alike(branches, types)])
    read = answers.of_branches([one.pk for _, branches, _, _ in rows for one in branches])
    first_types = outcomes.first_types(one.pk for _, branches, _, _ in rows for one in branches)
    for fork, branches, ended, types in rows:
        grades = {one.grade for one in branches}
        is_fixed = any(one.policy_kind == "script" for one in branches)
        others, of_tree = beside.get(fork.pk, 0), asked.get(fork.parent_id, [])
        share = share_of(fork, of_tree, others) if fork.pk in chosen else 1.0
        about: dict[str, Any] = {
            "asked": len(of_tree) + others,
            "share": share,
            "fixed": is_fixed,
            "went_on": went_on,
            "first_types": first_types,
            "read": read,
        }
        shown = shown_by(fork, branches, ended, types, **about)
        # without one its branches are live or lost, or an arm is one observation
        if shown.difference is not None:
            compared.append((fork, shown, grades))
    priors = rereading.priors([shown for _, shown, _ in compared])
    by_episode: dict[str, list[PinnedFork]] = {}
    for fork, shown, grades in compared:
        if fork.pk in chosen and shown.verdict and len(grades) == 1:
            pinned = _pinned(fork, shown, grades.pop(), priors, len(compared))
            by_episode.setdefault(fork.parent_id, []).append(pinned)
    return by_episode


def _pinned(
    fork: Fork, shown: ForkFinding, grade: str, priors: tuple[ChangePrior, ChangePrior], asked: int
) -> PinnedFork:
    treated, control = shown.treated, shown.control
    change = rereading.worth(shown, *priors)
    parts = (change.mean, change.low, change.high, change.wrong, change.least, change.most)
    mean, low, high, wrong, *ends = (round(part, 4) for part in parts)
    counts = (treated.complete, treated.known, control.complete, control.known)
    first = [number for arm in shown.first or () for number in (arm.complete, arm.known)]
    return PinnedFork(
        fork.pk, shown.verdict, *counts, low, high, grade, fork.knowledge, mean, wrong, asked, first, *ends
    )


def _branches(forks: Collection[Fork]) -> Iterable[tuple[Fork, list[Episode], set[str], dict[str, str]]]:
    """Yield each fork with its branches, which of them have ended, and their reward types."""
    ids = [one.pk for one in forks]
    rows = Episode.every.filter(fork__in=ids).order_by("pk")
    by_fork: dict[str, list[Episode]] = defaultdict(list)
    for branch in rows.only("pk", "fork_id", "branch_arm", "branch_seq", "grade", "policy_kind"):
        by_fork[str(branch.fork_id)].append(branch)
    ended = set(settled().filter(fork__in=ids).values_list("pk", flat=True))
    verdicts = outcomes.in_force().filter(episode__fork__in=ids).order_by("pk").verdicts()
    types = dict(verdicts.values_list("episode_id", "reward_type"))
    for fork in forks:
        yield fork, by_fork[fork.pk], ended, types
