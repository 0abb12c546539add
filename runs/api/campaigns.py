"""The JSON API of what-if campaigns: their cost, launch, progress, places and result."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja import P, QueryEx, Router, Schema, Status

from awmclient.nouns.fields import Object
from episodes.api import CURSOR, LIMIT
from episodes.find.selection import newest
from people.access import Actor
from people.http import REFUSALS, actor_of, answer_of, refuse_unknown
from runs.api.verifiers import ErratumView, erratum_view
from runs.models import Campaign, CampaignPoint
from runs.play import campaigning
from runs.show import campaigns, errata

router = Router(tags=["runs"])


class CampaignCost(Schema):
    """What a campaign will take, by what each root took from its place on. `matched` episodes fit the query, `chosen`
    of them were taken, and `roots` can be forked; `left_out` counts places by their reason. Fewer roots than `least`
    can show nothing."""

    matched: int
    chosen: int
    roots: int
    forks: int
    branches: int
    turns: int
    tokens: int
    seconds: float
    asks: int
    least: int
    left_out: dict[str, int]
    words: str


class CampaignCellView(Schema):
    """What the roots of a `kind` of task, empty for all, show at one place: `at` percent of their turns, or the first
    error. Rates and differences are shares; `p` is after Holm. `verdict` is `better`, `worse`, or empty for not shown.
    """

    kind: str
    at: int
    roots: int
    unknown: int
    lost: int
    treated: float | None
    control: float | None
    difference: float | None
    interval: list[float] | None
    p: float | None
    verdict: str


class CampaignLine(Schema):
    """A campaign. `at` is `error` or `times`, then with `points` in percent."""

    id: str
    url: str
    name: str
    view: str
    at: str
    points: list[int]
    tries: int
    budget: int
    by: str
    created_at: datetime


class CampaignDetail(CampaignLine):
    """A campaign with its progress: `state` is `forking`, `running`, `ended` or `cancelled`. Places `made` have a fork,
    `waiting` ones none yet; `left_out` counts others by reason, and `roots_left` are roots without any fork. What it
    shows is said once, at the end; `withheld` if outcomes are withheld from the caller, then without `query`."""

    state: str
    query: str
    change: Object
    matched: int
    roots: int
    roots_left: int
    made: int
    waiting: int
    left_out: dict[str, int]
    branches: int
    ended: int
    withheld: bool
    sentence: str
    kinds: list[str]
    cells: list[CampaignCellView]
    errata: list[ErratumView] = []


class CampaignList(Schema):
    """Campaigns of the project, newest first. `next` is the cursor of the next page, null at the end."""

    items: list[CampaignLine]
    next: str | None


class CampaignPlace(Schema):
    """One place of one root: `share` in percent, null at the first error; `step` is null if the root has no such place.
    It has a `fork` with the `grade` of its world, or a `reason` why it is left out, or waits."""

    episode: str
    share: int | None
    step: int | None
    fork: str | None
    grade: str | None
    reason: str | None


class CampaignPlaces(Schema):
    """Places of a campaign in their order. `next` is the cursor of the next page, null at the end. Empty if outcomes
    are withheld from the caller."""

    items: list[CampaignPlace]
    next: str | None


def _renamed(campaign: Campaign) -> dict[str, Any]:
    """Return the fields of a campaign that have other names than its columns."""
    url = settings.AWMWEB_PUBLIC_URL + campaign.get_absolute_url()
    return {"url": url, "at": campaign.place, "budget": campaign.tokens, "by": campaign.author}


def _campaign(actor: Actor, campaign: Campaign) -> CampaignDetail:
    seen = campaigns.seen(actor, campaign)
    shown, withheld = seen.finding, {"query": "", "left_out": {}} if seen.is_withheld else {}
    return answer_of(
        CampaignDetail,
        campaign,
        seen.progress,
        seen,
        withheld=seen.is_withheld,
        kinds=shown.sentences[1:] if shown is not None else [],
        cells=shown.cells if shown is not None else [],
        errata=[erratum_view(one) for one in errata.of_campaign(seen)],
        **_renamed(campaign),
        **withheld,
    )


@router.post("/campaigns", response={202: CampaignDetail, **REFUSALS})
def start_campaign(request: HttpRequest, payload: campaigning.CampaignStart) -> Status[CampaignDetail]:
    """Launch a campaign: fork each episode of a view or query with the same change. Not for agent tokens."""
    actor = actor_of(request)
    return Status(202, _campaign(actor, campaigning.launch(actor, payload)))


@router.post("/campaigns/estimate", response={200: CampaignCost, **REFUSALS})
def campaign_cost(request: HttpRequest, payload: campaigning.CampaignStart) -> CampaignCost:
    """Read what a campaign will take, and launch nothing. Not for agent tokens."""
    plan = campaigning.planned(actor_of(request), payload)
    return answer_of(CampaignCost, plan, **{**plan.costs, "forks": len(plan.forks)})


@router.get("/campaigns", response={200: CampaignList, **REFUSALS})
def list_campaigns(
    request: HttpRequest, cursor: QueryEx[str, CURSOR] = "", limit: QueryEx[int, LIMIT] = 50
) -> CampaignList:
    """List the campaigns of the project, newest first, without what they show. Not for agent tokens."""
    refuse_unknown(request, "cursor", "limit")
    rows, after = newest(campaigns.of(actor_of(request)), cursor, limit)
    return CampaignList(items=[answer_of(CampaignLine, one, **_renamed(one)) for one in rows], next=after)


@router.get("/campaigns/{campaign_id}", response={200: CampaignDetail, **REFUSALS})
def read_campaign(request: HttpRequest, campaign_id: str) -> CampaignDetail:
    """Read a campaign: its progress, and at the end what it shows. Not for agent tokens."""
    refuse_unknown(request)
    actor = actor_of(request)
    return _campaign(actor, campaigns.visible(actor, campaign_id))


@router.get("/campaigns/{campaign_id}/places", response={200: CampaignPlaces, **REFUSALS})
def campaign_places(
    request: HttpRequest,
    campaign_id: str,
    cursor: QueryEx[int, P(ge=0, le=2**63 - 1)] = 0,
    limit: QueryEx[int, LIMIT] = 50,
) -> CampaignPlaces:
    """List the places of a campaign with their forks, or why they are left out. Not for agent tokens."""
    refuse_unknown(request, "cursor", "limit")
    actor = actor_of(request)
    places = campaigns.places(actor, campaigns.visible(actor, campaign_id), cursor, limit + 1)
    after = str(places[limit - 1].pk) if len(places) > limit else None
    return CampaignPlaces(items=[_place(one) for one in places[:limit]], next=after)


def _place(point: CampaignPoint) -> CampaignPlace:
    is_at_error = point.campaign.place == Campaign.Place.ERROR
    return CampaignPlace(
        episode=point.root_id,
        share=None if is_at_error else point.share,
        step=point.seq or None,
        fork=point.fork_id,
        grade=point.fork.grade if point.fork is not None else None,
        reason=point.reason or None,
    )


@router.post("/campaigns/{campaign_id}/cancel", response={200: CampaignDetail, **REFUSALS})
def cancel_campaign(request: HttpRequest, campaign_id: str) -> CampaignDetail:
    """Cancel a campaign: no further fork is made, and its live branches end. Not for agent tokens."""
    actor = actor_of(request)
    return _campaign(actor, campaigning.cancel(actor, campaign_id))
