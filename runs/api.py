"""The JSON API of runs: start one, with a plan or for an external loop's episodes; its states; its comparison."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest
from ninja import P, QueryEx, Router, Schema, Status
from pydantic import Field, StrictInt

from awmclient import schema
from awmclient.fields import WHOLE, Count, Line, Object
from episodes.api import CURSOR, LIMIT, filters_in, filters_of
from episodes.find import lists
from episodes.find.selection import newest
from episodes.models import Rejudging, Run
from episodes.record import recording
from episodes.stored import repairs
from people.access import Actor, may_launch, may_read, may_see_asking, visible_or_404
from people.http import REFUSALS, actor_of, refuse_body, refuse_unknown
from runs.errors import BadPlan
from runs.launch import briefings, estimating, planning, preflight
from runs.models import Campaign, CampaignPoint, Plan
from runs.plan import spending
from runs.plan.plans import PlanDocument, plan_of
from runs.play import campaigning, certifying, forking, prompting, reverifying
from runs.show import campaigns, errata, forks
from runs.show.asking import RunAsking, asking_of, row_of
from runs.show.comparison import RunComparison, compare_run
from runs.statistics.costs import Cost

router = Router(tags=["runs"])
EXPLORED = ("difficulty", "scenarios", "added", "price")
"""What a contrast holds beside the statements of the plan."""


class ComparisonView(Schema):
    """The results of a run. Each contrast holds counts, delta, intervals, method names and its sentence. `running` is
    valid at any time; the scopes are null before the planned size. `help` holds the effect of the offer, for each arm
    that draws its offers. `claims` is what the launch fixed that the run will say, and `claims_digest` its SHA-256.
    `exploratory` names the fields of a contrast that are no part of it: `difficulty` (differences by level),
    `scenarios`, `added` (the difference with seeds that were added) and `price`, also of `help`. Differences are shares
    from -1 to 1; each interval covers its own at 95%, that of `running` at its error."""

    run: str
    name: str
    state: str
    control: str
    seeds: int
    arms: list[Object]
    contrasts: list[Object]
    help: list[Object]
    sentence: str
    claims: Object
    claims_digest: str
    exploratory: list[str]


class AskingView(Schema):
    """How the arms of a run asked, over the counted episodes of the `tasks` that have a registry of blockers. Each arm
    has `asks`, those that `matched` a blocker, `blockers` and how many of them were `found`; `precision`, `recall` and
    `f1` from these, null where there is nothing to divide by; `asks_per_task` and `human_minutes`. `differences` are of
    task means, from -1 to 1 but for `asks`. All of it is exploratory."""

    run: str
    control: str
    tasks: int
    arms: list[Object]
    differences: list[Object]


class BriefingBody(schema.Shape):
    """A person's briefing of a task. `saw_outcomes`: its author knew outcomes of earlier episodes, or the verifier."""

    scenario: Line
    task_idx: Count
    text: str
    sources: list[Line] = Field(default_factory=list)
    saw_outcomes: bool = False


class PlanBody(schema.Shape):
    """A plan to preview before its launch; `name` is that of its run."""

    name: Line
    plan: Object


class PlanPreview(Schema):
    """The cost of a plan, estimated from `earlier` episodes, with arguments for its comparison (`checked`) and against
    it (`doubts`). Times are seconds; `usd` is null if a part is unknown. `preflight` is the run of the last preflight
    of such a plan, `earned` its result."""

    tasks: int
    episodes: int
    earlier: int
    seconds: float
    tokens: int
    human_s: float
    usd: float | None
    estimate: str
    doubts: list[str]
    checked: list[str]
    preflight: str | None
    earned: str


class SeedsBody(schema.Shape):
    """How many more seeds of every task and arm to plan, from 1 to 100."""

    seeds: Annotated[StrictInt, WHOLE]


class BriefingView(Schema):
    """A briefing. One with a `run` was distilled for its `arm`. An empty text has a `reason`, or is `withheld` from a
    reviewer who judges an episode of the task blind."""

    id: str
    scenario: str
    task_idx: int
    text: str
    withheld: bool
    reason: str
    source: str
    author: str
    privilege: str
    sources: list[str]
    run: str | None
    arm: str
    at: datetime


