"""An export in a browser: a recipe changes its preview, the keys build it, and the file that comes is the dataset's."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.reported import reported

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def played(house):
    return reported(house)


def test_recipe_is_previewed_built_by_keys_and_downloaded(house, person, played):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/exports/?arm=browser")
    expect(page.locator("#headline")).to_have_text("No rows from 1 episode")
    expect(page.locator("#preview")).to_contain_text("Outcome only reported")
    page.get_by_label("Outcomes that a loop, a file or an environment reported").check()
    expect(page.locator("#headline")).to_have_text("1 row from 1 of 1 episode")
    expect(page.locator("#preview .learn")).to_have_text("There are seven.")
    assert "include=reported" in page.url and "arm=browser" in page.url
    page.reload()
    expect(page.get_by_label("Outcomes that a loop, a file or an environment reported")).to_be_checked()
    page.keyboard.press("Control+Enter")
    expect(page.locator("h1")).to_contain_text("1 row: SFT")
    with page.expect_download() as coming:
        page.get_by_role("link", name="data/train.jsonl").click()
    row = json.loads(coming.value.path().read_text())
    assert row["episode_id"] == played and row["outcome_word"] == "reported" and row["loss"] == [0, 1]


def test_a_pasted_recipe_is_built_explained_and_compared(house, person, played):
    page = person(house.link("nils", "admin"))
    page.goto(f"{house.url}/exports/")
    page.get_by_text("Load recipe").first.click()
    page.get_by_label("Recipe as YAML").fill("format: sft\nadvise: keep\n")
    page.get_by_role("button", name="Load recipe").click()
    expect(page.get_by_role("alert")).to_contain_text("advise")
    recipe = "format: sft\nfilter: {arm: browser}\ninclude: [reported]\nlicense: cc0-1.0\n"
    expect(page.get_by_label("Recipe as YAML")).to_have_value("format: sft\nadvise: keep\n")
    page.get_by_label("Recipe as YAML").fill(recipe)
    page.get_by_role("button", name="Load recipe").click()
    expect(page.get_by_label("Outcomes that a loop, a file or an environment reported")).to_be_checked()
    for license_name in ("cc0-1.0", "mit"):
        page.get_by_label("More of the recipe, as YAML").fill(f"license: {license_name}")
        page.get_by_role("button", name="Build export").click()
        expect(page.locator("h1")).to_contain_text("1 row: SFT")
        if license_name == "cc0-1.0":
            page.get_by_role("link", name="Change recipe").click()
    expect(page.locator("#hub")).to_contain_text("No Hub token is set.")
    page.get_by_label("Row, by number or key").fill("1")
    page.get_by_role("button", name="Explain row").click()
    expect(page.locator("#why")).to_contain_text(played)
    page.get_by_label("Episode ID").fill(played)
    page.get_by_role("button", name="Explain episode").click()
    expect(page.locator("#why")).to_contain_text("In the dataset")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_contain_text("0 added, 0 removed, 0 changed, 1 unchanged")
    expect(page.locator("main")).to_contain_text("Recipes differ")
