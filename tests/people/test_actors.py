"""A person's own token is its person: their key, role and skills, and no right beyond them."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from people import access
from people.access import PERSONAL, Actor, bearer, holds, keys_of
from people.models import ApiToken, Membership, Project, Role, TokenUser
from people.record import members
from people.record.audit import record
from tests.people_by_name import person

pytestmark = pytest.mark.attack("tokens and doors")

ROOT = Path(__file__).resolve().parents[2]
RIGHTS = {
    name: right
    for name, right in inspect.getmembers(access, inspect.isfunction)
    if name.startswith("may_") and list(inspect.signature(right).parameters) == ["actor"]
}


def by_token(role: str, scope: str) -> Actor:
    """Return the actor of a personal token, without a database."""
    user, project = User(pk=3, username="kim"), Project(slug="lab")
    token = ApiToken(project=project, scope=scope, personal=True, issued_by=user)
    token.owner = Membership(project=project, user=user, role=role)
    return bearer(token)


@pytest.mark.parametrize("name", sorted(RIGHTS))
def test_personal_token_gives_no_right_beyond_its_role(name):
    right = RIGHTS[name]
    for role in Role.values:
        human = Actor(Project(slug="lab"), role=role, person=User(pk=3))
        for scope in sorted(PERSONAL.get(role, ())):
            assert holds(human, right) or not holds(by_token(role, scope), right), f"{scope} gives a {role} {name}"


def test_personal_token_loses_its_rights_with_the_membership():
    assert holds(by_token("expert", "answer"), access.may_advise)
    gone = by_token("expert", "answer")
    gone.token.owner = None
    assert not any(holds(bearer(gone.token), right) for right in RIGHTS.values())


def test_personal_token_has_key_and_role_of_its_person(edo, ada):
    token, secret = members.issue_token(edo, "cli", "expert", personal=True)
    own = bearer(members.token_of(secret))
    assert (own.key, own.name, own.role, own.person) == (edo.key, edo.name, "expert", edo.person)
    assert (own.signed_in, own.by_hand, edo.signed_in, edo.by_hand) == (False, False, True, True)
    assert bearer(members.issue_token(edo, "app", "expert", behind=TokenUser.PERSON, personal=True)[0]).by_hand
    shared = bearer(members.issue_token(ada, "loop", "agent")[0])
    assert (shared.person, shared.role, shared.keys) == (None, None, [shared.key])
    members.revoke_token(edo, token.pk)
    assert f"token:{token.pk}" in edo.keys and edo.owns(f"token:{token.pk}") and not ada.owns(f"token:{token.pk}")


def test_keys_of_an_account_are_those_of_all_projects(edo, elsewhere):
    there = person(elsewhere, "edo", "expert")
    here, other = (members.issue_token(one, "cli", "expert", personal=True)[0] for one in (edo, there))
    assert keys_of(edo.person) == [edo.key, f"token:{here.pk}", f"token:{other.pk}"]


def test_audit_names_the_token_by_which_a_person_acted(ada):
    own = bearer(members.issue_token(ada, "cli", "launch", personal=True)[0])
    record(own, "run.paused", "r1")
    assert ada.project.audit.latest("pk").actor == f"{ada.name} (token cli)"


def compared(text: str) -> list[int]:
    """Return the lines that compare the key of an actor, or read the person whom an actor had before."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        read = [side for side in sides if isinstance(side, ast.Attribute) and side.attr == "key"]
        read += [node] if isinstance(node, ast.Attribute) and node.attr == "user" else []
        owners = (
            side.value.attr if isinstance(side.value, ast.Attribute) else getattr(side.value, "id", "") for side in read
        )
        lines += [node.lineno for owner in owners if owner == "actor"]
    return lines


def test_no_rule_compares_a_bare_key():
    product = [
        "awmweb",
        "curriculum",
        "episodes",
        "experts",
        "exports",
        "imports",
        "notices",
        "people",
        "reviews",
        "runs",
    ]
    files = [file for folder in product for file in (ROOT / folder).rglob("*.py")]
    wrong = [f"{file.relative_to(ROOT)}:{line}" for file in files for line in compared(file.read_text("utf-8"))]
    assert wrong == ["people/access.py:" + line.split(":")[1] for line in wrong if line.startswith("people/access.py")]
    assert compared("row.author_key == actor.key\nself.actor.key != x\nactor.user is None\nactor.owns(x)") == [1, 2, 3]