class CostView(Schema):
    """The cost of one arm's episodes so far. `usd` is null if a part of the money is unknown; `unknown` says why, and
    `usd_known` is the rest. `prompt_cached` is part of `prompt_tokens`, `reasoning_tokens` of
    `completion_tokens`; times are seconds."""

    arm: str
    episodes: int
    prompt_tokens: int
    prompt_cached: int
    reasoning_tokens: int
    completion_tokens: int
    expert_tokens: int
    briefing_tokens: int
    usd: float | None
    usd_known: float
    unknown: list[str]
    wall_s: float
    human_s: float


class ReverifyBody(schema.Shape):
    """Judge the stored episodes of a task again: with `verifier` by this code, which becomes the task's next version
    and takes effect if it fails on no episode; else by the verifier in force. `reason` says what was wrong."""

    scenario: Line
    task_idx: Count
    verifier: str = ""
    reason: str = ""


class NumberView(Schema):
    """A number or sentence that an erratum corrects."""

    what: str
    before: str
    after: str


class ErratumView(Schema):
    """What a repaired verifier changed in the numbers of a `run`, or in the rows of an `export`."""

    at: datetime
    task: str
    verifier: str
    author: str
    why: str
    run: str | None
    export: str | None
    changes: list[NumberView]


class RejudgingView(Schema):
    """A pass over the stored episodes of a task. `version` is 1 for the pack's own verifier, which changes no outcome.
    `state` is *running*, *ended*, or *refused* with a `problem`: then nothing was changed."""

    id: str
    scenario: str
    task_idx: int
    version: int
    verifier_sha256: str | None
    state: str
    kept: int
    changed: int
    not_restorable: int
    failed: int
    problem: str | None
    errata: list[ErratumView]


class RunDetail(Schema):
    """One run with the cost of each arm. `state` and `prices` are null for a run without a plan; `prices` are those at
    its launch, by role and endpoint, in US dollars per million tokens. `server` is what a further environment server
    reported about itself at the launch."""

    id: str
    name: str
    expert: str
    state: str | None
    prices: Object | None
    server: Object | None
    costs: list[CostView]
    errata: list[ErratumView]


class Retried(Schema):
    retried: int


class CertificateView(Schema):
    """The result of an episode's last replay: *exact*, *content*, *database* or *refused*, and the calls with equal
    results.

    `clocks` are *recorded* or *real*; `scenario_digest` is the version of the scenario that was replayed.

    """

    grade: str
    calls: int
    checked: int
    difference: str
    scenario_digest: str
    clocks: str
    at: datetime


class ForkBody(schema.Shape):
    """A fork of an ended episode at a step. `change` holds one of `call` (name, arguments), `advice`, `words`, `ask`
    (question) and `policy`, or nothing: then the agent chooses again. `tries` is the number of branches per arm;
    `budget` the tokens that all branches can use together, 0 for no limit. With the ID of a reviewer's `correction`,
    its action is the change."""

    step: Annotated[StrictInt, Field(ge=1, le=forking.STEP_MAX), WHOLE]
    correction: Annotated[str, Field(max_length=40)] = ""
    change: Object = Field(default_factory=dict)
    tries: Annotated[StrictInt, Field(ge=1, le=forking.TRIES_MAX), WHOLE] = 4
    budget: Annotated[StrictInt, Field(ge=0, le=10**12), WHOLE] = 0


class BranchView(Schema):
    """A branch, or the root of a tree, which has no parent, step and arm. `grade` is how its world was restored; it and
    `outcome` are null while they are unknown."""

    id: str
    parent: str | None = None
    step: int | None = None
    arm: str | None = None
    change: Object | None = None
    privilege: str | None = None
    state: str
    grade: str | None = None
    outcome: str | None = None


class ForkCost(Schema):
    """What one branch will take if it goes on as its episode did."""

    step: int
    turns: int
    tokens: int
    seconds: float
    asks: int


class BranchPromptView(Schema):
    """A prompt to continue an episode from a step: the messages before the choice, for a chat endpoint. `why` says why
    the episode cannot be forked; empty if it can."""

    episode: str
    step: int
    task: str
    tools: list[Any]
    messages: list[dict[str, Any]]
    privilege: str
    why: str


class ForkView(Schema):
    """A fork that was made: the grade of the restored world, and its branches."""

    id: str
    url: str
    grade: str
    branches: list[BranchView]


