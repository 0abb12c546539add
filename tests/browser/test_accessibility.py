"""Pages have no serious finding of axe-core, in light and dark: names, roles, contrast, and links that are seen."""

from __future__ import annotations

import pytest

from tests.browser.conftest import EXPECTED_MS
from tests.commands import ROOT
from tests.running import product

pytestmark = pytest.mark.browser

AXE = ROOT / "tools" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = (
    *("/", "/queue/", "/episodes/", "/runs/?launch=1&recipe=pr428", "/reviews/", "/reviews/mentions/"),
    *("/reviews/agreement/", "/reviews/court/", "/curriculum/", "/exports/", "/imports/", "/connect/", "/people/"),
    *("/tokens/", "/models/", "/environment/", "/vocabulary/", "/desk/", "/desk/numbers/", "/notices/", "/projects/"),
    "/audit/",
)
SERIOUS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter((found) => ["serious", "critical"].includes(found.impact))
    .map((found) => `${found.id}: ${found.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)"""


@pytest.fixture(scope="module")
def house():
    with product(AWMWEB_DEMO="1") as running:
        yield running


@pytest.mark.skipif(not AXE.exists(), reason="npm has not installed axe-core")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_have_no_serious_axe_finding(house, person, theme):
    page = person(house.link("owner", "admin"), color_scheme=theme)
    own = page.locator("a[href^='/episodes/']:not([href='/episodes/'])").first.get_attribute(
        "href", timeout=EXPECTED_MS
    )
    episode = own.partition("?")[0]
    found = {}
    for path in (*PAGES, episode, f"{episode}replay/"):
        assert page.goto(house.url + path).status == 200, path
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found |= {f"{path} {line}": theme for line in page.evaluate(SERIOUS)}
    assert found == {}
