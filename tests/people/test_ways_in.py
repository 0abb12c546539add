"""Who is zoe? An account is nobody's proof: what a browser may do hangs on the links that it opened itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from awmclient.schema import EpisodeStart
from episodes.live.consumers import actor_for
from episodes.record import recording
from people import access
from people.access import SESSION_ENTRIES
from people.errors import Invalid, LinkSpent, NotFound
from people.models import LoginLink, Membership
from people.record import members
from people.revalidation import ended, right_of
from tests.browsing import Browser
from tests.people_by_name import person

COOKIE = settings.SESSION_COOKIE_NAME


@pytest.fixture
def theirs(elsewhere, max_):
    """An episode of the other project."""
    return recording.start_episode(max_, EpisodeStart(key="one", task="the other's secret"))[0].pk


@pytest.fixture
def mine(project, ada):
    return recording.start_episode(ada, EpisodeStart(key="one", task="ours"))[0].pk


def opened(secret, client=None):
    """The browser that opened a link."""
    client = client or Browser()
    assert client.get(f"/login/once/{secret}").status_code == 302
    return client


def reads(client, episode):
    """Whether a browser sees an episode. The API by cookie answers for the chosen project only, so for no more than the
    page does."""
    page, call = client.get(f"/episodes/{episode}/").status_code, client.get(f"/api/v1/episodes/{episode}").status_code
    assert (page, call) in ((200, 200), (200, 404), (404, 404), (302, 401), (404, 401)), (page, call)
    return page == 200


def by_command(capsys, user, project, **more):
    call_command("loginlink", user, project=project, **more)
    return capsys.readouterr().out.strip().rpartition("/")[2]


def membership(name, project):
    return Membership.objects.get(user__username=name, project__slug=project)


def test_name_taken_elsewhere_becomes_another_account(ada, max_, mine, theirs):
    _, kept = members.invite(ada, "Zoe", "expert")
    browser = opened(members.invite(ada, "Zoe", "expert")[1])
    invited, secret = members.invite(max_, "Zoe", "expert")
    assert invited.user.username == "zoe-2"
    assert reads(browser, mine) and not reads(browser, theirs)
    assert not reads(opened(kept), theirs)
    assert reads(opened(secret), theirs) and not reads(opened(members.fresh_link(max_, invited.pk)[1]), mine)


def test_joined_account_brings_no_session_and_no_link_along(ada, max_, mine, theirs, capsys):
    _, kept = members.invite(ada, "zoe", "admin")
    browser = opened(members.invite(ada, "zoe", "admin")[1])
    link = by_command(capsys, "zoe", "elsewhere", role="expert")
    assert membership("zoe", "elsewhere").user == membership("zoe", "lab").user
    for old in (browser, opened(kept)):
        assert reads(old, mine) and not reads(old, theirs)
        assert old.get("/projects/elsewhere/members/").status_code == 404
        assert "elsewhere" not in old.get("/members/").content.decode()
    new = opened(link)
    assert reads(new, theirs) and not reads(new, mine)


def test_both_links_in_one_browser_open_both_projects(ada, max_, mine, theirs, capsys):
    browser = opened(members.invite(ada, "zoe", "expert")[1])
    opened(by_command(capsys, "zoe", "elsewhere"), browser)
    assert reads(browser, mine) and reads(browser, theirs)


def test_link_opens_only_projects_of_the_admin_who_made_it(project, elsewhere, ada, max_, mine, theirs, capsys):
    members.invite(ada, "zoe", "expert")
    by_command(capsys, "zoe", "elsewhere")
    again, secret = members.fresh_link(ada, membership("zoe", "lab").pk)
    assert again.user.username == "zoe"
    browser = opened(secret)
    assert reads(browser, mine) and not reads(browser, theirs)
    kim = person(elsewhere, "kim", "admin")
    assert not reads(opened(members.fresh_link(kim, membership("zoe", "elsewhere").pk)[1]), mine)
    person(project, "kim", "admin")
    both = opened(members.fresh_link(kim, membership("zoe", "elsewhere").pk)[1])
    assert reads(both, mine) and reads(both, theirs)


def test_removed_account_is_nobodys_before_when_invited_again(ada, max_, mine, theirs):
    _, kept = members.invite(ada, "Zoe Smith", "expert")
    browser = opened(members.invite(ada, "Zoe Smith", "expert")[1])
    members.remove_member(ada, membership("zoe-smith", "lab").pk)
    again, _ = members.invite(max_, "Zoë Smith", "expert")
    again.user.refresh_from_db()
    assert (again.user.username, again.user.first_name) == ("zoe-smith", "Zoë Smith")
    assert not reads(browser, mine) and not reads(browser, theirs)
    assert Client().get(f"/login/once/{kept}").status_code == 410


def test_person_who_comes_back_needs_a_new_link(ada, mine):
    browser = opened(members.invite(ada, "zoe", "expert")[1])
    _, kept = members.invite(ada, "zoe", "expert")
    members.remove_member(ada, membership("zoe", "lab").pk)
    _, secret = members.invite(ada, "zoe", "expert")
    assert not reads(browser, mine) and Client().get(f"/login/once/{kept}").status_code == 410
    assert reads(opened(secret), mine)


@pytest.mark.parametrize("change", [{"role": "admin"}, {"role": "viewer"}])
def test_new_role_ends_sessions_and_links_of_one_membership(ada, max_, mine, theirs, capsys, change):
    _, kept = members.invite(ada, "zoe", "expert")
    here, there = opened(members.invite(ada, "zoe", "expert")[1]), opened(by_command(capsys, "zoe", "elsewhere"))
    link = by_command(capsys, "zoe", "lab", **change)
    assert not reads(here, mine) and reads(there, theirs)
    assert Client().get(f"/login/once/{kept}").status_code == 410
    assert reads(opened(link), mine)


def test_same_role_again_ends_nothing(ada, mine, capsys):
    browser = opened(members.invite(ada, "zoe", "expert")[1])
    link = by_command(capsys, "zoe", "lab", role="expert")
    assert reads(browser, mine) and reads(opened(link), mine)


def test_longer_time_ends_what_was_begun_in_the_shorter(project, ada, mine):
    _, secret = members.invite(ada, "zoe", "expert", timezone.now() + timedelta(days=1))
    browser = opened(secret)
    members.invite(ada, "zoe", "expert")
    assert not reads(browser, mine)


def test_removed_admin_keeps_no_unopened_link(project, ada, mine):
    bea = person(project, "bea", "admin")
    _, kept = members.invite(bea, "zoe", "expert")
    members.remove_member(ada, membership("bea", "lab").pk)
    assert Client().get(f"/login/once/{kept}").status_code == 410
    bob = person(project, "bob", "admin")
    _, kept = members.invite(bob, "zed", "expert")
    call_command("loginlink", "bob", project="lab", role="viewer")
    assert Client().get(f"/login/once/{kept}").status_code == 410


def test_link_of_a_membership_that_is_over_opens_nothing(project, ada):
    invited, secret = members.invite(ada, "zoe", "expert")
    Membership.objects.filter(pk=invited.pk).update(ends_at=timezone.now() - timedelta(days=1))
    with pytest.raises(LinkSpent):
        members.redeem_login_link(secret)
    with pytest.raises(Invalid, match="has expired"):
        members.fresh_link(ada, invited.pk)
    assert LoginLink.objects.filter(used_at__isnull=True).count() == 1


def test_owners_link_opens_all_of_the_owners_projects(db, elsewhere, theirs, capsys):
    browser = opened(start(capsys))
    members.link_for(access.system_actor("elsewhere"), "owner", "researcher")
    assert browser.get("/").status_code == 200 and not reads(browser, theirs)
    again = opened(start(capsys))
    assert reads(again, theirs) and again.get("/").status_code == 200
    assert browser.get("/").status_code == 200


def start(capsys):
    call_command("bootstrap")
    return capsys.readouterr().out.strip().rpartition("/")[2]


def test_session_key_changes_at_each_sign_in(ada, max_, mine, theirs, capsys):
    """Who planted or saw the key before does not come along when the same account opens another link."""
    browser = opened(members.invite(ada, "zoe", "expert")[1])
    known = browser.cookies[COOKIE].value
    opened(by_command(capsys, "zoe", "elsewhere"), browser)
    assert browser.cookies[COOKIE].value != known
    stolen = Client()
    stolen.cookies[COOKIE] = known
    assert not reads(stolen, theirs) and not reads(stolen, mine)


def test_another_account_in_the_same_browser_inherits_nothing(ada, max_, mine, theirs):
    browser = opened(members.invite(ada, "zoe", "expert")[1])
    opened(members.invite(max_, "Yan", "expert")[1], browser)
    assert reads(browser, theirs) and not reads(browser, mine)
    assert len(browser.session[SESSION_ENTRIES]) == 1


def test_socket_of_an_old_session_is_kept_from_a_new_project(ada, max_, elsewhere, capsys):
    browser = opened(members.invite(ada, "zoe", "expert")[1])
    by_command(capsys, "zoe", "elsewhere")
    scope = {"headers": [], "user": membership("zoe", "lab").user, "session": browser.session}
    assert actor_for(scope).project == ada.project
    with pytest.raises(NotFound):
        actor_for(scope, elsewhere.pk)


def test_open_socket_ends_with_the_rights_it_began_with(project, ada):
    browser = opened(members.invite(ada, "zoe", "expert")[1])
    scope = {"headers": [], "user": membership("zoe", "lab").user, "session": browser.session}
    right = right_of(actor_for(scope), browser.session.session_key)
    assert ended({right}) == {}
    members.ensure_member(project, "zoe", "viewer")
    assert isinstance(ended({right})[right], NotFound)


def test_no_link_signs_in_past_unregistered_second_factors(ada, mine, settings):
    """Pages of second factors register what a sign-in asks of them; without them it stops."""
    settings.AWMWEB_MFA = True
    _, secret = members.invite(ada, "zoe", "expert")
    browser = Browser()
    with pytest.raises(IndexError):
        browser.get(f"/login/once/{secret}")
    assert SESSION_ENTRIES not in browser.session and not reads(browser, mine)
