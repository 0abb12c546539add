"""Recipes of `examples/grpo`, its notebook as a file, and the table of what to set; `test_grpo.py` trains by them."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import ValidationError

from examples.grpo.recipe import RECIPES, Recipe
from examples.strategies.plan import PRICED, STRATEGIES
from tests.commands import ROOT

FILES = {file.stem: Recipe.read(file) for file in RECIPES.glob("*.yaml")}


def test_every_strategy_has_a_recipe_of_its_name():
    others = set(FILES) - {"priced"}
    assert others == {arm.name for arm in STRATEGIES}
    assert all(FILES[name].arm.name == name for name in others)
    assert FILES["priced"].arm in PRICED and FILES["priced"].arm.price > 0


def test_recipes_differ_in_their_help_alone():
    values = [recipe.model_dump(exclude={"help"}) for recipe in FILES.values()]
    assert all(one == values[0] for one in values)


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"help": "some"}, "help"), ({"grops": 4}, "grops"), ({"groups": 3, "at_once": 5}, "does not divide")],
)
def test_recipe_that_cannot_be_followed_is_refused(changed, said):
    with pytest.raises(ValidationError, match=said):
        Recipe.read(RECIPES / "mixed.yaml", **changed)


def test_options_that_are_not_given_leave_the_recipe():
    assert Recipe.read(RECIPES / "mixed.yaml", groups=None, group=4).model_dump(include={"groups", "group"}) == {
        "groups": 8,
        "group": 4,
    }


def test_notebook_is_kept_without_outputs_and_with_names():
    cells = json.loads((ROOT / "examples/grpo/grpo.ipynb").read_text())["cells"]
    names = [cell["id"] for cell in cells]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"[a-z-]{1,64}", name) for name in names)
    run = [cell for cell in cells if cell["cell_type"] == "code"]
    assert run and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in run)


def test_table_of_what_to_set_has_the_values_of_recipes():
    page = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", page, re.MULTILINE))
    default = Recipe(help="mixed").model_dump(exclude={"help"})
    assert {name: json.loads(value) for name, value in rows.items()} == default
