"""An export in a browser: a recipe changes its preview, the keys build it, and the file that comes is the dataset's."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def played(house):
    """An episode whose outcome only its loop reported."""
    with house.http(house.token("agent")) as loop:
        start = {"key": "export-me", "task": "Count the cups.", "arm": "browser"}
        episode = loop.post("/episodes", json=start).json()["id"]
        steps = [
            {"seq": 1, "kind": "message", "role": "user", "content": "Count the cups."},
            {"seq": 2, "kind": "message", "role": "assistant", "content": "There are seven."},
        ]
        outcome = {"reward_type": "complete", "reward": 1.0}
        for call, body in (("steps", {"steps": steps}), ("finish", {"stop_reason": "done", "outcome": outcome})):
            answer = loop.post(f"/episodes/{episode}/{call}", json=body)
            assert answer.is_success, answer.text
    return episode


def test_recipe_is_previewed_built_by_keys_and_downloaded(house, person, played):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/exports/?arm=browser")
    expect(page.locator("#headline")).to_have_text("0 rows from 0 of 1 episodes")
    expect(page.locator("#preview")).to_contain_text("Outcome only reported by the loop")
    page.get_by_label("Outcomes that only the loop reported").check()
    expect(page.locator("#headline")).to_have_text("1 row from 1 of 1 episodes")
    expect(page.locator("#preview .learn")).to_have_text("There are seven.")
    assert "include=reported" in page.url and "arm=browser" in page.url
    page.reload()
    expect(page.get_by_label("Outcomes that only the loop reported")).to_be_checked()
    page.keyboard.press("Control+Enter")
    expect(page.locator("h1")).to_contain_text("1 row: SFT", timeout=60_000)
    with page.expect_download() as coming:
        page.get_by_role("link", name="data/train.jsonl").click()
    row = json.loads(coming.value.path().read_text())
    assert row["episode_id"] == played and row["outcome_word"] == "reported" and row["loss"] == [0, 1]
