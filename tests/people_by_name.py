"""The people of the tests: Ada runs, Edo advises, Rita reviews, Max is a stranger with a project of his own."""

from __future__ import annotations

import pytest

from people import access
from people.access import Actor
from people.models import Project
from people.record import members


def person(project: Project, name: str, role: str) -> Actor:
    return access.person(members.ensure_member(project, name, role))


def token(project: Project, scope: str) -> tuple[Actor, str]:
    issued, secret = members.issue_token(access.system(project), f"{scope} of {project.slug}", scope)
    return access.bearer(issued), secret


@pytest.fixture
def project(db: None) -> Project:
    return members.ensure_project("lab", "Lab")


@pytest.fixture
def ada(project: Project) -> Actor:
    return person(project, "ada", "admin")


@pytest.fixture
def edo(project: Project) -> Actor:
    return person(project, "edo", "expert")


@pytest.fixture
def rita(project: Project) -> Actor:
    return person(project, "rita", "reviewer")


@pytest.fixture
def elsewhere(db: None) -> Project:
    return members.ensure_project("elsewhere", "Elsewhere")


@pytest.fixture
def max_(elsewhere: Project) -> Actor:
    return person(elsewhere, "max", "admin")
