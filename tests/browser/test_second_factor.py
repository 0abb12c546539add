"""A second factor in a browser: an app's codes, recovery codes, a passkey of Chromium's own authenticator, a reset."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import struct
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.attack("tokens and doors")]


@pytest.fixture(scope="module")
def house(two_factors):
    return two_factors


def code_of(secret: str, after: int = 0) -> str:
    """The code of RFC 6238, some steps from now."""
    counter = int(time.time()) // 30 + after
    digest = hmac.new(base64.b32decode(secret.replace(" ", "")), struct.pack(">Q", counter), hashlib.sha1).digest()
    at = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[at : at + 4])[0] & 0x7FFFFFFF) % 10**6:06}"


def opened(chromium, link):
    page = chromium.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(link)
    return page


def at_localhost(house, name, role):
    return house.link(name, role).replace("127.0.0.1", "localhost")


def pictures(page, name):
    """Keep what the page looks like, if asked: PICTURES names a folder."""
    folder = os.environ.get("PICTURES")
    for theme in ("light", "dark"):
        for width in (1280, 390):
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if folder:
                page.screenshot(path=Path(folder) / f"{name}-{theme}-{width}.png", full_page=True)
    page.set_viewport_size({"width": 1280, "height": 900})


def test_app_and_recovery_codes_sign_in(house, chromium):
    page = opened(chromium, house.link("mina", "expert"))
    page.goto(f"{house.url}/projects/demo/second-factor/")
    expect(page.get_by_role("heading", level=1)).to_have_text("You have no second factor.")
    pictures(page, "none")
    secret = page.locator("#secret").inner_text()
    page.get_by_label("Code that the app shows").fill("000000")
    page.get_by_role("button", name="Add app").click()
    expect(page.get_by_role("alert")).to_contain_text("Wrong code.")
    page.get_by_label("Code that the app shows").fill(code_of(secret, -1))
    page.get_by_role("button", name="Add app").click()
    expect(page.locator("#codes li")).to_have_count(10)
    codes = page.locator("#codes li").all_inner_texts()
    expect(page.get_by_text("10 recovery codes left.")).to_be_visible()
    pictures(page, "app")
    page.get_by_role("button", name="Menu").or_(page.locator("summary")).last.click()
    page.get_by_role("button", name="Sign out").click()

    page.goto(house.link("mina", "expert"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Confirm with your second factor.")
    pictures(page, "asked")
    other = page.context.new_page()
    other.goto(f"{house.url}/projects/demo/queue/")
    assert "/login" in other.url
    page.get_by_label("Code of your app").fill("123456")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("alert")).to_contain_text("Wrong code.")
    used = code_of(secret)
    page.get_by_label("Code of your app").fill(used)
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("button", name="Set Away").or_(page.locator("main"))).to_be_visible()
    assert "/projects/demo/" in page.url

    again = opened(chromium, house.link("mina", "expert"))
    again.get_by_label("Code of your app").fill(used)
    again.get_by_role("button", name="Confirm").click()
    expect(again.get_by_role("alert")).to_contain_text("Wrong code.")
    again.get_by_label("Code of your app").fill(f"{codes[0][:4]} {codes[0][4:]}")
    again.get_by_role("button", name="Confirm").click()
    again.wait_for_url("**/projects/demo/**")
    again.goto(f"{house.url}/projects/demo/second-factor/")
    expect(again.get_by_text("9 recovery codes left.")).to_be_visible()

    third = opened(chromium, house.link("mina", "expert"))
    third.get_by_label("Code of your app").fill(codes[0])
    third.get_by_role("button", name="Confirm").click()
    expect(third.get_by_role("alert")).to_contain_text("Wrong code.")
    for _ in range(5):
        third.get_by_label("Code of your app").fill("123456")
        third.get_by_role("button", name="Confirm").click()
    expect(third.get_by_role("alert")).to_contain_text("Too many wrong codes. Wait 5 minutes")
    third.get_by_label("Code of your app").fill(codes[1])
    third.get_by_role("button", name="Confirm").click()
    expect(third.get_by_role("alert")).to_contain_text("Too many wrong codes.")

    owner = opened(chromium, house.link("owner", "admin"))
    owner.goto(f"{house.url}/projects/demo/members/")
    owner.get_by_role("button", name="Reset the second factor of mina").click()
    owner.get_by_role("dialog").get_by_role("button", name="Reset second factor").click()
    expect(owner.get_by_text("mina signs in without a second factor now.")).to_be_visible()
    owner.goto(f"{house.url}/projects/demo/audit/")
    expect(owner.get_by_role("table").get_by_text("reset the second factor of").first).to_be_visible()
    free = opened(chromium, house.link("mina", "expert"))
    free.wait_for_url("**/projects/demo/**")


def test_passkey_signs_in_and_is_removed(house, chromium):
    page = opened(chromium, at_localhost(house, "noor", "expert"))
    devices = page.context.new_cdp_session(page)
    devices.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
               "isUserVerified": True, "automaticPresenceSimulation": True}  # fmt: skip
    device = devices.send("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"]
    home = house.url.replace("127.0.0.1", "localhost")
    page.goto(f"{home}/projects/demo/second-factor/")
    page.get_by_label("Name").fill("Laptop")
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_role("row", name="Laptop")).to_be_visible()
    expect(page.locator("#codes li")).to_have_count(10)
    page.context.clear_cookies()
    page.goto(at_localhost(house, "noor", "expert"))
    pictures(page, "passkey")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/projects/demo/**")
    page.context.clear_cookies()
    page.goto(at_localhost(house, "noor", "expert"))
    devices.send("WebAuthn.setAutomaticPresenceSimulation", {"authenticatorId": device, "enabled": True})
    devices.send("WebAuthn.clearCredentials", {"authenticatorId": device})
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("alert")).to_have_text("The browser gave no passkey. Try again.")
    house.manage("resetfactor", "noor")
    page.context.clear_cookies()
    page.goto(at_localhost(house, "noor", "expert"))
    page.wait_for_url("**/projects/demo/**")
