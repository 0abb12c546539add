"""Forks: an ended episode goes on from one of its steps, changed and unchanged, in branches of its own.

Owns where an episode can be forked, what its branches begin with, and what is known to those who shaped them. The world
before the step is restored and compared first; where it cannot be, nothing is made. Leaves the rows to
`episodes.record.branching` and what the branches show to `runs.show.forks`. Called by the API, a page and a command.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from asgiref.sync import async_to_sync
from django.db import transaction
from pydantic import Field, ValidationError, field_validator, model_validator

from awmclient.asking.gates import reached_world
from awmclient.client.bodies import question_problem
from awmclient.nouns.fields import Shape, Text
from awmclient.nouns.kinds import is_approval, is_ask, is_briefing, is_message, is_said, is_tool_use, is_verification
from awmclient.record.observations import WORLD
from awmclient.record.progress import ENDS, active_s
from awmclient.schema import ASK_TOOL, QUESTION_MAX, ToolCall
from awmenv.errors import AwmenvError
from awmenv.repeated import Made
from episodes.models import BranchArm, Certificate, Episode, ExpertMode, Fork, Knowledge, Privilege
from episodes.record import branching
from episodes.record.branching import ArmPlan
from episodes.visible import visibility
from episodes.visible.trajectory import steps_of
from people.access import Actor, may_launch, visible_or_404
from people.errors import Invalid, NotFound, words_of
from people.models import new_id
from people.text.in_words import count, duration
from reviews.models import Correction, CorrectionKind
from reviews.record.correcting import misfit
from runs.errors import NoServer, NotForkable, StillLive
from runs.launch import launching
from runs.models import Campaign
from runs.plan import servers, spending
from runs.plan.plans import PERSON
from runs.play import certifying
from runs.show import campaigns
from runs.statistics.costs import tokens_of

TRIES_MAX = 32
BRANCHES_MAX = 64
"""The most branches that all forks of one episode have."""
TEXT_MAX = 20_000
POLICY_MAX = 200
RESTORE_S = 30.0
"""The most time that a request waits for a world."""
STEP_MAX = 2**31 - 1
PROVABLE = (CorrectionKind.CALL, CorrectionKind.ASK)
"""Corrections that a branch can begin with."""
Words = Annotated[Text, Field(min_length=1, max_length=TEXT_MAX)]
Steps = Sequence[Mapping[str, Any]]


class ForkQuestion(Shape):
    """A question to the experts in place of the recorded choice."""

    question: Annotated[Text, Field(min_length=1, max_length=QUESTION_MAX)]

    @field_validator("question")
    @classmethod
    def _asks(cls, value: str) -> str:
        if problem := question_problem(value):
            raise ValueError(problem)
        return value


class ForkChange(Shape):
    """What the treated branches do at the step instead: another `call`, other `advice` to the question, `words` to the
    agent before it chooses, a question to `ask`, or another `policy` that chooses. With none of them, the agent
    chooses again."""

    call: ToolCall | None = None
    advice: Words | None = None
    words: Words | None = None
    ask: ForkQuestion | None = None
    policy: Annotated[Text, Field(min_length=1, max_length=POLICY_MAX)] | None = None

    @model_validator(mode="after")
    def _checked(self) -> ForkChange:
        if sum(value is not None for _, value in self) > 1:
            raise ValueError("a fork changes one thing")
        return self


@dataclass(frozen=True)
class BranchPoint:
    """A step at which an episode can be forked. Its branches copy the steps before `cut`; `kept` are those with which
    the agent's own choice is made again. `first` is false for a later call of a turn."""

    cut: int
    step: Mapping[str, Any]
    kept: list[dict[str, Any]]
    first: bool
    said: str = ""


@dataclass(frozen=True)
class ForkEstimate:
    """What one branch will take, by what this episode took from the step on."""

    turns: int
    tokens: int
    seconds: float
    asks: int

    def words(self, branches: int) -> str:
        """Return what this number of branches will take together."""
        asks = f", {count(branches * self.asks, 'question')} to experts" if self.asks else ""
        turns, tokens = (f"{branches * one:,}" for one in (self.turns, self.tokens))
        return (
            f"{branches:,} branches: about {turns} turns, {tokens} tokens"
            f"{asks} and {duration(branches * self.seconds)} of work."
        )


