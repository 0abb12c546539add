"""Pictures of steps in a browser: thumbnails on the pages, and the zoom by its key. The page of 100 is small."""

from __future__ import annotations

import base64
import re

import pytest
from playwright.sync_api import expect

from awmclient.client import SyncHttpDashboard
from episodes.stored.decode_picture import THUMBNAIL_BYTES
from tests.pictures import drawn

pytestmark = pytest.mark.browser
MEGABYTE = 1_000_000


def shown(house, count: int, key: str) -> tuple[str, str]:
    """Return an episode with as many pictures, in results as MCP and OpenAI write them, and its open ask."""
    with SyncHttpDashboard(house.url, house.token("agent")) as dash:
        episode = dash.start_episode("Order the blue shirt in the shop.", key=key, expert="plain")
        for number in range(count):
            data = base64.b64encode(drawn(size=(1280, 800), shade=number)).decode()
            mcp = {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
            openai = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]
            call = {"kind": "tool_call", "name": "screenshot", "arguments": {"page": number}}
            episode.append({**call, "result": openai if number % 2 else mcp})
        part = episode.upload(drawn("JPEG", (900, 700)), alt="The shop asks for a size")
        with house.http(house.token("agent")) as loop:
            question = [{"type": "text", "text": "Which size?"}, part.model_dump(exclude_none=True)]
            body = {"key": "q", "episode": episode.id, "seq": episode.last_seq + 1, "question": question}
            ask = loop.post("/asks", json={**body, "deadline_s": 3000})
            assert ask.is_success, ask.text
    return episode.id, ask.json()["id"]


def test_pictures_are_thumbnails_that_zoom_by_keys(house, person):
    episode, ask = shown(house, 2, "zoomed")
    page = person(house.link("mila", "admin"))
    for address in (f"/episodes/{episode}/", f"/episodes/{episode}/replay/?step=2", f"/asks/{ask}/"):
        page.goto(house.url + address)
        expect(page.locator("[data-keyline] kbd").first).to_be_visible()
        page.locator("a[data-picture]").first.scroll_into_view_if_needed()
        expect(page.locator("a[data-picture] img").first).to_have_js_property("naturalWidth", 320)
        page.keyboard.press("m")
        large = page.locator("dialog.zoom img")
        expect(large).to_be_visible()
        assert large.evaluate("image => image.decode().then(() => image.naturalWidth)") in (900, 1280)
        page.keyboard.press("Escape")
        expect(page.locator("dialog.zoom")).to_have_count(0)
    page.goto(f"{house.url}/episodes/{episode}/replay/?step=1")
    pictures = page.locator("a[data-picture]")
    expect(pictures.nth(1)).to_be_attached()
    pictures.first.click()
    words = page.locator("dialog.zoom figcaption span")
    expect(words).to_have_text("Picture of step 1, 1,280 × 800")
    first = page.locator("dialog.zoom img").get_attribute("src")
    page.keyboard.press("j")
    expect(page.locator("dialog.zoom img")).not_to_have_attribute("src", first)
    page.keyboard.press("k")
    expect(page.locator("dialog.zoom img")).to_have_attribute("src", first)
    page.keyboard.press("Escape")
    expect(pictures.first).to_be_focused()
    page.keyboard.press("m")
    page.keyboard.press("s")
    expect(words).to_have_count(1, timeout=1000)  # nothing is before the first
    page.keyboard.press("j")
    expect(words).to_have_text([re.compile("step 1"), re.compile("step 2")])
    left, right = page.locator("dialog.zoom img").all()
    assert left.bounding_box()["y"] == right.bounding_box()["y"]
    expect(page.get_by_role("button", name="Side by side")).to_have_attribute("aria-pressed", "true")
    page.set_viewport_size({"width": 390, "height": 800})
    assert left.bounding_box()["y"] + left.bounding_box()["height"] <= right.bounding_box()["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Side by side").click()
    expect(words).to_have_text([re.compile("step 2")])
    page.keyboard.press("Escape")
    expect(pictures.nth(1)).to_be_focused()


def test_page_of_100_pictures_is_below_one_megabyte(house, person):
    episode, _ = shown(house, 100, "many")
    page = person(house.link("mila", "admin"))
    sizes: dict[str, int] = {}
    page.on("response", lambda reply: sizes.update({reply.url: int(reply.headers.get("content-length", 0))}))
    page.goto(f"{house.url}/episodes/")
    expect(page.get_by_text("Order the blue shirt").first).to_be_visible()
    assert not [url for url in sizes if "/pictures/" in url]
    page.goto(f"{house.url}/episodes/{episode}/")
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    seen = set()
    for number in range(1, 101):
        image = page.locator(f"#step-{number} img")
        page.keyboard.press("Home" if number == 1 else "j")
        image.scroll_into_view_if_needed()
        expect(image).to_have_js_property("complete", True)
        seen.add(re.sub(r".*/", "", image.get_attribute("src")))
    small = {url: size for url, size in sizes.items() if "/pictures/" in url}
    assert len(seen) == 100 <= len(small) and all(url.endswith("?small=1") and size for url, size in small.items())
    assert sum(small.values()) < 100 * THUMBNAIL_BYTES < MEGABYTE
