"""Reads: the forks of an episode with their branches, and what a fork shows.

Owns which branches belong together and who sees their outcomes. Leaves the arithmetic and the sentence to
`runs.statistics.forked`. Called by the API and pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from awmclient.schema import NOT_COUNTED
from episodes.models import BranchArm, Continuation, Episode, Fork
from episodes.show import wall
from episodes.show.wall import EpisodeRow
from episodes.stored import outcomes, trees
from episodes.stored.settled import settled
from episodes.stored.trees import AskedFork
from episodes.visible import visibility
from people.access import Actor, may_see_asking, scoped, visible_or_404
from people.errors import NotFound
from reviews.models import Correction
from runs.models import CampaignPoint
from runs.show import answers
from runs.statistics import forked, rereading
from runs.statistics.forked import ForkFinding

TREE_MAX = 1000
"""The most branches of a tree in one answer."""
NOT_DRAWN = ("tools", "policy", "world", "final_answer")
"""Large columns of branches that no tree shows."""


def row_of(branch: Episode, outcome: str | None) -> dict[str, Any]:
    """Return an episode of a tree as the API returns it."""
    made = branch.fork
    about = {"id": branch.pk, "state": branch.state, "grade": branch.grade or None, "outcome": outcome}
    if made is None:
        return about
    place = {"parent": made.parent_id, "step": made.seq, "arm": branch.branch_arm}
    return {**about, **place, "change": made.change, "privilege": branch.knowledge}


def sees_ends(actor: Actor, episode: Episode) -> bool:
    """Return whether an actor sees how branches of an episode ended. A branch ends on the same task, so it shows a
    blind reviewer of that task too much."""
    return visibility.sees_outcome(actor, episode) and not visibility.judges_its_task(actor, episode)


def ends_of(actor: Actor, root: Episode, branches: Sequence[Episode]) -> dict[str, str]:
    """Return the reward types of ended branches that this actor sees, without those of a failed judge."""
    return visibility.verdict_types(actor, [one.pk for one in branches]) if sees_ends(actor, root) else {}


def rows_of(actor: Actor, root: Episode, episodes: Sequence[Episode]) -> list[EpisodeRow]:
    """Return episodes of a tree for a page, without how they ended where this actor does not see that of branches."""
    rows = wall.rows_with_outcomes(actor, episodes)
    return rows if sees_ends(actor, root) else [replace(one, outcome="", health=None) for one in rows]


def ended(branches: Sequence[Episode]) -> set[str]:
    """Return which of these branches have ended for good."""
    return set(settled().filter(pk__in=[one.pk for one in branches]).values_list("pk", flat=True))


def members(actor: Actor, episode_id: str) -> tuple[Episode, list[Episode]]:
    """Return the root of an episode's tree, and all its episodes, parents first."""
    rows = Episode.every.select_related("fork__parent")
    root = visible_or_404(rows, actor, episode_id).root
    episodes, level = [root], [root.pk]
    branches = Episode.every.select_related("fork").defer(*NOT_DRAWN)
    while level and len(episodes) < TREE_MAX:
        below = scoped(branches.filter(fork__parent__in=level), actor.project).order_by("created_at", "key")
        children = list(below[: TREE_MAX - len(episodes)])
        episodes += children
        level = [one.pk for one in children]
    return root, episodes