@dataclass(frozen=True)
class NewFork:
    """A fork that was just made, with its branches."""

    fork: Fork
    branches: list[Episode] = field(default_factory=list)


def change_of(value: Any) -> ForkChange:
    """Return a change from JSON or YAML. Raises `Invalid`."""
    try:
        return ForkChange.model_validate({} if value is None else value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"change{'.' if place else ''}{place}: {words_of(first)}.") from error


def point_of(steps: Steps, seq: int) -> BranchPoint:
    """Return the place of a step. Raises `NotForkable` for a step at which the agent chose nothing. Pure."""
    step = next((one for one in steps if one["seq"] == seq), None)
    if step is None:
        raise NotForkable(f"The episode has no step {seq}.")
    turn = step.get("turn")
    of_turn = [one for one in steps if turn is not None and one.get("turn") == turn]
    acts = [one for one in of_turn if is_tool_use(one)]
    if is_said(step) and acts:
        # the message of a turn is also that of its first call
        step = acts[0]
    is_end = is_message(step) and ENDS in (step.get("meta") or {})
    if step not in acts and not is_end:
        raise NotForkable(f"Step {seq} is no choice of the agent. Fork from a call, a question or the answer.")
    if step.get("acted_by") is not None:
        raise NotForkable(f"Step {seq} is of a person at the wheel, not of the agent.")
    if step.get("approval") is not None or any(is_approval(one) for one in of_turn):
        raise NotForkable(f"Step {seq} is in a turn that waited for an approval.")
    if any(one.get("done") is True for one in steps if one["seq"] < step["seq"]):
        raise NotForkable(f"The world had ended before step {seq}.")
    is_first = is_end or step is acts[0]
    message = next((one for one in of_turn if is_message(one)), None) if is_first else None
    cut = min(one["seq"] for one in of_turn) if is_first else step["seq"]
    content = str(message.get("content", "")) if message is not None else ""
    return BranchPoint(cut, step, _kept(step, content), is_first, content)


def _kept(step: Mapping[str, Any], content: str) -> list[dict[str, Any]]:
    """Return the steps that make a recorded choice again."""
    if is_message(step):
        # without what the model was paid for
        return [_plain(step, ("kind", "role", "content", "turn", "meta"))]
    if is_ask(step):
        asked = {name: step[name] for name in ("question", "context") if step.get(name) is not None}
        again = _plain(step, ("kind", "turn", "call_id", "ask", "question", "context", "files", "typed", "advice"))
        return [_calling(step, content, ASK_TOOL, asked), again]
    return [_calling(step, content, step["name"], step.get("arguments") or {})]


def _plain(step: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: step[name] for name in names if step.get(name) is not None}


