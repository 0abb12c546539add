"""What needs an operator: conditions of the installation that no one but a person can mend, in one list.

Apps above register a check for each kind of condition (`AppConfig.ready`), as notifications register their subjects.
A check reads what is stored or known already, so *Home* asks all of them each time; it returns nothing once the thing
works again. Called by *Home*, for those who manage projects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import redis
from django.conf import settings
from django.urls import reverse

from people import measures
from people.access import Actor, holds, may_manage_projects
from people.text.plain_text import first_line

log = logging.getLogger(__name__)
RECENT = timedelta(days=1)
"""A failure that nothing followed for so long is no news: what failed may not be used any more."""
WORDS = 300


@dataclass(frozen=True)
class Need:
    """One condition: what does not work, why as it was said, when it was seen last, and the page that says more."""

    what: str
    why: str
    at: datetime | None = None
    page: str = ""

    @property
    def address(self) -> str:
        return reverse(self.page)

    @property
    def reason(self) -> str:
        text = first_line(self.why, WORDS) or "No reason was given."
        return text[0].upper() + text[1:]


Check = Callable[[Actor, datetime], Iterable[Need]]
_checks: dict[str, Check] = {}


def register(kind: str, check: Check) -> None:
    """Register what answers for one kind of condition, in the order of the list."""
    _checks[kind] = check


def kinds() -> list[str]:
    return list(_checks)


def needs_of(actor: Actor, now: datetime) -> list[Need]:
    """Return what needs an operator now; nothing for those who are none."""
    if not holds(actor, may_manage_projects):
        return []
    return [need for check in _checks.values() for need in check(actor, now)]


PROVIDER_KEY = "awmweb:sign-in-provider"
WRITES_KEY = "awmweb:takes-writes"


def note_provider(problem: str) -> None:
    """Note why the sign-in provider gave no answer, until it gives one (no `problem`) or is not asked any more."""
    try:
        if problem:
            seconds = 3 * settings.AWMWEB_OIDC_CHECK_S + 600
            measures.connection().set(PROVIDER_KEY, problem[:WORDS], ex=seconds)
        else:
            measures.connection().delete(PROVIDER_KEY)
    except redis.RedisError as error:
        log.warning("the state of the sign-in provider is not noted: %s", error)


def of_disk(_actor: Actor, _now: datetime) -> list[Need]:
    """Return whether the disk of the data folder, or of the database beside it, is full."""
    if not settings.DISK_IS_FULL():
        return []
    return [Need("Disk", "is full. Writes are refused until there is space. Free some: awmweb continues by itself.")]


def of_valkey(_actor: Actor, _now: datetime) -> list[Need]:
    """Return whether Valkey and the sign-in provider, whose state it keeps, need an operator."""
    try:
        # with a full disk or memory, or as a replica, it still answers reads
        measures.connection().set(WRITES_KEY, 1, ex=60)
        note = measures.connection().get(PROVIDER_KEY)
    except redis.ResponseError as error:
        return [Need("Valkey", f"refuses writes. It says: {error}")]
    except redis.RedisError as error:
        return [Need("Valkey", f"does not respond: {type(error).__name__}. Pages and workers are slower without it.")]
    if not note or not settings.AWMWEB_OIDC_ISSUER:
        return []
    why = note.decode("utf-8", "replace") if isinstance(note, bytes) else str(note)
    return [Need(f"Sign-in by {settings.AWMWEB_OIDC_NAME}", why)]
