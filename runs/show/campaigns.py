"""Reads: campaigns with their progress, and what one shows.

Owns which rows are pairs of one root, and who sees what they show. Leaves the arithmetic and the sentences to
`runs.statistics.campaigned`. Called by the API, pages and the command `campaign`; `runs.play.campaigning` makes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet

from episodes.models import BranchArm, Episode, EpisodeQuerySet, Fork
from episodes.stored.settled import settled
from episodes.visible import visibility
from people.access import Actor, may_see_asking, scoped, visible_or_404
from people.text.in_words import count
from runs.models import Campaign, CampaignPoint
from runs.show import answers, forks
from runs.statistics import campaigned, forked, rereading
from runs.statistics.campaigned import CampaignFinding, RootPair
from runs.statistics.forked import ForkArm

WITHHELD = "Outcomes are withheld until your verdict."
NONE = "No episode could be forked: nothing is shown."
ALL_ERASED = "All of its branches were erased since the launch: nothing is shown."
CANCELLED = "Cancelled by a person, so nothing is said of the branches that ended."
REASONS = 8
"""The most reasons that are listed; the others are counted together."""


@dataclass(frozen=True)
class CampaignProgress:
    """How far a campaign is: places with a fork, places that wait for one, places left out by reason, and branches.
    `roots_left` roots have no fork at any place. `erased` branches, and `roots_erased` roots with all places of them,
    were there at the launch and were erased since."""

    made: int
    waiting: int
    left_out: dict[str, int]
    branches: int
    ended: int
    roots: int
    roots_left: int
    erased: int = 0
    roots_erased: int = 0

    @property
    def share(self) -> float:
        """How much of the work is done, from 0 to 1."""
        places = self.made + self.waiting
        forked_share = self.made / places if places else 1.0
        return forked_share * (self.ended / self.branches if self.branches else 1.0)


@dataclass(frozen=True)
class CampaignView:
    """A campaign as an actor sees it. `finding` is None while branches are live, for a cancelled campaign, for one of
    whose episodes some were erased, and for an actor from whom outcomes are withheld."""

    campaign: Campaign
    progress: CampaignProgress
    state: str
    is_withheld: bool = False
    finding: CampaignFinding | None = None
    points: list[CampaignPoint] = field(default_factory=list)

    @cached_property
    def sentence(self) -> str:
        """The one thing that the campaign says."""
        if self.is_withheld:
            return WITHHELD
        if self.state == "cancelled":
            return CANCELLED
        at = self.progress
        if self.state != "ended" and not at.branches:
            return "Its first forks are being made. What their branches show is said once, at the end."
        if self.state != "ended":
            return f"{at.ended:,} of {at.branches:,} branches have ended. What they show is said once, at the end."
        if at.roots_erased:
            of = count(self.campaign.chosen, "episode")
            return f"Withheld: {at.roots_erased:,} of {of} {_were(at.roots_erased)} erased since the launch."
        if self.finding is None:
            return ALL_ERASED if at.made else NONE
        branches = f"{at.erased:,} {'branch' if at.erased == 1 else 'branches'}"
        erased = f" {branches} {_were(at.erased)} erased since the launch." if at.erased else ""
        return f"{self.finding.sentences[0]}{erased}"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def branches_of(campaign: Campaign) -> EpisodeQuerySet:
    """Return the branches of all forks that a campaign made."""
    made = CampaignPoint.objects.filter(campaign=campaign, fork__isnull=False)
    return Episode.every.filter(fork__in=made.values("fork"))


def of(actor: Actor) -> QuerySet[Campaign]:
    """Return the campaigns of the project."""
    may_see_asking(actor)
    return scoped(Campaign.objects.all(), actor.project)


def of_fork(fork: Fork) -> Campaign | None:
    """Return the campaign that made a fork."""
    return Campaign.objects.filter(campaign_points__fork=fork).first()


def visible(actor: Actor, campaign_id: str) -> Campaign:
    may_see_asking(actor)
    return visible_or_404(Campaign.objects.select_related("project"), actor, campaign_id)


def seen(actor: Actor, campaign: Campaign) -> CampaignView:
    """Return a campaign with its progress, and with what it shows once all its branches have ended."""
    points = list(
        CampaignPoint.objects.filter(campaign=campaign).select_related("root__project", "fork").order_by("pk")
    )
    branches = list(branches_of(campaign).only("pk", "fork_id", "branch_arm", "policy_kind", "state"))
    done = set(settled().filter(pk__in=branches_of(campaign).values("pk")).values_list("pk", flat=True))
    progress = _progress(campaign, points, branches, done)
    state = state_of(campaign, progress)
    if not _sees_ends(actor, points):
        # that an episode is in a campaign of failed ones would say how it ended
        return CampaignView(campaign, progress, state, is_withheld=True)
    # those that are left were chosen by who erased the others
    is_whole = state == "ended" and branches and not progress.roots_erased
    finding = _finding(actor, campaign, points, branches, done) if is_whole else None
    return CampaignView(campaign, progress, state, finding=finding, points=points)


def is_withheld(actor: Actor, campaign: Campaign) -> bool:
    """Return whether what a campaign shows is withheld from this actor."""
    points = CampaignPoint.objects.filter(campaign=campaign).select_related("root__project", "fork").order_by("pk")
    return not _sees_ends(actor, list(points))


def places(actor: Actor, campaign: Campaign, after: int, most: int) -> list[CampaignPoint]:
    """Return places of a campaign behind one of them, in their order; none if outcomes are withheld from the actor."""
    points = CampaignPoint.objects.filter(campaign=campaign).select_related("root__project", "fork", "campaign")
    if not _sees_ends(actor, list(points.order_by("pk"))):
        return []
    return list(points.filter(pk__gt=after).order_by("pk")[:most])


def state_of(campaign: Campaign, progress: CampaignProgress) -> str:
    """Return `cancelled`, `forking` while forks are made, `running` while branches are live, or `ended`."""
    if campaign.cancelled_at is not None:
        return "cancelled"
    if campaign.made_at is None:
        return "forking"
    return "ended" if progress.ended == progress.branches else "running"


def _progress(
    campaign: Campaign, points: Sequence[CampaignPoint], branches: Sequence[Episode], done: Collection[str]
) -> CampaignProgress:
    reasons = Counter(one.reason for one in points if one.reason)
    kept = dict(reasons.most_common(REASONS))
    if rest := sum(reasons.values()) - sum(kept.values()):
        kept["for other reasons"] = rest
    roots = {one.root_id for one in points}
    used = {one.root_id for one in points if not one.reason}
    tries = {one.fork_id: 2 * one.fork.tries for one in points if one.fork is not None}
    # a place goes with its root or its fork, so a root has lost all of them or some
    places_of = Counter(one.root_id for one in points)
    whole = sum(places_left >= max(1, len(campaign.points)) for places_left in places_of.values())
    return CampaignProgress(
        made=sum(one.fork_id is not None for one in points),
        waiting=sum(one.fork_id is None and not one.reason for one in points),
        left_out=kept,
        branches=len(branches),
        ended=len(done),
        roots=len(roots),
        roots_left=len(roots - used),
        erased=max(0, sum(tries.values()) - len(branches)),
        roots_erased=campaign.chosen - whole,
    )


def _sees_ends(actor: Actor, points: Sequence[CampaignPoint]) -> bool:
    """Return whether this actor sees how the branches of all roots ended; else one number would tell of the others."""
    # most people have nothing to review blind
    if not visibility.held(actor) and all(forks.sees_ends(actor, one.root) for one in points[:1]):
        return True
    roots = {one.root_id: one.root for one in points}
    return bool(roots) and all(forks.sees_ends(actor, one) for one in roots.values())


def _finding(
    actor: Actor,
    campaign: Campaign,
    points: Sequence[CampaignPoint],
    branches: Sequence[Episode],
    done: Collection[str],
) -> CampaignFinding:
    ends = visibility.verdict_types(actor, [one.pk for one in branches])
    by_fork: dict[str, list[Episode]] = defaultdict(list)
    for branch in branches:
        by_fork[str(branch.fork_id)].append(branch)
    fixed = "script" in {*(one.root.policy_kind for one in points if one.fork_id), *(b.policy_kind for b in branches)}
    share, read = share_of(campaign), answers.of_branches([one.pk for one in branches])

    def reading(types: Mapping[str, str]) -> CampaignFinding:
        def arm_of(fork: Fork, arm: BranchArm) -> ForkArm:
            mine = [one.pk for one in by_fork[fork.pk] if one.branch_arm == arm]
            return forked.arm_of(fork.tries, mine, types, done)

        pairs = [
            RootPair(
                root=point.root_id,
                kind=point.root.scenario or "other",
                at=point.share,
                fork=point.fork.pk,
                treated=arm_of(point.fork, BranchArm.TREATED),
                control=arm_of(point.fork, BranchArm.CONTROL),
                shared=frozenset().union(*(read.get(one.pk, ()) for one in by_fork[point.fork.pk])),
            )
            for point in points
            if point.fork is not None
        ]
        return campaigned.finding(pairs, share=share, fixed=fixed)

    now = reading(ends)
    first = forks.first_reading(ends, branches) if any(one.interval for one in now.cells) else None
    return now if first is None else rereading.campaign(now, reading(first))


def share_of(campaign: Campaign) -> float:
    """Return which share of the error a campaign has among those that ask too: what is asked after one of them was read
    has less."""
    branches = "campaign_points__fork__branches"
    rows = asking_too(campaign).annotate(
        end=Max(f"{branches}__ended_at"),
        live=Count(branches, filter=Q(**{f"{branches}__ended_at": None, f"{branches}__isnull": False})),
    )
    asked = list(rows.order_by("created_at", "pk"))
    if not asked:
        return forked.FIRST
    parts = forked.shares([(one.created_at, _read_at(one.end, one.live, one)) for one in asked])
    return parts[[one.pk for one in asked].index(campaign.pk)]


def _read_at(end: datetime | None, live: int, campaign: Campaign) -> datetime | None:
    """Return when a campaign could be read, from when the last of its branches ended and how many are live; None if it
    could not yet. One whose branches were all erased was read, for all that is known."""
    if live or (campaign.made_at is None and campaign.cancelled_at is None):
        return None
    return end or campaign.made_at or campaign.created_at


def asking_too(campaign: Campaign) -> QuerySet[Campaign]:
    """Return the campaigns that ask what this one asks, itself among them: at a step of the same root, or the same kind
    of change anywhere in it. They share the error, because the best of them would be picked, a turn further or not."""
    mine = CampaignPoint.objects.filter(campaign=campaign, root=OuterRef("root"), seq__gt=0)
    same = mine.filter(Q(seq=OuterRef("seq")) | Q(campaign__kind=OuterRef("campaign__kind")))
    others = CampaignPoint.objects.filter(Exists(same), seq__gt=0).values("campaign")
    return Campaign.objects.filter(project=campaign.project_id, pk__in=others)


def labels(campaign: Campaign) -> tuple[str, str]:
    """Return the names of both arms."""
    return forked.labels({campaign.kind: True})
