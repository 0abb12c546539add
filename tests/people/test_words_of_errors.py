"""What pydantic says about a wrong value, in the product's words."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from people.errors import words_of


class Sized(BaseModel):
    items: Annotated[list[int], Field(max_length=20_000)] = []
    text: Annotated[str, Field(max_length=100_000)] = ""
    share: Annotated[float, Field(le=1000.5)] = 0
    kind: Annotated[str, Field(pattern="^[0-9]{1234}$")] | None = None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"items": [0] * 20_001}, "List should have at most 20,000 items, not 20,001"),
        ({"text": "x" * 100_001}, "String should have at most 100,000 characters"),
        ({"share": 2000}, "Input should be less than or equal to 1,000.5"),
        ({"kind": "x"}, "String should match pattern '^[0-9]{1234}$'"),
    ],
)
def test_bounds_have_thousands_separators_and_patterns_stay(value, words):
    with pytest.raises(ValidationError) as refused:
        Sized.model_validate(value)
    assert words_of(refused.value.errors()[0]) == words
