"""The bar and its menus: each page is marked at its own place alone, and its address is called like it."""

from __future__ import annotations

import re

import pytest
from django.urls import get_resolver, reverse

from awmweb import navigation
from tests.browsing import Client, as_person, html

pytestmark = pytest.mark.django_db
LINK = re.compile(r'<a\s[^>]*href="([^"]+)"[^>]*>(.*?)</a>', re.DOTALL)
ENTRIES = [*navigation.WORK, *navigation.MINE, *(one for group in navigation.SETTINGS.values() for one in group)]


def links_of(page):
    """Return the links of the header as (address, label, marked)."""
    header = page.partition('<nav aria-label="Main">')[2].partition("</header>")[0]
    return [
        (link[1], " ".join(re.sub("<[^>]+>", " ", link[2]).split()), 'aria-current="page"' in link[0])
        for link in LINK.finditer(header)
    ]


def called(words, name):
    """Return whether the last part of an address is these words, in their order, or a plural of them."""
    said = "-".join(re.findall(r"[a-z0-9]+", words.lower()))
    return name in (said, f"{said}s")


def test_page_of_the_menu_marks_its_own_link_alone(ada):
    client = as_person(ada)
    linked = [(address, label) for address, label, _ in links_of(html(client.get("/")))]
    assert len(linked) > 15
    # the bell and the newest ask lead to pages that another link has
    for address, label in (one for one in linked if "/newest" not in one[0] and not one[1][0].isdigit()):
        page = html(client.get(address, follow=True))
        assert [one for one, _, is_marked in links_of(page) if is_marked] == [address], address
        title = re.search(r"<title>(.*?)</title>", page)[1].split(", ")[-1]
        assert title.startswith(label), address
        name = "home" if label == "Home" else address.rstrip("/").rpartition("/")[2]
        assert called(label, name), address


def test_settings_are_apart_from_work(ada):
    page = html(as_person(ada).get("/metrics/"))
    bar = page.partition('<nav aria-label="Main">')[2].partition("</nav>")[0]
    assert {"Metrics", "Curriculum"} <= set(re.findall(r"</svg>(\w+)</a>", bar))
    assert 'aria-label="Settings" title="Settings">' in page
    assert 'aria-label="Settings" title="Settings" data-here>' in html(as_person(ada).get("/routing/"))


def test_page_without_a_link_is_called_like_its_title(ada):
    """Pages that no link of the header leads to."""
    client, names = as_person(ada), get_resolver().reverse_dict
    for name in (one for one in names if isinstance(one, str) and not names.getlist(one)[0][0][0][1]):
        path = reverse(name)
        if not path.endswith("/") or name in {one.page for one in ENTRIES}:
            continue
        answer = Client.get(client, f"/projects/lab{path}")
        title = re.search(r"<title>(.*?)</title>", answer.content.decode())
        if answer.status_code != 200 or not title:
            continue
        words = re.findall(r"[a-z0-9]+", title[1].split(", ")[-1].lower())
        last = path.strip("/").rpartition("/")[2]
        assert any(called("-".join(words[a:b]), last) for a in range(3) for b in range(1, 6)), (path, title[1])


def test_pages_within_a_place_exist_and_have_one():
    names = [name for one in ENTRIES for name in (one.page, *one.within)]
    assert len(names) == len(set(names))
    known = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    assert set(names) - known - {"second_factor"} == set()