class ContinuedView(Schema):
    """An episode of an external loop that goes on from the prompt before `step` of `parent`. It is no branch."""

    id: str
    parent: str
    step: int
    state: str
    privilege: str
    outcome: str | None


class TreeView(Schema):
    """All branches below an episode, and below its branches; `continued` are episodes that go on from their prompts."""

    root: str
    episodes: list[BranchView]
    continued: list[ContinuedView]


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


class Certifying(Schema):
    """A replay was requested. `certificate` is the newest one so far, or null."""

    episode: str
    certificate: CertificateView | None


def _view(plan: Plan) -> schema.RunView:
    return schema.RunView(id=plan.run_id, name=plan.run.name, expert=plan.run.expert, state=plan.state)


@router.get("/runs", response={200: schema.RunPage, **REFUSALS}, openapi_extra=filters_in(lists.RUN_FILTERS))
def list_runs(
    request: HttpRequest, cursor: QueryEx[str, CURSOR] = "", limit: QueryEx[int, LIMIT] = 50
) -> schema.RunPage:
    """List the project's runs, newest first."""
    page = lists.runs(actor_of(request), filters_of(request), cursor, limit)
    states = dict(Plan.objects.filter(run__in=[one.id for one in page.items]).values_list("pk", "state"))
    items = [one.model_copy(update={"state": states.get(one.id)}) for one in page.items]
    return page.model_copy(update={"items": items})


@router.post("/runs", response={200: schema.RunView, 201: schema.RunView, **REFUSALS})
def start_run(request: HttpRequest, payload: schema.RunStart) -> Status[schema.RunView]:
    """Open a run. With a `plan` awmweb launches its episodes; without one an external loop starts them. A `start` of
    false in the plan leaves the run planned."""
    if payload.plan is not None:
        document = _document(payload.name, payload.plan)
        plan, made = planning.launch(actor_of(request), document, payload.key or "")
        return Status(201 if made else 200, _view(plan))
    run, made = recording.start_run(actor_of(request), payload)
    return Status(201 if made else 200, schema.RunView(id=run.pk, name=run.name, expert=run.expert))


@router.post("/runs/preview", response={200: PlanPreview, **REFUSALS})
def preview_plan(request: HttpRequest, payload: PlanBody) -> PlanPreview:
    """Return the cost of a plan and the weaknesses of its comparison, without launching anything."""
    actor = actor_of(request)
    may_launch(actor)
    document, tasks = _planned(actor, payload)
    found, trial = estimating.estimate(actor, document, len(tasks)), preflight.newest(actor, document, tasks)
    return PlanPreview(
        tasks=len(tasks),
        episodes=found.episodes,
        earlier=found.earlier,
        seconds=found.seconds,
        tokens=found.tokens,
        human_s=found.human_s,
        usd=found.usd,
        estimate=found.words,
        doubts=preflight.doubts(actor, document, tasks),
        checked=preflight.checked(actor, document, tasks),
        preflight=trial.pk if trial else None,
        earned=preflight.earned(actor, trial),
    )


@router.post("/runs/preflight", response={201: schema.RunView, **REFUSALS})
def start_preflight(request: HttpRequest, payload: PlanBody) -> Status[schema.RunView]:
    """Launch up to ten rollouts of the plan's control arm, as a run of their own."""
    actor = actor_of(request)
    may_launch(actor)
    plan, _ = planning.launch(actor, preflight.trial(*_planned(actor, payload)))
    return Status(201, _view(plan))


def _planned(actor: Actor, payload: PlanBody) -> tuple[PlanDocument, list[planning.Task]]:
    document = _document(payload.name, payload.plan)
    planning.check(document)
    return document, planning.tasks_of(actor, document)


def _document(name: str, plan: Object) -> PlanDocument:
    """Return the plan of a body. Raises `BadPlan`, also if the plan's name differs from the body's."""
    document = plan_of({"name": name, **plan})
    if document.name != name:
        raise BadPlan(f"plan.name: {document.name!r} is not the name of the run, {name!r}. Leave it out.")
    return document


