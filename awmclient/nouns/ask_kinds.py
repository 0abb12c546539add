"""Kinds of asks: what each wants, and what decides it. The one place that compares them, for loop and dashboard.

`typed.AskKind` names the same kinds on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KindOfAsk:
    """One kind: its label, its fields of which the first is required, and the field of a decision that it takes."""

    label: str
    fields: tuple[str, ...] = ()
    decided_in: str = ""
    is_approval: bool = False
    is_choice: bool = False
    is_form: bool = False

    @property
    def is_question(self) -> bool:
        """Whether words answer it, and no decision."""
        return not self.decided_in

    @property
    def word(self) -> str:
        """Its label beside an ask; empty for a question."""
        return "" if self.is_question else self.label

    @property
    def may_have_default(self) -> bool:
        """Whether silence can mean an answer."""
        return self.is_choice or self.is_form


ASK_KINDS = {
    "question": KindOfAsk("Question"),
    "approval": KindOfAsk("Approval", ("calls", "quorum"), "calls", is_approval=True),
    "choice": KindOfAsk("Choice", ("options", "many", "other"), "chosen", is_choice=True),
    "form": KindOfAsk("Form", ("response_schema",), "value", is_form=True),
}
"""By name, as on the wire and in the database."""


def ask_kind(typed: Mapping[str, Any] | None) -> KindOfAsk:
    """Return the kind of an ask by its typed part; a kind that is in no table is as a question, and refused later."""
    return ASK_KINDS.get((typed or {}).get("kind", "question"), ASK_KINDS["question"])
