"""Episodes in which a person acted leave by name only, and say in each row who acted."""

from __future__ import annotations

import pytest

from exports.errors import BadRecipe
from exports.formats import FORMATS
from exports.recipe import KINDS, Recipe
from tests.exports.records import STEPS, record, walk

PERSON = "person-0123456789ab"
DRIVEN = [{**step, "acted_by": PERSON} if step["seq"] == 8 else step for step in STEPS]


def assisted():
    return record(assisted=True, steps=DRIVEN)


LEARN = [name for name, kind in KINDS.items() if kind.trains and kind.needs in ("complete", "both")]


@pytest.mark.parametrize("name", LEARN)
def test_assisted_episode_is_left_out_of_training(name):
    rows, counts = walk(name, assisted())
    assert rows == [] and "assisted" in str(counts)


def test_included_rows_name_who_acted():
    [sft], _ = walk("sft", assisted(), include=("assisted",))
    spoken = [place for place, message in enumerate(sft["messages"]) if message["role"] == "assistant"]
    assert [sft["acted_by"][place] for place in spoken] == ["", "", PERSON, ""]
    assert all(sft["loss"][place] for place in spoken)
    rows, _ = walk("steps", assisted(), include=("assisted",))
    assert [row["acted_by"] for row in rows] == ["", "", PERSON, ""]


def test_person_who_may_know_the_verifier_teaches_no_answers():
    rows, counts = walk("sft", record(assisted=True, steps=DRIVEN, expert="informed"), include=("assisted",))
    assert rows == [] and "informed" in str(counts)


def test_assisted_sample_of_a_log_has_a_mark_and_no_score():
    [sample], _ = walk("inspect", assisted())
    assert sample["scores"] == {} and sample["metadata"]["not_for_training"] == "assisted"


def test_assisted_is_refused_where_outcomes_give_credit():
    for name, kind in KINDS.items():
        about = {"format": name, "include": ["assisted"]}
        if kind.trains and kind.needs == "complete":
            assert Recipe.read(about).include == ("assisted",)
        else:
            with pytest.raises(BadRecipe, match="include: assisted requires"):
                Recipe.read(about)
    assert set(KINDS) == set(FORMATS)
