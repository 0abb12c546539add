"""Every page with words and names that are hard to lay out (`hard_data.py`): nothing is out of place, what is drawn is
what works, and axe-core has no serious finding: names, roles, contrast, and links that are seen."""

from __future__ import annotations

import pytest
from django.urls import get_resolver
from playwright.sync_api import expect

from tests.browser.hard_data import seeded
from tests.browser.test_keys_hold import holds
from tests.commands import ROOT

AXE = ROOT / "tools" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not AXE.exists(), reason="npm has not installed axe-core"),
]

WITH_QUERY = (
    *("/runs/?launch=1&recipe=pr428", "/reviews/add/?matching=%3F"),
    "/episodes/?sort=-duration&columns=ended,run,policy",
)
NO_PAGES = {"/api/v1/", "/replies/", "/reviews/label/", "/reviews/add/", "/episodes/compare/"}
"""Addresses that take forms, or need a query."""


def plain(patterns, start="/"):
    """Addresses without a part that differs."""
    for pattern in patterns:
        path = start + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from plain(pattern.url_patterns, path)
        elif path.endswith("/") and not {"<", "^"} & set(path):
            yield path


PAGES = (*sorted(set(plain(get_resolver().url_patterns)) - NO_PAGES), *WITH_QUERY)
BOTH = ("/", "/queue/", "/episodes/", "/runs/", "/reviews/", "/curriculum/")
"""Pages that each run of the tests reads in dark and on a phone, too. Colors are variables of all pages."""
SIZES = ((1440, 900), (1024, 768), (960, 600), (768, 1024), (390, 844))
"""In CSS pixels; the third is 1,440 px at a zoom of 150%."""
ENDS = (SIZES[0], SIZES[-1])

SERIOUS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)"""
COLORS = SERIOUS.replace("{", '{runOnly: ["color-contrast", "link-in-text-block"], ', 1)
"""The rules that read colors, for dark: the rest of a page is the same in both."""
SMALL = """async () => (await axe.run(document, {runOnly: ["link-name", "button-name",
    "heading-order", "link-in-text-block", "label-content-name-mismatch"], resultTypes: ["violations"]})).violations
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)"""
"""Names, headings and links by color alone, also of what a phone hides."""
MISPLACED = r"""() => {
  const isShown = (part) => part.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true });
  const start = (part) => part.outerHTML.replace(/\s+/g, " ").slice(0, 160);
  const { scrollWidth, clientWidth } = document.documentElement;
  const faults = [];
  if (scrollWidth > clientWidth) {
    const isPast = (part) => isShown(part) && part.getBoundingClientRect().right > clientWidth + 1;
    const past = [...document.querySelectorAll("body *")].filter(isPast);
    faults.push(`scrolls sideways by ${scrollWidth - clientWidth} px: ${past.slice(-3).map(start).join(" | ")}`);
  }
  const range = document.createRange();
  const boxesOf = (text, from, to) => {
    range.setStart(text, from);
    range.setEnd(text, to);
    return [...range.getClientRects()].filter(({ width }) => width > 0);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { currentNode: text } = texts;
    const { parentElement: part } = text;
    if (part.closest(".vh, pre, code, textarea, script, style") || !isShown(part)) continue;
    for (const { 0: number, index } of text.data.matchAll(/(?<![\w.-])[-+]?\d[\d.,:]*%?(?![\w-])/g)) {
      const lines = new Set(boxesOf(text, index, index + number.length).map(({ top }) => Math.round(top)));
      if (lines.size > 1) faults.push(`the number ${number} is broken: ${start(part)}`);
    }
  }
  const heads = [...document.querySelectorAll("main :is(h1, h2, h3, th, legend)")];
  const drawn = heads.filter((head) => isShown(head) && !head.closest(".vh") && !head.querySelector(".vh"));
  const words = drawn.map((head) => {
    range.selectNodeContents(head);
    return [head, range.getBoundingClientRect()];
  });
  words.forEach(([head, box], number) => {
    for (const [other, next] of words.slice(number + 1)) {
      const across = Math.min(box.right, next.right) - Math.max(box.left, next.left);
      const down = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
      if (across > 2 && down > 2 && !head.contains(other)) faults.push(`${start(head)} is over ${start(other)}`);
    }
  });
  return faults;
}"""


@pytest.fixture(scope="module")
def hard(desk):
    return seeded(desk)


@pytest.fixture
def reader(hard, person):
    return person(hard[0].link("lea-" + "a" * 36, "admin"), color_scheme="light")


def at(page, size):
    page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def misplaced(page, path, sizes):
    """What is out of place on the open page, at each of the sizes; it ends as wide as at first."""
    faults = []
    for size in sizes:
        at(page, size)
        faults += [f"{path} at {size[0]} px: {fault}" for fault in page.evaluate(MISPLACED)]
    at(page, SIZES[0])
    return faults


def keeps_its_keys(page):
    """What is drawn works, also with the cursor in a field."""
    holds(page)
    field = page.locator("main :is(textarea, input[type=text], input:not([type])):visible")
    if field.count():
        field.first.focus()
        holds(page)
        field.first.blur()


def unfolded(page):
    """Axe in the page, with all that it folds."""
    page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
    page.evaluate(AXE.read_text(encoding="utf-8"))


def otherwise(page, path):
    """What axe finds of the open page in dark, and of what a phone hides."""
    page.emulate_media(color_scheme="dark")
    faults = [f"{path} in dark {line}" for line in page.evaluate(COLORS)]
    at(page, ENDS[1])
    faults += [f"{path} at 390 px {line}" for line in page.evaluate(SMALL)]
    at(page, SIZES[0])
    page.emulate_media(color_scheme="light")
    return faults


def test_pages_hold_keys_words_and_axe(hard, reader):
    place, written = hard
    faults = []
    for path in (*PAGES, *written):
        assert reader.goto(place.url + path).status == 200, path
        expect(reader.locator("h1")).not_to_have_count(0)
        keeps_its_keys(reader)
        faults += misplaced(reader, path, ENDS)
        unfolded(reader)
        faults += [f"{path} {line}" for line in reader.evaluate(SERIOUS)]
        if path in (*BOTH, *written[:1]):
            faults += otherwise(reader, path)
    assert not faults, "\n".join(faults)


@pytest.mark.long
def test_pages_hold_in_dark_and_at_all_sizes(hard, reader):
    place, written = hard
    faults = []
    for path in (*PAGES, *written):
        assert reader.goto(place.url + path).status == 200, path
        faults += misplaced(reader, path, SIZES)
        unfolded(reader)
        faults += otherwise(reader, path)
    assert not faults, "\n".join(faults)
