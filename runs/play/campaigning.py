"""Campaigns: the same change in many ended episodes, each forked at its first error or at several times of it.

Owns which episodes are roots, where each is forked, what all branches will take, and how many of them are live at a
time. Leaves a single fork to `runs.play.forking`, and what they show to `runs.show.campaigns`. A root whose world
cannot be restored is left out with the reason. Called by the API, pages and a command; a worker makes the forks.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Literal

from django.db import connection, transaction
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone
from pydantic import Field, StrictInt, ValidationError, field_validator, model_validator

from awmclient.nouns.fields import Object, Shape, Text
from awmclient.nouns.kinds import is_call
from episodes.find.facets import LOOKS
from episodes.find.narrowing import matching
from episodes.models import Episode, Origin
from episodes.record import ending
from episodes.record.saved_views import EPISODE_VIEWS
from people.access import Actor, is_awmweb, may_launch, scoped, system, visible_or_404
from people.errors import AppError, Invalid, words_of
from people.models import Project, long_ago, new_id
from people.record.audit import record
from people.record.saved_views import QUERY_MAX
from people.requests.forms import texts_of
from people.text.in_words import count, duration
from runs.errors import NoServer, NotForkable, WrongState
from runs.launch import launching
from runs.models import Campaign, CampaignPoint
from runs.plan import spending
from runs.play import forking
from runs.play.forking import BRANCHES_MAX, TRIES_MAX, ForkEstimate
from runs.show import campaigns, timing
from runs.statistics import campaigned

ROOTS, ROOTS_MAX, PLACES_MAX = 100, 500, 12
LIVE = 32
"""Branches of a campaign that are live at a time: more would keep everything else from starting."""
PAUSE_S, FORGOTTEN_S = 2, 30
REASON_MAX = 500
FAILED = "?outcome=others"
"""The episodes of a campaign that names none: those that failed, at the first error those with one."""
NO_ERROR, SPENT = "No call returned an error.", "The token budget of the campaign was used up."
CANCELLED, ERASED = "The campaign was cancelled.", "Its words were erased."
UNKNOWN = "The episode has no such turn."


class CampaignStart(Shape):
    """A campaign to launch: `query`, or the name or ID of a saved `view`, chooses at most `most` roots. `change` holds
    one of `words`, `ask` and `policy`. `at` is `error`, or `times`: then `points` are shares of the turns in percent.
    `tries` is the number of branches per arm and place; `budget` the tokens of all branches, 0 for no limit."""

    name: Annotated[Text, Field(max_length=100)] = ""
    view: Annotated[Text, Field(max_length=60)] = ""
    query: Annotated[Text, Field(max_length=QUERY_MAX)] = ""
    at: Literal["error", "times"] = "error"
    points: Annotated[list[Annotated[StrictInt, Field(ge=0, le=99)]], Field(min_length=1, max_length=PLACES_MAX)] = (
        Field(default_factory=lambda: list(timing.SHARES))
    )
    change: Object
    tries: Annotated[StrictInt, Field(ge=1, le=TRIES_MAX)] = 4
    budget: Annotated[StrictInt, Field(ge=0, le=10**12)] = 0
    most: Annotated[StrictInt, Field(ge=1, le=ROOTS_MAX)] = ROOTS

    @field_validator("points")
    @classmethod
    def _once(cls, value: list[int]) -> list[int]:
        return sorted(set(value))

    @model_validator(mode="after")
    def _fits(self) -> CampaignStart:
        if self.view and self.query:
            raise ValueError("use a view or a query, not both")
        # before anything is made: half of the places would show nothing
        if 2 * self.tries * len(self.shares) > BRANCHES_MAX:
            raise ValueError(f"an episode can have {BRANCHES_MAX} branches: use fewer points or tries")
        return self

    @property
    def shares(self) -> list[int]:
        return self.points if self.at == "times" else [0]


@dataclass(frozen=True)
class RootPlace:
    """One place of a root: the first step of its turn with what a branch will take, or the `reason` for none."""

    root: Episode
    share: int
    seq: int = 0
    likely: ForkEstimate | None = None
    reason: str = ""


@dataclass(frozen=True)
class CampaignPlan:
    """What a campaign will do, before it does anything."""

    start: CampaignStart
    query: str
    view: str
    kind: str
    change: dict[str, Any]
    matched: int
    places: list[RootPlace] = field(default_factory=list)

    @property
    def roots(self) -> int:
        """Roots with at least one place."""
        return len({one.root.pk for one in self.placed})

    @property
    def chosen(self) -> int:
        return len({one.root.pk for one in self.places})

    @property
    def placed(self) -> list[RootPlace]:
        """The places at which it forks."""
        return [one for one in self.places if not one.reason]

    @property
    def forks(self) -> list[RootPlace]:
        """The places that are forked: those in one turn are forked once."""
        return list({(one.root.pk, one.seq): one for one in self.placed}.values())

    @property
    def branches(self) -> int:
        return 2 * self.start.tries * len(self.forks)

    @property
    def left_out(self) -> dict[str, int]:
        """The reasons of places that are left out, each with their number."""
        return dict(Counter(one.reason for one in self.places if one.reason).most_common())

    @property
    def least(self) -> int:
        """The fewest roots of which anything can be shown."""
        kinds = campaigned.kinds_of([one.root.scenario or "other" for one in self.placed])
        return campaigned.least_roots(len(self.start.shares), len(kinds))

    @property
    def costs(self) -> dict[str, Any]:
        """What all branches take together, by what each root took from its place on."""
        likely = [one.likely for one in self.forks if one.likely is not None]
        return {
            name: 2 * self.start.tries * sum(getattr(one, name) for one in likely)
            for name in ("turns", "tokens", "seconds", "asks")
        }

    @property
    def words(self) -> str:
        """What the campaign will take, in words."""
        costs = self.costs
        asked = f", {count(costs['asks'], 'question')} to experts" if costs["asks"] else ""
        few = f" Fewer than {self.least:,} episodes can show nothing." if self.roots < self.least else ""
        sampled = f", {self.chosen:,} of them drawn" if self.chosen < self.matched else ""
        return (
            f"{count(self.matched, 'episode')} {'matches' if self.matched == 1 else 'match'}{sampled}. "
            f"{self.roots:,} can be forked: {count(len(self.placed), 'place')}, {count(len(self.forks), 'fork')}, "
            f"{self.branches:,} branches: about "
            f"{costs['turns']:,} turns, {costs['tokens']:,} tokens{asked} and {duration(costs['seconds'])} of work."
            f"{few}"
        )


def start_of(value: Mapping[str, Any]) -> CampaignStart:
    """Return a campaign from JSON, YAML or a form. Raises `Invalid`."""
    try:
        return CampaignStart.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"{place}{': ' if place else ''}{words_of(first)}.") from error


def planned(actor: Actor, start: CampaignStart) -> CampaignPlan:
    """Return what a campaign will do and take. Nothing is made, and no world is restored.

    Raises:
        Invalid: the change fits no campaign, or no episode matches.
        NotFound: there is no such view.

    """
    may_launch(actor)
    change = forking.change_of(start.change)
    change_fields = change.model_dump(exclude_none=True)
    if not change_fields.keys() & set(Campaign.Kind.values):
        raise Invalid(f"change: a campaign changes one of {', '.join(Campaign.Kind.values)}.")
    if change.policy is not None:
        launching.policy_named(change.policy)
    view, query = _chosen(actor, start)
    filters = _filters(query)
    if Origin.BRANCH in filters.get("origin", ()):
        raise Invalid("query: a campaign forks no branches.")
    ids = sorted(matching(actor, filters).order_by().values_list("pk", flat=True).distinct(), key=_drawn)
    if not ids:
        raise Invalid("query: no episode matches.")
    roots = Episode.objects.select_related("project").in_bulk(ids[: start.most])
    places = [place for pk in ids[: start.most] for place in _places(actor, roots[pk], start, change)]
    kind = next(iter(change_fields))
    return CampaignPlan(start, query, view, kind, change_fields, len(ids), places)


def _filters(query: str) -> dict[str, list[str]]:
    """Return the filters of a list's address. An unknown one is refused later, where the list would leave it out."""
    params = QueryDict(query.removeprefix("?"))
    return {
        name: values for name in params if name not in LOOKS and (values := list(filter(None, texts_of(params, name))))
    }


