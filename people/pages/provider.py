"""Sign in by a provider of OpenID Connect: django-allauth's flow, and what it asks of us.

Owns HTTP, words and sessions. allauth owns the protocol: state, PKCE, codes and tokens. Leaves the meaning of claims to
`identity.py` and rights to `following.py`. Loaded only with `AWMWEB_OIDC_ISSUER`.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

import redis
import requests
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from people import measures, operating
from people.access import SESSION_ENTRIES, SESSION_PROJECT
from people.errors import LinkSpent
from people.identity import Claimant, Rights, Unfit, identify, rights_of
from people.models import Membership
from people.record import following, members
from people.requests.forms import text_of

log = logging.getLogger(__name__)
PER_MINUTE = 60
"""Sign-ins of one address that may begin or end in a minute: enough for a lab behind one router."""
AGAIN = "Sign in again."


def _refuse(request: HttpRequest, status: int, head: str, *words: str) -> HttpResponse:
    return render(
        request,
        "people/sign_in_refused.html",
        {"head": head, "words": words, "provider": settings.AWMWEB_OIDC_NAME},
        status=status,
    )


def _stop(request: HttpRequest, status: int, head: str, *words: str) -> NoReturn:
    raise ImmediateHttpResponse(_refuse(request, status, head, *words))


class _Claims(OpenIDConnectOAuth2Adapter):
    """Keeps the claims with the request: allauth would store them in its row, email address and all."""

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> SocialLogin:
        login: SocialLogin = super().complete_login(request, app, token, **kwargs)
        request.claims = login.account.extra_data  # type: ignore[attr-defined]
        login.account.extra_data, login.email_addresses = {}, []
        return login


def _guarded(view: Callable[[HttpRequest, str], HttpResponse]) -> Callable[[HttpRequest, str], HttpResponse]:
    """Limit how often an address comes, and turn what a provider does wrong into words."""

    @functools.wraps(view)
    @require_GET
    @never_cache
    def inner(request: HttpRequest, provider_id: str) -> HttpResponse:
        if _is_hurried(request.META["REMOTE_ADDR"]):
            answer = _refuse(request, 429, "Too many sign-ins from your address.", "Wait a minute, then sign in again.")
            answer["Retry-After"] = "60"
            return answer
        try:
            return view(request, provider_id)
        except (requests.RequestException, KeyError) as error:
            return _away(request, error)

    return inner


def _is_hurried(address: str) -> bool:
    """Count over all web processes. Without Valkey no one is kept out: state and PKCE protect, this only saves work."""
    key = f"awmweb:sign-in:{address}:{int(time.time() // 60)}"
    try:
        together = measures.connection().pipeline()
        together.incr(key)
        together.expire(key, 120)
        count, _ = together.execute()
    except redis.RedisError as error:
        log.warning("sign-ins are not counted: %s", error)
        return False
    return int(count) > PER_MINUTE


def _away(request: HttpRequest, error: BaseException | None) -> HttpResponse:
    log.warning("the sign-in provider gives no usable answer: %r", error)
    operating.note_provider(f"A sign-in got no usable answer: {error}")
    return _refuse(
        request,
        503,
        f"{settings.AWMWEB_OIDC_NAME} does not answer.",
        "Try again in a minute. If it stays like this, tell those who run this server: its log has the reason.",
        "An admin can create a sign-in link, which needs no provider.",
    )


@_guarded
def begin(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Send the visitor to the provider."""
    # allauth would also take scopes, parameters and another purpose from the address, which anyone can write
    back = QueryDict(mutable=True)
    if where := text_of(request.GET, "next"):
        back["next"] = where
    request.GET = back  # type: ignore[assignment]
    answer: HttpResponse = OAuth2LoginView.adapter_view(_Claims(request, provider_id))(request)
    return answer


