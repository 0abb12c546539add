"""The screenshots of the docs, from a product of their own: `make images` makes them again.

`make check` calls `python -m tools.images --check`, which says which are older than the pages that they show. The chart
in `docs/asking.md` is no page: `bench/planted/asking.py --chart` draws it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from tests.running import Product, product, until

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
MADE_FROM = IMAGES / "made-from.json"
"""By image, the digest of what its page was drawn from."""
SHELL_OF_PAGES = (
    "templates/base.html",
    "templates/_*.html",
    "static/site.css",
    "static/tokens.css",
    "templates/glyphs.svg",
)
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BRANCHES, PATIENCE_MS = 8, 240_000


def home(running: Product, page: Page) -> None:
    """Show Home while the demo runs and one agent waits for a person."""
    page.goto(running.login)
    expect(page.get_by_text("Who is the fixed contact").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("tr[data-state=running]").nth(2)).to_be_visible(timeout=PATIENCE_MS)


def forks(running: Product, page: Page) -> None:
    """Show the tree of an episode that was forked at its last write, with another argument."""
    with running.http(running.token("launch")) as loop:
        plan = {"tasks": ["helpdesk_1/0"], "arms": [{"name": "right", "policy": "script:oracle"}]}
        run = loop.post("/runs", json={"name": "to fork", "plan": plan}).raise_for_status().json()["id"]
        until(lambda: loop.get(f"/runs/{run}").json()["state"] == "finished", 300)
        episode = loop.get("/episodes", params={"run": run}).json()["items"][0]["id"]
        steps = loop.get(f"/episodes/{episode}/steps").json()["steps"]
        call = [step for step in steps if step["kind"] == "tool_call"][-1]
        text = next(name for name, given in call["arguments"].items() if isinstance(given, str))
        changed = {"name": call["name"], "arguments": call["arguments"] | {text: "billing"}}
        asked = {"step": call["seq"], "change": {"call": changed}, "tries": BRANCHES}
        loop.post(f"/episodes/{episode}/fork", json=asked).raise_for_status()
    page.goto(running.link("mina", "admin"))
    page.goto(f"{running.url}/episodes/{episode}/tree")
    ended = re.compile(rf"of {BRANCHES}\b")
    until(lambda: page.reload() and len(ended.findall(page.locator("main").inner_text())) >= 2, 200, every=2)


@dataclass(frozen=True)
class Shot:
    """A picture: what brings its page up, its size in pixels, and the files that the page is drawn from."""

    bring: Callable[[Product, Page], None]
    width: int
    height: int
    of: tuple[str, ...]
    demo: str = "0"

    def digest(self) -> str:
        total = hashlib.sha256()
        for path in sorted({path for pattern in (*SHELL_OF_PAGES, *self.of) for path in ROOT.glob(pattern)}):
            total.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
        return total.hexdigest()[:16]


SHOTS = {
    "home": Shot(home, 1440, 900, ("templates/awmweb/home.html", "templates/episodes/_*.html", "static/lists/*"), "1"),
    "forks": Shot(forks, 1200, 460, ("templates/runs/tree.html", "templates/episodes/_forks.html", "static/runs.css")),
}


def chromium_of(driver: Playwright) -> Browser:
    """Start the first Chromium that this machine has."""
    path = next(path for name in CHROMIUM if (path := shutil.which(name)))
    return driver.chromium.launch(
        executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    )


def make(names: list[str]) -> None:
    known = json.loads(MADE_FROM.read_text()) if MADE_FROM.exists() else {}
    with sync_playwright() as driver:
        chromium = chromium_of(driver)
        for name in names:
            shot = SHOTS[name]
            with product(AWMWEB_DEMO=shot.demo) as running:
                page = chromium.new_page(viewport={"width": shot.width, "height": shot.height}, color_scheme="light")
                shot.bring(running, page)
                page.screenshot(path=IMAGES / f"{name}.png")
                page.close()
            known[name] = shot.digest()
            MADE_FROM.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
            print(f"docs/images/{name}.png")


def older() -> list[str]:
    """Return the images whose pages have changed since."""
    known = json.loads(MADE_FROM.read_text()) if MADE_FROM.exists() else {}
    return [name for name, shot in SHOTS.items() if known.get(name) != shot.digest()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which are older than their pages")
    parser.add_argument("names", nargs="*", choices=[*SHOTS, []], help="which images; all without a name")
    options = parser.parse_args()
    if options.check:
        for name in older():
            print(f"docs/images/{name}.png is older than the page that it shows. Run: make images")
        return 0
    make(options.names or list(SHOTS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
