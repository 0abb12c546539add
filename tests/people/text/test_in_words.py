"""Times as people say them: a countdown shows 0:00, what took no second does not."""

from __future__ import annotations

import pytest

from people.text.in_words import clock, duration


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, "<1\u00a0s"), (0.4, "<1\u00a0s"), (1, "0:01"), (75.9, "1:15"), (3_600, "1:00:00")]
)
def test_duration_below_a_second_is_not_zero(seconds, words):
    assert duration(seconds) == words


def test_clock_counts_down_to_zero():
    assert clock(0.4) == clock(-1) == "0:00"
