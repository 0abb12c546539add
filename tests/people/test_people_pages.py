"""Signing in by a link, inviting and removing people, tokens shown once, and switching projects."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User

from people.models import ApiToken, LoginLink, Membership
from people.record import members
from tests.browsing import as_person, html, link_of
from tests.people_by_name import person


def secret_in(page, field):
    return re.search(rf'id="{field}" readonly value="([^"]+)"', html(page))[1]


def test_a_link_signs_in_once_and_then_says_that_it_was_used(client, ada):
    secret = link_of(ada)
    assert client.get(f"/login/once/{secret}")["Location"] == "/"
    assert client.get("/members/").status_code == 200
    client.post("/logout")
    used = client.get(f"/login/once/{secret}")
    assert used.status_code == 410 and "has expired or was already used" in html(used)


def test_after_signing_in_nobody_is_led_to_another_site(client, ada):
    for address in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        secret = link_of(ada)
        assert client.get(f"/login/once/{secret}", {"next": address})["Location"] == "/"
        assert client.get("/login", {"next": address})["Location"] == "/"


def test_signing_out_needs_a_post_and_ends_the_session(ada):
    client = as_person(ada)
    assert client.get("/logout").status_code == 405
    client.post("/logout")
    assert client.get("/")["Location"].startswith("/login")


def test_an_admin_invites_by_a_link_that_is_shown_once(client, ada):
    page = as_person(ada).post(
        "/members/", {"do": "invite", "name": "Edo Marchetti", "role": "expert", "ends": "2199-01-31"}
    )
    link = secret_in(page, "link")
    assert "Invite link for Edo Marchetti" in html(page)
    assert link not in html(as_person(ada).get("/members/"))
    client.get(link[link.index("/login/once/") :])
    assert client.get("/queue/").status_code == 200
    edo = Membership.objects.get(user__first_name="Edo Marchetti")
    assert edo.role == "expert" and edo.ends_at.year == 2199


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_invitation_with_a_known_name_asks_who_is_meant(ada, edo, elsewhere):
    """Without an answer it makes no link: it would sign a stranger in as the member."""
    if elsewhere:
        mine = members.ensure_member(members.ensure_project("other", "Other"), "ada", "admin")
        Membership.objects.filter(user=edo.person).update(project=mine.project)
    asked = {"do": "invite", "name": edo.person.username, "role": "expert"}
    links = LoginLink.objects.count()
    page = as_person(ada).post("/members/", asked)
    assert page.status_code == 422 and "already a member of" in html(page)
    assert LoginLink.objects.count() == links and Membership.objects.filter(user=edo.person).count() == 1
    as_person(ada).post("/members/", {**asked, "who": "other"})
    assert LoginLink.objects.latest("pk").user != edo.person
    assert LoginLink.objects.latest("pk").user.first_name == f"{edo.person.username} (2)"
    as_person(ada).post("/members/", {**asked, "who": "same"})
    assert LoginLink.objects.latest("pk").user == edo.person


@pytest.mark.parametrize("who", ["edo", "rita"])
def test_others_see_people_and_may_not_change_them(who, ada, request):
    client = as_person(request.getfixturevalue(who))
    assert 'value="invite"' not in html(client.get("/members/"))
    mine = Membership.objects.get(user=ada.person)
    for body in ({"do": "invite", "name": "x", "role": "admin"}, {"do": "remove", "membership": mine.pk}):
        assert client.post("/members/", body).status_code == 422
    assert Membership.objects.filter(pk=mine.pk).exists()


REFUSED = [
    {"name": "", "role": "expert"},
    {"name": "x", "role": "king"},
    {"name": "x", "role": "expert", "ends": "soon"},
    {"name": "x", "role": "expert", "ends": "2001-01-01"},
]


@pytest.mark.parametrize("body", REFUSED)
def test_a_refused_invitation_says_why_and_keeps_what_was_typed(ada, body):
    page = as_person(ada).post("/members/", {"do": "invite", **body})
    assert page.status_code == 422 and 'role="alert"' in html(page)
    assert f'value="{body["name"]}"' in html(page)


def test_a_removed_person_is_out_at_the_next_page(ada, edo):
    client = as_person(edo)
    assert client.get("/queue/").status_code == 200
    as_person(ada).post("/members/", {"do": "remove", "membership": Membership.objects.get(user=edo.person).pk})
    assert client.get("/queue/").status_code == 403


def test_a_person_of_another_project_cannot_be_removed_from_here(ada, max_):
    theirs = Membership.objects.get(user=max_.person)
    as_person(ada).post("/members/", {"do": "remove", "membership": theirs.pk})
    assert Membership.objects.filter(pk=theirs.pk).exists()


def test_a_token_is_shown_once_and_can_be_revoked(ada):
    client = as_person(ada)
    secret = secret_in(client.post("/api-tokens/", {"do": "issue", "name": "trainer", "scope": "agent"}), "secret")
    assert members.token_of(secret) is not None
    page = html(client.get("/api-tokens/"))
    assert secret not in page and "trainer" in page and "1 active API token." in page
    client.post("/api-tokens/", {"do": "revoke", "token": ApiToken.objects.get(name="trainer").pk})
    assert members.token_of(secret) is None
    assert "No active API tokens." in html(client.get("/api-tokens/"))


def test_token_of_another_project_is_not_listed_or_revoked(ada, max_):
    token, secret = members.issue_token(max_, "theirs", "agent")
    client = as_person(ada)
    assert "theirs" not in html(client.get("/api-tokens/"))
    client.post("/api-tokens/", {"do": "revoke", "token": token.pk})
    assert members.token_of(secret) is not None


def test_a_reviewer_makes_no_token(rita):
    assert as_person(rita).post("/api-tokens/", {"do": "issue", "name": "x", "scope": "agent"}).status_code == 422
    assert not ApiToken.objects.exists()


def test_a_project_is_chosen_among_ones_own(ada, elsewhere, max_):
    members.ensure_member(elsewhere, ada.person.username, "viewer")
    client = as_person(ada)
    assert "admin in <b>Lab</b>" in html(client.get("/members/"))
    assert "viewer in <b>Elsewhere</b>" in html(client.get("/projects/elsewhere/members/"))
    assert client.get("/members/").request["PATH_INFO"] == "/projects/elsewhere/members/"
    assert as_person(max_).get("/projects/lab/members/").status_code == 404


def test_a_form_without_its_csrf_token_is_refused_in_words(ada):
    form = {"do": "issue", "name": "x", "scope": "agent"}
    refused = as_person(ada, enforce_csrf_checks=True).post("/api-tokens/", form)
    assert refused.status_code == 403 and "This page is out of date." in html(refused)


def test_every_page_carries_the_strict_content_policy(ada):
    policy = as_person(ada).get("/")["Content-Security-Policy"]
    assert "unsafe-inline" not in policy and "unsafe-eval" not in policy
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "style-src 'self'" in policy


def test_a_page_that_is_not_there_says_so(ada):
    page = as_person(ada).get("/nowhere")
    assert page.status_code == 404 and "Page not found." in html(page)


NASTY = ["\x00", "a\x00b", "\u202e", "'" * 50, "9" * 40, "../..", "%s%n", "x" * 3000]


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
def test_nonsense_in_addresses_and_forms_never_breaks_a_page(ada, nasty):
    client = as_person(ada)
    for path in ("/episodes/", "/queue/"):
        for name in ("q", "show", "state", "outcome", "run", "scenario", "page"):
            assert client.get(path, {name: nasty}).status_code < 500, (path, name)
    quoted = quote(nasty, safe="")
    for path in (f"/asks/{quoted}/", f"/episodes/{quoted}/", f"/episodes/{quoted}/replay/", f"/login/once/{quoted}"):
        assert client.get(path).status_code in (302, 404, 410), path
    assert client.get("/connect/status", {"token_id": nasty}).status_code == 404
    for path, body in (
        ("/members/", {"do": "invite", "name": nasty, "role": nasty, "ends": nasty}),
        ("/members/", {"do": "invite", "name": nasty, "role": "expert"}),
        ("/members/", {"do": "remove", "membership": nasty}),
        ("/members/", {"do": "link", "membership": nasty}),
        ("/api-tokens/", {"do": "issue", "name": nasty, "scope": "agent"}),
        ("/api-tokens/", {"do": "revoke", "token": nasty}),
        ("/connect/", {"name": nasty}),
        (f"/projects/{quoted}/members/", {}),
        (f"/asks/{quoted}/claim", {}),
    ):
        assert client.post(path, body).status_code < 500, path


def test_dialogs_about_a_member_escape_the_name(ada, edo):
    User.objects.filter(pk=edo.person.pk).update(first_name="<i>Edo</i>")
    page = html(as_person(ada).get("/members/"))
    assert "<i>Edo" not in page
    for words in (
        "Skills of &lt;i&gt;Edo&lt;/i&gt;<",
        "Change the role of &lt;i&gt;Edo&lt;/i&gt;<",
        "Remove &lt;i&gt;Edo&lt;/i&gt; from this project?<",
    ):
        assert words in page


def test_role_that_groups_decide_has_no_button(ada, edo, settings):
    settings.AWMWEB_OIDC_ISSUER = "https://login.example.org"
    gus = person(ada.project, "gus", "expert")
    Membership.objects.filter(user=gus.person).update(from_provider=True)
    page = html(as_person(ada).get("/members/"))
    assert "Change role of edo" in page and "Change role of gus" not in page and "Remove gus" in page
