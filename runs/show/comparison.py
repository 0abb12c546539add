"""Reads: the tries of a planned run with their outcomes, its counts, and its comparison.

A verifier's outcome decides: complete or not. A finished episode without one is excluded with its reason, and so is one
that an infrastructure fault or a person ended. A fault of the policy counts as not complete.

A try of a task that the court found at fault before the run was launched is excluded with the ruling. A later ruling
excludes nothing: a judge who rules then may have seen what it would do to the difference. For the same reason a
statement on outcomes of a repaired verifier holds only if the first outcomes showed it, too (`rereading.py`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce

from awmclient.schema import LIVE_STATES, NOT_COUNTED
from episodes.models import COMPLETE, EpisodeState, ExpertMode, Run, counted_as
from episodes.stored import outcomes
from episodes.stored.strip import BRIEFED
from episodes.visible import visibility
from experts.models import Ask, by_program
from people.access import Actor, holds, may_read, may_see_reviews, sees_outcomes, visible_or_404
from people.errors import WrongScope
from reviews.statistics.sampled import blind_sample
from reviews.visible import rulings
from runs.errors import WrongState
from runs.models import ENDED, Plan, PlanState
from runs.plan import claims, replaceable
from runs.plan.claims import Claims
from runs.plan.plans import briefing_words, plan_of
from runs.show import answers, helping
from runs.statistics import corrected, rereading
from runs.statistics.compare import CANCELLED, Try, contrasts, uncounted
from runs.statistics.contrast import Contrast, Corrected
from runs.statistics.corrected import Verdicts
from runs.statistics.difficulty import ByDifficulty, by_difficulty
from runs.statistics.offers import Effect, effects
from runs.statistics.self_control import against_itself
from runs.taskset import probes

OTHER_VERSION = "the pack was replaced during the run"
ASSISTED = "a person took part"


@dataclass(frozen=True)
class ArmCount:
    """The progress of one arm. `briefing` names the source of its briefings, empty if there is none."""

    name: str
    expert: str
    briefing: str
    planned: int
    queued: int
    live: int
    complete: int
    others: int
    excluded: dict[str, int]
    corrected: Corrected | None = None
    """Its rate without the verifier's own errors, where a random blind sample says them."""

    @property
    def ended(self) -> int:
        return self.complete + self.others + sum(self.excluded.values())

    @property
    def rate(self) -> float | None:
        counted = self.complete + self.others
        return self.complete / counted if counted else None


@dataclass(frozen=True)
class RunComparison:
    """All results of a run. `tries` are those it was computed from; tasks in `ruled_later` count, though the court
    found them at fault after the launch."""

    plan: Plan
    arms: list[ArmCount]
    contrasts: list[Contrast]
    tries: list[Try]
    ruled_later: list[str]
    effects: list[Effect]
    levels: list[ByDifficulty | None]
    """One per contrast, if the difficulty of its tasks is known from other episodes. Exploratory."""
    claims: Claims
    """What the run says, as its launch fixed it. Everything else here is exploratory."""
    accepted: Verdicts = field(default_factory=dict)
    """What blind people said of the episodes that were drawn for them, for readers who may see reviews."""

    @property
    def sentence(self) -> str:
        """The finding of the primary contrast, else of the first one or draw of help; or the progress of the run."""
        named = str(self.plan.document.get("primary") or "")
        if contrast := next((one for one in self.contrasts if one.arm == named), None):
            return f"{contrast.arm} against {contrast.control}: {contrast.sentence}"
        if len(self.contrasts) > 1:
            return f"{self.contrasts[0].arm} against {self.contrasts[0].control}: {self.contrasts[0].sentence}"
        if self.contrasts or self.effects:
            return (self.contrasts or self.effects)[0].sentence
        ended, planned = sum(arm.ended for arm in self.arms), sum(arm.planned for arm in self.arms)
        return f"{ended} of {planned} episodes ended. One arm: nothing to compare."

    @property
    def ends(self) -> Sequence[Try]:
        """The tries as they count when no more will follow: those that a person cancelled with the run stay open."""
        return uncounted(self.tries) if self.plan.state == PlanState.CANCELLED else self.tries


