"""The bodies of requests from a loop's input: numbered steps, the start of an episode, a question.

Pure. Called by every adapter of the `Dashboard` port, so that all of them number and name alike.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict, cast, get_args

from awmclient.nouns.asks import CONTEXT_MAX, QUESTION_MAX, Advice
from awmclient.nouns.episodes import DETAIL_MAX, ReportedOutcome
from awmclient.nouns.steps import StepCommon
from awmclient.nouns.tools import ToolSpec
from awmclient.nouns.typed import AskKind, decision_on_timeout, typed_of
from awmclient.nouns.values import Fault, OwnFault, StopReason
from awmclient.record.observations import plain
from awmclient.words.encoding import encode

OWN_FAULTS = get_args(OwnFault)

StepLike = Mapping[str, Any] | StepCommon
"""A step as a plain dict (`seq` may be left out: the episode numbers it) or as one of the models of `schema`."""


def numbered(steps: StepLike | Sequence[StepLike], last_seq: int) -> list[dict[str, Any]]:
    """Return plain dicts with `seq`. A step that brings its own number keeps it and its time; others get the next and
    `at` = now.

    >>> [step["seq"] for step in numbered([{"kind": "note", "content": "a"}, {"kind": "note", "content": "b"}], 4)]
    [5, 6]
    """
    plain = []
    for body in as_list(steps):
        if body.get("seq") is None:
            body["seq"] = last_seq + 1
            body.setdefault("at", datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        if isinstance(body["seq"], int):
            last_seq = max(last_seq, body["seq"])
        plain.append(body)
    return plain


def as_list(steps: StepLike | Sequence[StepLike]) -> list[dict[str, Any]]:
    """Return one step or many as plain dicts."""
    step_list = [steps] if isinstance(steps, Mapping | StepCommon) else steps
    return [as_dict(step) for step in step_list]


def as_dict(step: StepLike) -> dict[str, Any]:
    """Return the step as it is sent: only the fields that were set, and always its kind."""
    if isinstance(step, Mapping):
        return dict(step)
    body = step.model_dump(exclude_unset=True)
    # `kind` is a default of its model, which `exclude_unset` leaves out.
    kind = getattr(step, "kind", None)
    return body if kind is None else {**body, "kind": kind}


class PlanFields(TypedDict, total=False):
    """The place of an episode in a plan: fields of `schema.EpisodeStart` that a rollout does not know itself."""

    key: str
    scenario: str | None
    task_idx: int | None
    scenario_digest: str | None
    run: str | None
    arm: str | None
    seed: int | None
    split: str | None
    training_step: int | None
    checkpoint: str | None
    group_key: str | None
    parent: str | None
    branch_seq: int | None


class EpisodeFields(PlanFields, total=False):
    """The optional fields of an episode, as in `schema.EpisodeStart`."""

    environment: str
    tools: Sequence[ToolSpec | Mapping[str, Any]] | None
    policy: dict[str, Any] | None
    expert: str


class AskFields(TypedDict, total=False):
    """The optional fields of a question, as in `schema.AskOpen`. `deadline_s` defaults to 300."""

    context: str | None
    deadline_s: int
    human_deadline_s: int | None
    priority: int
    skills: Sequence[str] | None
    group_key: str | None
    key: str | None
    turn: int | None
    call_id: str | None
    kind: AskKind
    calls: Sequence[Mapping[str, Any]] | None
    options: Sequence[Mapping[str, Any]] | None
    many: bool | None
    other: bool | None
    response_schema: Mapping[str, Any] | None
    on_timeout: str | Mapping[str, Any] | None
    quorum: Mapping[str, Any] | None
    thread: str | None


def episode_body(task: str, fields: EpisodeFields) -> dict[str, Any]:
    """Return the body that starts an episode, with a generated key if there is none, without unset fields."""
    body = {name: value for name, value in fields.items() if value is not None}
    tools = fields.get("tools")
    if tools is not None:
        body["tools"] = [tool.model_dump() if isinstance(tool, ToolSpec) else dict(tool) for tool in tools]
    # Also without a key of the caller's, the request can be repeated.
    return {"key": uuid.uuid4().hex, "task": task, **body}


def finish_body(
    stop_reason: StopReason,
    final_answer: str | None = None,
    outcome: ReportedOutcome | Mapping[str, Any] | None = None,
    fault: OwnFault | None = None,
    detail: str = "",
) -> dict[str, Any]:
    """Return the body that finishes an episode."""
    body: dict[str, Any] = {"stop_reason": stop_reason}
    if final_answer is not None:
        body["final_answer"] = final_answer
    if outcome is not None:
        body["outcome"] = dict(outcome) if isinstance(outcome, Mapping) else outcome.model_dump(exclude_none=True)
    if fault is not None:
        body |= {"fault": fault} | ({"detail": detail[:DETAIL_MAX]} if detail else {})
    return body


def failing(fault: Fault, detail: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the note that names a failed boundary, and the body that finishes its episode.

    The dashboard stores a fault of the environment, the policy or the expert as such.
    """
    note = {"kind": "note", "content": f"{fault}: {detail}", "meta": {"fault": fault}}
    if fault in OWN_FAULTS:
        return note, finish_body("error", fault=cast(OwnFault, fault), detail=detail)
    return note, finish_body("error")


NO_QUESTIONS_LEFT = {"status": "no_advice", "reason": "no questions left"}
"""The observation of an agent that has no questions left."""


def question_problem(question: Any) -> str | None:
    """Return the message to the agent for a question that cannot be asked."""
    if isinstance(question, str) and question.strip() and len(question) <= QUESTION_MAX:
        return None
    return f"question: a text of 1 to {QUESTION_MAX} characters is needed"


def context_text(context: Any) -> str | None:
    """Return an agent's context, a text or any JSON, as a text within the limit."""
    words = context if isinstance(context, str) or context is None else encode(plain(context)).decode()
    return words[:CONTEXT_MAX] if words is not None else None


def unanswered(reason: str, typed: Mapping[str, Any] | None = None) -> Advice:
    """Return what an agent gets that its loop has to leave without an answer: of a typed ask, what silence means."""
    decision = decision_on_timeout(typed) if typed else None
    by = "timeout" if typed else None
    return Advice.model_validate(
        {"text": "", "source": "fallback", "reason": reason, "decision": decision, "by": by, "local": True}
    )


def ask_body(question: str | list[Any], fields: AskFields) -> dict[str, Any]:
    """Return the body of a question without its episode and number."""
    body = {name: value for name, value in fields.items() if value is not None}
    # checked here, too: what silence means must be known before the dashboard is asked
    return {"key": uuid.uuid4().hex, "deadline_s": 300, **body, **typed_of(body), "question": question}
