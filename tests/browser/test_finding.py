"""Find, compare and import in a browser: a word leads to its step, two hits are compared, a file becomes an episode."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from awmclient.client import SyncHttpDashboard
from tests.imports.files import ATIF
from tests.running import until

pytestmark = pytest.mark.browser


ASKED = """() => performance.getEntriesByType("resource").filter((one) => one.name.includes("/static/"))
    .map((one) => [one.name, one.transferSize])"""


def test_second_page_asks_for_no_file_again(house, person):
    page = person(house.link("nia", "viewer"), at_home=True)
    first = page.evaluate(ASKED)
    assert len(first) > 20 and all(size for _, size in first)
    page.goto(f"{house.url}/episodes/")
    again = dict(page.evaluate(ASKED))
    known = [name for name, _ in first if name in again]
    assert len(known) > 20 and [name for name in known if again[name]] == []


def hits(loop):
    return loop.get("/episodes?q=persimmon").json()["items"]


@pytest.fixture
def played(house):
    """Two episodes that differ in one call."""
    ids = []
    with house.http(house.token("agent")) as loop:
        for key, rows in (("find-1", ["get", "put"]), ("find-2", ["get", "look", "put"])):
            start = {"key": key, "task": "Sort the cups.", "scenario": "shelf_1", "task_idx": 4, "arm": "found"}
            ids.append(loop.post("/episodes", json=start).json()["id"])
            said = "<b>the persimmon limit</b>"
            steps = [
                {"seq": seq, "kind": "tool_call", "name": name, "arguments": {}, "result": said if name == "put" else 1}
                for seq, name in enumerate(rows, 1)
            ]
            for call, body in (("steps", {"steps": steps}), ("finish", {"stop_reason": "done"})):
                assert loop.post(f"/episodes/{ids[-1]}/{call}", json=body).is_success
        until(lambda: set(ids) <= {one["id"] for one in hits(loop)}, 60 * house.patience)
    return ids


def test_word_leads_to_its_step_and_two_hits_are_compared(house, person, played):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/episodes/")
    page.get_by_label("Search episodes", exact=True).fill('"persimmon limit"')
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-key]")).to_have_count(2)
    expect(page.locator(".hit mark").first).to_have_text("persimmon")
    filters = page.get_by_role("navigation", name="Filters")
    filters.get_by_text("Tool used").click()
    filters.get_by_role("link", name="look 1").click()
    expect(page.locator("tr[data-key]")).to_have_count(1)
    page.locator(".hit").click()
    expect(page).to_have_url(re.compile(rf"/episodes/{played[1]}/replay/\?step=3"))
    page.goto(f"{house.url}/episodes/?q=persimmon")
    for box in page.get_by_role("checkbox", name=re.compile("^Select")).all():
        box.check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_contain_text("They differ from step 2 on: only the first called")
    expect(page.locator("tr.same")).to_have_count(2)
    keys = page.locator("[data-keyline]")
    expect(keys).to_contain_text("next difference")
    page.keyboard.press("]")
    expect(page.locator("tr[aria-selected=true]")).not_to_have_class(re.compile("same"))
    expect(keys).not_to_contain_text("next difference")  # there is no other


def test_dates_are_chosen_and_removed(house, person, played):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/episodes/?q=persimmon")
    filters = page.get_by_role("navigation", name="Filters")
    filters.get_by_text("Ended", exact=True).click()
    filters.get_by_label("Since").fill("2020-01-02")
    page.get_by_role("button", name="Filter by date").click()
    expect(page).to_have_url(re.compile("q=persimmon.*since=2020-01-02"))
    expect(page.locator("tr[data-key]")).to_have_count(2)
    expect(filters.get_by_label("Since")).to_have_value("2020-01-02")
    filters.get_by_label("Before").fill("2020-01-03")
    page.get_by_role("button", name="Filter by date").click()
    expect(page.locator("h1")).to_have_text("No episodes match.")
    page.get_by_role("link", name="Remove filter Ended before: 2020-01-03").click()
    expect(page.locator("tr[data-key]")).to_have_count(2)
    expect(page).to_have_url(re.compile("since=2020-01-02"))


def test_selected_episodes_are_labeled_by_keyboard(house, person, played):
    admin = person(house.link("mira", "admin"))
    admin.goto(f"{house.url}/reviews/")
    admin.get_by_text("Add or change a label").click()
    admin.get_by_label("Name", exact=True).last.fill("found_kind")
    admin.get_by_label("Title").fill("Kind found")
    admin.get_by_label("Options, one per line").fill("Plain\nOdd")
    admin.get_by_role("button", name="Save label").click()
    page = person(house.link("rolf", "reviewer"))
    page.goto(f"{house.url}/episodes/?arm=found")
    for box in page.get_by_role("checkbox", name=re.compile("^Select")).all()[:2]:
        box.focus()
        page.keyboard.press("Space")
    page.keyboard.press("l")
    expect(page.locator("h1")).to_have_text("2 selected episodes to label")
    page.get_by_role("button", name="Odd").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_contain_text("You labeled 2 of 2: 2 Odd.")
    expect(page.locator("body")).to_contain_text("Set Kind found on 2 of 2 selected episodes.")
    page.goto(f"{house.url}/episodes/?label_value=found_kind:odd")
    expect(page.locator("tr[data-key]")).to_have_count(2)
    page.go_back()
    page.get_by_role("button", name="Withdraw Kind found").click()
    expect(page.locator("body")).to_contain_text("Withdrew Kind found from 2 episodes.")


def in_view(page, locator):
    """Return whether all of an element is in the window."""
    box = locator.bounding_box()
    return box["y"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"]


def test_list_of_episodes_is_worked_by_keyboard(house, person, played):
    page = person(house.link("mira", "admin"), viewport={"width": 1024, "height": 420})
    page.goto(f"{house.url}/episodes/?arm=found&sort=length")
    bar = page.get_by_role("toolbar", name="Selected episodes")

    def press(key):
        """Press a key once the page listens: what it prints in its key line works."""
        expect(page.locator("[data-keyline] kbd").first).to_be_attached()
        page.keyboard.press(key)

    expect(page.locator("tr[data-key] .c-length")).to_have_text(["2", "3"])
    expect(bar).to_be_hidden()
    for key in ("j", "x", "Shift+J"):
        press(key)
    expect(bar).to_contain_text("2 episodes selected")
    assert in_view(page, bar)
    press("Escape")
    expect(bar).to_be_hidden()
    press("c")  # on the row in view
    expect(page.locator("[data-said]")).to_contain_text("Compare takes 2 to 24 episodes.")
    expect(bar.get_by_role("button", name="Compare")).to_be_disabled()
    press("s")
    expect(page.get_by_role("dialog", name="Sort").get_by_role("link", name="Shortest first")).to_be_focused()
    press("k")
    press("Enter")
    expect(page.locator("tr[data-key] .c-length")).to_have_text(["3", "2"])
    press("v")
    press("x")
    press("Enter")
    expect(page.get_by_role("columnheader")).to_have_text(["Select", "Outcome", "Task", "Actions", "Asks", "Started"])
    expect(page.locator(".c-steps")).to_have_count(0)
    press("f")
    expect(page.get_by_role("navigation", name="Filters").locator("summary").first).to_be_focused()
    press("Shift+V")
    expect(page.get_by_label("Name for the current view")).to_be_visible()
    press("Escape")
    press("Shift+X")
    expect(bar).to_contain_text("All 2 selected")
    press("q")
    expect(page.locator("h1")).to_have_text("Queue 2 episodes for review")
    page.goto(f"{house.url}/episodes/?arm=found&sort=length")
    press("Shift+X")
    press("c")
    expect(page.locator("h1")).to_contain_text("They differ from step 2 on")
    press("]")
    expect(page.locator("tr[aria-selected=true]")).to_have_id("line-1")
    press("k")
    expect(page.locator("tr[aria-selected=true]")).to_have_id("line-0")
    press("Shift+ArrowRight")
    press("Enter")
    expect(page).to_have_url(re.compile(r"/replay/\?step=2$"))
    phone = person(house.link("vera", "viewer"), viewport={"width": 390, "height": 700})
    phone.goto(f"{house.url}/episodes/?arm=found")
    phone.get_by_role("checkbox", name=re.compile("^Select")).first.check()
    bar = phone.get_by_role("toolbar", name="Selected episodes")
    expect(bar).to_contain_text("1 episode selected")
    assert in_view(phone, bar)
    for offered in ("Queue for review", "Label", "Export", "Stop live episodes"):
        expect(bar.get_by_role("button", name=offered)).to_have_count(0)
    phone.set_viewport_size({"width": 390, "height": 300})
    phone.goto(f"{house.url}/episodes/{played[1]}/")
    expect(phone.locator("[data-keyline] kbd").first).to_be_attached()  # its scripts have run
    assert in_view(phone, phone.locator("h1")) and phone.evaluate("scrollY") == 0
    expect(phone.locator("#step-1")).to_be_attached()


def test_live_episodes_stop_once_their_count_is_confirmed(house, person):
    page = person(house.link("mira", "admin"), viewport={"width": 1024, "height": 700})
    with house.http(house.token("agent")) as loop:
        for key, end in (("stop-1", False), ("stop-2", False), ("stop-3", True)):
            start = {"key": key, "task": "Sort the cups.", "arm": "stopped", "expert": "plain"}
            pk = loop.post("/episodes", json=start).json()["id"]
            if end:
                assert loop.post(f"/episodes/{pk}/finish", json={"stop_reason": "done"}).is_success
            else:
                words = "איזה persimmon הוא?" if key == "stop-2" else f"Which persimmon is {key}?"
                asked = {"key": key, "episode": pk, "seq": 1, "question": words}
                assert loop.post("/asks", json=asked).is_success
    page.goto(f"{house.url}/queue/?q=persimmon")
    hebrew, way = page.get_by_role("link", name="איזה persimmon הוא?"), "text => getComputedStyle(text).direction"
    assert [page.locator(".askrow .q").filter(has_text="stop-1").evaluate(way), hebrew.evaluate(way)] == ["ltr", "rtl"]
    hebrew.click()
    assert page.locator("h1.words").evaluate(way) == "rtl"
    page.goto(f"{house.url}/queue/?q=persimmon")
    page.get_by_role("checkbox", name="Select: Which persimmon is stop-1?").check()
    page.get_by_role("textbox", name="Priority").fill("999999")
    page.keyboard.press("Enter")
    expect(page.locator("[data-said]")).to_contain_text("1 not changed")
    expect(page.get_by_role("checkbox", name="Select: Which persimmon is stop-1?")).to_be_checked()
    expect(page.locator("#bulk")).to_contain_text("1 ask selected")
    page.goto(f"{house.url}/episodes/?arm=stopped&sort=started")
    expect(page.locator("[data-keyline] kbd").first).to_be_attached()
    for key in ("j", "x", "Shift+J", "Shift+J"):
        page.keyboard.press(key)
    page.get_by_role("button", name="Stop live episodes").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Stop 2 live episodes?")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#bulk")).to_contain_text("3 episodes selected")
    page.get_by_role("button", name="Stop live episodes").press("Enter")
    page.keyboard.type("Wrong cups.")
    page.keyboard.press("Enter")
    expect(page.locator(".told.success")).to_have_text("2 live episodes stopped.")
    expect(page.locator('td[data-cell="state"]').filter(has_text="Cancelled")).to_have_count(2)


def test_view_is_saved_and_opened(house, person, played):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/episodes/?arm=found")
    page.locator("#saved-views summary").click()
    page.get_by_label("Name for the current view").fill("The found ones")
    page.get_by_role("button", name="Save view").click()
    page.goto(f"{house.url}/episodes/")
    page.locator("#saved-views summary").click()
    page.get_by_role("link", name="The found ones").click()
    expect(page).to_have_url(re.compile(r"/episodes/\?arm=found$"))
    expect(page.get_by_role("link", name="Remove filter Arm: found")).to_be_visible()


def test_file_is_imported_and_its_episode_replayed(house, person, tmp_path):
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/episodes/")
    page.get_by_role("link", name="Import", exact=True).click()
    broken = tmp_path / "broken.jsonl"
    broken.write_text(json.dumps(ATIF) + "\n{oh\n")
    page.get_by_label("Files", exact=True).set_input_files(broken)
    page.get_by_role("button", name="Import files").click()
    expect(page.locator("h1")).to_have_text("1 of 2 rows of broken.jsonl refused. Nothing was imported.")
    expect(page.get_by_role("cell", name="line 2")).to_be_visible()
    page.get_by_role("link", name="Import another file").click()
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(ATIF))
    page.get_by_label("Files", exact=True).set_input_files(whole)
    page.get_by_role("button", name="Import files").click()
    expect(page.locator("h1")).to_have_text("1 episode imported from whole.json")
    page.get_by_role("link", name="Merge the duplicates.").click()
    expect(page.locator("[data-part=strap]")).to_contain_text("ended: agent finished")
    page.locator("[data-act=replay]").click()
    expect(page.locator(".steps")).to_contain_text("get_ticket")


def test_tables_of_the_replay_follow_the_step_in_view(house, person):
    def changes(before, after):
        row = {"key": {"id": 7}, "before": {"status": before}, "after": {"status": after}}
        return {"state_diff": {"tickets": {"changed": [row]}}}

    with SyncHttpDashboard(house.url, house.token("agent")) as dash:
        episode = dash.start_episode("Close it.", key="tables-at")
        call = {"kind": "tool_call", "name": "close", "arguments": {}, "result": 1}
        for more in ({}, changes("new", "open"), {}, changes("open", "solved")):
            episode.append({**call, **more})
        episode.finish("done")
    page = person(house.link("mira", "admin"))
    page.goto(f"{house.url}/episodes/{episode.id}/replay/?step=1")
    cell = page.locator("[data-tables-at] tbody td").last
    page.keyboard.press("t")
    expect(cell).to_have_text("new")
    page.keyboard.press("ArrowRight")
    expect(cell).to_contain_text("open")
    page.keyboard.press("End")
    expect(cell).to_contain_text("solved")
    page.locator('[data-tables-at] a[href="#step-2"]').click()
    expect(page).to_have_url(re.compile("step=2"))
    expect(cell).to_contain_text("open")
