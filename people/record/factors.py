"""Second factors of people who sign in by a link: an app's codes, passkeys, recovery codes.

django-allauth owns the rows, the codes and WebAuthn. Owns which factors count, how often a code may be guessed, and the
audit trail. Loaded only with `AWMWEB_MFA`. Called by `pages/second_factor.py` and the command `resetfactor`.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Iterable
from typing import Any

import redis
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from allauth.mfa.webauthn.internal import auth
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from people import measures
from people.access import Actor, may_manage_people, scoped
from people.errors import Away, Busy, Forbidden, Invalid, NotFound
from people.models import Membership, Role, display_name
from people.record.audit import record
from people.sealing import box

log = logging.getLogger(__name__)
Kind = Authenticator.Type
GUESSES, GUESSES_S = 5, 300
"""Guesses of an account in a span of seconds, over all browsers and web processes."""
PERIOD_S = 30
KEYS_MAX, NAME_MAX = 10, 60


class Factors(DefaultMFAAdapter):
    """What allauth asks about factors: their secrets are sealed in the database, and no mail is sent."""

    def encrypt(self, text: str) -> str:
        return box("second factor").encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return box("second factor").decrypt(encrypted_text.encode()).decode()

    def get_totp_label(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def is_mfa_enabled(self, user: Any, types: Any = None) -> bool:
        """Let allauth ask for none after a sign-in at a provider, whose own second factor counts."""
        return False

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        return None


ADAPTER = Factors()


def with_factor(users: Iterable[int]) -> set[int]:
    """Return those of these accounts that are asked for a second factor."""
    rows = Authenticator.objects.filter(user_id__in=users).exclude(type=Kind.RECOVERY_CODES)
    return set(rows.values_list("user_id", flat=True))


def is_asked(user: User) -> bool:
    return bool(with_factor([user.pk]))


def factors_of(user: User) -> list[Authenticator]:
    rows = Authenticator.objects.filter(user_id=user.pk).exclude(type=Kind.RECOVERY_CODES)
    return list(rows.order_by("created_at", "pk"))


def codes_left(user: User) -> int:
    row = Authenticator.objects.filter(user_id=user.pk, type=Kind.RECOVERY_CODES).first()
    return len(RecoveryCodes(row).get_unused_codes()) if row is not None else 0


def count_guess(user: User) -> None:
    """Count a guess before it is looked at, so that guesses sent together do not slip past the limit.

    Without Valkey no guess is taken: nothing else counts over all web processes.
    """
    try:
        together = measures.connection().pipeline()
        together.incr(_guesses(user))
        together.expire(_guesses(user), GUESSES_S, nx=True)
        count, _ = together.execute()
    except redis.RedisError as error:
        log.warning("guesses of a second factor are not counted: %s", error)
        raise Away("Codes cannot be checked at the moment. Retry shortly.") from error
    if int(count) > GUESSES:
        log.warning("too many guesses of the second factor of account %s", user.pk)
        raise Busy(f"Too many wrong codes. Wait {GUESSES_S // 60} minutes, then try again.")


def forget_guesses(user: User) -> None:
    try:
        measures.connection().delete(_guesses(user))
    except redis.RedisError as error:
        log.warning("guesses of a second factor stay counted: %s", error)


def _guesses(user: User) -> str:
    return f"awmweb:second-factor:{user.pk}"


def check_code(user: User, code: str) -> None:
    """Take a code of the app or a recovery code, each once. Raises `Invalid` for a wrong one, `Busy` for too many."""
    count_guess(user)
    plain = "".join(code.split()).replace("-", "")
    try:
        right = _is_app_code(user, plain) or _is_recovery_code(user, plain)
    except InvalidToken as error:  # sealed with an earlier secret key
        raise Invalid("This server's secret key has changed. Ask an admin to reset your second factor.") from error
    if not right:
        raise Invalid("Wrong code. Enter the code that the app shows now, or a recovery code you have not used.")
    forget_guesses(user)


@transaction.atomic
def _is_app_code(user: User, code: str) -> bool:
    """Take a code once: the row keeps the last counter, where allauth's own mark is in one process's cache."""
    row = Authenticator.objects.select_for_update().filter(user_id=user.pk, type=Kind.TOTP).first()
    counter = _counter_of(ADAPTER.decrypt(row.data["secret"]), code, row.data.get("counter", 0)) if row else None
    if row is None or counter is None:
        return False
    row.data["counter"] = counter
    row.last_used_at = timezone.now()
    row.save(update_fields=["data", "last_used_at"])
    return True


def _counter_of(secret: str, code: str, after: int = 0) -> int | None:
    """Return the counter whose code this is, the last, this or the next one, for clocks that differ."""
    now = int(time.time()) // PERIOD_S
    for counter in (now - 1, now, now + 1):
        expected = format_hotp_value(hotp_value(secret, counter))
        if counter > after and hmac.compare_digest(expected.encode(), code.encode("utf-8", "replace")):
            return counter
    return None


def _is_recovery_code(user: User, code: str) -> bool:
    row = Authenticator.objects.filter(user_id=user.pk, type=Kind.RECOVERY_CODES).first()
    if row is None or not RecoveryCodes(row).validate_code(code):
        return False
    Authenticator.objects.filter(pk=row.pk).update(last_used_at=timezone.now())
    return True


@transaction.atomic
def add_app(actor: Actor, secret: str, code: str) -> list[str]:
    """Add an authenticator app that has shown its first code. Return recovery codes if these are the first."""
    user = _locked(actor)
    counter = _counter_of(secret, "".join(code.split()))
    if counter is None:
        raise Invalid("Wrong code. Enter the code that the app shows now.")
    data = {"secret": ADAPTER.encrypt(secret), "counter": counter}
    try:
        with transaction.atomic():
            Authenticator.objects.create(user=user, type=Kind.TOTP, data=data)
    except IntegrityError as error:
        raise Invalid("You have an authenticator app already. Remove it first.") from error
    record(actor, "added a second factor", user.get_username(), "authenticator app")
    return _first_codes(user)


@transaction.atomic
def add_passkey(actor: Actor, name: str, credential: dict[str, Any]) -> list[str]:
    """Add a passkey whose answer the browser has just given. Return recovery codes if these are the first."""
    user = _locked(actor)
    name = " ".join(name.split())[:NAME_MAX] or "Passkey"
    if Authenticator.objects.filter(user_id=user.pk, type=Kind.WEBAUTHN).count() >= KEYS_MAX:
        raise Invalid(f"At most {KEYS_MAX} passkeys. Remove one first.")
    try:
        auth.complete_registration(credential)
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Invalid("This passkey was not accepted. Try again.") from error
    auth.WebAuthn.add(user, name, credential)
    record(actor, "added a second factor", user.get_username(), f"passkey {name}")
    return _first_codes(user)


def check_passkey(user: User, credential: dict[str, Any]) -> None:
    """Take the answer of a passkey to the challenge of this session. Raises `Invalid`, or `Busy` for too many."""
    count_guess(user)
    try:
        auth.complete_authentication(user, credential).record_usage()
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Invalid("This passkey was not accepted. Try again, or enter a code.") from error
    forget_guesses(user)


def _locked(actor: Actor) -> User:
    if actor.person is None:
        raise Forbidden
    # two tabs that add a first factor take turns, so that one of them makes the codes
    return User.objects.select_for_update().get(pk=actor.person.pk)


def _first_codes(user: User) -> list[str]:
    if Authenticator.objects.filter(user_id=user.pk, type=Kind.RECOVERY_CODES).exists():
        return []
    codes: list[str] = RecoveryCodes.activate(user).generate_codes()
    return codes


@transaction.atomic
def new_codes(actor: Actor) -> list[str]:
    """Return new recovery codes; those from before end."""
    user = _locked(actor)
    if not is_asked(user):
        raise Invalid("Add an authenticator app or a passkey first.")
    Authenticator.objects.filter(user_id=user.pk, type=Kind.RECOVERY_CODES).delete()
    record(actor, "made new recovery codes", user.get_username())
    return _first_codes(user)


@transaction.atomic
def remove(actor: Actor, factor_id: int) -> None:
    """Remove one factor of one's own. With the last one its recovery codes end."""
    user = _locked(actor)
    factor = Authenticator.objects.filter(user_id=user.pk, pk=factor_id).exclude(type=Kind.RECOVERY_CODES).first()
    if factor is None:
        raise NotFound
    words = "authenticator app" if factor.type == Kind.TOTP else f"passkey {factor.data.get('name', '')}"
    factor.delete()
    if not is_asked(user):
        Authenticator.objects.filter(user_id=user.pk).delete()
    record(actor, "removed a second factor", user.get_username(), words)


