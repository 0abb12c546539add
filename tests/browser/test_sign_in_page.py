"""The button that signs in at a provider, in a browser: no policy stops it, and a refusal says whom to ask."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def at_the_form(page, house, subject):
    page.goto(f"{house.url}/login?next=/api-tokens/")
    page.get_by_role("link", name="Sign in with Lab login").click()
    page.locator("input[name=sub]").fill(subject)
    page.locator("input[name=sub]").press("Enter")


def test_button_signs_in_and_own_token_is_made(lab, chromium):
    there, house = lab
    there.says("a", name="Adi Byron", preferred_username="adi", groups=["lab-experts"])
    there.says("c", name="Cyn Stone", preferred_username="cyn", groups=["else"])
    page = chromium.new_context().new_page()
    at_the_form(page, house, "c")
    expect(page.get_by_role("heading", name="You are in no project here.")).to_be_visible()
    expect(page.get_by_text("none of your groups there opens a project")).to_be_visible()
    at_the_form(page, house, "a")
    page.get_by_label("Name").fill("laptop")
    page.locator("input[name=scope][value=expert]").check()
    page.get_by_role("button", name="Create token").click()
    assert page.locator("#secret").input_value().startswith("awm_")
    expect(page.get_by_role("row", name="laptop")).to_contain_text("personal")