@router.get("/runs/{run_id}", response={200: RunDetail, **REFUSALS})
def read_run(request: HttpRequest, run_id: str) -> RunDetail:
    """Read one run, and the cost of each of its arms."""
    actor = actor_of(request)
    may_read(actor)
    run = visible_or_404(Run.objects.all(), actor, run_id)
    plan = Plan.objects.filter(run=run).first()
    return RunDetail(
        id=run.pk,
        name=run.name,
        expert=run.expert,
        state=plan.state if plan else None,
        prices=plan.prices if plan else None,
        # empty for the built-in server
        server=plan.server or None if plan else None,
        costs=[_cost(one) for one in spending.costs_of(run)],
        errata=[_erratum(one) for one in errata.of_run(actor, run.pk)],
    )


def _cost(one: Cost) -> CostView:
    return CostView(
        arm=one.arm,
        episodes=one.episodes,
        prompt_tokens=one.agent.prompt,
        prompt_cached=one.agent.cached,
        completion_tokens=one.agent.completion,
        reasoning_tokens=one.agent.reasoning,
        expert_tokens=one.expert.all,
        briefing_tokens=one.briefing.all,
        usd=one.usd,
        usd_known=one.priced,
        unknown=list(one.unknown),
        wall_s=one.wall_s,
        human_s=one.human_s,
    )


@router.post("/runs/{run_id}/pause", response={200: schema.RunView, **REFUSALS})
def pause(request: HttpRequest, run_id: str) -> schema.RunView:
    refuse_body(request)
    return _view(planning.pause(actor_of(request), run_id))


@router.post("/runs/{run_id}/resume", response={200: schema.RunView, **REFUSALS})
def resume(request: HttpRequest, run_id: str) -> schema.RunView:
    """Start a planned run or resume a paused one."""
    refuse_body(request)
    return _view(planning.resume(actor_of(request), run_id))


@router.post("/runs/{run_id}/cancel", response={200: schema.RunView, **REFUSALS})
def cancel(request: HttpRequest, run_id: str) -> schema.RunView:
    refuse_body(request)
    return _view(planning.cancel(actor_of(request), run_id))


@router.post("/runs/{run_id}/retry", response={200: Retried, **REFUSALS})
def retry(request: HttpRequest, run_id: str) -> Retried:
    """Queue another episode for each one that infrastructure ended without an outcome."""
    refuse_body(request)
    return Retried(retried=planning.retry(actor_of(request), run_id))


@router.post("/runs/{run_id}/seeds", response={200: schema.RunView, **REFUSALS})
def add_seeds(request: HttpRequest, run_id: str, payload: SeedsBody) -> schema.RunView:
    """Plan more seeds. They change nothing that the run says at its planned size; the anytime statement reads them."""
    return _view(planning.add_seeds(actor_of(request), run_id, payload.seeds))


@router.get("/runs/{run_id}/comparison", response={200: ComparisonView, **REFUSALS})
def comparison(request: HttpRequest, run_id: str) -> ComparisonView:
    """Compare the arms of a planned run. Not for agent tokens."""
    refuse_unknown(request)
    return view_of(compare_run(actor_of(request), run_id))


@router.get("/runs/{run_id}/asking", response={200: AskingView, **REFUSALS})
def asking(request: HttpRequest, run_id: str) -> AskingView:
    """Say how the arms of a planned run asked for what is missing. Not for agent tokens."""
    refuse_unknown(request)
    actor = actor_of(request)
    may_see_asking(actor)
    compared = compare_run(actor, run_id)
    found = asking_of(compared) or RunAsking(0, [], [])
    arms = [{name: None if value == "" else value for name, value in row_of(one).items()} for one in found.arms]
    return AskingView(
        run=run_id,
        control=compared.plan.control,
        tasks=found.tasks,
        arms=arms,
        differences=[asdict(one) for one in found.differences],
    )


@router.get("/briefings", response={200: list[BriefingView], **REFUSALS})
def list_briefings(request: HttpRequest, scenario: str, task_idx: int) -> list[BriefingView]:
    """List the briefings of a task, the newest first. Not for agent tokens."""
    return [_seen(one) for one in briefings.of_task(actor_of(request), scenario, task_idx)]


@router.post("/briefings", response={201: BriefingView, **REFUSALS})
def write_briefing(request: HttpRequest, payload: BriefingBody) -> Status[BriefingView]:
    """Write the briefing of a task for runs that start from now on. It counts as informed if its author says so, or if
    its author sees the outcome of one of its sources."""
    said = payload.model_dump()
    return Status(201, _seen(briefings.ReadableBriefing(briefings.write(actor_of(request), **said), withheld=False)))


