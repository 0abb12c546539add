"""A person's own tokens: within their role, theirs to revoke, and ended with their membership."""

from __future__ import annotations

import pytest

from people.access import person as actor_of
from people.errors import Forbidden
from people.models import ApiToken, Membership, TokenScope
from people.record import members, projects
from tests.browsing import as_person, html
from tests.people_by_name import person

pytestmark = pytest.mark.attack("tokens and doors")


def issued(actor, scope, **more):
    form = {"do": "issue", "name": f"own {scope}", "scope": scope, "personal": "1"} | more
    return as_person(actor).post("/api-tokens/", form).status_code


@pytest.mark.parametrize(
    ("role", "scopes"),
    [
        ("researcher", ["read", "write", "answer", "review", "export", "launch", "agent", "expert"]),
        ("expert", ["read", "answer", "review", "expert"]),
        ("reviewer", ["read", "review"]),
        ("viewer", []),
    ],
)
def test_no_scope_gives_more_than_the_role(project, role, scopes):
    kim = person(project, "kim", role)
    given = [one for one in TokenScope.values if issued(kim, one) == 200]
    assert given == scopes
    assert set(ApiToken.objects.values_list("scope", "personal")) == {(one, True) for one in scopes}
    page = html(as_person(kim).get("/api-tokens/"))
    assert ('value="issue"' in page) == bool(scopes) and ('value="agent"' in page) == ("agent" in scopes)


def test_expert_makes_no_token_of_the_project(edo):
    assert issued(edo, "expert", personal="") == 422
    with pytest.raises(Forbidden):
        members.issue_token(edo, "x", "expert")


def test_own_token_is_revoked_by_its_person_or_an_issuer(edo, ada, project):
    lea = person(project, "lea", "expert")
    for who, works in ((lea, True), (edo, False), (ada, False)):
        token, secret = members.issue_token(edo, "own", "expert", personal=True)
        as_person(who).post("/api-tokens/", {"do": "revoke", "token": token.pk})
        assert (members.token_of(secret) is not None) == works


def test_own_token_ends_with_role_and_membership(ada, edo, project):
    _, first = members.issue_token(edo, "one", "expert", personal=True)
    membership = Membership.objects.get(user=edo.person)
    projects.change_role(ada, membership.pk, "viewer")
    assert members.token_of(first) is None
    projects.change_role(ada, membership.pk, "expert")
    assert members.token_of(first) is None
    again = actor_of(Membership.objects.get(user=edo.person))
    _, second = members.issue_token(again, "two", "expert", personal=True)
    assert members.token_of(second) is not None
    removed = as_person(ada).post("/members/", {"do": "remove", "membership": membership.pk}, follow=True)
    assert "still works" not in html(removed) and members.token_of(second) is None
