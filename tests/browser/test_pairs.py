"""A reviewer compares pairs by keyboard: one key for each answer, undo on the page and of the last pair."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.test_review_desk import press

pytestmark = pytest.mark.browser

PROJECT = "comparing"
FILL = f"""
from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch
from episodes.models import Episode
from episodes.record import ending, recording
from people.access import system, system_actor
from reviews.record import assigning
ada = system_actor("{PROJECT}")
for number in range(4):
    about = {{"scenario": "pairs_1", "task_idx": number // 2, "arm": "quagga"}}
    start = EpisodeStart(key=f"pair {{number}}", task="Shut ticket 7.", **about)
    episode, _ = recording.start_episode(ada, start)
    look = {{"seq": 1, "kind": "tool_call", "name": "look", "arguments": {{"id": 8}}, "result": "one row"}}
    call = {{"seq": 2, "kind": "tool_call", "name": "update", "arguments": {{"id": number}}, "result": "ok"}}
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({{"steps": [look, call]}}).steps)
    ending.finish(ada, episode.pk, Finish(stop_reason="done", final_answer=f"Answer {{number}}"))
    found = Outcome(reward_type="others", reward=0.0, source="verifier")
    ending.record_outcome(system(ada.project), episode.pk, found)
about = {{"rubric": ["Which is clearer?"], "instructions": "Prefer the one that *changes* fewer rows."}}
queue = assigning.create_queue(ada, "Pairs", kind="pairwise", **about)
assigning.fill(ada, queue.pk, Episode.objects.all())
print("QUEUE", queue.pk)
"""
ANSWERS = f"""
from reviews.models import Preference
rows = Preference.objects.filter(review__queue__project__slug="{PROJECT}").order_by("created_at")
print("ROWS", [(one.withdrawn, sorted(one.answers.values()), one.choice, one.is_blind) for one in rows])
"""


def test_pairs_are_compared_by_keys_and_undone(house, person):
    house.manage("createproject", PROJECT)
    queue = house.manage("shell", "-v", "0", "-c", FILL).split("QUEUE", 1)[1].strip()
    page = person(house.link("rita", "reviewer", PROJECT))
    page.goto(f"{house.url}/reviews/queues/{queue}/")
    press(page, "Enter")
    expect(page.get_by_label("Episode A", exact=True)).to_contain_text("The first step is the same in A and B")
    expect(page.locator("#main")).not_to_contain_text("quagga")
    first = page.url
    checked = page.locator("[data-question] input:checked")
    press(page, "b")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_have_text("Answer this question: Which is clearer?")
    expect(page.locator("[data-question]").nth(1).locator("input").first).to_be_focused()
    assert page.url == first
    press(page, "e")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(checked).to_have_count(2)
    page.keyboard.press("z")
    expect(checked).to_have_count(1)
    page.keyboard.press("n")
    expect(page.locator("[data-question]").nth(1).locator("input:checked")).to_have_value("neither")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="Last pair: B.")).to_be_visible()
    assert page.url != first
    press(page, "z")
    expect(page.get_by_text("Undone. Answer again.")).to_be_visible()
    assert page.url == first
    for letter in "a=":
        press(page, letter)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Last pair: A.")).to_be_visible()
    for letter in "nn":
        press(page, letter)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("No pair is left for you.")).to_be_visible()
    expect(page.locator("section", has_text="Your reviews")).to_contain_text("Neither")
    rows = house.manage("shell", "-v", "0", "-c", ANSWERS).split("ROWS", 1)[1]
    # the first answer, its undo, the one after it, and the second pair
    assert rows.count("True, [], ") == 1 and rows.count("['equal']") == 1 and rows.count("False)") == 0, rows