def _calling(step: Mapping[str, Any], content: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of a turn that is about to make one call, which the loop then makes."""
    call = {"name": name, "arguments": dict(arguments), **_plain(step, ("call_id",))}
    return {"kind": "message", "role": "assistant", "content": content, "turn": step["turn"], "calls": [call]}


def arms_of(
    point: BranchPoint,
    change: ForkChange,
    author: str,
    levels: Mapping[str, Knowledge],
    policy: Mapping[str, Any] | None = None,
) -> list[ArmPlan]:
    """Return how both arms begin: they differ in the change alone. `policy` is that of a change's name. Raises
    `NotForkable`. Pure."""
    seq, step = point.step["seq"], point.step
    before, by_author = levels["before"], levels["author"]
    combined = Knowledge(Knowledge.most([before, by_author]))
    kept = ArmPlan(BranchArm.CONTROL, point.kept, levels["kept"])
    if change.call is not None:
        call = _calling(step, point.said, change.call.name, change.call.arguments)
        return [ArmPlan(BranchArm.TREATED, [call], combined), kept]
    if change.ask is not None:
        question = _calling(step, point.said, ASK_TOOL, change.ask.model_dump())
        return [ArmPlan(BranchArm.TREATED, [question], combined), kept]
    if change.advice is not None:
        if not is_ask(step) or step.get("typed") is not None:
            raise NotForkable(f"Step {seq} is no plain question. Other advice needs one; elsewhere add words.")
        privilege = Privilege.BLIND if combined == Knowledge.BLIND else Privilege.SEES_VERIFIER
        advice = {"text": change.advice, "source": "human", "author": author, "privilege": privilege.value}
        return [ArmPlan(BranchArm.TREATED, [point.kept[0], {**point.kept[1], "advice": advice}], combined), kept]
    if not point.first:
        raise NotForkable(f"The agent chose step {seq} together with the call before. Change the call, or fork there.")
    if change.words is not None:
        words = {"kind": "message", "role": "user", "content": change.words}
        return [ArmPlan(BranchArm.TREATED, [words], combined), ArmPlan(BranchArm.CONTROL, [], before)]
    if change.policy is not None:
        # both choose afresh: against the recorded choice, the model would differ and the draw as well
        return [ArmPlan(BranchArm.TREATED, [], combined, policy), ArmPlan(BranchArm.CONTROL, [], before)]
    return [ArmPlan(BranchArm.TREATED, [], before), kept]


def knowledge(actor: Actor, parent: Episode, steps: Steps, point: BranchPoint) -> dict[str, Knowledge]:
    """Return what is known `before` the step, with the recorded choice `kept`, and to the `author` of a change."""
    informed = parent.expert == ExpertMode.INFORMED
    knows_end = visibility.of_episode(actor, parent) is not None
    author = Knowledge.SEES_VERIFIER if informed else Knowledge.HINDSIGHT if knows_end else Knowledge.BLIND
    before = knowledge_before(parent, [one for one in steps if one["seq"] < point.cut])
    return {
        "before": before,
        "kept": Knowledge(Knowledge.most([before, *map(_advice_text, point.kept)])),
        "author": author,
    }


def knowledge_before(parent: Episode, earlier: Steps) -> Knowledge:
    """Return what those knew whose words or acts are in these first steps."""
    levels = [parent.knowledge or Knowledge.BLIND, *map(_advice_text, earlier)]
    # a person at the wheel of an informed episode can have read its verifier
    if parent.expert == ExpertMode.INFORMED and any(one.get("acted_by") is not None for one in earlier):
        levels.append(Knowledge.SEES_VERIFIER)
    return Knowledge(Knowledge.most(levels))


def _with_correction(actor: Actor, row: Correction, level: Knowledge) -> Knowledge:
    """Return what is known to the author of a correction and to who forks with it. What another person saw is not
    recorded, so they count as having known how the episode ended."""
    others = Knowledge.HINDSIGHT if not actor.owns(row.author_key) else Knowledge.BLIND
    read = Knowledge.SEES_VERIFIER if row.privilege == Privilege.SEES_VERIFIER else Knowledge.BLIND
    return Knowledge(Knowledge.most([level, others, read]))


def _advice_text(step: Mapping[str, Any]) -> str:
    """Return what those knew whose words are in a step."""
    source = (step.get("advice") or {}) if is_ask(step) else step if is_briefing(step) else {}
    return Knowledge.SEES_VERIFIER if source.get("privilege") == Privilege.SEES_VERIFIER else Knowledge.BLIND


def estimate(steps: Steps, point: BranchPoint) -> ForkEstimate:
    """Return what a branch will take if it goes on as this episode did. Pure."""
    later = [step for step in steps if step["seq"] >= point.cut]
    return ForkEstimate(
        turns=len({step["turn"] for step in later if step.get("turn") is not None}),
        tokens=sum(tokens_of(step.get("usage")).all for step in later),
        seconds=active_s(later),
        asks=sum(is_ask(step) for step in later),
    )


def parent_of(actor: Actor, episode_id: str) -> Episode:
    """Return an episode that can be forked. Raises `StillLive`, `NotForkable`, or why its policy cannot go on."""
    may_launch(actor)
    parent = visible_or_404(Episode.every.select_related("project"), actor, episode_id)
    if parent.is_live:
        raise StillLive
    if not parent.is_builtin:
        raise NotForkable("awmweb did not run this episode, so it cannot go on with its agent.")
    if parent.policy.get(launching.OURS) == PERSON:
        raise NotForkable("A person acted in this episode, so no agent can go on with it.")
    if not parent.world:
        raise NotForkable("The world was not recorded.")
    launching.refuse_other_version(parent)
    if parent.policy.get("ask") and parent.root.run_id is None:
        raise NotForkable("Its run was deleted, with the rule of when to ask.")
    policy = launching.playable(parent.scenario, parent.task_idx or 0, parent.policy)
    if policy[launching.OURS] == "model":
        launching.policy_named(f"model:{policy.get('endpoint', '')}")
    return parent


def estimated(actor: Actor, episode_id: str, seq: int) -> ForkEstimate:
    """Return what each branch from a step will take, before there is any. Raises as `fork` does, but for the world."""
    return estimate(*place_of(parent_of(actor, episode_id), seq))


def asks_freely(parent: Episode) -> bool:
    """Return whether a question at any step reaches an expert: one is there, and no rule decides when."""
    return parent.expert != ExpertMode.OFF and not parent.policy.get("ask")


def _other_policy(parent: Episode, name: str) -> dict[str, Any]:
    """Return a policy by its name with the limits of the episode's own. Raises `UnknownPolicy` or `NoEndpoint`."""
    policy = launching.playable(parent.scenario, parent.task_idx or 0, launching.policy_named(name))
    return {name: value for name, value in parent.policy.items() if name not in launching.OF_POLICY} | policy


def place_of(parent: Episode, seq: int) -> tuple[Steps, BranchPoint]:
    """Return the steps of an episode, and where it is forked. Raises `NotForkable`."""
    steps = steps_before_end(parent)
    return steps, point_of(steps, seq)


def steps_before_end(parent: Episode) -> Steps:
    """Return the steps of an episode without what its verifier found."""
    return [step for step in steps_of(parent) if not is_verification(step)]


def corrected(actor: Actor, correction_id: str) -> tuple[Correction, ForkChange]:
    """Return a correction that counts, with the change that it is. Raises `NotForkable` for one that is no action."""
    row = visible_or_404(Correction.objects.select_related("episode"), actor, correction_id, "episode__project")
    if not actor.owns(row.author_key) and visibility.is_withheld(actor, row.episode):
        raise NotFound
    if row.withdrawn or Correction.objects.filter(supersedes=row).exists():
        raise NotForkable("This correction was withdrawn or replaced.")
    if row.kind not in PROVABLE:
        raise NotForkable("Only another call or a question can be proven.")
    if row.kind == CorrectionKind.CALL:
        return row, change_of({"call": {"name": row.name, "arguments": row.arguments}})
    return row, change_of({"ask": {"question": row.text}})


def fork_with(
    actor: Actor,
    episode_id: str,
    seq: int,
    change: Mapping[str, Any],
    correction_id: str = "",
    tries: int = 4,
    tokens: int = 0,
    pk: str = "",
) -> NewFork:
    """Fork with a change as it was sent. With the ID of a correction, the change is its action: a change beside it, or
    another step, is refused. With the ID (`pk`) of a form that was sent before, return the fork that it made. Raises as
    `fork` does."""
    if not correction_id:
        return fork(actor, episode_id, seq, change_of(change), tries, tokens, pk=pk)
    may_launch(actor)
    row, action = corrected(actor, correction_id)
    _, point = place_of(parent_of(actor, episode_id), row.seq)
    of_step = row.episode_id == episode_id and seq in (row.seq, point.step["seq"])
    if not of_step or (change and change_of(change) != action):
        raise Invalid("correction: it is another action than this change, or of another step.")
    return fork(actor, episode_id, row.seq, action, tries, tokens, correction=row, pk=pk)


def fork(
    actor: Actor,
    episode_id: str,
    seq: int,
    change: ForkChange,
    tries: int = 4,
    tokens: int = 0,
    *,
    correction: Correction | None = None,
    author: str = "",
    pk: str = "",
) -> NewFork:
    """Fork an ended episode at a step: restore its world there, compare it, and queue the branches of both arms.
    `author` is who asked for it where awmweb itself acts.

    Raises `StillLive`, `NotForkable` or `NoServer`; then nothing is made.
    """
    parent = parent_of(actor, episode_id)
    if (twin := _made_before(parent, pk)) is not None:
        return twin
    if not 1 <= tries <= TRIES_MAX:
        raise Invalid(f"tries: from 1 to {TRIES_MAX}.")
    if not 0 <= tokens <= 10**12:
        raise Invalid("tokens: from 0, which sets no limit, to 1,000,000,000,000.")
    steps, point = place_of(parent, seq)
    if change.call is not None and (problem := misfit(parent, change.call.name, change.call.arguments)):
        raise Invalid(f"call: {problem}")
    if change.ask is not None and not asks_freely(parent):
        raise NotForkable("The agent of this episode could not ask an expert here. Add words instead.")
    policy = _other_policy(parent, change.policy) if change.policy is not None else None
    levels = knowledge(actor, parent, steps, point)
    if correction is not None:
        levels["author"] = _with_correction(actor, correction, levels["author"])
    arms = arms_of(point, change, actor.name, levels, policy)
    grade = _restored(parent, [step for step in steps if step["seq"] < point.cut])
    with transaction.atomic():
        # two forks at the same time count each other's branches
        Episode.every.select_for_update(no_key=True).get(pk=parent.pk)
        # and the second of two requests with one form finds the fork of the first
        if (twin := _made_before(parent, pk)) is not None:
            return twin
        there = Episode.every.filter(fork__parent=parent).count()
        if there + len(arms) * tries > BRANCHES_MAX:
            raise NotForkable(f"An episode can have {BRANCHES_MAX} branches; this one has {there}.")
        made = Fork(
            pk=pk or new_id(),
            project=actor.project,
            parent=parent,
            seq=point.step["seq"],
            change=change.model_dump(exclude_none=True),
            tries=tries,
            tokens=tokens,
            knowledge=Knowledge.most([one.knowledge for one in arms]),
            grade=grade,
            correction=correction.pk if correction is not None else "",
            created_by=author or actor.name,
        )
        branches = branching.fork(actor, made, point.cut, arms)
        for branch in branches:
            transaction.on_commit(functools.partial(launching.wake_worker, branch.pk))
    return NewFork(made, branches)


def _made_before(parent: Episode, pk: str) -> NewFork | None:
    """Return the fork that a form has made already. Raises `Invalid` if it is of another episode."""
    there = Fork.objects.filter(pk=pk).first() if pk else None
    if there is None:
        return None
    if there.parent_id != parent.pk:
        raise Invalid("form: another fork has this ID. Open the form again.")
    return NewFork(there, list(Episode.every.filter(fork=there).order_by("pk")))


def _restored(parent: Episode, steps: Steps) -> str:
    """Return the grade of the world before a step. Raises `NotForkable` or `NoServer`."""
    calls = [step for step in steps if reached_world(step)]
    made = [Made(step["name"], step.get("arguments") or {}, mark=(step.get("meta") or {}).get(WORLD)) for step in calls]

    async def replayed() -> certifying.Certified:
        async with asyncio.timeout(RESTORE_S):
            at = servers.profile(parent.environment)
            return await certifying.replayed(at, parent.scenario, parent.task_idx, parent.world, made)

    try:
        certificate = async_to_sync(replayed)()
    except TimeoutError as slow:
        raise NotForkable(f"The world could not be restored within {RESTORE_S:g} s.") from slow
    except AwmenvError as away:
        raise NoServer(str(away)) from away
    if certificate.grade == Certificate.Grade.REFUSED:
        raise NotForkable(f"The world cannot be restored. {certificate.difference}")
    return certificate.grade


def is_spent(fork_id: str) -> bool:
    """Return whether the branches of a fork have used its tokens, or those of its campaign theirs."""
    limit = Fork.objects.values_list("tokens", flat=True).filter(pk=fork_id).first() or 0
    if 0 < limit <= spending.spent(Episode.every.filter(fork=fork_id)).tokens:
        return True
    limited = Campaign.objects.filter(tokens__gt=0, campaign_points__fork=fork_id).distinct()
    return any(one.tokens <= spending.spent(campaigns.branches_of(one)).tokens for one in limited)