def _drawn(pk: str) -> str:
    # neither the newest nor the oldest: the same draw each time
    return hashlib.sha256(pk.encode()).hexdigest()


def _chosen(actor: Actor, start: CampaignStart) -> tuple[str, str]:
    """Return the name of the saved view and its query; a campaign that names neither takes failed episodes."""
    if not start.view:
        return "", start.query or FAILED + ("&error=any" if start.at == "error" else "")
    # a command acts for the whole project
    views = scoped(EPISODE_VIEWS.rows(), actor.project) if is_awmweb(actor) else EPISODE_VIEWS.of(actor)
    named = list(views.filter(name=start.view)[:2])
    if len(named) > 1:
        raise Invalid(f"view: several views are named {start.view}. Use the ID.")
    view = named[0] if named else visible_or_404(views, actor, start.view)
    return view.name, view.query


def _places(actor: Actor, root: Episode, start: CampaignStart, change: forking.ForkChange) -> list[RootPlace]:
    """Return the places of a root at which it can be forked, as far as its record says."""
    try:
        parent = forking.parent_of(actor, root.pk)
        if change.ask is not None and not forking.asks_freely(parent):
            raise NotForkable("Its agent could not ask an expert.")
    except AppError as refused:
        return [RootPlace(root, share, reason=_reason(refused)) for share in start.shares]
    steps = forking.steps_before_end(parent)
    seqs = _seqs(steps, start)
    return [_place(root, steps, share, seqs.get(share, 0), start) for share in start.shares]


