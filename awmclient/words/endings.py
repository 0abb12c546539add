"""How a turn of a model ended, and which turns are no answer. Pure.

A server says why it stopped in `finish_reason`, in words of its own. The loop replies once to a turn that is no answer,
and ends the episode at the second in a row; `docs/runs.md` has the table.
"""

from __future__ import annotations

from typing import Any, Literal

Ending = Literal["cut_off", "filtered", "empty"]
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
FILTERED = frozenset({"content_filter", "prohibited_content", "safety", "recitation"})
UNANSWERED = "unanswered"
"""The key in the `meta` of a nudge of how the turn before it ended."""
UNREAD = "unread_call"
"""The key in the `meta` of a nudge: the turn before it looks like a call, and none was made."""
REPLIES: dict[Ending, str] = {
    "cut_off": "Your message reached a limit of its length and was cut off, so nothing in it was done. Be shorter.",
    "filtered": "A content filter stopped your message, so nothing in it was done. Say it in other words.",
    "empty": "Nothing was done: call a tool, or say that the task is done.",
}
"""What the model reads. Training data contains it."""
FILTERED_TWICE = "the endpoint answered twice with what its content filter had stopped"


def reason_of(value: Any) -> str | None:
    """Return the server's word for why it stopped, as a step can hold it; None if it said nothing."""
    word = value.strip()[:200] if isinstance(value, str) else ""
    return word if word.isprintable() and word else None


def is_stopped(finish_reason: str | None) -> bool:
    """Return whether a server stopped this turn before its end: at a limit, or by a filter.

    >>> is_stopped("length"), is_stopped("stop"), is_stopped(None)
    (True, False, False)
    """
    return (finish_reason or "").lower() in CUT | FILTERED


def ending_of(finish_reason: str | None, *, is_empty: bool) -> Ending | None:
    """Return why a turn is no answer; None if it is one, or does something. `is_empty` says that it does and says
    nothing."""
    if is_stopped(finish_reason):
        return "cut_off" if (finish_reason or "").lower() in CUT else "filtered"
    return "empty" if is_empty else None
