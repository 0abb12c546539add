"""Episodes that continue another one's prompt leave by name only, and never where outcomes give credit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodes.models import Knowledge
from exports.errors import BadRecipe
from exports.recipe import KINDS, Recipe
from tests.exports.records import record, walk

LEARN = [name for name, kind in KINDS.items() if kind.trains and kind.needs in ("complete", "both")]
ABLE = [name for name, kind in KINDS.items() if kind.trains and kind.needs == "complete"]
LEVELS = st.sampled_from(Knowledge.values)


@given(st.sampled_from(LEARN), LEVELS, st.sampled_from(["external", "builtin", "import"]))
def test_continued_episode_is_left_out_of_training(name, level, origin):
    rows, counts = walk(name, record(knowledge=level, origin=origin))
    assert rows == [] and ("continued" in str(counts) or "informed" in str(counts))


@given(st.sampled_from(ABLE), LEVELS)
def test_included_rows_are_those_of_blind_prompts(name, level):
    rows, counts = walk(name, record(knowledge=level), include=("continued",))
    # a record without token IDs has no rows of tokens
    has_rows = bool(walk(name, record())[0])
    assert bool(rows) == (has_rows and level != Knowledge.SEES_VERIFIER), counts


def test_continued_sample_of_a_log_has_a_mark_and_no_score():
    [sample], _ = walk("inspect", record(knowledge="blind"))
    assert sample["scores"] == {} and sample["metadata"]["not_for_training"] == "continued"


@pytest.mark.parametrize("name", KINDS)
def test_continued_is_refused_where_outcomes_give_credit(name):
    about = {"format": name, "include": ["continued"]}
    if name in ABLE:
        assert Recipe.read(about).include == ("continued",)
    else:
        with pytest.raises(BadRecipe, match="include: continued requires"):
            Recipe.read(about)
