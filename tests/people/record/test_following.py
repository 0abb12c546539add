"""Rights as a provider says: given, changed, suspended and ended, and what stays."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier
from typing import Any, ClassVar

import jwt
import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from people.access import bearer
from people.access import person as actor_of
from people.errors import Invalid
from people.identity import read_map
from people.models import ApiToken, AuditEntry, Membership, ProviderTicket
from people.record import following, members, projects
from people.revalidation import ended, right_of
from tests.browsing import as_person, html
from tests.commands import ROOT
from tests.people_by_name import person
from tests.provider import MAP, provider

pytestmark = pytest.mark.attack("tokens and doors")


@pytest.fixture
def zoe(project, ada):
    """Someone from the provider, who is an expert of Lab."""
    user = members.create_account("zoe")
    following.follow(user, {"lab": "expert"})
    user.refresh_from_db()
    return user


def held(user):
    rows = Membership.objects.current(timezone.now()).filter(user=user)
    return dict(rows.values_list("project__slug", "role"))


def trail(verb):
    return list(AuditEntry.objects.filter(verb=verb).values_list("target", "reason"))


def test_rights_are_given_changed_and_ended_with_a_trail(zoe, elsewhere):
    assert held(zoe) == {"lab": "expert"} and trail("admitted")[0][0] == "zoe"
    following.follow(zoe, {"lab": "viewer", "elsewhere": "reviewer", "nowhere": "admin"})
    assert held(zoe) == {"lab": "viewer", "elsewhere": "reviewer"}
    assert trail("changed role of") == [("zoe", "from expert to viewer by the groups of the sign-in provider")]
    following.follow(zoe, {"elsewhere": "reviewer"})
    assert held(zoe) == {"elsewhere": "reviewer"} and trail("removed")[0][0] == "zoe"


def test_same_rights_again_keep_the_session(zoe):
    browser = as_person(actor_of(zoe.memberships.get()))
    following.follow(zoe, {"lab": "expert"}, at_sign_in=True)
    assert browser.get("/members/").status_code == 200
    following.follow(zoe, {"lab": "reviewer"})
    assert browser.get("/projects/lab/members/").status_code == 404


def test_right_by_hand_stays_until_a_group_names_its_project(zoe, elsewhere):
    members.ensure_member(elsewhere, "zoe", "admin")
    person(elsewhere, "kim", "admin")
    following.follow(zoe, {"lab": "expert"})
    assert held(zoe) == {"lab": "expert", "elsewhere": "admin"}
    following.follow(zoe, {"lab": "expert", "elsewhere": "viewer"})
    following.follow(zoe, {"lab": "expert"})
    assert held(zoe) == {"lab": "expert"}


@pytest.mark.parametrize("rights", [{"elsewhere": "viewer"}, {}])
def test_last_admin_keeps_the_role_and_loses_old_sessions(db, elsewhere, rights):
    kim = members.create_account("kim")
    following.follow(kim, {"elsewhere": "admin"})
    entry = kim.memberships.get().entry
    following.follow(kim, rights, at_sign_in=True)
    following.follow(kim, rights)
    kept = Membership.objects.in_force(timezone.now()).filter(user=kim)
    assert [one.role for one in kept] == ["admin"] and len(trail("kept the last admin")) == 1
    assert held(kim) == ({"elsewhere": "admin"} if rights else {})  # refused, they act again once they sign in
    assert (kim.memberships.get().entry == entry) == bool(rights)
    person(elsewhere, "lou", "admin")
    following.follow(kim, rights)
    assert held(kim) == rights


def test_suspension_ends_ways_in_and_keeps_skills(zoe, ada):
    membership = zoe.memberships.get()
    members.set_skills(ada, membership.pk, ["sql"])
    right = right_of(actor_of(membership))
    following.keep_ticket(zoe, "refresh", "access")
    following.suspend(zoe)
    assert held(zoe) == {} and right in ended([right]) and not ProviderTicket.objects.exists()
    following.follow(zoe, {"lab": "expert"})
    assert held(zoe) == {"lab": "expert"} and zoe.memberships.get().skills == ["sql"]


@pytest.mark.parametrize("leave", ["suspend", "removed", "role", "ended", "inactive"])
def test_personal_token_ends_with_its_persons_rights(zoe, ada, leave):
    token, secret = members.issue_token(ada, "mine", "expert")
    ApiToken.objects.filter(pk=token.pk).update(personal=True, issued_by=zoe)
    _, shared = members.issue_token(ada, "shared", "expert")
    ApiToken.objects.filter(name="shared").update(issued_by=zoe)
    assert members.token_of(secret) is not None
    if leave == "suspend":
        following.suspend(zoe)
    elif leave == "removed":
        following.follow(zoe, {})
    elif leave == "role":
        following.follow(zoe, {"lab": "viewer"})
    elif leave == "ended":
        Membership.objects.filter(user=zoe).update(ends_at=timezone.now() - timedelta(seconds=1))
    else:
        User.objects.filter(pk=zoe.pk).update(is_active=False)
    assert members.token_of(secret) is None and members.token_of(shared) is not None
    token.refresh_from_db()
    assert ended([right_of(bearer(token))])


def test_admin_changes_no_role_that_groups_decide(zoe, ada, settings):
    settings.AWMWEB_OIDC_ISSUER, settings.AWMWEB_OIDC_NAME = "https://login.example", "Lab login"
    membership = zoe.memberships.get()
    assert "by groups" in html(as_person(ada).get("/members/"))
    with pytest.raises(Invalid, match="Groups at Lab login decide this role"):
        projects.change_role(ada, membership.pk, "viewer")
    removed = as_person(ada).post("/members/", {"do": "remove", "membership": membership.pk}, follow=True)
    assert "Their groups at Lab login let them in again." in html(removed) and held(zoe) == {}


def test_without_a_provider_admins_change_what_it_gave(zoe, ada):
    projects.change_role(ada, zoe.memberships.get().pk, "viewer")
    assert held(zoe) == {"lab": "viewer"}


def test_archived_project_takes_no_one_and_lets_go(zoe, project, elsewhere):
    type(elsewhere).objects.update(archived_at=timezone.now())
    following.follow(zoe, {"elsewhere": "viewer"})
    assert held(zoe) == {}


@pytest.fixture
def there(settings):
    with provider() as found:
        settings.AWMWEB_OIDC_ISSUER, settings.AWMWEB_OIDC_GROUPS = found.url, "groups"
        settings.AWMWEB_OIDC_CLIENT_ID, settings.AWMWEB_OIDC_CLIENT_SECRET = "desk", "s3cret"
        settings.AWMWEB_OIDC_CHECK_S = 30
        settings.AWMWEB_OIDC_MAP = read_map(MAP.replace("demo", "lab"))
        yield found


def later(seconds=31):
    return timezone.now() + timedelta(seconds=seconds)


@pytest.mark.parametrize("is_refresh", [True, False])
def test_changed_groups_and_a_refusal_are_followed(zoe, there, is_refresh):
    there.says("z", name="Zoe", groups=["lab-experts"])
    access, refresh = there.tokens("z")
    following.keep_ticket(zoe, refresh if is_refresh else "", access)
    assert following.check_due() == 0
    assert following.check_due(later()) == 1 and held(zoe) == {"lab": "expert"}
    there.says("z", name="Zoe", groups=["lab-readers"])
    assert following.check_due(later(62)) == 1 and held(zoe) == {"lab": "viewer"}
    there.revokes("z")
    assert following.check_due(later(93)) == 1 and held(zoe) == {}
    assert following.check_due(later(124)) == 0


def test_lost_groups_end_memberships(zoe, there):
    there.says("z", name="Zoe", groups=["else"])
    access, refresh = there.tokens("z")
    following.keep_ticket(zoe, refresh, access)
    assert following.check_due(later()) == 1
    assert not Membership.objects.filter(user=zoe).exists() and not ProviderTicket.objects.exists()


def test_all_stay_while_the_provider_is_unavailable(zoe, there, settings):
    access, refresh = there.tokens("z")
    following.keep_ticket(zoe, refresh, access)
    settings.AWMWEB_OIDC_ISSUER = "http://127.0.0.1:9"
    assert following.check_due(later()) == 0 and held(zoe) == {"lab": "expert"}


def test_people_are_asked_about_together_within_a_bound(zoe, there, monkeypatch):
    for number in range(24):
        one = members.create_account(f"one-{number}")
        following.follow(one, {"lab": "expert"})
        following.keep_ticket(one, f"secret-{number}", "")
    together, answering, most = Barrier(following.TOGETHER), [], []

    def access(*_):
        answering.append(1)
        most.append(len(answering))
        together.wait(60)  # broken unless that number is asked about at the same time
        answering.pop()
        return "access", "next", {}

    monkeypatch.setattr(following, "_access", access)
    monkeypatch.setattr(following, "_claims", lambda *_: {"name": "One", "sub": "one", "groups": ["lab-readers"]})
    assert following.check_due(later()) == 24 and max(most) == following.TOGETHER
    assert Membership.objects.filter(role="viewer", from_provider=True).count() == 24


def test_person_without_claims_keeps_no_one_from_being_checked(zoe, there, project):
    yan = members.create_account("yan")
    following.follow(yan, {"lab": "expert"})
    for user, subject, claims in ((yan, "y", {}), (zoe, "z", {"name": "Zoe"})):
        there.says(subject, groups=["lab-readers"], **claims)
        following.keep_ticket(user, there.tokens(subject)[1], "")
    assert following.check_due(later()) == 1
    assert held(yan) == {"lab": "expert"} and held(zoe) == {"lab": "viewer"}


class Terse(BaseHTTPRequestHandler):
    """A provider that names groups in its ID tokens alone, as Entra ID does. `about` is what it says."""

    about: ClassVar[dict[str, Any]] = {}

    def do_GET(self):
        url = f"http://127.0.0.1:{self.server.server_port}"
        paths = {"token_endpoint": f"{url}/token", "userinfo_endpoint": f"{url}/me", "issuer": url}
        self.answer({"sub": self.about["sub"], "name": "Zoe"} if self.path == "/me" else paths)

    def do_POST(self):
        url = f"http://127.0.0.1:{self.server.server_port}"
        claims = {"sub": "z", "iss": url, "aud": "desk", "exp": time.time() + 60, "groups": ["lab-experts"]}
        token = jwt.encode(claims | self.about, "any key of the provider, 32 characters", "HS256")
        self.answer({"access_token": "a", "token_type": "Bearer", "id_token": token})

    def answer(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def terse(there, settings):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Terse)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.AWMWEB_OIDC_ISSUER = f"http://127.0.0.1:{server.server_port}"
    yield Terse
    server.shutdown()
    server.server_close()


def test_groups_of_an_id_token_count_after_the_sign_in(zoe, terse):
    terse.about = {"sub": "z"}
    following.keep_ticket(zoe, "refresh", "", "z")
    assert following.check_due(later()) == 1 and held(zoe) == {"lab": "expert"}
    terse.about = {"sub": "z", "groups": ["lab-readers"]}
    assert following.check_due(later(62)) == 1 and held(zoe) == {"lab": "viewer"}
    terse.about = {"sub": "z", "groups": []}
    assert following.check_due(later(93)) == 1 and held(zoe) == {}


@pytest.mark.parametrize("about", [{}, {"groups": None}, {"groups": {"lab-experts": True}}, {"groups": [{"id": 7}]}])
def test_silence_about_groups_keeps_what_was(zoe, terse, about, caplog):
    terse.about = {"sub": "z", "groups": None} | about
    following.keep_ticket(zoe, "refresh", "", "z")
    assert following.check_due(later()) == 1 and held(zoe) == {"lab": "expert"}
    assert "says nothing of the groups of zoe: their rights stay" in caplog.text
    terse.about = {"sub": "z", "groups": []}
    assert following.check_due(later(62)) == 1 and held(zoe) == {}


def test_id_token_of_another_client_is_not_believed(zoe, terse):
    terse.about = {"sub": "z", "aud": "another", "groups": ["lab-admins"]}
    following.keep_ticket(zoe, "refresh", "", "z")
    assert following.check_due(later()) == 0 and held(zoe) == {"lab": "expert"}


def test_answer_about_someone_else_gives_no_rights(zoe, there):
    there.says("boss", name="Boss", groups=["lab-admins"])
    following.keep_ticket(zoe, there.tokens("boss")[1], "", "z")
    assert following.check_due(later()) == 1 and held(zoe) == {}


def test_nothing_of_it_is_loaded_without_a_provider():
    """Idle memory and the start stay as they were: web, workers and beat are forked from this import."""
    names = ("allauth", "oauthlib", "fido2", "qrcode", "people.record.factors")
    said = f"import sys, awmweb.preloaded; print([one for one in sys.modules if one.startswith({names})])"
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ticket_of_another_secret_key_opens_nothing(zoe, there, settings):
    following.keep_ticket(zoe, there.tokens("z")[1], "")
    assert "refresh" not in ProviderTicket.objects.get().sealed
    settings.SECRET_KEY = "another"
    assert following.check_due(later()) == 1 and held(zoe) == {}