@router.post("/episodes/{episode_id}/certify", response={202: Certifying, **REFUSALS})
def certify(request: HttpRequest, episode_id: str) -> Status[Certifying]:
    """Replay the recorded calls of an ended episode in a fresh world. Not for agent tokens."""
    newest = certifying.request(actor_of(request), episode_id)
    view = None if newest is None else CertificateView.from_orm(newest)
    return Status(202, Certifying(episode=episode_id, certificate=view))


@router.get("/episodes/{episode_id}/fork", response={200: ForkCost, **REFUSALS})
def fork_cost(request: HttpRequest, episode_id: str, step: QueryEx[int, P(ge=1, le=forking.STEP_MAX)]) -> ForkCost:
    """Read what each branch from a step will take, by what the episode took from there on. Not for agent tokens."""
    refuse_unknown(request, "step")
    found = forking.estimated(actor_of(request), episode_id, step)
    return ForkCost(step=step, **asdict(found))


@router.post("/episodes/{episode_id}/fork", response={202: ForkView, **REFUSALS})
def fork(request: HttpRequest, episode_id: str, payload: ForkBody) -> Status[ForkView]:
    """Fork an ended episode: restore its world before a step, and queue branches with and without a change. Not for
    agent tokens."""
    given = payload.step, payload.change, payload.correction, payload.tries, payload.budget
    made = forking.fork_with(actor_of(request), episode_id, *given)
    found = [BranchView(**forks.row_of(branch, None)) for branch in made.branches]
    url = settings.AWMWEB_PUBLIC_URL + made.fork.get_absolute_url()
    return Status(202, ForkView(id=made.fork.pk, url=url, grade=made.fork.grade, branches=found))


@router.get("/episodes/{episode_id}/prompt", response={200: BranchPromptView, **REFUSALS})
def branch_prompt(
    request: HttpRequest, episode_id: str, step: QueryEx[int, P(ge=1, le=forking.STEP_MAX)]
) -> BranchPromptView:
    """Read a prompt to continue an ended episode from a step in a loop of your own, where no world can be restored. It
    is no fork, and nothing is made. Not for agent tokens."""
    refuse_unknown(request, "step")
    return BranchPromptView(**asdict(prompting.prompt_at(actor_of(request), episode_id, step)))


@router.get("/episodes/{episode_id}/tree", response={200: TreeView, **REFUSALS})
def tree(request: HttpRequest, episode_id: str) -> TreeView:
    """Read the tree of an episode and all its branches. Not for agent tokens."""
    refuse_unknown(request)
    root, rows, further = forks.tree(actor_of(request), episode_id)
    episodes, continued = [BranchView(**row) for row in rows], [ContinuedView(**row) for row in further]
    return TreeView(root=root.pk, episodes=episodes, continued=continued)


def _line(one: Campaign) -> dict[str, Any]:
    same = {name: getattr(one, name) for name in ("name", "view", "points", "tries", "created_at")}
    url = settings.AWMWEB_PUBLIC_URL + one.get_absolute_url()
    return {"id": one.pk, "url": url, "at": one.place, "budget": one.tokens, "by": one.author, **same}


