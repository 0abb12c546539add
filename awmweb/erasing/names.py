"""Reads: the names that an account has and had, by which rows without its key know it.

Earlier names come from rows that have a key beside a name, and from the audit trail's entries of renamed members. Rows
of a personal token have the name of the token, which its person wrote: it is erased where no other token has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from awmweb.erasing.written import KEYED, WORD
from people.models import ApiToken, AuditEntry, Project, display_name
from people.record.audit import signed
from people.record.members import RENAMED

SIGNS = "token {}"
"""How rows name a token (`Actor.name`)."""
NAMELESS = SIGNS.format(WORD)


@dataclass(frozen=True)
class AccountNames:
    own: list[str]
    """Those of this account alone."""
    shared: list[str]
    """Those that another account or token has or had, too."""
    tokens: frozenset[str] = frozenset()
    """Those that personal tokens of this account have."""

    @property
    def every(self) -> list[str]:
        return [*self.own, *self.shared]

    def within(self, project: Project, user: User) -> AccountNames:
        """Return those by which rows of this project can know the account: a token has a name in its project alone."""
        here = ApiToken.objects.filter(project=project)
        theirs = here.exclude(personal=True, issued_by=user).values_list("name", flat=True)
        others, mine = {SIGNS.format(name) for name in theirs}, set(tokens_of(user, here))
        own = [name for name in self.own if name not in self.tokens or name in mine - others]
        shared = [name for name in self.shared if name not in self.tokens or name in mine]
        return AccountNames(own, [*shared, *(name for name in self.own if name in mine & others)], self.tokens)


def names_of(user: User) -> AccountNames:
    """Return the present name of an account and earlier ones, of all projects: rows have the name of their time."""
    key = f"user:{user.pk}"
    tokens = set(tokens_of(user, ApiToken.objects.all()))
    names = {display_name(user), user.get_username(), *tokens}
    for rows, of in _keyed():
        names.update(rows.filter(**{f"{of}_key": key}).values_list(of, flat=True).distinct())
    renamed = AuditEntry.objects.filter(verb=RENAMED)
    names.update(renamed.filter(target=user.get_username()).values_list("reason", flat=True))
    others = {name for one in User.objects.exclude(pk=user.pk) for name in (display_name(one), one.get_username())}
    for rows, of in _keyed():
        theirs = rows.filter(**{f"{of}_key__startswith": "user:", f"{of}__in": names}).exclude(**{f"{of}_key": key})
        others.update(theirs.values_list(of, flat=True).distinct())
    others.update(renamed.exclude(target=user.get_username()).values_list("reason", flat=True))
    names.discard("")
    return AccountNames(sorted(names - others), sorted(names & others), frozenset(tokens))


def tokens_of(user: User, tokens: QuerySet[ApiToken]) -> Iterator[str]:
    """Return how rows name the personal tokens of an account, without those whose names are erased."""
    mine = tokens.filter(personal=True, issued_by=user).exclude(name=WORD)
    return (SIGNS.format(name) for name in mine.values_list("name", flat=True))


def signatures_of(project: Project, user: User, names: AccountNames) -> dict[str, str]:
    """Return how the audit trail of a project names this account when it acts by tokens of its own, each with the same
    without the token's name."""
    mine = ApiToken.objects.filter(project=project, personal=True, issued_by=user).exclude(name=WORD)
    tokens = list(mine.values_list("name", flat=True).distinct())
    people = [name for name in names.own if name not in names.tokens]
    return {signed(name, token): signed(name, WORD) for name in people for token in tokens}


def _keyed() -> Iterator[tuple[QuerySet[Any], str]]:
    for model, of in KEYED:
        yield model._default_manager.all(), of
