"""Writes: what follows from the claims of a sign-in provider. Rights are given, changed and ended as it says.

Owns tickets, by which the provider is asked again. Leaves the meaning of claims to `identity.py`. Called by the pages
of the provider and by `watching.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote_plus

import httpx
import jwt
from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from people import operating
from people.access import system
from people.errors import Invalid
from people.identity import Claimant, Rights, Unfit, identify, rights_of
from people.models import Membership, Project, ProviderTicket, Role, long_ago, new_id
from people.record import members
from people.record.audit import record
from people.sealing import box

log = logging.getLogger(__name__)
BECAUSE = "by the groups of the sign-in provider"
WELL_KNOWN = "/.well-known/openid-configuration"
TIMEOUT_S, TURN_S = 5.0, 20.0
"""For one call to the provider, and for all calls of one turn: the next turn goes on with who waits longest."""

TOGETHER = 8
"""Calls to the provider at the same time. More would look like an attack to some."""
NO_MORE = {"invalid_grant", "invalid_token", "access_denied"}
"""Errors by which a provider says that a token is not one any more."""


class NotVouched(Exception):
    """The provider does not vouch for this person any more."""


@transaction.atomic
def follow(user: User, rights: Rights, *, at_sign_in: bool = False) -> None:
    """Give the person these rights, and end those that the provider gave before and names no more.

    A role that it names takes over a membership given by hand; one by hand in another project stays. The last admin of
    a project keeps the role, and the trail says so once for each sign-in.
    """
    user = User.objects.select_for_update().get(pk=user.pk)
    held = {one.project.slug: one for one in Membership.objects.filter(user=user).select_related("project", "user")}
    for project in Project.objects.filter(slug__in=rights).order_by("slug"):
        _give(project, user, rights[project.slug], held.get(project.slug), at_sign_in)
    for slug, membership in held.items():
        if membership.from_provider and slug not in rights:
            _end(membership, at_sign_in)


def _give(project: Project, user: User, role: str, held: Membership | None, at_sign_in: bool) -> None:
    username = user.get_username()
    if held is None and project.archived_at is not None:
        return
    if held is not None and _is_last_admin(held) and role != Role.ADMIN:
        if at_sign_in:
            record(system(project), "kept the last admin", username, f"not {role} {BECAUSE}")
        Membership.objects.filter(pk=held.pk).update(from_provider=True)
        return
    membership = members.ensure_member(project, username, role)
    Membership.objects.filter(pk=membership.pk).update(from_provider=True)
    if held is None:
        record(system(project), "admitted", username, f"as {role} {BECAUSE}")
    elif held.role != role:
        record(system(project), "changed role of", username, f"from {held.role} to {role} {BECAUSE}")


def _is_last_admin(membership: Membership) -> bool:
    try:
        members.refuse_last_admin_change(system(membership.project), membership.user.get_username(), "", None)
    except Invalid:
        return True
    return False


def _end(membership: Membership, at_sign_in: bool) -> None:
    if not _is_last_admin(membership):
        members.end_membership(system(membership.project), membership, BECAUSE)
        return
    if at_sign_in:
        reason = f"removed {BECAUSE}; open sessions ended"
        record(system(membership.project), "kept the last admin", membership.user.get_username(), reason)
    _end_ways_in(membership)


def _end_ways_in(membership: Membership) -> None:
    """End sessions, sockets, links, personal tokens and channels of a membership that stays, until the next sign-in."""
    Membership.objects.filter(pk=membership.pk).update(entry=new_id(), suspended_at=timezone.now())
    members.revoke_personal_tokens(membership)


@transaction.atomic
def suspend(user: User) -> None:
    """End all ways in of a person for whom the provider does not vouch any more.

    What it gave ends now, and what others gave is suspended. Both come back with the next sign-in, so that skills and
    channels are kept: a provider also refuses those whose sign-in there is over.
    """
    now = timezone.now()
    for row in Membership.objects.current(now).filter(user=user).select_related("project", "user"):
        if row.from_provider and not _is_last_admin(row):
            row.ends_at, row.entry = now, new_id()
            row.save(update_fields=["ends_at", "entry"])
        else:
            _end_ways_in(row)
        record(system(row.project), "ended the sessions of", row.user.get_username(), "the sign-in provider refused")
    ProviderTicket.objects.filter(user=user).delete()


def keep_ticket(user: User, refresh: str, access: str, subject: str = "") -> None:
    """Keep what the provider is asked with, sealed: the refresh token, or else the access token while it lasts; and
    whom its answers must be about."""
    operating.note_provider("")
    if refresh or access:
        fields = {"sealed": _seal(refresh or access), "is_refresh": bool(refresh), "checked_at": timezone.now()}
        fields["subject"] = subject
        ProviderTicket.objects.update_or_create(user=user, defaults=fields)


def _box() -> Fernet:
    return box("ticket of a sign-in provider")


def _seal(secret: str) -> str:
    return _box().encrypt(secret.encode()).decode()


def check_due(now: datetime | None = None) -> int:
    """Ask the provider about everyone whose last answer is old. Return how many it answered for.

    While it is unavailable all stay: the end of the session (`AWMWEB_OIDC_SESSION_H`) is then what ends.
    """
    now = now or timezone.now()
    due = ProviderTicket.objects.filter(long_ago("checked_at", now - timedelta(seconds=settings.AWMWEB_OIDC_CHECK_S)))
    waiting = list(due.select_related("user").order_by("checked_at")[:1000])
    if not waiting:
        return 0
    began, answered = time.monotonic(), 0
    try:
        with httpx.Client(timeout=TIMEOUT_S) as http, ThreadPoolExecutor(TOGETHER) as pool:
            discovery = _json(http.get(settings.AWMWEB_OIDC_ISSUER + WELL_KNOWN))
            for start in range(0, len(waiting), TOGETHER):
                if time.monotonic() - began > TURN_S:
                    break
                answered += _check(_Asking(pool, http, discovery), waiting[start : start + TOGETHER], now)
    except (httpx.HTTPError, Unfit) as error:
        log.warning("the sign-in provider is unavailable: %r", error)
        operating.note_provider(f"It gives no answer: {error}")
    else:
        if answered:
            operating.note_provider("")
    return answered


@dataclass(frozen=True)
class _Asking:
    """Calls to the provider, several together. Its threads see no database: rows are read and written between."""

    pool: ThreadPoolExecutor
    http: httpx.Client
    found: dict[str, Any]

    def together(self, call: Callable[..., Any], batch: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the answers, or the errors, of calls with these arguments, in their order."""

        def answer(arguments: tuple[Any, ...]) -> Any:
            try:
                return call(self.http, self.found, *arguments)
            except (NotVouched, httpx.HTTPError, Unfit, KeyError) as error:
                return error

        return list(self.pool.map(answer, batch))


