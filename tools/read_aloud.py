"""Four pages as a screen reader gets them: `python -m tools.read_aloud` writes `docs/measured/read-aloud.md`.

Chromium's accessibility tree of the queue, of a question, of an approval and of a review: roles, names and states in
the order in which they are read, without the bar that every page has.
"""

from __future__ import annotations

from playwright.sync_api import Page, expect, sync_playwright

from tests.running import Product, product
from tools.images import ROOT, chromium_of

PAGE = ROOT / "docs" / "measured" / "read-aloud.md"
CALL = {"id": "1", "name": "create_refund", "arguments": {"amount": 249, "order": 7}}
ASKS = {
    "A question": {"question": "To whom does ticket 7 go?", "context": "Ann and Bo are free."},
    "An approval": {"question": "May I?", "kind": "approval", "calls": [CALL], "on_timeout": "reject"},
}
START = """# Pages as a screen reader gets them

Written by `python -m tools.read_aloud` from Chromium's accessibility tree, without the bar that every page has.
"""


def posted(loop, path: str, **body: object) -> dict:
    return loop.post(path, json=body).raise_for_status().json()


def waiting(running: Product) -> dict[str, str]:
    """Let two agents ask and one episode end; addresses of the asks, by heading."""
    with running.http(running.token("agent")) as loop:
        addresses = {}
        for heading, ask in ASKS.items():
            episode = posted(loop, "/episodes", key=heading, task="Assign ticket 7.", expert="plain")["id"]
            sent = posted(loop, "/asks", key="a", episode=episode, seq=1, deadline_s=3000, **ask)
            addresses[heading] = f"/asks/{sent['id']}/"
        ended = posted(loop, "/episodes", key="ended", task="Assign ticket 8.", scenario="desk_1", task_idx=0)["id"]
        call = {"seq": 1, "kind": "tool_call", "name": "assign_ticket", "arguments": {"id": 8}, "result": "done"}
        posted(loop, f"/episodes/{ended}/steps", steps=[call])
        posted(loop, f"/episodes/{ended}/finish", stop_reason="done", outcome={"reward_type": "complete", "reward": 1})
    return addresses


def read(page: Page, heading: str) -> str:
    expect(page.locator("main h1")).not_to_have_count(0)
    expect(page.locator("[data-keyline] kbd").first).to_be_visible()
    tree = page.locator("main").aria_snapshot()
    return f"\n## {heading}\n\n```text\n{tree}\n```\n"


def reviewing(page: Page, url: str) -> None:
    """Make a label and a queue with the ended episode, and open its review."""
    page.goto(f"{url}/reviews/")
    page.get_by_text("Add or change a label").click()
    label = page.locator("form[action$='/reviews/labels']")
    for name, words in {"Name": "step_quality", "Title": "Step quality", "Options": "Good\nWrong"}.items():
        label.get_by_label(name).fill(words)
    label.get_by_role("button", name="Save label").click()
    queue = page.get_by_role("form", name="New queue")
    queue.get_by_label("Name").fill("First look")
    queue.get_by_role("button", name="Create queue").click()
    page.get_by_label("Scenario").select_option("desk_1")
    page.get_by_role("button", name="Add episodes").click()
    page.get_by_role("button", name="Review next").click()


def main() -> None:
    parts = [START]
    with product() as running, sync_playwright() as driver:
        page = chromium_of(driver).new_page(viewport={"width": 1440, "height": 900})
        page.goto(running.link("mina", "admin"))
        asks = waiting(running)
        for heading, path in {"Queue": "/queue/", **asks}.items():
            page.goto(running.url + path)
            parts.append(read(page, heading))
            if heading in ASKS:
                page.get_by_role("button", name="Claim and answer").click()
                expect(page.get_by_role("button", name="Claim and answer")).to_be_hidden()
                parts.append(read(page, f"{heading}, claimed"))
        reviewing(page, running.url)
        parts.append(read(page, "A review"))
    PAGE.write_text("".join(parts))


if __name__ == "__main__":
    main()
