"""The JSON API of runs: start one, with a plan or for an external loop's episodes; its states; its comparison."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import QueryEx, Router, Schema, Status
from pydantic import Field, StrictInt

from awmclient import schema
from awmclient.nouns.fields import MAX_INT, WHOLE, Line, Object, Shape
from episodes.api import CURSOR, LIMIT, filters_in, filters_of
from episodes.find import lists
from episodes.models import Run
from episodes.record import recording
from people.access import Actor, may_launch, may_read, may_see_asking, visible_or_404
from people.http import REFUSALS, actor_of, answer_of, refuse_unknown
from runs.api.verifiers import ErratumView, erratum_view
from runs.errors import BadPlan
from runs.launch import estimating, planning, preflight, selecting
from runs.models import Plan
from runs.plan import spending
from runs.plan.plans import PlanDocument, plan_of
from runs.show import causes, errata, model_turns
from runs.show.asking import RunAsking, asking_of, row_of
from runs.show.comparison import RunComparison, compare_run
from runs.statistics.costs import Cost

router = Router(tags=["runs"])
EXPLORED = ("difficulty", "scenarios", "added", "price", "corrected", "against_itself")
"""What a contrast holds beside the statements of the plan."""


class ComparisonView(Schema):
    """The results of a run. Each contrast holds counts, delta, intervals, method names and its sentence. `running` is
    valid at any time; the scopes are null before the planned size. `help` holds the effect of the offer, for each arm
    that draws its offers. `claims` is what the launch fixed that the run will say, and `claims_digest` its SHA-256.
    `exploratory` names the fields of a contrast that are no part of it: `difficulty` (differences by level),
    `scenarios`, `added` (the difference with seeds that were added), `price`, also of `help`, `corrected` (without the
    verifier's own errors, from a random blind sample; also the rate of each of `arms`; null without one) and
    `against_itself` (what the method says of two random halves of the control). Differences are shares from -1 to 1;
    each interval covers its own at 95%, that of `running` at its error."""

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
    `f1` from `found`, null where there is nothing to divide by; `asks_per_task` and `human_minutes`. `differences` are
    of task means, from -1 to 1 but for `asks`. `blockers` are the missing facts, those found least first, with the
    episodes of each arm that `found` them. `controls` has the `f1` of questions without thought: `copied` from the
    task, and one `fixed` sentence. All of it is exploratory."""

    run: str
    control: str
    tasks: int
    arms: list[Object]
    differences: list[Object]
    blockers: list[Object]
    controls: Object | None


class PlanBody(Shape):
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


class SeedsBody(Shape):
    """How many more seeds of every task and arm to plan, from 1 to 100."""

    seeds: Annotated[StrictInt, Field(le=MAX_INT), WHOLE]


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


class CauseView(Schema):
    """A cause that episodes of a run have in common: `state` is theirs, `episode` the newest of them. Causes that
    differ in IDs and times alone are one. `stop_reason` is set where a model gave no answer: these episodes count as
    they were judged."""

    state: str
    fault: str | None
    stop_reason: str | None
    words: str
    episodes: int
    episode: str


class TurnsView(Schema):
    """Turns of one arm's models, each kind with the number of episodes that have one, of `episodes` that were read:
    `unread` look like calls and called nothing, `in_text` had calls in their words, `stopped` were cut off or filtered.
    """

    arm: str
    episodes: int
    unread: int
    unread_in: int
    in_text: int
    in_text_in: int
    stopped: int
    stopped_in: int


class RunDetail(Schema):
    """One run with the cost of each arm. `causes` say why episodes failed, wait or have no outcome, the most frequent
    first; other causes are those of `more_causes` episodes. `state` and `prices` are null for a run without a plan;
    `prices` are those at its launch, by role and endpoint, in US dollars per million tokens. `server` is what a further
    environment server reported about itself at the launch."""

    id: str
    name: str
    expert: str
    state: str | None
    prices: Object | None
    server: Object | None
    costs: list[CostView]
    errata: list[ErratumView]
    causes: list[CauseView]
    more_causes: int
    turns: list[TurnsView]


class Retried(Schema):
    retried: int


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
    cost, trial = estimating.estimate(actor, document, len(tasks)), preflight.newest(actor, document, tasks)
    return PlanPreview(
        tasks=len(tasks),
        episodes=cost.episodes,
        earlier=cost.earlier,
        seconds=cost.seconds,
        tokens=cost.tokens,
        human_s=cost.human_s,
        usd=cost.usd,
        estimate=cost.words,
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


def _planned(actor: Actor, payload: PlanBody) -> tuple[PlanDocument, list[selecting.Task]]:
    document = _document(payload.name, payload.plan)
    planning.check(document)
    return document, selecting.tasks_of(actor, document)


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
    why = causes.causes_of(actor, run)
    return RunDetail(
        id=run.pk,
        name=run.name,
        expert=run.expert,
        state=plan.state if plan else None,
        prices=plan.prices if plan else None,
        # empty for the built-in server
        server=plan.server or None if plan else None,
        costs=[_cost(one) for one in spending.costs_of(run)],
        errata=[erratum_view(one) for one in errata.of_run(actor, run.pk)],
        causes=[
            answer_of(CauseView, cause, fault=cause.fault or None, stop_reason=cause.stop or None, episode=cause.newest)
            for cause in why.shown
        ],
        more_causes=why.more,
        turns=[answer_of(TurnsView, arm) for arm in model_turns.turns_of(actor, run)],
    )


def _cost(cost: Cost) -> CostView:
    return answer_of(
        CostView,
        cost,
        prompt_tokens=cost.agent.prompt,
        prompt_cached=cost.agent.cached,
        completion_tokens=cost.agent.completion,
        reasoning_tokens=cost.agent.reasoning,
        expert_tokens=cost.expert.all,
        briefing_tokens=cost.briefing.all,
        usd_known=cost.priced,
    )


@router.post("/runs/{run_id}/pause", response={200: schema.RunView, **REFUSALS})
def pause(request: HttpRequest, run_id: str) -> schema.RunView:
    return _view(planning.pause(actor_of(request), run_id))


@router.post("/runs/{run_id}/resume", response={200: schema.RunView, **REFUSALS})
def resume(request: HttpRequest, run_id: str) -> schema.RunView:
    """Start a planned run or resume a paused one."""
    return _view(planning.resume(actor_of(request), run_id))


@router.post("/runs/{run_id}/cancel", response={200: schema.RunView, **REFUSALS})
def cancel(request: HttpRequest, run_id: str) -> schema.RunView:
    return _view(planning.cancel(actor_of(request), run_id))


@router.post("/runs/{run_id}/retry", response={200: Retried, **REFUSALS})
def retry(request: HttpRequest, run_id: str) -> Retried:
    """Queue another episode for each one that infrastructure ended without an outcome."""
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
    compared = compare_run(actor, run_id, is_bare=True)
    run_asking = asking_of(compared) or RunAsking(0, [], [], [])
    arms = [{name: None if value == "" else value for name, value in row_of(one).items()} for one in run_asking.arms]
    return AskingView(
        run=run_id,
        control=compared.plan.control,
        tasks=run_asking.tasks,
        arms=arms,
        differences=[asdict(one) for one in run_asking.differences],
        blockers=[asdict(one) for one in run_asking.blockers],
        controls=asdict(run_asking.controls) if run_asking.controls else None,
    )


def view_of(compared: RunComparison) -> ComparisonView:
    plan = compared.plan
    counts: list[dict[str, Any]] = [asdict(arm) | {"ended": arm.ended, "rate": arm.rate} for arm in compared.arms]
    return ComparisonView(
        run=plan.run_id,
        name=plan.run.name,
        state=plan.state,
        control=plan.control,
        seeds=plan.seeds,
        arms=counts,
        contrasts=[
            asdict(contrast) | {"verdict": contrast.verdict, "difficulty": None if levels is None else asdict(levels)}
            for contrast, levels in zip(compared.contrasts, compared.levels, strict=True)
        ],
        help=[asdict(one) for one in compared.effects],
        sentence=compared.sentence,
        claims=compared.claims.stored(),
        claims_digest=compared.claims.digest,
        exploratory=list(EXPLORED),
    )