def _place(root: Episode, steps: forking.Steps, share: int, seq: int, start: CampaignStart) -> RootPlace:
    if not seq:
        return RootPlace(root, share, reason=NO_ERROR if start.at == "error" else UNKNOWN)
    try:
        likely = forking.estimate(steps, forking.point_of(steps, seq))
    except NotForkable as refused:
        return RootPlace(root, share, reason=_reason(refused))
    return RootPlace(root, share, seq, likely)


def _seqs(steps: forking.Steps, start: CampaignStart) -> dict[int, int]:
    """Return the first step of the turn at each share of the turns, or of the turn with the first error. Pure."""
    times = timing.times_in(steps)
    if start.at == "times":
        return {share: timing.times_at(times, [share])[0].seq for share in start.shares} if times else {}
    error = first_error(steps)
    # the agent chose all calls of the turn together, so the whole turn is another
    begun = [one.seq for one in times if one.seq <= error]
    return {0: begun[-1]} if error and begun else {}


def first_error(steps: forking.Steps) -> int:
    """Return the number of the first call that returned an error, 0 if none did. Pure."""
    return next((int(one["seq"]) for one in steps if is_call(one) and one.get("error") is not None), 0)


def _reason(refused: AppError) -> str:
    return refused.message[:REASON_MAX] or type(refused).__name__


@transaction.atomic
def launch(actor: Actor, start: CampaignStart, pk: str = "") -> Campaign:
    """Store a campaign with all places of its roots, and call a worker for its forks. With the ID of a form that was
    sent before, return the campaign that it made. Raises as `planned` does."""
    pk = pk or new_id()
    # of two requests with one form the second waits here
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"campaign form {pk}"])
    if (there := Campaign.objects.filter(pk=pk).first()) is not None:
        may_launch(actor)
        if (there.project_id, there.author_key) != (actor.project.pk, actor.key):
            raise Invalid("form: another campaign has this ID. Open the form again.")
        return there
    plan = planned(actor, start)
    if not plan.forks:
        reason = next(iter(plan.left_out), UNKNOWN)
        raise NotForkable(f"None of {count(plan.chosen, 'episode')} can be forked. {reason}")
    made = Campaign.objects.create(
        pk=pk,
        project=actor.project,
        name=" ".join(start.name.split()) or plan.view or "What if?",
        view=plan.view,
        query=plan.query,
        place=start.at,
        points=start.points if start.at == "times" else [],
        kind=plan.kind,
        change=plan.change,
        tries=start.tries,
        tokens=start.budget,
        matched=plan.matched,
        chosen=plan.chosen,
        author=actor.name,
        author_key=actor.key,
    )
    CampaignPoint.objects.bulk_create(
        CampaignPoint(campaign=made, root=place.root, share=place.share, seq=place.seq, reason=place.reason)
        for place in plan.places
    )
    record(actor, "campaign.launched", made.pk, f"{plan.kind}, {plan.roots} episodes, {plan.branches} branches")
    transaction.on_commit(functools.partial(launching.campaign_later, made.pk))
    return made


