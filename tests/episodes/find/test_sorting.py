"""The sorts of the list of episodes: their letters, and that an index leads to each page of a large project."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from awmclient.schema import EpisodeStart, Finish
from episodes.find import sorting
from episodes.find.narrowing import matching
from episodes.models import SORTED_BY
from episodes.record import ending, recording
from episodes.stored.strip import ACTIONS, ASKS

INDEXES = {
    **{"-started": "counted_newest", "started": "counted_newest", "-length": "ended_by_actions"},
    **{"length": "ended_by_actions", "-asks": "ended_by_asks", "asks": "ended_by_asks"},
    **{"-duration": "ended_by_slowest", "duration": "ended_by_fastest"},
}


def test_sorted_letters_are_those_of_strip():
    for name, codes in (("length", ACTIONS), ("asks", ASKS)):
        assert f"Value('{''.join(codes)}')" in repr(SORTED_BY[name])


@pytest.mark.parametrize("order", INDEXES)
def test_index_leads_to_each_page_of_sorted_list(ada, order):
    """At 100,000 episodes the list sorted by asks took 3.8 s."""
    for key in "abc":
        one, _ = recording.start_episode(ada, EpisodeStart(key=key, task="Sort."))
        ending.finish(ada, one.pk, Finish(stop_reason="done"))
    with CaptureQueriesContext(connection) as asked:
        first = sorting.page(ada, matching(ada, {}), order, "", 1)
        second = sorting.page(ada, matching(ada, {}), order, first.after, 1)
        back = sorting.page(ada, matching(ada, {}), order, second.before, 1)
    assert back.ids == first.ids != second.ids
    ended = [one["sql"] for one in asked if "'running'" not in one["sql"]]
    assert len(ended) == 3
    with connection.cursor() as cursor:
        # a few rows are read faster without an index
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off")
        for number, statement in enumerate(ended):
            cursor.execute(f"EXPLAIN {statement}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert f"using {INDEXES[order]} " in plan and "Sort" not in plan, plan
            # branches are few: at most 64 of an episode
            others = plan.replace("Filter: ((origin)::text <> 'branch'::text)", "")
            assert "Filter" not in others and ("ROW(" in plan) is (number > 0), plan