def _check(asking: _Asking, tickets: Sequence[ProviderTicket], now: datetime) -> int:
    """Check some people together. What the provider cannot say about one keeps no one else from being checked."""
    mine = [one for one in tickets if _claimed(one, now)]
    vouched, answered = [], 0
    grants = asking.together(_access, [(one,) for one in mine])
    for ticket, got in zip(mine, grants, strict=True):
        same = ProviderTicket.objects.filter(pk=ticket.pk, sealed=ticket.sealed)
        if isinstance(got, Exception):
            answered += _refused(ticket, same, got)
            continue
        access, refresh, id_claims = got
        if refresh:
            sealed = _seal(refresh)
            if same.update(sealed=sealed) != 1:
                continue
            same = ProviderTicket.objects.filter(pk=ticket.pk, sealed=sealed)
        vouched.append((ticket, same, access, id_claims))
    claimed = asking.together(_claims, [(access,) for _, _, access, _ in vouched])
    for (ticket, same, _, id_claims), claims in zip(vouched, claimed, strict=True):
        answered += _heard(ticket, same, claims, id_claims)
    # after what the others said is stored: a refresh token that was exchanged is lost otherwise
    _stop_if_away([*grants, *claimed])
    return answered


def _stop_if_away(answers: Iterable[Any]) -> None:
    """End this turn if the provider cannot be reached: each further call would wait as long."""
    for answer in answers:
        if isinstance(answer, httpx.TransportError):
            raise answer


def _claimed(ticket: ProviderTicket, now: datetime) -> bool:
    # conditional: of two workers one asks, and a ticket of a sign-in meanwhile is not touched
    mine = ProviderTicket.objects.filter(pk=ticket.pk, sealed=ticket.sealed, checked_at=ticket.checked_at)
    return mine.update(checked_at=now) == 1


