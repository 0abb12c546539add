"""Pages of second factors: the question at sign-in, and a person's own factors.

Owns HTTP and sessions; factors are those of `people/record/factors.py`. Loaded only with `AWMWEB_MFA`.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

from allauth.core import context
from allauth.mfa.totp.internal.auth import generate_totp_secret
from allauth.mfa.webauthn.internal import auth
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from people.access import MemberRequest, member_required, memberships
from people.errors import AppError, Busy, Invalid
from people.models import Membership
from people.pages.entering import begin_session, safe_next
from people.record import factors
from people.record.factors import ADAPTER, Kind
from people.requests import addresses
from people.requests.forms import MAX_ID, FormFields, cut, number_in, read, text_of

WAITING, SECRET, SEEN = "second_factor", "second_factor_secret", "second_factor_at"
WAIT_S = 600
"""For so long a sign-in waits for its second factor, and for so long a given one lets a person change factors."""
CREDENTIAL_MAX = 20_000


class FactorForm(FormFields):
    """An answer to the question for a factor, or a change of factors."""

    do: str = ""
    code: Annotated[str, cut(60)] = ""
    credential: str = ""
    name: str = ""
    factor: str = ""


def wait_for_factor(request: HttpRequest, user: User, entries: list[str], project: str) -> HttpResponse:
    """Keep a sign-in by a link until the second factor is given. No session of the account begins before."""
    request.session.cycle_key()
    request.session[WAITING] = {
        "user": user.pk,
        "entries": entries,
        "project": project,
        "next": text_of(request.GET, "next"),
        "at": time.time(),
        "hash": user.get_session_auth_hash(),
    }
    return redirect(addresses.without_project("second_factor_asked"))


def _waiting(request: HttpRequest) -> tuple[dict[str, Any], User] | None:
    """Return the sign-in of this browser that waits, and its account; None if there is none any more."""
    sign_in = request.session.get(WAITING)
    if not sign_in or time.time() - sign_in["at"] > WAIT_S:
        return None
    user = User.objects.filter(pk=sign_in["user"], is_active=True).first()
    if user is None or not constant_time_compare(sign_in["hash"], user.get_session_auth_hash()):
        return None
    if sign_in.get("confirm") and request.user != user:
        return None
    return sign_in, user


@require_http_methods(["GET", "POST"])
@never_cache
def asked(request: HttpRequest) -> HttpResponse:
    """Ask for the second factor of a sign-in, or of a person who is about to change their factors."""
    waiting = _waiting(request)
    if waiting is None:
        request.session.pop(WAITING, None)
        return redirect(addresses.without_project("login"))
    sign_in, user = waiting
    problem, status = "", 200
    with context.request_context(request):
        if request.method == "POST":
            try:
                _check(request, user)
            except AppError as refused:
                problem, status = refused.message, refused.status
            else:
                return _passed(request, sign_in, user)
        answer = render(request, "people/second_asked.html", _question(request, user, problem), status=status)
    if status == Busy.status:
        answer["Retry-After"] = str(factors.GUESSES_S)
    return answer


def _check(request: HttpRequest, user: User) -> None:
    form = read(request.POST, FactorForm)
    if form.credential:
        factors.check_passkey(user, _credential(form.credential))
    else:
        factors.check_code(user, form.code)


def _credential(text: str) -> dict[str, Any]:
    try:
        credential = json.loads(text) if len(text) <= CREDENTIAL_MAX else None
    except (ValueError, RecursionError):
        credential = None
    if not isinstance(credential, dict):
        raise Invalid("The browser sent no passkey. Try again.")
    return credential


def _question(request: HttpRequest, user: User, problem: str) -> dict[str, Any]:
    kinds = {one.type for one in factors.factors_of(user)}
    options = ""
    if Kind.WEBAUTHN in kinds and factors.host_allows_passkeys(request.get_host()):
        options = json.dumps(auth.begin_authentication(user)["publicKey"])
    return {"problem": problem, "options": options, "has_app": Kind.TOTP in kinds}


def _passed(request: HttpRequest, sign_in: dict[str, Any], user: User) -> HttpResponse:
    del request.session[WAITING]
    if sign_in.get("confirm"):
        # a copy of the key that was taken before does not share what the factor opens
        request.session.cycle_key()
    else:
        # rights can have changed while the sign-in waited
        entries = Membership.objects.in_force(timezone.now()).filter(user=user, entry__in=sign_in["entries"])
        if sign_in["entries"][0] not in set(entries.values_list("entry", flat=True)):
            return render(request, "people/link_spent.html", status=410)
        begin_session(request, user, sign_in["entries"], sign_in["project"])
    request.session[SEEN] = time.time()
    return redirect(safe_next(request, sign_in["next"]))


@require_http_methods(["GET", "POST"])
@member_required()
@never_cache
def mine(request: MemberRequest) -> HttpResponse:
    """Show one's own factors; add and remove them. Who has one gives it again before a change."""
    user = User.objects.get(pk=request.actor.person.pk)  # type: ignore[union-attr]
    if factors.is_asked(user) and time.time() - request.session.get(SEEN, 0) > WAIT_S:
        return _confirm(request, user)
    codes, problem = [], ""
    with context.request_context(request):
        if request.method == "POST":
            try:
                codes = _form(request)
            except AppError as refused:
                problem = refused.message
            else:
                request.session[SEEN] = time.time()
                if not codes:
                    return redirect("second_factor")
        return render(
            request, "people/second_factor.html", _page(request, user, codes, problem), status=422 if problem else 200
        )


