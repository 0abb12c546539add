"""Reads: the names that an account has and had, by which rows without its key know it.

Earlier names come from rows that have a key beside a name, and from the audit trail's entries of renamed members.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from awmweb.erasing.written import KEYED
from people.models import AuditEntry, display_name
from people.record.members import RENAMED


@dataclass(frozen=True)
class AccountNames:
    own: list[str]
    """Those of this account alone."""
    shared: list[str]
    """Those that another account has or had, too."""

    @property
    def every(self) -> list[str]:
        return [*self.own, *self.shared]


def names_of(user: User) -> AccountNames:
    """Return the present name of an account and earlier ones, of all projects: rows have the name of their time."""
    key = f"user:{user.pk}"
    found = {display_name(user), user.get_username()}
    found.update(*(rows.filter(**{f"{of}_key": key}).values_list(of, flat=True).distinct() for rows, of in _keyed()))
    renamed = AuditEntry.objects.filter(verb=RENAMED)
    found.update(renamed.filter(target=user.get_username()).values_list("reason", flat=True))
    others = {name for one in User.objects.exclude(pk=user.pk) for name in (display_name(one), one.get_username())}
    for rows, of in _keyed():
        theirs = rows.filter(**{f"{of}_key__startswith": "user:", f"{of}__in": found}).exclude(**{f"{of}_key": key})
        others.update(theirs.values_list(of, flat=True).distinct())
    others.update(renamed.exclude(target=user.get_username()).values_list("reason", flat=True))
    found.discard("")
    return AccountNames(sorted(found - others), sorted(found & others))


def _keyed() -> Iterator[tuple[QuerySet[Any], str]]:
    for model, of in KEYED:
        yield model._default_manager.all(), of