def plan_of_run(actor: Actor, run_id: str) -> Plan:
    """Return the plan of a run. Raises `WrongState` for a run without one."""
    may_read(actor)
    run = visible_or_404(Run.objects.all(), actor, run_id)
    plan = Plan.objects.select_related("run").filter(run=run).first()
    if plan is None:
        raise WrongState("This run has no plan.")
    return plan


def compare_run(actor: Actor, run_id: str, *, is_bare: bool = False) -> RunComparison:
    """Read the tries of a run and compare its arms; a bare one has nothing beside its contrasts.

    Raises `WrongScope` for a token that sees no outcomes, `BlindReview` while one of its
    outcomes is withheld from this reviewer.
    """
    plan = plan_of_run(actor, run_id)
    if not sees_outcomes(actor):
        raise WrongScope("Agent tokens cannot read comparisons.")
    # before anything is read: a comparison shows outcomes that this reviewer has to judge blind
    visibility.refuse_while_blind(actor, plan.pk)
    claim_set, void = claims_of(plan)
    tries, states = _tries_of(plan, claim_set)
    arms = list(plan.arms.all())
    by_arm: dict[str, list[tuple[Try, str]]] = {arm.name: [] for arm in arms}
    for each in zip(tries, states, strict=True):
        by_arm[each[0].arm].append(each)
    counts = [_count(arm.name, arm.expert, briefing_words(plan.document, arm.name), by_arm[arm.name]) for arm in arms]
    stopped = plan.state == PlanState.CANCELLED
    compared, drawn = _both_readings(plan, claim_set, tries, stopped=stopped, void=void)
    later = sorted({one.task for one in tries} & set(rulings.at_fault(plan.run.project)) - set(claim_set.left_out))
    earlier = _earlier(actor, plan) if compared else {}
    # seeds that were added change nothing of the planned size
    planned = [one for one in tries if one.wave == 0]
    levels = [by_difficulty(one, planned, earlier) for one in compared]
    comparison = RunComparison(plan, counts, compared, tries, later, drawn, levels, claim_set)
    return comparison if is_bare else _beside(actor, comparison)


def _beside(actor: Actor, comparison: RunComparison) -> RunComparison:
    """Return the comparison of a run that has ended with what is beside it: the same without the verifier's own errors,
    for who may see reviews, and the control against itself."""
    contrasts, arms, tries = comparison.contrasts, comparison.arms, comparison.tries
    if any(each.is_open for each in tries if each.wave == 0):
        return comparison
    if any(one.state == "final" for one in contrasts) and (itself := against_itself(tries, comparison.plan.control)):
        contrasts = [replace(one, against_itself=itself) for one in contrasts]
    sampled = [each.episode for each in tries if each.wave == 0 and each.complete is not None]
    verdicts = blind_sample(actor, sampled) if holds(actor, may_see_reviews) else {}
    if verdicts:
        # a repair can follow from the sample, and would then look better on it than elsewhere
        first = first_tries_of(comparison)
        read = first or tries
        contrasts = [
            replace(each, corrected=corrected.difference(read, each, verdicts, repaired=bool(first)))
            for each in contrasts
        ]
        arms = [replace(arm, corrected=corrected.rate(read, arm.name, verdicts, repaired=bool(first))) for arm in arms]
    return replace(comparison, contrasts=contrasts, arms=arms, accepted=verdicts)


def claims_of(plan: Plan) -> tuple[Claims, str]:
    """Return what a run says, as fixed at its launch, and why it may say nothing; "" if it may. For a run from before
    there were claims they follow from its plan and what was known when it was launched."""
    document = plan_of(plan.document)
    if plan.claims:
        claim_set = claims.of_stored(plan.claims)
        # both: the claims as stored, and the plan that they were made from
        same = claims.digest_of(plan.claims) == plan.claims_digest and document.digest == claim_set.plan
        return claim_set, "" if same else "The plan of this run was changed after its launch."
    first = plan.tries.filter(wave=0, seed=0, arm__name=plan.control).order_by("position")
    tasks = [f"{scenario}/{idx}" for scenario, idx in first.values_list("scenario", "task_idx")]
    return claims.made(document, tasks, left_out(plan)), ""


