"""A run whose outcomes were corrected says what both readings show, and never more."""

from __future__ import annotations

import pytest

from runs.statistics import rereading
from runs.statistics.compare import contrasts
from runs.statistics.deciding import SHOWN, statements
from tests.runs.statistics.test_compare import ARMS, many, tries

AGAINST = statements(ARMS, "baseline")
NOTHING, BETTER, WORSE = many(both=16, neither=17), many(won=12, neither=21), many(lost=12, neither=21)


def read(pairs):
    return contrasts(tries(pairs), AGAINST)[0]


@pytest.mark.parametrize(
    ("now", "first", "verdict"),
    [
        (BETTER, BETTER, "better"),
        (BETTER, NOTHING, "withheld"),
        (BETTER, WORSE, "withheld"),
        (NOTHING, BETTER, "none"),
        (WORSE, WORSE, "worse"),
    ],
)
def test_corrected_statement_needs_the_first_reading(now, first, verdict):
    found = rereading.contrast(read(now), read(first))
    assert found.verdict == verdict
    assert found.scenarios_scope.verdict not in SHOWN or verdict in SHOWN
    assert (found.won, found.lost, found.delta) == (read(now).won, read(now).lost, read(now).delta), (
        "counts are corrected"
    )
    if verdict == "withheld":
        assert found.sentence.startswith("Withheld after an erratum.") and read(now).sentence in found.sentence
    else:
        assert found == read(now)


def test_word_while_running_needs_the_first_reading():
    """Forty of fifty tasks are read: the running statement has its word, too."""
    open_ = [(None, None)] * 10
    now, first = read(many(won=40) + open_), read(many(neither=40) + open_)
    assert now.verdict == "better" and now.tasks_scope is None
    found = rereading.contrast(now, first)
    assert (found.verdict, found.running.since) == ("withheld", None)
    assert rereading.contrast(now, now) == now
