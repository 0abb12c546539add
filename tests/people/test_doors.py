"""Who keeps a way in: people who were removed, admins whose time is over, links that a browser only looks at."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.core.management import call_command
from django.utils import timezone

from people.errors import Invalid, LinkSpent
from people.models import AuditEntry, Membership
from people.record import members
from tests.browsing import as_person, html, link_of
from tests.people_by_name import person

pytestmark = pytest.mark.attack("tokens and doors")


def end(actor):
    Membership.objects.filter(user=actor.person, project=actor.project).update(
        ends_at=timezone.now() - timedelta(days=1)
    )


@pytest.mark.parametrize(
    "headers", [{"Sec-Purpose": "prefetch;prerender"}, {"Purpose": "prefetch"}, {"Sec-Fetch-Dest": "image"}]
)
def test_a_look_ahead_does_not_spend_a_link(client, ada, headers):
    secret = link_of(ada)
    assert client.get(f"/login/once/{secret}", headers=headers).status_code == 403
    assert client.get("/").status_code == 302
    opened = client.get(f"/login/once/{secret}", headers={"Sec-Fetch-Dest": "document"})
    assert opened.status_code == 302 and client.get("/").status_code == 200


PREVIEWERS = (
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com",
    "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
    "facebookexternalhit/1.1",
    "WhatsApp/2.23.20.0",
    "TelegramBot (like TwitterBot)",
    "Mattermost-Bot/1.1",
    "Mozilla/5.0 (compatible; Google-InspectionTool/1.0; Googlebot/2.1)",
)
BROWSERS = (
    "",
    "python-httpx/0.28.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Linux; Android 15; CUBOT KINGKONG) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36",
)


@pytest.mark.parametrize("agent", PREVIEWERS)
def test_preview_of_a_chat_does_not_spend_a_link(client, ada, agent):
    secret = link_of(ada)
    assert client.get(f"/login/once/{secret}", headers={"User-Agent": agent}).status_code == 403
    assert client.get("/").status_code == 302
    assert client.get(f"/login/once/{secret}").status_code == 302 and client.get("/").status_code == 200


@pytest.mark.parametrize("agent", BROWSERS)
def test_browser_opens_a_link_whatever_its_name(client, ada, agent):
    assert client.get(f"/login/once/{link_of(ada)}", headers={"User-Agent": agent}).status_code == 302
    assert client.get("/").status_code == 200


def test_sign_in_by_a_link_lasts_as_long_as_set(client, ada, settings):
    settings.SESSION_COOKIE_AGE = 7200
    client.get(f"/login/once/{link_of(ada)}")
    assert client.cookies[settings.SESSION_COOKIE_NAME]["max-age"] == 7200
    with time_machine.travel(timezone.now() + timedelta(hours=3)):
        assert client.get("/").status_code == 302


def test_session_of_a_removed_name_is_not_inherited(ada, edo):
    old = as_person(edo)
    members.remove_member(ada, Membership.objects.get(user=edo.person).pk)
    members.invite(ada, "edo", "expert")
    assert old.get("/").status_code == 302
    assert old.get("/api/v1/asks").status_code == 401


def test_somebody_of_two_projects_stays_signed_in_for_the_other(ada, edo, elsewhere):
    there = person(elsewhere, "edo", "expert")
    client = as_person(there)
    members.remove_member(ada, Membership.objects.get(user=edo.person, project=ada.project).pk)
    assert client.get("/").status_code == 200


def test_expired_admin_gets_no_login_links(ada, elsewhere):
    end(person(elsewhere, "ada", "admin"))
    person(elsewhere, "nina", "expert")
    invited, _ = members.invite(ada, "nina", "expert")
    assert invited.user.username == "nina-2"


def test_expired_admin_does_not_count_as_the_last_admin(project, ada):
    end(person(project, "bea", "admin"))
    with pytest.raises(Invalid, match="last admin"):
        members.remove_member(ada, Membership.objects.get(user=ada.person).pk)
    with pytest.raises(Invalid, match="last admin"):
        members.invite(ada, "ada", "admin", timezone.now() + timedelta(days=1))


def test_closed_account_is_no_admin_and_no_link_opens_for_it(project, ada):
    bea = person(project, "bea", "admin")
    secret = link_of(bea)
    assert bea.person.memberships.current(timezone.now()).exists()
    bea.person.is_active = False
    bea.person.save()
    assert not bea.person.memberships.current(timezone.now()).exists()
    with pytest.raises(Invalid, match="last admin"):
        members.remove_member(ada, Membership.objects.get(user=ada.person).pk)
    with pytest.raises(LinkSpent):
        members.redeem_login_link(secret)


def test_another_link_for_somebody_known_keeps_role_and_end(ada, edo, capsys):
    ends = timezone.now() + timedelta(days=3)
    Membership.objects.filter(user=edo.person).update(ends_at=ends)
    call_command("loginlink", "ada", project="lab")
    call_command("loginlink", "edo", project="lab", role="reviewer")
    assert Membership.objects.get(user=ada.person).role == "admin"
    assert Membership.objects.filter(user=edo.person, role="reviewer", ends_at=ends).exists()
    assert AuditEntry.objects.filter(verb="created a sign-in link for").count() == 2


def test_members_page_counts_tokens_of_removed_people(project, ada):
    lea = person(project, "lea", "researcher")
    members.issue_token(lea, "hers", "export")
    body = {"do": "remove", "membership": Membership.objects.get(user=lea.person).pk}
    page = html(as_person(ada).post("/members/", body, follow=True))
    assert "1 API token they created still works" in page
