"""Two reviewers at one queue: a review taken over while its text is typed, a gold item, and the court's ruling."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PROJECT = "ruling"
FILL = """
from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch
from episodes.record import ending, recording
from episodes.models import Episode
from people.access import system
from people.access import system_actor
from reviews.record import assigning
ada = system_actor("{project}")
for number in range(4):
    scenario = "known_1" if number in (1, 2) else "deciding_1"
    start = EpisodeStart(key=f"one {{number}}", task="Shut ticket 7.", scenario=scenario, task_idx=number)
    episode, _ = recording.start_episode(ada, start)
    call = {{"seq": 1, "kind": "tool_call", "name": "update", "arguments": {{"id": 8}}, "result": "ok"}}
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({{"steps": [call]}}).steps)
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    found = Outcome(reward_type="others", reward=0.0, details={{"why": "ticket 7 is open"}}, source="verifier")
    ending.record_outcome(system(ada.project), episode.pk, found)
queue = assigning.create_queue(ada, "Two at once")
assigning.fill(ada, queue.pk, Episode.objects.filter(key="one 0"))
gold = assigning.create_queue(ada, "Known answers", gold_share=0.5)
answers = {{"one 1": "accept", "one 2": "reject"}}
known = [assigning.add_gold(ada, gold.pk, Episode.objects.get(key=key).pk, answers[key]).pk for key in answers]
print("QUEUES", queue.pk, gold.pk, *known)
"""
EXPIRE = """
from datetime import timedelta
from django.utils import timezone
from reviews.models import ReviewSlot
ReviewSlot.objects.filter(review="{review}").update(lease_until=timezone.now() - timedelta(seconds=1))
"""


@pytest.fixture(scope="module")
def queues(house):
    """Addresses of a queue with one review, of one with two gold items, and of these two."""
    house.manage("createproject", PROJECT)
    said = house.manage("shell", "-v", "0", "-c", FILL.format(project=PROJECT))
    pks = said.split("QUEUES", 1)[1].split()
    return [f"{house.url}/reviews/{'queues/' if place < 2 else ''}{pk}/" for place, pk in enumerate(pks)]


def press(page, key):
    """Press a key once the page listens: what it prints in its key line works."""
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    page.keyboard.press(key)


def reviewer(house, person, name, queue):
    page = person(house.link(name, "reviewer", PROJECT))
    page.goto(queue)
    return page


def test_review_taken_over_while_typing_keeps_the_text(house, person, queues):
    first = reviewer(house, person, "rolf", queues[0])
    press(first, "Enter")
    note = first.get_by_label("Note", exact=True)
    note.fill("Ticket 7 is still")
    house.manage("shell", "-v", "0", "-c", EXPIRE.format(review=first.url.split("/reviews/")[1].split("/")[0]))
    second = reviewer(house, person, "rita", queues[0])
    press(second, "Enter")
    expect(second.locator("[data-verdict-form]")).to_be_visible()
    note.press_sequentially(" open.")
    first.get_by_label("Reject").check()
    press(first, "Control+Shift+Enter")
    expect(first.locator(".problem")).to_contain_text("claim", ignore_case=True)
    expect(first.get_by_role("region", name="Your late verdict")).to_contain_text("Ticket 7 is still open.")
    expect(first.locator(".hatch")).to_contain_text("All open reviews of this episode are claimed.")
    expect(first.get_by_role("button", name="Claim")).to_have_count(0)
    second.get_by_label("Accept").check()
    press(second, "Control+Shift+Enter")
    expect(second.locator("section[aria-labelledby='h-revealed']")).to_contain_text("Accept")


def test_gold_items_measure_a_reviewer(house, person, queues):
    """They look like any review; chance serves them, so this reviewer opens them by their addresses."""
    page = reviewer(house, person, "gina", queues[1])
    for item in queues[2:]:
        page.goto(item)
        page.get_by_role("button", name="Claim").click()
        expect(page.locator(".chip.priv")).to_have_text("BLIND")
        assert "gold" not in page.locator("main").inner_text().lower()
        page.get_by_label("Accept").check()
        press(page, "Control+Shift+Enter")
        expect(page.locator("section[aria-labelledby='h-revealed']")).to_be_visible()
    admin = person(house.link("mila", "admin", PROJECT))
    admin.goto(queues[1])
    line = admin.locator("section", has=admin.get_by_role("heading", name="Gold items")).locator("p", has_text="gina")
    expect(line).to_contain_text("1 of 2 right")


def test_doubted_task_is_ruled_and_left_out(house, person, queues):
    """The last reviewer's verdict doubts the verifier; an admin rules by the page, and the ruling can be downloaded."""
    admin = person(house.link("mila", "admin", PROJECT))
    admin.goto(queues[0])
    admin.get_by_label("Scenario").select_option("deciding_1")
    admin.get_by_role("button", name="Add episodes").click()
    expect(admin.locator(".told")).to_contain_text("Added")
    page = reviewer(house, person, "rosa", queues[0])
    press(page, "Enter")
    expect(page.locator(".chip.priv")).to_have_text("BLIND")
    page.get_by_label("Accept").check()
    press(page, "Control+Shift+Enter")
    page.get_by_role("button", name="The verifier is wrong").click()
    expect(page.locator("[data-revealed]")).to_have_count(0)  # the reason goes on
    admin.goto(f"{house.url}/reviews/court/")
    expect(admin.locator("h1")).to_have_text("1 task waits for a ruling.")
    admin.get_by_role("link", name=re.compile("deciding_1")).first.click()
    admin.get_by_label("Too strict").check()
    admin.get_by_label("Reason").fill("It wants the ticket's old title.")
    admin.get_by_role("button", name="Give ruling").click()
    expect(admin.get_by_role("complementary", name="Rulings")).to_contain_text("It wants the ticket's old title.")
    admin.goto(f"{house.url}/reviews/court/")
    expect(admin.locator("h1")).not_to_have_text("1 task waits for a ruling.")
    with admin.expect_download() as file:
        admin.get_by_role("link", name="Download rulings").click()
    assert "too_strict" in file.value.path().read_text()
