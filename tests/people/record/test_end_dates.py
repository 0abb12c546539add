"""Ends of tokens and memberships: the last day of the calendar in a zone west of UTC leaves every page readable."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from people.models import ApiToken, Membership
from tests.browsing import as_person, html

pytestmark = pytest.mark.attack("tokens and doors")


@pytest.mark.parametrize("day", ["9999-12-31", "9999-12-30", "3000-01-01"])
def test_end_of_the_calendar_breaks_no_page(ada, edo, day):
    browser = as_person(edo)
    browser.cookies["zone"] = "Pacific/Honolulu"
    form = {"do": "issue", "name": "late", "scope": "read", "personal": "1", "ends": day}
    answer = browser.post("/api-tokens/", form)
    assert answer.status_code == 422 and "Enter an expiry before 2200." in html(answer)
    admin = as_person(ada)
    admin.cookies["zone"] = "Pacific/Honolulu"
    assert admin.post("/members/", {"do": "invite", "name": "Kim", "role": "expert", "ends": day}).status_code == 422
    assert admin.get("/api-tokens/").status_code == 200 and admin.get("/members/").status_code == 200
    assert not ApiToken.objects.exists() and Membership.objects.filter(ends_at=None).count() == 2


def test_command_refuses_the_end_of_the_calendar(project):
    with pytest.raises(CommandError, match="before 2200"):
        call_command("createtoken", "late", "--project=lab", "--scope=read", "--expires=9999-12-31")
