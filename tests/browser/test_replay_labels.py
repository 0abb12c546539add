"""The replay's keys for what people said: from mark to mark, beyond the places of the scrubber, and in the help."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SAID = """
from episodes.models import Episode
from people import access
from people.models import Membership
from reviews.record import annotating
from reviews.visible.places import Place
mila = access.person(Membership.objects.get(user__username="mila", project__slug="said"))
for seq in (3, 90, None):
    annotating.annotate(mila, Episode.objects.get(pk={pk!r}), Place(seq), "comment", "Look here.")
"""


def test_keys_of_a_replay_go_from_label_to_label(house, person):
    house.manage("createproject", "said")
    with house.http(house.token("agent", "said")) as loop:
        episode = loop.post("/episodes", json={"key": "said", "task": "Refund Ann."}).json()["id"]
        steps = [{"seq": seq, "kind": "tool_call", "name": f"call_{seq}", "arguments": {}} for seq in range(1, 101)]
        for path, body in (("steps", {"steps": steps}), ("finish", {"stop_reason": "done"})):
            answer = loop.post(f"/episodes/{episode}/{path}", json=body)
            assert answer.is_success, answer.text
    page = person(house.link("mila", "admin", "said"))
    house.manage("shell", "-c", SAID.format(pk=episode))
    page.goto(f"{house.url}/episodes/{episode}/replay/?step=1")
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    expect(page.locator(".scrub a.lab")).to_have_count(1)
    for key, step in (("l", 3), ("l", 90), ("l", 90), ("Shift+L", 3), ("Shift+L", 3)):
        page.keyboard.press(key)
        expect(page.locator(".scrub a[aria-current]")).to_have_attribute("data-seq", str(step))
        expect(page.locator(".scrub a[aria-current]")).to_have_class(re.compile(r"\blab\b"))
    page.keyboard.press("?")
    expect(page.locator("[data-keysheet]")).to_contain_text("next label or comment")
    expect(page.locator("[data-keysheet]")).to_contain_text("previous label or comment")