def tree(actor: Actor, episode_id: str) -> tuple[Episode, list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the root of an episode's tree, all its episodes, and those continued from prompts, as the API has them."""
    may_see_asking(actor)
    root, episodes = members(actor, episode_id)
    ends = ends_of(actor, root, episodes)
    further = [
        {
            **{"id": follow_up.place.episode_id, "parent": follow_up.place.parent_id, "step": follow_up.place.seq},
            **{
                "state": follow_up.place.episode.state,
                "privilege": follow_up.place.episode.knowledge,
                "outcome": follow_up.outcome or None,
            },
        }
        for follow_up in continued(actor, root, episodes)
    ]
    return root, [row_of(one, ends.get(one.pk)) for one in episodes], further


@dataclass(frozen=True)
class ContinuedEpisode:
    """An episode of an external loop that goes on from the prompt of an episode of a tree, with its reward type where
    the actor sees that of branches. It is in no arm and in no pair: nothing was restored."""

    place: Continuation
    outcome: str = ""


def continued(actor: Actor, root: Episode, episodes: Sequence[Episode]) -> list[ContinuedEpisode]:
    """Return the episodes that were continued from prompts of a tree, oldest first."""
    rows = Continuation.objects.filter(parent__in=[one.pk for one in episodes], episode__project=actor.project)
    places = list(rows.select_related("episode").order_by("episode__created_at", "pk")[:TREE_MAX])
    # not what counts in a rate: that leaves all of them out
    verdicts = visibility.of_episodes(actor, [one.episode_id for one in places]).found_here()
    ends = dict(verdicts.values_list("episode_id", "reward_type")) if sees_ends(actor, root) else {}
    return [ContinuedEpisode(one, ends.get(one.episode_id, "")) for one in places]


@dataclass(frozen=True)
class CorrectionProof:
    """A reviewer's correction with the newest fork that was made with it, and what that shows."""

    correction: Correction
    fork: Fork | None = None
    finding: ForkFinding | None = None
    live: int = 0


def proof_of(actor: Actor, episode: Episode, correction_id: str) -> CorrectionProof:
    """Return what proves a correction. The outcome of its fork is withheld as those of all branches are."""
    row = visible_or_404(Correction.objects.filter(episode=episode), actor, correction_id, "episode__project")
    if not actor.owns(row.author_key) and visibility.is_withheld(actor, episode):
        raise NotFound
    made = Fork.objects.filter(parent=episode, correction=row.pk).order_by("-created_at", "-pk").first()
    if made is None:
        return CorrectionProof(row)
    branches = list(Episode.every.filter(fork=made).select_related("fork"))
    return CorrectionProof(row, made, finding_of(actor, made, branches), len(branches) - len(ended(branches)))


def finding_of(actor: Actor, fork: Fork, branches: Sequence[Episode]) -> ForkFinding | None:
    """Return what the branches of a fork show; None for an actor who does not see how they ended."""
    if not sees_ends(actor, fork.parent):
        return None
    ends, done = ends_of(actor, fork.parent, branches), ended(branches)
    asked, beside = asked_in([fork.parent_id])[fork.parent_id], forks_beside([fork.pk]).get(fork.pk, 0)
    share = share_of(fork, asked, beside)
    fixed = "script" in {fork.parent.policy_kind, *(one.policy_kind for one in branches)}
    return shown_by(fork, branches, done, ends, asked=len(asked), beside=beside, share=share, fixed=fixed)


def asked_in(episodes: Collection[str]) -> dict[str, list[AskedFork]]:
    """Return the forks in the tree of each of these episodes, in the order in which they were asked: a campaign asks
    all of its own at its launch, however long it takes to make them."""
    asked = trees.forks_asked(episodes)
    points = CampaignPoint.objects.filter(fork__in={each.pk for forks in asked.values() for each in forks})
    launched = dict(points.values_list("fork", "campaign__created_at"))
    return {
        pk: sorted((each._replace(made_at=launched.get(each.pk, each.made_at)) for each in forks), key=_order)
        for pk, forks in asked.items()
    }


def _order(fork: AskedFork) -> tuple[datetime, str]:
    return fork.made_at, fork.pk


def forks_beside(forks: Collection[str]) -> dict[str, int]:
    """Return how many forks the campaign of each of these can make in other trees, by fork; those of no campaign are
    left out. That number is the launch's: what is made later or erased does not change what a fork has shown."""
    rows = CampaignPoint.objects.filter(fork__in=forks).values_list("fork_id", "campaign__chosen", "campaign__points")
    return {str(fork): (chosen - 1) * max(1, len(places)) for fork, chosen, places in rows}


def share_of(fork: Fork, asked: Sequence[AskedFork], beside: int) -> float:
    """Return which share of the error of its tree a fork has, among all forks that were asked there, and those that its
    campaign made `beside` it in other trees: the best of them would be picked."""
    parts = forked.shares([(each.made_at, each.read_at) for each in asked])
    return parts[[each.pk for each in asked].index(fork.pk)] / (1 + beside)


def shown_by(
    fork: Fork,
    branches: Sequence[Episode],
    done: Collection[str],
    ends: Mapping[str, str],
    *,
    asked: int,
    beside: int = 0,
    share: float,
    fixed: bool,
    went_on: Mapping[str, str] | None = None,
    read: Mapping[str, Collection[str]] | None = None,
    first_types: Mapping[str, str] | None = None,
) -> ForkFinding:
    """Return what a fork shows in a tree of `asked` forks with `beside` others of its campaign, and with its `share` of
    the error: of its branches, those that are done, and the reward types that count. A difference must be one on the
    first outcomes as well, from before a verifier was repaired, and with branches that went on alike counted once; none
    is shown where branches of an arm read one answer. `went_on` are the continuations of its branches, and `read` the
    answers that they read, where a page has them."""
    changed, kept = forked.labels(fork.change)

    def reading(types: Mapping[str, str], alike: Collection[str] = ()) -> ForkFinding:
        arms = []
        for arm in (BranchArm.TREATED, BranchArm.CONTROL):
            mine = [one.pk for one in branches if one.branch_arm == arm]
            counted = [pk for pk in mine if pk not in alike]
            arms.append(forked.arm_of(fork.tries - len(mine) + len(counted), counted, types, done))
        treated, control = arms
        return forked.finding(treated, control, changed, kept, forks=asked, beside=beside, share=share, fixed=fixed)

    now = reading(ends)
    # only what is said needs the first outcomes, and how its branches went on
    if now.interval is None:
        return now
    if went_on is None:
        went_on = trees.continuations(ended_alike(branches, ends))
    alike = [alike_in(branches, arm, ends, went_on) for arm in (BranchArm.TREATED, BranchArm.CONTROL)]
    once = reading(ends, alike[0] | alike[1])
    # arms of two models are draws of one each
    of_which = any if "policy" in fork.change else all
    if of_which(arm.known == 1 and more for arm, more in zip((once.treated, once.control), alike, strict=True)):
        return forked.without(now, forked.REPEATED)
    if read is None:
        read = answers.of_branches([branch.pk for branch in branches])
    if shares_an_answer(branches, read):
        return forked.without(now, forked.ONE_ANSWER)
    shown = forked.with_alike(now, once)
    first = first_reading(ends, branches, first_types)
    if first is None:
        return shown
    return rereading.fork(shown, forked.with_alike(reading(first), reading(first, alike[0] | alike[1])))


def ended_alike(branches: Sequence[Episode], ends: Mapping[str, str]) -> list[Episode]:
    """Return the branches that ended as another one of their arm: only these can be copies of it."""

    def end_of(branch: Episode) -> tuple[str | None, str, str]:
        return branch.fork_id, branch.branch_arm, ends[branch.pk]

    ended = [branch for branch in branches if branch.pk in ends]
    counts = Counter(map(end_of, ended))
    return [branch for branch in ended if counts[end_of(branch)] > 1]


def alike_in(branches: Sequence[Episode], arm: str, ends: Mapping[str, str], went_on: Mapping[str, str]) -> set[str]:
    """Return the branches of an arm in which the model chose what it had chosen in an earlier one, with the same end:
    without sampling or behind a cache, both are one observation."""
    seen: set[tuple[str, str]] = set()
    alike: set[str] = set()
    for branch in branches:
        if branch.branch_arm == arm and branch.pk in ends:
            same = (went_on.get(branch.pk, branch.pk), ends[branch.pk])
            alike |= {branch.pk} if same in seen else set()
            seen.add(same)
    return alike


def shares_an_answer(branches: Sequence[Episode], read: Mapping[str, Collection[str]]) -> bool:
    """Return whether several branches of an arm read one answer, to a group or from the cache: one draw for all."""
    names = Counter((branch.branch_arm, name) for branch in branches for name in read.get(branch.pk, ()))
    return any(count > 1 for count in names.values())


def first_reading(
    now: Mapping[str, str], branches: Sequence[Episode], first_types: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """Return the reward types of branches that counted before a verifier was repaired, from those that count now; None
    if none was repaired. `first_types` are those of all branches of a page, where it has them."""
    if first_types is None:
        first_types = outcomes.first_types(branch.pk for branch in branches)
    first = {branch.pk: first_types[branch.pk] for branch in branches if branch.pk in first_types}
    if not first:
        return None
    before = {pk: first.get(pk, current) for pk, current in now.items()}
    return {pk: reward_type for pk, reward_type in before.items() if reward_type not in NOT_COUNTED}
