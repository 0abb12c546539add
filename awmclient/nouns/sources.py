"""Where advice comes from, and who decided a typed ask. The one place that compares them, for loop and dashboard.

`values.AdviceSource` and `typed.DecidedBy` name the same on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AnswerSource:
    """One source: its label, who answered as a filter names it, and what the card of a step says."""

    label: str
    who: str
    did: str = "answered"
    is_human: bool = False
    """A person, or a program with a token: `behind` says which."""
    is_model: bool = False
    is_reused: bool = False
    is_answer: bool = True

    @property
    def is_written(self) -> bool:
        """Whether someone wrote it for this ask."""
        return self.is_human or self.is_model


SOURCES = {
    "human": AnswerSource("Human", "A person", is_human=True),
    "llm": AnswerSource("Model", "A model", "answered (model)", is_model=True),
    "cache": AnswerSource("Cache", "A reused answer", "answered (reused)", is_reused=True),
    "fallback": AnswerSource("Fallback", "Fell back", is_answer=False),
}
"""By name, as on the wire and in the database."""
_OTHER = AnswerSource("Other", "Other")


def source_named(name: object) -> AnswerSource:
    """Return a source by its name; any other name is of none of these."""
    return SOURCES.get(str(name), _OTHER)


def source_of(advice: Mapping[str, Any]) -> AnswerSource:
    """Return the source of stored advice."""
    return source_named(advice.get("source"))


@dataclass(frozen=True)
class Decider:
    """Who decided a typed ask, what an agent reads of a call that was rejected, and whether they looked at this ask."""

    words: str
    refusal: str
    has_looked: bool = False
    is_silence: bool = False


DECIDERS = {
    "person": Decider("a person", "A person rejected it", has_looked=True),
    "model": Decider("a model", "A model rejected it", has_looked=True),
    "standing": Decider("a standing answer", "A person rejected it"),
    "timeout": Decider("no one", "No one approved it", is_silence=True),
}
"""By name, as on the wire and in the database."""
