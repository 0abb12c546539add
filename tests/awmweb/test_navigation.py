"""The bar and the menu: every page that one of them links is marked there, and no other link is."""

from __future__ import annotations

import re

import pytest

from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db
LINK = re.compile(r'<a\s[^>]*href="([^"]+)"[^>]*>')


def links_of(page):
    """Return the links of the header as (address, marked)."""
    header = page.partition('<nav aria-label="Main">')[2].partition("</header>")[0]
    return [(found[1], 'aria-current="page"' in found[0]) for found in LINK.finditer(header)]


def test_page_of_the_menu_marks_its_own_link_alone(ada):
    client = as_person(ada)
    addresses = [address for address, _ in links_of(html(client.get("/")))]
    assert len(addresses) > 15
    # the newest ask is a page of the queue, with an address that leads there
    for address in (one for one in addresses if "/newest" not in one and "#" not in one):
        marked = [one for one, is_marked in links_of(html(client.get(address, follow=True))) if is_marked]
        assert marked == [address], address