@transaction.atomic
def _stop(actor: Actor, campaign_id: str) -> Campaign:
    campaign = visible_or_404(Campaign.objects.select_for_update(), actor, campaign_id)
    if campaign.cancelled_at is not None:
        raise WrongState("The campaign is cancelled.")
    if campaigns.seen(system(actor.project), campaign).state == "ended":
        raise WrongState("The campaign has ended.")
    campaign.cancelled_at = timezone.now()
    campaign.save(update_fields=["cancelled_at"])
    _waiting(campaign).update(reason=CANCELLED)
    record(actor, "campaign.cancelled", campaign.pk)
    return campaign


def cancel(actor: Actor, campaign_id: str) -> Campaign:
    """Cancel a campaign: no further fork is made, and its live branches end."""
    may_launch(actor)
    campaign = _stop(actor, campaign_id)
    for pk in campaigns.branches_of(campaign).live().values_list("pk", flat=True):
        ending.cancel(actor, pk, "the campaign was cancelled")
    return campaign


def work(campaign_id: str) -> None:
    """Make forks of a campaign until enough of its branches are live, then call for the next ones later. Can run twice
    at the same time. Raises `NoServer`."""
    campaign = Campaign.objects.select_related("project").filter(pk=campaign_id).first()
    while campaign is not None and campaign.cancelled_at is None and campaign.made_at is None:
        Campaign.objects.filter(pk=campaign_id).update(worked_at=timezone.now())
        if campaigns.branches_of(campaign).live().count() >= LIVE:
            launching.campaign_later(campaign_id, PAUSE_S)
            return
        if not campaign.change:
            _waiting(campaign).update(reason=ERASED)
        elif 0 < campaign.tokens <= spending.spent(campaigns.branches_of(campaign)).tokens:
            _waiting(campaign).update(reason=SPENT)
        if not _fork_next(campaign.project, campaign_id):
            return
        campaign = Campaign.objects.select_related("project").filter(pk=campaign_id).first()


def _waiting(campaign: Campaign | str) -> QuerySet[CampaignPoint]:
    return CampaignPoint.objects.filter(campaign=campaign, fork=None, reason="")


def _fork_next(project: Project, campaign_id: str) -> bool:
    """Fork the next place, or store why it cannot be; False if another call makes forks, or none is left."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            # not a row: cancelling must not wait until a world is restored
            cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s))", [f"campaign {campaign_id}"])
            (is_alone,) = cursor.fetchone()
        if not is_alone:
            return False
        point = _waiting(campaign_id).order_by("pk").first()
        if point is None:
            Campaign.objects.filter(pk=campaign_id, made_at=None).update(made_at=timezone.now())
            return False
        same = _waiting(campaign_id).filter(root=point.root_id, seq=point.seq)
        campaign = Campaign.objects.get(pk=campaign_id)
        try:
            made = forking.fork(
                system(project),
                point.root_id,
                point.seq,
                forking.change_of(campaign.change),
                campaign.tries,
                author=campaign.author,
            )
        except NoServer:
            raise
        except AppError as refused:
            same.update(reason=_reason(refused))
            return True
        # a campaign that was cancelled meanwhile gets no branches
        if not Campaign.objects.select_for_update(no_key=True).filter(pk=campaign_id, cancelled_at=None).exists():
            transaction.set_rollback(True)
            return False
        same.update(fork=made.fork)
        return True


def wake_forgotten() -> int:
    """Call again for campaigns at which no worker was for a while: its call was lost."""
    moment = timezone.now() - timedelta(seconds=FORGOTTEN_S)
    still = Campaign.objects.filter(long_ago("worked_at", moment), made_at=None, cancelled_at=None)
    forgotten = list(still.values_list("pk", flat=True)[:ROOTS])
    for pk in forgotten:
        launching.campaign_later(pk)
    return len(forgotten)