def left_out(plan: Plan) -> Mapping[str, str]:
    """Return the tasks that a run leaves out, with what was known against them at its launch."""
    if plan.claims:
        return claims.of_stored(plan.claims).left_out
    return probes.unfit(plan.run.project, before=plan.run.created_at)


def evaluate(
    claim_set: Claims, tries: Sequence[Try], *, stopped: bool = False, void: str = ""
) -> tuple[list[Contrast], list[Effect]]:
    """Evaluate the claims of a run on its tries, and nothing else. Everything that pages, the API and reports state of
    a run comes from here."""
    void = void or claims.broken(claim_set, tries)
    return contrasts(tries, claim_set.said, stopped=stopped, void=void), effects(
        tries, claim_set.said, stopped=stopped, void=void
    )


def evaluate_plan(plan: Plan) -> tuple[list[Contrast], list[Effect]]:
    """Evaluate the claims of a run on its tries as they are now, as pages and the API state them."""
    claim_set, void = claims_of(plan)
    return _both_readings(
        plan, claim_set, _tries_of(plan, claim_set)[0], stopped=plan.state == PlanState.CANCELLED, void=void
    )


def _both_readings(
    plan: Plan, claim_set: Claims, tries: Sequence[Try], *, stopped: bool, void: str
) -> tuple[list[Contrast], list[Effect]]:
    """Evaluate claims on the outcomes that count, without what the first outcomes did not show."""
    compared, drawn = evaluate(claim_set, tries, stopped=stopped, void=void)
    if superseded := outcomes.first_types(one.episode for one in tries):
        # the outcomes that the claims were first read from: a repair was made by people who had seen them
        first = evaluate(claim_set, _tries_of(plan, claim_set, first=True)[0], stopped=stopped, void=void)
        corrected = Counter(each.arm for each in tries if each.episode in superseded)
        compared = [rereading.contrast(*both, corrected) for both in zip(compared, first[0], strict=True)]
        drawn = [rereading.effect(*both) for both in zip(drawn, first[1], strict=True)]
    return compared, drawn


def _earlier(actor: Actor, plan: Plan) -> dict[str, tuple[int, int]]:
    """Return (complete, counted) of each task's episodes without an expert or a briefing before the launch, with the
    control's policy."""
    control = plan.tries.filter(arm__name=plan.control).select_related("episode").first()
    if control is None:
        return {}
    alone = visibility.of_project(actor).filter(
        episode__expert=ExpertMode.OFF,
        episode__state=EpisodeState.FINISHED,
        episode__created_at__lt=plan.run.created_at,
        episode__policy_kind=control.episode.policy_kind,
        episode__policy_name=control.episode.policy_name,
        episode__task_idx__isnull=False,
    )
    alone = alone.unaided().exclude(reward_type__in=NOT_COUNTED).exclude(episode__scenario="")
    alone = alone.exclude(episode__strip__contains=BRIEFED)
    rows = alone.order_by().values_list("episode__scenario", "episode__task_idx")
    counted = rows.annotate(counted=Count("pk"), complete=Count("pk", filter=Q(reward_type=COMPLETE)))
    return {f"{scenario}/{idx}": (complete, every) for scenario, idx, every, complete in counted}


def is_settled(plan: Plan) -> bool:
    """Return whether a run has ended and each of its tries has an outcome, or a reason for none."""
    return plan.state in ENDED and all(one.complete is not None or one.excluded for one in tries_of(plan)[0])


def tries_of(plan: Plan) -> tuple[list[Try], list[str]]:
    """Return every try of a plan with its result, and the state of its episode."""
    return _tries_of(plan, claims_of(plan)[0])


def first_tries_of(comparison: RunComparison) -> list[Try]:
    """Return the tries of a run with their first outcomes; none if no verifier was repaired."""
    if not outcomes.first_types(each.episode for each in comparison.tries):
        return []
    return _tries_of(comparison.plan, comparison.claims, first=True)[0]