@_guarded
def end(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Take the visitor back from the provider, signed in or refused."""
    answer: HttpResponse = OAuth2CallbackView.adapter_view(_Claims(request, provider_id))(request)
    answer["Referrer-Policy"] = "no-referrer"
    return answer


class Provider(DefaultSocialAccountAdapter):
    """What allauth asks about accounts of the provider. No account is made but by the map of groups."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return False

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> None:
        if error == AuthError.CANCELLED:
            _stop(request, 403, f"{settings.AWMWEB_OIDC_NAME} did not sign you in.", AGAIN)
        if "state_id" in (extra_context or {}):
            _stop(request, 400, "This sign-in took too long, or began in another browser.", "Nothing happened.", AGAIN)
        if exception is None:
            reason = text_of(request.GET, "error", 60)
            log.warning("the sign-in provider refused: %s", ascii(reason))
            _stop(
                request,
                403,
                f"{settings.AWMWEB_OIDC_NAME} refused the sign-in.",
                f"It says: {reason or 'nothing'}. {AGAIN} If it refuses again, ask those who run it.",
            )
        raise ImmediateHttpResponse(_away(request, exception))

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Give the rights that the claims name, before a session is given. Without any the sign-in is refused."""
        if sociallogin.state.get("process") != AuthProcess.LOGIN:
            _stop(request, 400, "This address does not begin a sign-in.", AGAIN)
        claims: Mapping[str, Any] = request.claims  # type: ignore[attr-defined]
        try:
            who = identify(claims.get("userinfo") or {}, claims.get("id_token") or {}, settings.AWMWEB_OIDC_GROUPS)
        except Unfit as unfit:
            log.warning("the sign-in provider's claims do not fit: %s", unfit)
            _stop(request, 403, f"{settings.AWMWEB_OIDC_NAME} did not say who you are.", str(unfit))
        if not who.says_groups:  # which is no reason to end what someone has: see `following`
            _refuse_stranger(request, who)
        rights = rights_of(who.groups, settings.AWMWEB_OIDC_MAP)
        try:
            user = _known(sociallogin, who, rights) if sociallogin.is_existing else _new(sociallogin, who, rights)
        except IntegrityError:  # the same person in two tabs
            _stop(request, 409, "You signed in twice at the same moment.", AGAIN)
        if user is None:
            _refuse_stranger(request, who)
        user.refresh_from_db()  # the session holds a hash of the password, which a first membership sets
        if sociallogin.token is not None:
            following.keep_ticket(user, sociallogin.token.token_secret, sociallogin.token.token, who.subject)


def _refuse_stranger(request: HttpRequest, who: Claimant) -> NoReturn:
    log.warning("refused %s at the sign-in: groups %s open no project", ascii(who.subject), sorted(who.groups)[:20])
    place = settings.AWMWEB_OIDC_NAME
    if not who.says_groups:
        _stop(
            request,
            403,
            "You are in no project here.",
            f"You signed in at {place} as {who.name}, but it did not say in which groups you are.",
            f"Ask those who run this server to have {place} send the claim {settings.AWMWEB_OIDC_GROUPS}.",
        )
    _stop(
        request,
        403,
        "You are in no project here.",
        f"You signed in at {place} as {who.name}, and none of your groups there opens a project.",
        f"Ask an admin of your project which group you need, and those who run {place} to add you. Then sign in again.",
    )


def _holds_some(user: User) -> bool:
    return Membership.objects.in_force(timezone.now()).filter(user=user).exists()


def _known(sociallogin: SocialLogin, who: Claimant, rights: Rights) -> User | None:
    user = cast(User, sociallogin.user)
    following.follow(user, rights, at_sign_in=True)
    if not rights or not user.is_active:
        following.suspend(user)
        return None
    members.rename(user, who.name)
    return user if _holds_some(user) else None


def _new(sociallogin: SocialLogin, who: Claimant, rights: Rights) -> User | None:
    """Make an account, unless it would be in no project. It is never one that exists: names prove nothing."""
    with transaction.atomic():
        user = members.create_account(who.username)
        following.follow(user, rights, at_sign_in=True)
        if not _holds_some(user):
            transaction.set_rollback(True)
            return None
        User.objects.filter(pk=user.pk).update(first_name=who.name)
        about = {"provider": sociallogin.account.provider, "uid": sociallogin.account.uid}
        sociallogin.account, sociallogin.user = SocialAccount(user=user, **about), user
        sociallogin.account.save()
    return user


class Accounts(DefaultAccountAdapter):
    """What allauth asks about our sessions. It makes no account, sends no mail and shows no message."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        return None

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        return None

    def is_safe_url(self, url: str | None) -> bool:
        # The second check alone would also take an absolute address of this host.
        return bool(url) and str(url).startswith("/") and url_has_allowed_host_and_scheme(url, None)

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Begin the session, with all memberships of the account: the provider vouches for the person."""
        mine = Membership.objects.in_force(timezone.now()).filter(user=user.pk).select_related("project", "user")
        rows = list(mine.order_by("pk"))
        if not rows:
            raise LinkSpent("You are in no project any more.")
        super().login(request, user)
        # Django's `login` keeps the key of a session that the same account already has.
        request.session.cycle_key()
        request.session[SESSION_ENTRIES] = entries = [one.entry for one in rows]
        request.session[SESSION_PROJECT] = rows[0].project.slug
        request.session.set_expiry(settings.AWMWEB_OIDC_SESSION_H * 3600)
        members.enter(cast(User, user), entries, f"at {settings.AWMWEB_OIDC_NAME}")