@transaction.atomic
def reset(actor: Actor, membership_id: int) -> str:
    """End all factors of a member who has lost them. Return the member's name.

    Factors protect an account in all its projects, so that only an admin of all of them may end them.
    """
    may_manage_people(actor)
    membership = scoped(Membership.objects.select_related("user"), actor.project).filter(pk=membership_id).first()
    if membership is None:
        raise NotFound
    now = timezone.now()
    mine = Membership.objects.current(now).filter(user=actor.person, role=Role.ADMIN).values("project")
    if actor.person is not None and membership.user.memberships.exclude(project__in=mine).exists():
        raise Invalid(
            "This person is in projects of other admins too. Ask those who run this server: `manage.py resetfactor`."
        )
    deleted, _ = Authenticator.objects.filter(user_id=membership.user.pk).delete()
    if not deleted:
        raise Invalid("This person has no second factor.")
    record(actor, "reset the second factor of", membership.user.get_username())
    forget_guesses(membership.user)
    return display_name(membership.user)


def host_allows_passkeys(host: str) -> bool:
    """Return whether browsers make passkeys for this host: a name, by https or on this machine."""
    name = host.partition(":")[0]
    local = name == "localhost" or name.endswith(".localhost")
    return not name.replace(".", "").isdigit() and "[" not in host and (local or _is_https())


def _is_https() -> bool:
    return str(settings.AWMWEB_PUBLIC_URL).startswith("https://")
