"""Claims of a provider as roles: the strongest counts, and what no map names gives nothing."""

from __future__ import annotations

import pytest

from people.identity import STRENGTH, Unfit, identify, read_map, rights_of
from people.models import Role
from tests.documented import Block, proves

MAP = {"leads": {"lab": "admin", "elsewhere": "viewer"}, "all": {"lab": "reviewer"}}


def test_roles_are_those_of_memberships():
    assert set(STRENGTH) == set(Role.values)


@pytest.mark.parametrize(
    ("groups", "rights"),
    [
        (["all", "leads"], {"lab": "admin", "elsewhere": "viewer"}),
        (["leads", "all"], {"lab": "admin", "elsewhere": "viewer"}),
        (["all"], {"lab": "reviewer"}),
        (["All", "lead", ""], {}),
    ],
)
def test_strongest_role_counts_and_unknown_groups_give_nothing(groups, rights):
    assert rights_of(groups, MAP) == rights


@pytest.mark.parametrize(
    ("claim", "claims", "groups"),
    [
        ("groups", {"groups": ["a", "b"]}, {"a", "b"}),
        ("groups", {"groups": "a"}, {"a"}),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, {"a"}),
        ("https://lab.example/groups", {"https://lab.example/groups": ["a"]}, {"a"}),
        ("groups", {"groups": {"a": True}}, set()),
        ("groups", {"groups": ["a", 7, None, ["b"]]}, {"a"}),
        ("groups.x.y", {"groups": ["a"]}, set()),
    ],
)
def test_groups_are_found_in_every_usual_form(claim, claims, groups):
    assert identify({"sub": "1", "name": "Ada"} | claims, {}, claim).groups == groups


def test_groups_of_both_answers_count_and_absence_is_told_apart():
    both = identify({"sub": "1", "name": "A", "groups": ["a"]}, {"sub": "1", "groups": ["b"]}, "groups")
    assert both.groups == {"a", "b"} and both.says_groups
    assert not identify({"sub": "1", "name": "A"}, {"sub": "1"}, "groups").says_groups


@pytest.mark.parametrize(
    ("claim", "says"), [([], True), ("", True), (None, False), ({"a": True}, False), ([{"id": "a"}], False), (7, False)]
)
def test_groups_in_no_known_form_are_silence(claim, says):
    assert identify({"sub": "1", "name": "A", "groups": claim}, {"sub": "1"}, "groups").says_groups == says


def test_answers_about_two_people_are_refused():
    with pytest.raises(Unfit, match="do not agree"):
        identify({"sub": "1", "name": "A"}, {"sub": "2", "name": "A"}, "groups")


@pytest.mark.parametrize(
    "more", [{}, {"sub": ""}, {"sub": "1"}, {"sub": "1", "name": "\x00 "}, {"sub": "1", "email": 7}]
)
def test_claims_that_name_no_one_are_refused(more):
    with pytest.raises(Unfit):
        identify(more, {}, "groups")


@pytest.mark.parametrize("subject", ["x" * 192, "é", "a\x00b", "a\nb"])
def test_subject_that_no_column_takes_is_refused(subject):
    with pytest.raises(Unfit, match="no plain text"):
        identify({"sub": subject, "name": "A"}, {}, "groups")


def test_name_is_one_line_and_username_has_no_domain():
    who = identify({"sub": "1", "name": "Ada\x00\n Byron", "email": "ada@lab.example"}, {}, "groups")
    assert (who.name, who.username) == ("Ada Byron", "ada")
    assert len(identify({"sub": "1", "name": "x" * 999}, {}, "groups").name) == 120


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no JSON"),
        ("[]", "expected"),
        ('{"a": {}}', "expected"),
        ('{"a": "lab"}', "expected"),
        ('{"a": {"lab": "root"}}', "a role is one of"),
        ('{"a": {"lab": ["admin"]}}', "a role is one of"),
        ('{"a": {"My Lab": "admin"}}', "no slug"),
    ],
)
def test_map_with_a_mistake_is_refused_with_its_place(text, says):
    with pytest.raises(Unfit, match=says):
        read_map(text)


@proves("docs/team.md", '{\n  "ml-leads"')
def test_documented_map_is_read(block: Block):
    found = read_map(block.text)
    assert rights_of(["everyone", "ml-leads"], found) == {"demo": "admin"}