def _heard(ticket: ProviderTicket, same: QuerySet[ProviderTicket], claims: Any, id_claims: dict[str, Any]) -> int:
    """Give a person the rights that the provider names now, in its answer or in the ID token `id_claims` beside it."""
    if isinstance(claims, Exception):
        return _refused(ticket, same, claims)
    try:
        person = identify(claims, id_claims, settings.AWMWEB_OIDC_GROUPS)
        if ticket.subject and person.subject != ticket.subject:
            raise NotVouched  # OpenID Connect Core 5.3.2: such an answer must not be used
    except (NotVouched, Unfit, KeyError) as error:
        return _refused(ticket, same, error)
    if same.exists():
        _follow_groups(ticket.user, person)
    return 1


def _follow_groups(user: User, person: Claimant) -> None:
    """Follow the groups that a provider names. Silence is no answer about them (OpenID Connect Core 12.2 lets an answer
    to a refresh leave claims out): what was stays until the session ends, and the next sign-in has to name them."""
    if not person.says_groups:
        log.warning("the sign-in provider says nothing of the groups of %s: their rights stay", user)
        return
    rights = rights_of(person.groups, settings.AWMWEB_OIDC_MAP)
    follow(user, rights)
    if not rights:
        suspend(user)


def _refused(ticket: ProviderTicket, same: QuerySet[ProviderTicket], error: Exception) -> int:
    if not isinstance(error, NotVouched):
        log.warning("the sign-in provider gives no answer about %s: %r", ticket.user, error)
        operating.note_provider(f"It gives no answer about some people: {error}")
        return 0
    if same.exists():
        suspend(ticket.user)
    return 1


def _access(http: httpx.Client, discovery: dict[str, Any], ticket: ProviderTicket) -> tuple[str, str, dict[str, Any]]:
    """Return an access token, the next refresh token if the provider gives another one each time, and the claims of an
    ID token: some providers name groups nowhere else."""
    try:
        secret = _box().decrypt(ticket.sealed.encode()).decode()
    except InvalidToken as error:  # sealed with an earlier secret key
        raise NotVouched from error
    if not ticket.is_refresh:
        return secret, "", {}
    form = {"grant_type": "refresh_token", "refresh_token": secret}
    client = (settings.AWMWEB_OIDC_CLIENT_ID, settings.AWMWEB_OIDC_CLIENT_SECRET)
    # what every server must support; where it does not say, this is what it supports
    if "client_secret_basic" in discovery.get("token_endpoint_auth_methods_supported", ["client_secret_basic"]):
        answer = http.post(discovery["token_endpoint"], data=form, auth=(quote_plus(client[0]), quote_plus(client[1])))
    else:
        form |= {"client_id": client[0], "client_secret": client[1]}
        answer = http.post(discovery["token_endpoint"], data=form)
    if answer.status_code == 400 and _error(answer) in NO_MORE:
        raise NotVouched
    grant = _json(answer)
    id_claims = _id_token(str(grant["id_token"]), discovery) if grant.get("id_token") else {}
    return str(grant["access_token"]), str(grant.get("refresh_token") or ""), id_claims


def _id_token(token: str, discovery: dict[str, Any]) -> dict[str, Any]:
    """Return the claims of an ID token that came from the provider itself, so that TLS vouches for it and no signature
    needs to (OpenID Connect Core 3.1.3.7)."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            options={"verify_signature": False, "verify_aud": True, "verify_iss": True, "verify_exp": True},
            audience=settings.AWMWEB_OIDC_CLIENT_ID,
            issuer=discovery["issuer"],
            leeway=60,
        )
    except jwt.PyJWTError as error:
        raise Unfit(f"its ID token is not for us: {error}") from error
    return claims


def _claims(http: httpx.Client, discovery: dict[str, Any], access: str) -> dict[str, Any]:
    answer = http.get(discovery["userinfo_endpoint"], headers={"Authorization": f"Bearer {access}"})
    if answer.status_code in (401, 403) or answer.status_code == 400 and _error(answer) in NO_MORE:
        raise NotVouched
    return _json(answer)


def _error(answer: httpx.Response) -> str:
    try:
        return str(answer.json().get("error"))
    except (ValueError, AttributeError):
        return ""


def _json(answer: httpx.Response) -> dict[str, Any]:
    answer.raise_for_status()
    try:
        document = answer.json()
    except ValueError as error:
        raise Unfit("its answer is no JSON") from error
    if not isinstance(document, dict):
        raise Unfit("its answer is no JSON object")
    return document
