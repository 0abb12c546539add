"""Texts of the legend: a description of each mark and each fallback, and sample steps for the step card."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

from episodes.stored.strip import MARKS
from people.text.plain_text import clean

SAID = {
    "t": "no action",
    "b": "advice from before the start",
    "r": "state unchanged",
    "u": "no state_diff: whether it changed something is unknown",
    "w": "state changed",
    "e": "refused or failed call",
    "q": "the arm has no expert; no fault",
    "o": "waiting for an answer",
    "a": "the agent has advice",
    "f": "no expert answered: no advice, or a model's prepared draft",
    "v": "the verifier ran, after the agent finished",
    "n": "in progress",
}


class NoAnswer(NamedTuple):
    """Why no expert answered: a sentence, a label, and whether an ask without a model ends with it as it opens."""

    sentence: str
    label: str
    is_immediate: bool = False


NO_ANSWER = {
    "deadline": NoAnswer("No answer before the deadline.", "no answer in time"),
    "declined": NoAnswer("Every expert declined.", "every expert declined"),
    "budget": NoAnswer("The run's budget for human answers is used up.", "budget for human answers used up", True),
    "backpressure": NoAnswer("The expected wait was over the limit.", "expected wait over the limit", True),
    "no_model": NoAnswer("This arm asks models only, and none is configured.", "no model configured", True),
    "pictures": NoAnswer("This arm asks models only, and models do not see pictures.", "models see no pictures", True),
    "expert_fault": NoAnswer("The expert model gave no usable answer.", "the model failed"),
    "unreachable": NoAnswer("The dashboard could not be reached.", "unreachable"),
}
"""By the reason that is stored with the ask."""
SAMPLE_STEPS: list[dict[str, Any]] = [
    {"seq": 1, "kind": "message", "role": "assistant", "content": "The agent's thought, in its own words, muted."},
    {
        "seq": 2,
        "kind": "tool_call",
        "name": "search_tickets",
        "arguments": {"query": "login outage", "requester_id": 88},
        "result": [{"id": 4127, "status": "solved"}, {"id": 4131, "status": "open"}],
        "meta": {"duration_ms": 71},
    },
    {
        "seq": 3,
        "kind": "tool_call",
        "name": "merge_tickets",
        "arguments": {"primary_id": "4127"},
        "error": "Input validation error: '4127' is not of type 'integer'",
        "reward": -1.0,
    },
    {
        "seq": 4,
        "kind": "ask",
        "question": "The oldest ticket is solved already. Do I reopen it, or merge into the open one?",
        "advice": {
            "text": "Reopen the oldest. Oldest goes by created_at here, and a solved ticket can be reopened.",
            "source": "human",
            "author": "Edo Marchetti",
            "privilege": "blind",
        },
    },
    {
        "seq": 5,
        "kind": "tool_call",
        "name": "update_ticket",
        "arguments": {"ticket_id": 4127, "status": "open"},
        "result": {"id": 4127, "status": "open"},
        "state_diff": {
            "tickets": {"changed": [{"key": 4127, "before": {"status": "solved"}, "after": {"status": "open"}}]},
            "ticket_events": {"added": [{"id": 901, "text": "reopened by agent"}]},
        },
    },
    {
        "seq": 6,
        "kind": "ask",
        "question": "A question that no one answered.",
        "advice": {"text": "", "source": "fallback"},
    },
    {"seq": 7, "kind": "verification", "reward_type": "complete", "reward": 1.0, "details": {"result": "complete"}},
]


def marks() -> list[dict[str, Any]]:
    """Return the marks of steps with their meanings."""
    return [{**asdict(MARKS[code]), "said": said} for code, said in SAID.items() if said and code in MARKS]


def why_no_answer(reason: str) -> str:
    """Return why no expert answered an ask that fell back, by the reason that is stored with it."""
    known = NO_ANSWER.get(reason)
    return known.sentence if known else f"No expert answered ({clean(reason).replace('_', ' ')})."


def label_of_no_answer(reason: str) -> str:
    """Return the same in a few words."""
    return NO_ANSWER[reason].label if reason in NO_ANSWER else clean(reason) or "no reason recorded"
