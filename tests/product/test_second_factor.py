"""The second factor attacked over HTTP: half a sign-in, a link of one project's admin, forms that skip their page."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import websockets

from tests.browser.test_second_factor import code_of

pytestmark = pytest.mark.attack("tokens and doors")
PAGE = "/projects/demo/second-factor/"
LEFT = "8 recovery codes left."


@pytest.fixture(scope="module")
def house(two_factors):
    return two_factors


def opened(house, link):
    browser = httpx.Client(base_url=house.url, follow_redirects=True, timeout=40)
    browser.get(link)
    return browser


def post(browser, path, **form):
    csrf = next(value for name, value in browser.cookies.items() if "csrf" in name)
    return browser.post(path, data={"csrfmiddlewaretoken": csrf, **form}, headers={"Referer": str(browser.base_url)})


def plain(answer):
    return " ".join(answer.text.split())


def key_of(browser):
    return next(value for name, value in browser.cookies.items() if "session" in name)


def with_app(house, name):
    """A browser whose person has just added an app; also the app's secret and the recovery codes."""
    browser = opened(house, house.link(name, "expert"))
    secret = re.search(r'id="secret"[^>]*>([^<]+)<', browser.get(PAGE).text)[1]
    page = post(browser, PAGE, do="app", code=code_of(secret, -1)).text
    codes = re.findall(r"<li>\s*(?:<\w+[^>]*>)?\s*([\d ]{8,9})\s*<", page)
    assert len(codes) == 10, page
    return browser, secret, codes


def test_half_a_sign_in_reaches_nothing(house):
    with_app(house, "milo")
    half = opened(house, house.link("milo", "expert"))
    assert half.get("/projects/demo/queue/", follow_redirects=False).status_code == 302
    assert half.get("/api/v1/asks").status_code == 401
    assert half.get(PAGE, follow_redirects=False).headers["Location"].startswith("/login")


async def test_half_a_sign_in_opens_no_socket(house):
    with_app(house, "nele")
    half = opened(house, house.link("nele", "expert"))
    cookie = "; ".join(f"{name}={value}" for name, value in half.cookies.items())
    about = {"Cookie": cookie, "Origin": house.url}
    with pytest.raises((websockets.InvalidStatus, websockets.ConnectionClosed)):
        async with websockets.connect(f"{house.websocket}/ws/queue", additional_headers=about) as socket:
            await socket.recv()


def test_recovery_code_signs_in_once_at_the_same_moment(house):
    *_, codes = with_app(house, "ines")
    halves = [opened(house, house.link("ines", "expert")) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: post(one, "/login/second", code=codes[0]), halves))
    assert [one.get("/api/v1/asks").status_code for one in halves].count(200) == 1


def test_app_is_added_only_with_the_secret_of_its_page(house):
    browser = opened(house, house.link("olga", "expert"))
    # before the page was opened this session has no secret, and the code of an empty one can be known
    answer = post(browser, PAGE, do="app", code=code_of("", -1))
    assert answer.status_code == 422 and "Open this page again" in answer.text
    assert "You have no second factor." in answer.text


def test_link_of_one_project_adds_no_first_factor(house):
    """An admin can sign in as a member by a link to their own project. A factor would lock the person out of others."""
    house.manage("createproject", "north")
    there = house.manage("loginlink", "pia", "--role", "expert", "--project", "north").strip().splitlines()[-1]
    browser = opened(house, house.link("pia", "expert"))
    secret = re.search(r'id="secret"[^>]*>([^<]+)<', browser.get(PAGE).text)[1]
    answer = post(browser, PAGE, do="app", code=code_of(secret, -1))
    assert answer.status_code == 422 and "links of all your projects" in answer.text
    browser.get(there)
    browser.get(PAGE)
    assert "10 recovery codes left" in plain(post(browser, PAGE, do="app", code=code_of(secret)))


def test_session_key_changes_at_each_factor(house):
    _, secret, codes = with_app(house, "quinn")
    half = opened(house, house.link("quinn", "expert"))
    before = key_of(half)
    post(half, "/login/second", code=code_of(secret))
    assert half.get("/api/v1/asks").status_code == 200 and key_of(half) != before
    # a factor that is given again, before a change of factors
    again = opened(house, house.link("quinn", "expert"))
    post(again, "/login/second", code=codes[0])
    shared = httpx.Client(base_url=house.url, cookies=dict(again.cookies), follow_redirects=True, timeout=40)
    house.manage("shell", "-v", "0", "-c", AGED)
    assert str(again.get(PAGE).url).endswith("/login/second")
    assert LEFT in plain(post(again, "/login/second", code=codes[1]))
    assert LEFT not in plain(shared.get(PAGE))


AGED = """
from django.contrib.sessions.models import Session
from people.requests.sessions import SessionStore
for row in Session.objects.all():
    store = SessionStore(row.session_key)
    if "second_factor_at" in store:
        store["second_factor_at"] = 0
        store.save()
"""
