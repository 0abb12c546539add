"""What the claims of a sign-in provider mean here: who it is, and which role in which project.

Pure: reads no row and asks no server. Leaves giving and ending rights to `following.py`. Called by settings, the pages
of the provider, and the check of those signed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

STRENGTH = ("admin", "researcher", "expert", "reviewer", "viewer")
"""Roles, the one with most rights first: of several groups in a project, it counts."""
SUBJECT_CHARS, NAME_CHARS = 191, 120
Rights = dict[str, str]
"""Roles by project."""


class Unfit(ValueError):
    """Claims that name no one, or a map that cannot be read; the message says what to change."""


@dataclass(frozen=True)
class Claimant:
    """A person as the provider names them. Only `subject` identifies: names and addresses can be given again."""

    subject: str
    name: str
    username: str
    groups: frozenset[str]
    says_groups: bool
    """Whether the claim of groups was sent in a form that names groups, or none. Anything else is silence."""


def read_map(text: str) -> dict[str, Rights]:
    """Return roles by project by group. Raises `Unfit`, so that a typing error stops the start and not a sign-in."""
    try:
        mapping = json.loads(text)
    except ValueError as error:
        raise Unfit(f"no JSON: {error}") from error
    if not isinstance(mapping, dict) or not all(isinstance(rights, dict) and rights for rights in mapping.values()):
        raise Unfit('expected {"group": {"project": "role"}}')
    for group, rights in mapping.items():
        for project, role in rights.items():
            if not isinstance(role, str) or role not in STRENGTH:
                raise Unfit(f"{group!r} has {role!r} in {project!r}; a role is one of {', '.join(STRENGTH)}")
            if not re.fullmatch(r"[-a-z0-9_]{1,60}", project):
                raise Unfit(f"{group!r} names {project!r}, which is no slug of a project")
    return mapping


def identify(userinfo: Mapping[str, Any], id_token: Mapping[str, Any], claim: str) -> Claimant:
    """Return whom both answers of the provider mean.

    Raises `Unfit` if they differ, as an answer about someone else would, or if a name or address is missing.
    """
    subjects = {str(one["sub"]) for one in (userinfo, id_token) if one.get("sub")}
    if len(subjects) != 1:
        raise Unfit("Its answers do not agree on who you are.")
    (subject,) = subjects
    if len(subject) > SUBJECT_CHARS or not subject.isascii() or not subject.isprintable():
        raise Unfit("Its name for your account is no plain text, or too long.")
    words = {key: _claim(userinfo.get(key) or id_token.get(key)) for key in ("name", "preferred_username", "email")}
    username = words["preferred_username"].partition("@")[0] or words["email"].partition("@")[0] or words["name"]
    if not username:
        raise Unfit(
            "It sent neither an email address nor a name. Ask those who run it to release the scopes profile and email."
        )
    named = [groups for one in (userinfo, id_token) if (groups := _groups(_at(one, claim))) is not None]
    return Claimant(subject, words["name"] or username, username, frozenset().union(*named), bool(named))


def rights_of(groups: Iterable[str], mapping: Mapping[str, Rights]) -> Rights:
    """Return the strongest role in each project. A group that the map does not name gives nothing."""
    rights: Rights = {}
    for group in groups:
        for project, role in mapping.get(group, {}).items():
            if STRENGTH.index(role) < STRENGTH.index(rights.get(project, role)) or project not in rights:
                rights[project] = role
    return rights


def _claim(value: object) -> str:
    """Return a claim as one line that PostgreSQL takes; anything but text counts as not said."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in value).split())[:NAME_CHARS]


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, or by a path such as `realm_access.roles`. A name can have dots itself."""
    if path in claims:
        return claims[path]
    claim: Any = claims
    for part in path.split("."):
        claim = claim.get(part) if isinstance(claim, Mapping) else None
    return claim


def _groups(value: object) -> list[str] | None:
    """Return the groups that a claim names; None if it names none in a form that can be read, as if it was not sent."""
    if isinstance(value, str):
        return [value]
    names = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return names if names or value == [] else None
