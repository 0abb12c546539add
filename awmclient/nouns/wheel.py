"""The wheel of a live episode: the lease, the orders of a person, and changed limits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, model_validator

from awmclient.nouns.fields import WHOLE, Line, Shape, clean_text
from awmclient.nouns.tools import ToolCall


class WheelLease(Shape):
    """The wheel of a live episode, held until the lease ends. Renew it before that."""

    lease_token: str
    lease_until: datetime


HOLD_MAX_S = 60
"""The longest time for which an order at the wheel waits, so that it can be undone."""


class WheelUndoBody(Shape):
    """The order to undo, by its nonce."""

    lease_token: Line
    nonce: Line


class WheelCallBody(Shape):
    """What to do at the wheel: a `call` of a tool, `words` to the agent, or `propose`: the agent chooses, and nothing
    of it is made. The same nonce again changes nothing. For `hold_s` seconds it is not sent to the loop, and can be
    undone."""

    lease_token: Line
    nonce: Line
    call: ToolCall | None = None
    words: Annotated[str | None, Field(min_length=1, max_length=20_000), BeforeValidator(clean_text)] = None
    propose: StrictBool = False
    hold_s: Annotated[StrictInt, Field(ge=0, le=HOLD_MAX_S), WHOLE] = 0

    @model_validator(mode="after")
    def _checked(self) -> WheelCallBody:
        if (self.call is not None) + (self.words is not None) + self.propose != 1:
            raise ValueError("give one of call, words and propose")
        return self


class WheelOrderView(Shape):
    """An order for the loop: later ones have a greater `number`, `acted_by` goes to the step."""

    number: int
    acted_by: str
    call: ToolCall | None = None
    words: str | None = None
    propose: bool = False


class WheelView(Shape):
    """What a loop is to do: while the wheel is `held` the agent does not choose, and `orders` are carried out one by
    one. `limits` replace those of the loop."""

    held: bool
    orders: list[WheelOrderView]
    limits: dict[str, int] = Field(default_factory=dict)


LIMITS = ("max_steps", "max_asks", "timeout_s")
"""Limits of a live episode that people can change."""


class LimitsBody(Shape):
    """New limits of a live episode, and why. What is left out stays."""

    max_steps: Annotated[StrictInt, Field(ge=1, le=1000), WHOLE] | None = None
    max_asks: Annotated[StrictInt, Field(ge=0, le=100), WHOLE] | None = None
    timeout_s: Annotated[StrictInt, Field(ge=1, le=2_592_000), WHOLE] | None = None
    reason: Annotated[str, Field(min_length=1, max_length=500), BeforeValidator(clean_text)]
