"""A dataset goes to the Hub from its page in a browser."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.reported import reported
from tests.exports.hub_server import TOKEN

pytestmark = pytest.mark.browser


def test_dataset_is_pushed_to_the_hub_from_its_page(desk, datasets, person):
    own, server = desk.with_project("pushing"), datasets
    ended = reported(own)
    page = person(own.link("mira", "admin"))
    page.goto(f"{own.url}/exports/?include=reported")
    page.get_by_role("button", name="Build export").click()
    expect(page.locator("h1")).to_contain_text("1 row: SFT")
    page.get_by_label("Dataset repository").fill("lab rows")
    page.get_by_role("button", name="Push to the Hub").click()
    expect(page.locator("body")).to_contain_text("use owner/name")
    assert server.commits == 0
    page.get_by_label("Dataset repository").fill("lab/rows")
    page.get_by_role("button", name="Push to the Hub").click()
    expect(page.locator("#hub")).to_contain_text("pushed")
    page.reload()
    link = page.locator("#hub").get_by_role("link", name="open the commit")
    assert (link.get_attribute("href") or "").startswith(server.url)
    assert json.loads(server.files["data/train.jsonl"])["episode_id"] == ended and server.commits == 1
    assert server.made["lab/rows"]["visibility"] == "private" and TOKEN not in page.content()