def _confirm(request: MemberRequest, user: User) -> HttpResponse:
    request.session[WAITING] = {
        "user": user.pk,
        "confirm": True,
        "next": request.get_full_path(),
        "at": time.time(),
        "hash": user.get_session_auth_hash(),
    }
    return redirect(addresses.without_project("second_factor_asked"))


def _form(request: MemberRequest) -> list[str]:
    """Do what a form says. Return recovery codes, to be shown once."""
    form, actor = read(request.POST, FactorForm), request.actor
    action = form.do
    if action in ("app", "passkey"):
        _refuse_part(request)
    if action == "app":
        secret = request.session.get(SECRET)
        if not secret:
            raise Invalid("Open this page again, and scan its key with the app.")
        codes = factors.add_app(actor, secret, form.code)
        del request.session[SECRET]
        messages.success(request, "Added the authenticator app.")
        return codes
    if action == "passkey":
        codes = factors.add_passkey(actor, form.name, _credential(form.credential))
        messages.success(request, "Added the passkey.")
        return codes
    if action == "codes":
        return factors.new_codes(actor)
    factors.remove(actor, number_in(form.factor, MAX_ID) or 0)
    messages.success(request, "Removed the second factor.")
    return []


def _refuse_part(request: MemberRequest) -> None:
    """Refuse a first factor to a session that opens only some projects of its account.

    An admin can sign in as a member by a link to their own project. With a factor of theirs the account would be
    locked out of projects of other admins.
    """
    user = request.actor.person
    if user is None or factors.is_asked(user):  # they gave the factor that they have
        return
    if memberships(request).count() < Membership.objects.in_force(timezone.now()).filter(user=user).count():
        raise Invalid("A factor counts in all your projects. Open links of all your projects in this browser first.")


def _page(request: MemberRequest, user: User, codes: list[str], problem: str) -> dict[str, Any]:
    rows = factors.factors_of(user)
    has_app = any(one.type == Kind.TOTP for one in rows)
    secret = request.session.get(SECRET, "")
    if not has_app and not secret:
        secret = request.session[SECRET] = generate_totp_secret()
    by_name = factors.host_allows_passkeys(request.get_host())
    return {
        "factors": [{"row": one, "name": _name(one)} for one in rows],
        "has_app": has_app,
        "secret": "" if has_app else " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        # of allauth's own drawing: no word of a stranger is in it but the account's name, as black squares
        "drawing": "" if has_app else mark_safe(_drawing(user, secret)),  # noqa: S308
        "options": _registration(user) if by_name else "",
        "codes": codes,
        "codes_left": factors.codes_left(user),
        "problem": problem,
    }


def _name(factor: Any) -> str:
    return "Authenticator app" if factor.type == Kind.TOTP else str(factor.data.get("name", "Passkey"))


def _drawing(user: User, secret: str) -> str:
    text = ADAPTER.build_totp_svg(ADAPTER.build_totp_url(user, secret))
    return str(text[text.index("<svg") :])


def _registration(user: User) -> str:
    return json.dumps(auth.begin_registration(user, passwordless=False)["publicKey"])
