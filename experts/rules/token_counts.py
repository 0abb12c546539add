"""How many tokens a reply of a model took, as its endpoint says. Pure. Called by `llm`, `looking` and `runs`."""

from __future__ import annotations

from typing import Any

# below the largest value of the 32-bit columns
TOKENS_MOST = 2_000_000_000


def cost_of(message: dict[str, Any], messages: list[dict[str, str]]) -> tuple[int, tuple[int, int, int] | None]:
    """Return the tokens of a reply, and by kind: as the endpoint counts them, else from the length of the texts."""
    usage = message.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    total, content = usage.get("total_tokens"), message.get("content")
    # Not isinstance: True is an int. Without a count, about four characters per token.
    if type(total) is not int or not 0 <= total <= TOKENS_MOST:
        total = (len(messages[-1]["content"]) + len(content if isinstance(content, str) else "")) // 4
    return total, counts_by_kind(usage)


def counts_by_kind(usage: dict[str, Any]) -> tuple[int, int, int] | None:
    """Return the tokens of prompt, completion and cache, if the endpoint reported the first two."""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    counts = [usage.get("prompt_tokens"), usage.get("completion_tokens"), cached or 0]
    # -1: not a count
    prompt, completion, cached = (one if type(one) is int and 0 <= one <= TOKENS_MOST else -1 for one in counts)
    return (prompt, completion, min(max(cached, 0), prompt)) if prompt >= 0 and completion >= 0 else None