def _tries_of(plan: Plan, claim_set: Claims, *, first: bool = False) -> tuple[list[Try], list[str]]:
    """Return the tries with the outcomes that count, or with the first ones, before verifiers were repaired."""
    rows = list(
        plan.tries.order_by("wave", "position", "seed", "arm__place").values_list(
            "scenario", "task_idx", "arm__name", "seed", "position", "wave",
            "episode_id", "episode__state", "episode__fault", "offered", "chance", "tries", "episode__created_at",
            "episode__scenario_digest", "episode__assisted",
        )
    )  # fmt: skip
    of_plan = outcomes.of_project(plan.run.project).filter(episode__planned__plan=plan)
    types = dict(of_plan.filter(episode__state=EpisodeState.FINISHED).values_list("episode_id", "reward_type"))
    types |= outcomes.first_types(types) if first else {}
    silent = {row[6] for row in rows if row[7] == EpisodeState.FINISHED} - set(types)
    unverified = replaceable.unverified(silent)
    unfit = claim_set.left_out
    tries = []
    asks, ends = _asks_of(plan), helping.ends_of(plan)
    shared = answers.shared(Ask.objects.filter(episode__planned__plan=plan))
    changed = _changed((row[0], row[-2]) for row in rows)
    for (
        scenario,
        idx,
        arm,
        seed,
        position,
        wave,
        episode,
        state,
        fault,
        offered,
        chance,
        episodes,
        created_at,
        _,
        assisted,
    ) in rows:
        reason = ASSISTED if assisted else unverified.get(episode, "")
        complete, excluded = _became(state, fault, None if assisted else types.get(episode), reason, assisted)
        task = f"{scenario}/{idx}"
        if complete is not None and scenario in changed:
            complete, excluded = None, OTHER_VERSION
        if complete is not None and task in unfit:
            complete, excluded = None, unfit[task]
        about = (complete, excluded, offered, chance, episode in asks, asks.get(episode, 0.0), episode)
        read = frozenset(shared.get(episode, ()))
        retried_at = created_at.timestamp() if episodes > 1 else 0.0
        end = ends.get(episode, (0, 0))
        tries.append(
            Try(task, scenario, arm, seed, position, wave, *about, read, retried_at, *end, unfit=task in unfit)
        )
    return tries, [row[7] for row in rows]


def _changed(versions: Iterable[tuple[str, str]]) -> set[str]:
    """Return the scenarios of which a run has episodes of several versions: these are no repetitions of one task."""
    by_scenario: dict[str, set[str]] = defaultdict(set)
    for scenario, version in versions:
        by_scenario[scenario] |= {version} if version else set()
    return {scenario for scenario, of_it in by_scenario.items() if len(of_it) > 1}


def _asks_of(plan: Plan) -> dict[str, float]:
    """Return the episodes of a plan that asked, with the seconds that people took to answer, from claim to answer.
    Answers of programs count 0."""
    by_people = Q(advice__source="human", advice__amended_by=None) & ~by_program("advice__")
    asks = Ask.objects.filter(episode__planned__plan=plan).values("episode_id")
    return dict(
        asks.annotate(took=Coalesce(Sum("advice__took_s", filter=by_people), 0.0)).values_list("episode_id", "took")
    )


def _became(
    state: str, fault: str, reward_type: str | None, unverified: str, assisted: bool
) -> tuple[bool | None, str]:
    """Return (complete or not, the reason for its exclusion); neither for an open try."""
    complete = counted_as(state, fault, reward_type, assisted)
    if complete is not None:
        return complete, ""
    reasons: dict[str, str] = {
        EpisodeState.CANCELLED: CANCELLED,
        EpisodeState.FAILED: ASSISTED if assisted else f"fault {fault or 'unknown'}",
        EpisodeState.FINISHED: reward_type or unverified,
    }
    return None, reasons.get(state, "")


def _count(name: str, expert: str, briefing: str, mine: list[tuple[Try, str]]) -> ArmCount:
    return ArmCount(
        name,
        expert,
        briefing,
        planned=len(mine),
        queued=[state for _, state in mine].count("queued"),
        # the first live state is queued
        live=sum(state in LIVE_STATES[1:] for _, state in mine),
        complete=sum(one.complete is True for one, _ in mine),
        others=sum(one.complete is False for one, _ in mine),
        excluded=dict(Counter(one.excluded for one, _ in mine if one.excluded)),
    )
