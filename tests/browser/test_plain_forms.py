"""Plain forms in a browser: where the focus is after a refusal, and the key that sends them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.test_reviewing import press

pytestmark = pytest.mark.browser
QUEUED = """
from people.access import person
from people.models import Membership
from reviews.record import assigning
mina = person(Membership.objects.get(user__username="mina", project__slug="demo"))
print(assigning.create_queue(mina, "Plain forms").pk)
"""


def test_a_refused_form_has_the_focus_where_one_goes_on(house, person):
    page = person(house.link("mina", "admin"))
    page.goto(f"{house.url}/campaigns/")
    page.get_by_role("button", name="Estimate").click()
    words = page.get_by_role("textbox", name="Words", exact=True)
    expect(words).to_be_focused()
    expect(words).to_have_accessible_description(page.get_by_role("alert").inner_text())
    page.goto(f"{house.url}/runs/")
    page.get_by_label("Or a list of tasks").fill("no such task")
    page.get_by_role("button", name="Launch run").click()
    expect(page.get_by_role("alert")).to_be_focused()
    page.goto(f"{house.url}/runs/")
    expect(page.locator("body")).to_be_focused()


def test_a_plain_form_is_sent_from_its_text_by_ctrl_enter(house, person):
    page = person(house.link("mina", "admin"))
    queue = house.manage("shell", "-c", QUEUED).split()[-1]
    page.goto(f"{house.url}/reviews/queues/{queue}/")
    page.get_by_text("Write instructions").click()
    page.get_by_label("Markdown, for reviewers").fill("Read the answer first.")
    press(page, "Control+Enter")
    expect(page.locator("#h-instructions + .voice")).to_contain_text("Read the answer first.")
    expect(page.get_by_text("Edit instructions")).to_be_visible()
