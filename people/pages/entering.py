"""How a session begins: by a sign-in link, and behind the second factor of an account that has one.

Owns the session's entries. The pages of second factors have models that exist only with `AWMWEB_MFA`, so that they
register here what a sign-in asks of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import login as start_session
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils.http import url_has_allowed_host_and_scheme

from people.access import SESSION_ENTRIES, SESSION_PROJECT, Actor, memberships
from people.record import members
from people.requests import addresses


@dataclass(frozen=True)
class SecondFactor:
    """What a sign-in and the page of members ask of second factors."""

    is_asked: Callable[[User], bool]
    asked_first: Callable[[HttpRequest, User, list[str], str], HttpResponse]
    reset: Callable[[Actor, int], str]
    with_factor: Callable[[Iterable[int]], set[int]]


_registered: list[SecondFactor] = []


def register(second: SecondFactor) -> None:
    _registered[:] = [second]


def second_factor() -> SecondFactor | None:
    """Return what was registered; None where second factors are off."""
    # one that is on and not registered raises: no sign-in passes without it
    return _registered[0] if settings.AWMWEB_MFA else None


def begin_session(request: HttpRequest, user: User, entries: list[str], project: str) -> None:
    """Sign in to these memberships, and to those that earlier links of the same account opened in this browser."""
    members.enter(user, entries, "by a link")
    if request.user == user:
        entries = list(dict.fromkeys([*memberships(request).values_list("entry", flat=True), *entries]))
    start_session(request, user, backend="django.contrib.auth.backends.ModelBackend")
    # Django's `login` keeps the key of a session that the same account already has.
    request.session.cycle_key()
    request.session[SESSION_ENTRIES] = entries
    request.session[SESSION_PROJECT] = project


def safe_next(request: HttpRequest, url: str) -> str:
    """Return `url` if it is a path on this host, otherwise the address that leads to the last project's home page."""
    # The second check alone would also take an absolute address of this host.
    ours = url.startswith("/") and url_has_allowed_host_and_scheme(url, {request.get_host()})
    # During an update the next request can go to version 0.2.0, whose addresses have no project.
    return url if ours else addresses.without_project("home")
