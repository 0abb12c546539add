"""Sign in by a real provider over loopback: roles from groups, default deny, and leaving within a minute."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import httpx
import pytest
import websockets

from tests.provider import at_the_provider, provider, sign_in
from tests.running import product, until

pytestmark = pytest.mark.attack("tokens and doors")
ROLES = """
from people.models import Membership
print([(one.user.username, one.role) for one in Membership.objects.order_by("pk")])
"""
STORED = """
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from people.models import ProviderTicket
account = SocialAccount.objects.get(uid="u1")
ticket = ProviderTicket.objects.get(user=account.user)
print(account.extra_data, EmailAddress.objects.count(), repr(account.user.email), ticket.sealed[:5])
"""
ACCOUNTS = "from django.contrib.auth.models import User; print(User.objects.filter(username='cy').count())"


@pytest.fixture
def browser(lab):
    with httpx.Client(base_url=lab[1].url, follow_redirects=True, timeout=40) as client:
        yield client


def members_of(house):
    return house.manage("shell", "-v", "0", "-c", ROLES)


def reads(browser):
    return browser.get("/projects/demo/members/", follow_redirects=False).status_code


def test_group_gives_role_and_button_leads_back(lab, browser):
    there, house = lab
    there.says("u1", name="Ada Byron", preferred_username="ada@lab.example", email="ada@lab.example",
               groups=["lab-experts", "else"])  # fmt: skip
    login = browser.get("/login?next=/queue/")
    assert "Sign in with Lab login" in login.text
    page = sign_in(browser, "u1", path="/login/provider?next=/queue/")
    assert page.status_code == 200 and page.url.path == "/projects/demo/queue/"
    assert "('ada', 'expert')" in members_of(house)
    assert "Ada Byron" in browser.get("/projects/demo/members/").text
    assert house.manage("shell", "-v", "0", "-c", STORED).strip() == "{} 0 '' gAAAA"


def test_next_sign_in_changes_role_and_ends_old_sessions(lab, browser):
    there, house = lab
    there.says("u2", name="Bo", preferred_username="bo", groups=["lab-readers"])
    sign_in(browser, "u2")
    assert reads(browser) == 200 and "('bo', 'viewer')" in members_of(house)
    there.says("u2", name="Bo", preferred_username="bo", groups=["lab-readers", "lab-experts"])
    with httpx.Client(base_url=house.url, follow_redirects=True, timeout=40) as other:
        assert sign_in(other, "u2").status_code == 200
        assert "('bo', 'expert')" in members_of(house)
        assert reads(other) == 200 and reads(browser) == 404


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"groups": ["else"]}, "none of your groups there opens a project"),
        ({}, "did not say in which groups you are"),
        ({"groups": {"lab-admins": True}}, "did not say in which groups you are"),
    ],
)
def test_without_a_matching_group_nothing_is_made(lab, browser, claims, says):
    there, house = lab
    there.says("u3", name="Cy", preferred_username="cy", **claims)
    page = sign_in(browser, "u3")
    assert page.status_code == 403 and says in page.text and "Cy" in page.text
    assert "cy" not in members_of(house) and reads(browser) == 302
    made = house.manage("shell", "-v", "0", "-c", ACCOUNTS)
    assert made.strip() == "0"


def test_account_of_a_known_name_is_another_one(lab, browser):
    there, house = lab
    there.says("u4", name="Owner", preferred_username="owner", email="owner@lab.example", groups=["lab-readers"])
    sign_in(browser, "u4")
    assert "('owner', 'admin')" in members_of(house) and "('owner-2', 'viewer')" in members_of(house)


def test_claims_without_name_and_email_are_refused(lab, browser):
    there, _ = lab
    there.says("u5", groups=["lab-admins"])
    page = sign_in(browser, "u5")
    assert page.status_code == 403 and "neither an email address nor a name" in page.text


def test_denied_and_forged_callbacks_are_refused_in_words(lab, browser):
    there, _ = lab
    page = browser.get(at_the_provider(browser, "u1", action="deny"))
    assert page.status_code == 403 and "Lab login did not sign you in." in page.text
    forged = browser.get("/login/provider/callback?code=x&state=forged")
    assert forged.status_code == 400 and "took too long, or began in another browser" in forged.text
    back = urlsplit(at_the_provider(browser, "u1"))
    with httpx.Client(base_url=lab[1].url) as other:
        assert other.get(f"{back.path}?{back.query}").status_code == 400
    assert reads(browser) == 302


def test_address_adds_no_purpose_and_no_foreign_return(lab, browser):
    there, house = lab
    there.says("u6", name="Di", preferred_username="di", groups=["lab-readers"])
    begun = browser.get("/login/provider?process=connect&scope=admin&auth_params=prompt%3Dnone", follow_redirects=False)
    assert "admin" not in begun.headers["Location"] and "prompt" not in begun.headers["Location"]
    assert "code_challenge=" in begun.headers["Location"]
    for evil in ("https://evil.example/", "//evil.example/", f"{house.url}@evil.example/"):
        page = sign_in(browser, "u6", path=f"/login/provider?next={evil}")
        assert page.url.host == "127.0.0.1" and page.status_code == 200


@pytest.mark.slow
async def test_who_leaves_loses_session_and_socket_within_a_minute(lab, browser):
    there, house = lab
    for subject, name in (("u7", "Eve"), ("u8", "Fay")):
        there.says(subject, name=name, preferred_username=name.lower(), groups=["lab-experts"])
    sockets, browsers = [], []
    for subject in ("u7", "u8"):
        one = httpx.Client(base_url=house.url, follow_redirects=True, timeout=40)
        assert await asyncio.to_thread(sign_in, one, subject)
        cookie = "; ".join(f"{name}={value}" for name, value in one.cookies.items())
        about = {"Cookie": cookie, "Origin": house.url}
        sockets.append(await websockets.connect(f"{house.websocket}/ws/queue", additional_headers=about))
        browsers.append(one)
    assert [reads(one) for one in browsers] == [200, 200]
    began = time.monotonic()
    there.says("u7", name="Eve", preferred_username="eve", groups=[])
    there.revokes("u8")
    codes = await asyncio.wait_for(asyncio.gather(*(_code(one) for one in sockets)), 60)
    assert codes == [4404, 4404] and time.monotonic() - began < 60
    assert [reads(one) for one in browsers] == [404, 404]
    said = await asyncio.to_thread(members_of, house)
    assert "eve" not in said and "fay" in said
    assert (await asyncio.to_thread(sign_in, browsers[1], "u8")).status_code == 200 and reads(browsers[1]) == 200


async def _code(socket):
    try:
        while True:
            await socket.recv()
    except websockets.ConnectionClosed as closed:
        return closed.rcvd.code


def test_provider_away_is_said_and_links_still_work():
    settings = None
    with provider() as there:
        settings = there.settings
    with (
        product(world=False, **settings) as house,
        httpx.Client(base_url=house.url, follow_redirects=True, timeout=40) as browser,
    ):
        page = browser.get("/login/provider")
        assert page.status_code == 503 and "Lab login does not answer." in page.text
        assert browser.get(house.link("gus", "expert")).status_code == 200 and reads(browser) == 200
        # requests are counted by the minute, so the next one can begin in between
        assert until(lambda: browser.get("/login/provider").status_code == 429, 300, 0)
        # a proxy on this machine says whose request it is, and others are not held up
        other = {"X-Forwarded-For": "203.0.113.9"}
        assert browser.get("/login/provider", headers=other).status_code == 503
        assert until(lambda: reads(browser) == 200, 60)
