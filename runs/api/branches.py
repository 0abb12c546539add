"""The JSON API of replays and forks: certify an episode, fork it at a step, read its tree, continue elsewhere."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest
from ninja import P, QueryEx, Router, Schema, Status
from pydantic import Field, StrictInt

from awmclient.nouns.fields import WHOLE, Object, Shape
from people.http import REFUSALS, actor_of, answer_of, refuse_unknown
from runs.play import certifying, forking, prompting
from runs.show import forks

router = Router(tags=["runs"])


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


class ForkBody(Shape):
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


class Certifying(Schema):
    """A replay was requested. `certificate` is the newest one so far, or null."""

    episode: str
    certificate: CertificateView | None


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
    cost = forking.estimated(actor_of(request), episode_id, step)
    return answer_of(ForkCost, cost, step=step)


@router.post("/episodes/{episode_id}/fork", response={202: ForkView, **REFUSALS})
def fork(request: HttpRequest, episode_id: str, payload: ForkBody) -> Status[ForkView]:
    """Fork an ended episode: restore its world before a step, and queue branches with and without a change. Not for
    agent tokens."""
    fields = payload.step, payload.change, payload.correction, payload.tries, payload.budget
    made = forking.fork_with(actor_of(request), episode_id, *fields)
    branches = [BranchView(**forks.row_of(branch, None)) for branch in made.branches]
    url = settings.AWMWEB_PUBLIC_URL + made.fork.get_absolute_url()
    return Status(202, ForkView(id=made.fork.pk, url=url, grade=made.fork.grade, branches=branches))


@router.get("/episodes/{episode_id}/prompt", response={200: BranchPromptView, **REFUSALS})
def branch_prompt(
    request: HttpRequest, episode_id: str, step: QueryEx[int, P(ge=1, le=forking.STEP_MAX)]
) -> BranchPromptView:
    """Read a prompt to continue an ended episode from a step in a loop of your own, where no world can be restored. It
    is no fork, and nothing is made. Not for agent tokens."""
    refuse_unknown(request, "step")
    return answer_of(BranchPromptView, prompting.prompt_at(actor_of(request), episode_id, step))


@router.get("/episodes/{episode_id}/tree", response={200: TreeView, **REFUSALS})
def tree(request: HttpRequest, episode_id: str) -> TreeView:
    """Read the tree of an episode and all its branches. Not for agent tokens."""
    refuse_unknown(request)
    root, rows, further = forks.tree(actor_of(request), episode_id)
    episodes, continued = [BranchView(**row) for row in rows], [ContinuedView(**row) for row in further]
    return TreeView(root=root.pk, episodes=episodes, continued=continued)
