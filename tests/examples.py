"""What `make test` proves by examples, and `make long` as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some_of(values: Iterable[Any], examples: int = 1) -> list[Any]:
    """Return parameters of which all but the first `examples` are long."""
    return [
        value if place < examples else pytest.param(value, marks=pytest.mark.long) for place, value in enumerate(values)
    ]
