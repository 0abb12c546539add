"""The replay's tables of a built-in episode: a table is picked by keyboard, and rows that no step changed are there."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.running import until

pytestmark = pytest.mark.browser
ENDED = re.compile("finished|failed")


@pytest.fixture
def played(house):
    """The ID of an ended episode that awmweb played in a recorded world."""
    house.manage("rollout", "--scenario", "helpdesk_1", "--task-idx", "0", "--policy", "script:oracle")
    with house.http(house.token("export")) as reader:

        def ended():
            found = reader.get("/episodes?scenario=helpdesk_1&limit=1").json()["items"]
            return found and ENDED.fullmatch(found[0]["state"]) and found[0]

        return until(ended, 120, 0.5)["id"]


def test_tables_of_a_replay_hold_rows_that_no_step_changed(house, person, played):
    page = person(house.link("mila", "admin"))
    page.goto(f"{house.url}/episodes/{played}/replay/?step=1")
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    page.keyboard.press("t")
    pick = page.locator("[data-table-pick]")
    expect(pick).to_be_visible()
    room = page.locator("[data-tables-at]")
    names = pick.locator("option").all_inner_texts()
    assert len(names) > 3 and all(re.search(r", [\d,]+ rows?", name) for name in names[1:])
    pick.focus()
    page.keyboard.press("ArrowDown")
    expect(room.locator("tr[data-word=unchanged]").first).to_be_visible()
    expect(room).to_contain_text("Start rows 1 to ")
    expect(pick).to_be_focused()
    page.locator("h1").click()
    page.keyboard.press("End")
    expect(room).to_contain_text(re.compile(r"changes up to step [2-9]"))
    expect(room.locator("tr[data-word=unchanged]").first).to_be_visible()