def _campaign(actor: Actor, one: Campaign) -> CampaignDetail:
    found = campaigns.seen(actor, one)
    shown = found.finding
    at = {name: value for name, value in asdict(found.progress).items() if name != "left_out"}
    return CampaignDetail(
        **_line(one),
        **at,
        state=found.state,
        query="" if found.is_withheld else one.query,
        change=one.change,
        matched=one.matched,
        left_out={} if found.is_withheld else found.progress.left_out,
        withheld=found.is_withheld,
        sentence=found.sentence,
        kinds=shown.sentences[1:] if shown is not None else [],
        cells=[CampaignCellView(**asdict(cell)) for cell in shown.cells] if shown is not None else [],
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
    same = ("matched", "chosen", "roots", "branches", "least", "left_out", "words")
    return CampaignCost(forks=len(plan.forks), **plan.costs, **{name: getattr(plan, name) for name in same})


@router.get("/campaigns", response={200: CampaignList, **REFUSALS})
def list_campaigns(
    request: HttpRequest, cursor: QueryEx[str, CURSOR] = "", limit: QueryEx[int, LIMIT] = 50
) -> CampaignList:
    """List the campaigns of the project, newest first, without what they show. Not for agent tokens."""
    refuse_unknown(request, "cursor", "limit")
    found, after = newest(campaigns.of(actor_of(request)), cursor, limit)
    return CampaignList(items=[CampaignLine(**_line(one)) for one in found], next=after)


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
    found = campaigns.places(actor, campaigns.visible(actor, campaign_id), cursor, limit + 1)
    after = str(found[limit - 1].pk) if len(found) > limit else None
    return CampaignPlaces(items=[_place(one) for one in found[:limit]], next=after)


def _place(one: CampaignPoint) -> CampaignPlace:
    is_at_error = one.campaign.place == Campaign.Place.ERROR
    return CampaignPlace(
        episode=one.root_id,
        share=None if is_at_error else one.share,
        step=one.seq or None,
        fork=one.fork_id,
        grade=one.fork.grade if one.fork is not None else None,
        reason=one.reason or None,
    )


@router.post("/campaigns/{campaign_id}/cancel", response={200: CampaignDetail, **REFUSALS})
def cancel_campaign(request: HttpRequest, campaign_id: str) -> CampaignDetail:
    """Cancel a campaign: no further fork is made, and its live branches end. Not for agent tokens."""
    refuse_body(request)
    actor = actor_of(request)
    return _campaign(actor, campaigning.cancel(actor, campaign_id))


def _seen(one: briefings.ReadableBriefing) -> BriefingView:
    row = one.briefing
    same = ("scenario", "task_idx", "reason", "source", "author", "privilege", "sources", "arm", "at")
    about = {name: getattr(row, name) for name in same}
    return BriefingView(
        id=row.pk, text="" if one.withheld else row.text, withheld=one.withheld, run=row.run_id, **about
    )


def view_of(found: RunComparison) -> ComparisonView:
    plan = found.plan
    counts: list[dict[str, Any]] = [asdict(arm) | {"ended": arm.ended, "rate": arm.rate} for arm in found.arms]
    return ComparisonView(
        run=plan.run_id,
        name=plan.run.name,
        state=plan.state,
        control=plan.control,
        seeds=plan.seeds,
        arms=counts,
        contrasts=[
            asdict(one) | {"verdict": one.verdict, "difficulty": None if levels is None else asdict(levels)}
            for one, levels in zip(found.contrasts, found.levels, strict=True)
        ],
        help=[asdict(one) for one in found.effects],
        sentence=found.sentence,
        claims=found.claims.stored(),
        claims_digest=found.claims.digest,
        exploratory=list(EXPLORED),
    )


@router.post("/verifiers/reverify", response={202: RejudgingView, **REFUSALS})
def reverify(request: HttpRequest, payload: ReverifyBody) -> Status[RejudgingView]:
    """Judge the stored episodes of a task again, from their recorded worlds. Not for agent tokens."""
    said = (payload.scenario, payload.task_idx, payload.verifier, payload.reason)
    return Status(202, _pass(reverifying.request(actor_of(request), *said)))


@router.get("/verifiers/reverify/{rejudging_id}", response={200: RejudgingView, **REFUSALS})
def get_reverify(request: HttpRequest, rejudging_id: str) -> RejudgingView:
    """Read a pass: its counts and the errata that followed. Not for agent tokens."""
    actor = actor_of(request)
    refuse_unknown(request)
    return _pass(reverifying.visible_pass(actor, rejudging_id))


def _pass(one: Rejudging) -> RejudgingView:
    found = repairs.counts_of([one])[one.pk]
    return RejudgingView(
        id=one.pk,
        scenario=one.scenario,
        task_idx=one.task_idx,
        version=one.version.number if one.version else 1,
        verifier_sha256=one.version.sha256 if one.version else None,
        state="running" if one.ended_at is None else "refused" if one.problem else "ended",
        not_restorable=found.pop("lost"),
        problem=one.problem or None,
        errata=[_erratum(errata.of_erratum(each)) for each in repairs.errata().filter(rejudging=one)],
        **found,
    )


def _erratum(one: errata.ReadableErratum) -> ErratumView:
    same = {name: getattr(one, name) for name in ("at", "task", "verifier", "author", "why")}
    return ErratumView(
        **same,
        run=one.run.pk if one.run else None,
        export=one.export or None,
        changes=[NumberView(**asdict(each)) for each in one.changes],
    )
