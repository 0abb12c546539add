"""What an agent says about advice that `distil` cuts: thanks, and sentences that point at what is cut. Pure.

The text of a turn that asks, and of the first one after, is about the question and its answer. It goes, and the calls
stay. Elsewhere only sentences that name advice go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from awmclient.words.textcalls import CALL_MARKS

_GAP = re.compile(r"((?<=[.!?])\s+|\n+)")
_NAMES = re.compile(r"\b(?:advi[cs]e[ds]?|advisors?|advisers?|briefing|briefed|guidance)\b", re.IGNORECASE)
_TO_EXPERT = re.compile(
    r"\b(?:thanks|thank|thx|I asked|(?:I was|as) told|as (?:suggested|recommended|instructed)|"
    r"you (?:named|said|told|gave|meant|mentioned|suggested|recommended|wrote))\b",
    re.IGNORECASE,
)
_POINTS = re.compile(r"\W*(?:that|this|those|these|so|then)\b", re.IGNORECASE)
_CALLS = re.compile("|".join(map(re.escape, CALL_MARKS)))


def without_reaction(text: str, *, follows: bool, acts: bool, talks: bool) -> str:
    """Return a text of the agent without what it says about advice.

    `follows`: its turn asks, or is the first one after. `acts`: the turn has calls. `talks`: a user talks with the
    agent, so thanks and *you* are for that user.

    """
    if follows and acts:
        # calls that the agent wrote into its words stay
        written = _CALLS.search(text)
        return text[written.start() :] if written else ""
    named: list[Callable[[str], object]] = [_NAMES.search]
    named += [] if talks else [_TO_EXPERT.search]
    named += [_POINTS.match] if follows else []
    parts = _GAP.split(text)
    # sentences and the gaps after them, in turn
    kept = [part for at, part in enumerate(parts) if not any(finds(parts[at - at % 2]) for finds in named)]
    return text if len(kept) == len(parts) else "".join(kept).strip()
