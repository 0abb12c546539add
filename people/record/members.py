"""Writes: invite, remove, name skills, issue and revoke tokens and links, sign in by a link.

Owns every change of a row in `people.models`. Leaves rights to `access.py`. Called by views, commands and `http.py`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.text import slugify

from people.access import Actor, may_issue_personal, may_issue_tokens, may_manage_people, person, scoped, system
from people.errors import Invalid, LinkSpent, NotFound
from people.models import (
    ApiToken,
    LoginLink,
    Membership,
    MembershipQuerySet,
    Project,
    Role,
    TokenScope,
    TokenUser,
    display_name,
    granted,
    new_id,
)
from people.record.audit import record
from people.rows import ModelRows

RENAMED = "member.renamed"
OnLeave = Callable[[Actor], None]
OnRole = Callable[[Membership], None]
_on_leave: list[OnLeave] = []
_on_role: list[OnRole] = []
LINK_LIFE = timedelta(hours=24)
LAST_YEAR = 2200
"""Before this year tokens and memberships end that have an end."""
SKILLS_MAX, SKILL_CHARS = 30, 60
SLUG_CHARS, NAME_CHARS = 60, 120
LAST_USED_STEP = timedelta(seconds=30)
_TOKEN, _PROJECT = ModelRows(ApiToken), ModelRows(Project)
# for every call of the API, so in words: the ORM takes longer to write it than the database to answer
KNOWN = f"""
SELECT {_TOKEN.columns("token")}, {_PROJECT.columns("project")}
  FROM people_apitoken AS token JOIN people_project AS project ON project.id = token.project_id WHERE token.digest = %s
"""


def on_leave(callback: OnLeave) -> None:
    """Register a function to run in the transaction that removes a person (an upper app releases what they hold).

    The newest is called first: apps register from below, and asks are locked before the notifications about them.
    """
    _on_leave.append(callback)


def on_role(callback: OnRole) -> None:
    """Register a function to run in the transaction that gives a member a role, their first or another one."""
    _on_role.append(callback)


def digest(secret: str) -> str:
    """Hash a token plainly: its 256 random bits cannot be guessed back."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def ensure_project(slug: str, name: str | None = None) -> Project:
    project, _ = Project.objects.get_or_create(slug=slug, defaults={"name": name or slug})
    return project


@transaction.atomic
def create_project(slug: str, name: str = "", by: Actor | None = None) -> Project:
    """Return a project of its own, without members; its audit log begins with who created it.

    Raises:
        Invalid: the slug is no slug, or taken.
    """
    name = " ".join(name.split()) or slug
    if not slug or len(slug) > SLUG_CHARS or slug != slugify(slug):
        raise Invalid(f"The slug must be at most {SLUG_CHARS} lower-case letters, digits and hyphens.")
    if len(name) > NAME_CHARS or "\x00" in name:
        raise Invalid(f"Enter a project name of at most {NAME_CHARS} characters.")
    project, made = Project.objects.get_or_create(slug=slug, defaults={"name": name})
    if not made:
        raise Invalid(f"Project {slug!r} already exists.")
    record(replace(by, project=project) if by is not None else system(project), "created project", slug, name)
    return project


@transaction.atomic
def rename(user: User, name: str) -> None:
    """Give an account the name that its provider says. The audit trail keeps the one before, which rows without its key
    have."""
    before = display_name(user)
    if before == name:
        return
    User.objects.filter(pk=user.pk).update(first_name=name)
    for membership in user.memberships.select_related("project"):
        record(system(membership.project), RENAMED, user.get_username(), before)


@transaction.atomic
def ensure_member(project: Project, username: str, role: str, ends_at: datetime | None = None) -> Membership:
    """Give a person a role in a project.

    1. find or make the account; one that is in no project anymore comes back without its name and old sessions, which
    may be those of an earlier person, 2. create the membership, or change its role and end. New rights need a new
    sign-in: another entry ends the sessions and links of this membership, and of no other."""
    if role not in Role.values:
        raise Invalid(f"Role must be one of {', '.join(Role.values)}.")
    user, made = User.objects.get_or_create(username=username)
    if made or not user.memberships.exists():
        user.set_unusable_password()  # sessions hold its hash
        user.first_name = ""
        user.save(update_fields=["password", "first_name"])
    rights = {"role": role, "ends_at": ends_at}
    membership, new = Membership.objects.get_or_create(project=project, user=user, defaults=rights)
    was = "" if new else membership.role
    if not new and (membership.role, membership.ends_at) != (role, ends_at):
        if membership.role == Role.ADMIN:
            # An unused link of a former admin would still let people in.
            _end_links_made_by(user, project)
        membership.role, membership.ends_at, membership.entry = role, ends_at, new_id()
        membership.save(update_fields=["role", "ends_at", "entry"])
        revoke_personal_tokens(membership)
    if was != role:
        for callback in _on_role:
            callback(membership)
    return membership


def create_account(full_name: str) -> User:
    """Return a new account, in no project yet, named as wanted or with a number; never one that exists."""
    stem = slugify(full_name)[:140] or "person"
    for number in range(1, 1000):
        user, made = User.objects.get_or_create(username=stem if number == 1 else f"{stem}-{number}")
        if made:
            return user
    raise Invalid("Too many people have this name. Use another one.")


def issue_login_link(
    memberships: Sequence[Membership], issued_by: User | None = None, life: timedelta = LINK_LIFE
) -> str:
    """Return the secret of a link for one use, which signs an account in to these of its memberships; only its digest
    is kept.
    """
    secret = secrets.token_urlsafe(32)
    # A link signs in one account; memberships of two would be a mistake of the caller.
    (user,) = {one.user for one in memberships}
    opens = [one.entry for one in memberships]
    ends_at = timezone.now() + life
    LoginLink.objects.create(digest=digest(secret), user=user, opens=opens, issued_by=issued_by, ends_at=ends_at)
    return secret


@transaction.atomic
def redeem_login_link(secret: str) -> tuple[User, list[str]]:
    """Redeem a link by one conditional update: of two concurrent requests, one signs in.

    Returns the account and the entries that the link still opens, the one that it was made for first. A link that opens
    no membership counts as spent.
    """
    now = timezone.now()
    spent = LoginLink.objects.filter(digest=digest(secret), used_at__isnull=True, ends_at__gt=now).update(used_at=now)
    if spent != 1:
        raise LinkSpent
    link = LoginLink.objects.select_related("user").get(digest=digest(secret))
    opened = Membership.objects.in_force(now).filter(user=link.user, entry__in=link.opens)
    entries = sorted(opened.values_list("entry", flat=True), key=link.opens.index)
    if not entries:
        raise LinkSpent
    return link.user, entries


@transaction.atomic
def link_for(actor: Actor, username: str, role: str | None = None, life: timedelta = LINK_LIFE) -> str:
    """Return a link for a person by their account's name, which opens this project only.

    A new person becomes an expert by default. A known one keeps role and end unless given another role.
    """
    # A command acts for awmweb itself, which has every right; only a person is checked.
    if actor.person is not None:
        may_manage_people(actor)
    member = scoped(Membership.objects.select_related("user"), actor.project).filter(user__username=username).first()
    if member is None or role not in (None, member.role):
        may_manage_people(actor)  # also for a command: an archived project takes no member and no other role
        end = member.ends_at if member is not None else None
        member = ensure_member(actor.project, username, role or Role.EXPERT, end)
    record(actor, "created a sign-in link for", username, f"as {member.role}")
    return issue_login_link([member], issued_by=actor.person, life=life)


@transaction.atomic
def fresh_link(actor: Actor, membership_id: int) -> tuple[Membership, str]:
    """Return another link for a member, with their role and end."""
    may_manage_people(actor)
    membership = scoped(Membership.objects.select_related("user"), actor.project).filter(pk=membership_id).first()
    if membership is None:
        raise NotFound
    if not membership.is_current(timezone.now()):
        raise Invalid(
            f"The membership of {display_name(membership.user)} has expired. Invite them with a later expiry."
        )
    record(actor, "created a sign-in link for", membership.user.username, f"as {membership.role}")
    return membership, issue_login_link(_opened_by(actor, membership), issued_by=actor.person)


def _opened_by(actor: Actor, membership: Membership) -> list[Membership]:
    """Return the memberships that a link by this admin opens.

    This one, and those in other projects of which the actor is an admin too. A link never opens a project whose admins
    are others.
    """
    mine = Membership.objects.filter(user=membership.user, project__in=_admin_of(actor)).exclude(pk=membership.pk)
    return [membership, *mine.select_related("user")]


def _end_links_made_by(user: User, project: Project) -> None:
    """End links that a former admin made and no one opened."""
    here = set(Membership.objects.filter(project=project).values_list("entry", flat=True))
    for link in LoginLink.objects.filter(issued_by=user, used_at__isnull=True):
        # Links that open other projects were made with rights that remain.
        if here.intersection(link.opens):
            link.used_at = timezone.now()
            link.save(update_fields=["used_at"])


def namesake(actor: Actor, name: str) -> Membership | None:
    """Return whose account an invitation with this name would open: a member's, or that of someone in another project
    of this admin. None if it makes an account."""
    may_manage_people(actor)
    rows = Membership.objects.select_related("user", "project")
    rows = rows.filter(user__username=_free_username(actor, " ".join(name.split()))[0])
    return rows.filter(project=actor.project).first() or rows.order_by("pk").first()


@transaction.atomic
def invite(
    actor: Actor, name: str, role: str, ends_at: datetime | None = None, *, someone_else: bool = False
) -> tuple[Membership, str]:
    """1. check the right, 2. membership, 3. a link, 4. the trail. Returns the membership and the link's secret.

    With `someone_else` a person of the same name as a known one gets an account of their own, and a number.
    """
    may_manage_people(actor)
    name = " ".join(name.split())
    username, number = _free_username(actor, name, someone_else)
    if someone_else and number > 1:
        name = f"{name[:140]} ({number})"
    _refuse_namesake(actor, username, role)
    _refuse_end(ends_at)
    refuse_last_admin_change(actor, username, role, ends_at)
    membership = ensure_member(actor.project, username, role, ends_at)
    if not membership.user.first_name:
        User.objects.filter(pk=membership.user.pk).update(first_name=name[:150])
    record(actor, "invited", username, f"as {role}")
    return membership, issue_login_link(_opened_by(actor, membership), issued_by=actor.person)


def _refuse_end(ends_at: datetime | None) -> None:
    if ends_at is None:
        return
    if ends_at <= timezone.now():
        raise Invalid("The expiry is in the past.")
    # The last day of the calendar, in a zone west of UTC, is stored as a time that no page could read again.
    if ends_at.year >= LAST_YEAR:
        raise Invalid(f"Enter an expiry before {LAST_YEAR}.")


def _free_username(actor: Actor, name: str, someone_else: bool = False) -> tuple[str, int]:
    """Return the account that this name means here, and its number among those of this name.

    An account that is also in a project without this admin belongs to someone else, as whom no one may be signed in.
    The new person then gets a username of their own, as does `someone_else` than those who are known.
    """
    # Room for a number: a username has at most 150 characters.
    stem = slugify(name)[:140]
    if not stem:
        raise Invalid("Enter a name with at least one letter or digit.")
    admin_of = _admin_of(actor)
    for number in range(1, 1000):
        username = stem if number == 1 else f"{stem}-{number}"
        taken = Membership.objects.filter(user__username=username)
        if not someone_else:
            taken = taken.exclude(project__in=admin_of).exclude(project=actor.project)
        if not taken.exists():
            return username, number
    raise Invalid("Too many people have this name. Use another one.")


def _refuse_namesake(actor: Actor, username: str, role: str) -> None:
    """Refuse an invitation that would change the role of another person with this name."""
    member = scoped(Membership.objects.select_related("user"), actor.project).filter(user__username=username).first()
    if member is not None and member.role != role:
        raise Invalid(f"{display_name(member.user)} is already a member, with role {member.role}. Use another name.")


@transaction.atomic
def enter(user: User, entries: Sequence[str], how: str) -> None:
    """Note a sign-in to these memberships. Those that the sign-in provider had suspended are acted by again."""
    Membership.objects.filter(user=user, entry__in=entries).update(suspended_at=None)
    for row in Membership.objects.filter(user=user, entry__in=entries).select_related("project", "user").order_by("pk"):
        record(person(row), "signed in", user.get_username(), how)


def _admins(now: datetime) -> QuerySet[Membership]:
    """Return those who are admins still; one whose membership has ended or whose account is closed cannot sign in."""
    return Membership.objects.in_force(now).filter(role=Role.ADMIN)


def _admin_of(actor: Actor) -> QuerySet[Membership, Any]:
    """Return the ids of the projects whose admin a person is."""
    return _admins(timezone.now()).filter(user=actor.person).values_list("project", flat=True)


def refuse_last_admin_change(actor: Actor, username: str, role: str, ends_at: datetime | None) -> None:
    stays = role == Role.ADMIN and ends_at is None
    if not stays and username in _last_admins(actor.project).values_list("user__username", flat=True):
        raise Invalid("The last admin of a project cannot change role or get an expiry.")


def _last_admins(project: Project) -> MembershipQuerySet:
    """Return whom a project cannot lose: its only admin, and the only one whom the sign-in provider does not refuse.

    Admins are locked, so that two who demote each other do not both find another one left.
    """
    admins = list(scoped(_admins(timezone.now()).select_for_update(of=("self",)), project))
    acting = [one for one in admins if one.suspended_at is None]
    last = {one.pk for some in (admins, acting) if len(some) == 1 for one in some}
    return Membership.objects.filter(pk__in=last)


@transaction.atomic
def remove_member(actor: Actor, membership_id: int) -> None:
    """Remove a member.

    1. Check the right. 2. Refuse to remove the last admin. 3. Release what they hold and end the links they made. 4.
    Delete the membership, which ends its sessions and links. 5. Write the audit entry.
    """
    may_manage_people(actor)
    membership = scoped(Membership.objects.select_related("user"), actor.project).filter(pk=membership_id).first()
    if membership is None:
        raise NotFound
    if _last_admins(actor.project).filter(pk=membership.pk).exists():
        raise Invalid("The last admin of a project cannot be removed.")
    end_membership(actor, membership)


@transaction.atomic
def end_membership(actor: Actor, membership: Membership, reason: str = "") -> None:
    """Remove a member whose removal was decided: rights and the last admin are the caller's to check."""
    _end_links_made_by(membership.user, membership.project)
    revoke_personal_tokens(membership)
    # Newest first, in the order of the locks that `on_leave` explains.
    for callback in reversed(_on_leave):
        callback(person(membership))
    membership.delete()
    record(actor, "removed", membership.user.username, reason)


def revoke_personal_tokens(membership: Membership) -> None:
    """End the tokens that act for a person by the rights they had: new rights need new tokens."""
    mine = ApiToken.objects.filter(project=membership.project, issued_by=membership.user, personal=True)
    mine.filter(revoked_at__isnull=True).update(revoked_at=timezone.now())


@transaction.atomic
def set_skills(actor: Actor, membership_id: int, skills: Sequence[str]) -> list[str]:
    """Set what a person may be asked about, and return it without doubles: an ask that names skills goes to those who
    have all of them."""
    may_manage_people(actor)
    plain = list(dict.fromkeys(" ".join(skill.split()) for skill in skills if skill.split()))
    if len(plain) > SKILLS_MAX or any(len(skill) > SKILL_CHARS for skill in plain):
        raise Invalid(f"At most {SKILLS_MAX} skills of at most {SKILL_CHARS} characters each.")
    # Two lists that are sent at the same time take turns, so that the trail has what each of them replaced.
    rows = Membership.objects.select_for_update(of=("self",)).select_related("user")
    membership = scoped(rows, actor.project).filter(pk=membership_id).first()
    if membership is None:
        raise NotFound
    if membership.skills != plain:
        before, membership.skills = membership.skills, plain
        membership.save(update_fields=["skills"])
        change = f"{', '.join(before) or 'none'} to {', '.join(plain) or 'none'}"
        record(actor, "set the skills of", membership.user.username, change)
    return plain


def one_scope(scopes: str | Sequence[str]) -> str:
    """Return scopes as a token stores them: each once, without those that another one includes.

    Raises:
        Invalid: an unknown scope, or scopes that one token cannot have.
    """
    words = scopes.replace(",", " ").split() if isinstance(scopes, str) else scopes
    if not words or not set(words) <= set(TokenScope.values):
        raise Invalid(f"Scope must be one or more of {', '.join(TokenScope.values)}.")
    has = granted(" ".join(words))
    if "write" in has and not has <= {"write", "read"}:
        raise Invalid(
            "Scope write goes with read only: a loop's token sees no outcome and answers no ask. Create two tokens."
        )
    if "metrics" in has and has != {"metrics"}:
        raise Invalid("Scope metrics goes with no other. Create two tokens.")
    # wider ones first, so that what they include is left out
    kept: list[str] = []
    for word in sorted(dict.fromkeys(words), key=lambda scope: (-len(granted(scope)), TokenScope.values.index(scope))):
        if not granted(word) <= granted(" ".join(kept)):
            kept.append(word)
    return " ".join(kept)


@transaction.atomic
def issue_token(
    actor: Actor,
    name: str,
    scope: str | Sequence[str],
    ends_at: datetime | None = None,
    behind: str = TokenUser.SCRIPT,
    *,
    personal: bool = False,
) -> tuple[ApiToken, str]:
    """Return a new token and its secret, which is shown once and kept only as a digest. `behind` is who will use it.

    A personal token ends with the membership or role of the actor; others belong to the project.
    """
    scope = one_scope(scope)
    if personal:
        may_issue_personal(actor, scope)
    else:
        may_issue_tokens(actor)
    if behind not in TokenUser.values:
        raise Invalid(f"Who uses the token must be one of {', '.join(TokenUser.values)}.")
    # It reads figures of all projects, and an admin is one of theirs only.
    if scope == TokenScope.METRICS and actor.person is not None:
        raise Invalid("Only the operator creates metrics tokens, with `manage.py createtoken`.")
    name = " ".join(name.split())
    if not name or len(name) > 120:
        raise Invalid("Enter a token name of at most 120 characters.")
    _refuse_end(ends_at)
    # The prefix is what scanners look for in leaked texts, also the redaction of exports.
    secret = "awm_" + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        project=actor.project,
        name=name,
        scope=scope,
        behind=behind,
        digest=digest(secret),
        issued_by=actor.person,
        ends_at=ends_at,
        personal=personal,
    )
    record(actor, "issued token", name, f"{scope}, personal" if personal else scope)
    return token, secret


@transaction.atomic
def revoke_token(actor: Actor, token_id: str) -> None:
    """Revoke a token: one's own personal one, or any with the right to issue tokens."""
    live = scoped(ApiToken.objects.all(), actor.project).filter(pk=token_id, revoked_at__isnull=True)
    if not actor.signed_in or not live.filter(personal=True, issued_by=actor.person).exists():
        may_issue_tokens(actor)
    # Conditional, so that a token is revoked, and recorded, once.
    if live.update(revoked_at=timezone.now()) != 1:
        raise NotFound
    record(actor, "revoked token", token_id)


def token_of(secret: str) -> ApiToken | None:
    """Return the token that a secret belongs to, if it may still be used; notes the use at most twice a minute."""
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(KNOWN, [digest(secret)])
        row = cursor.fetchone()
    token = _TOKEN.made(row) if row is not None else None
    if token is None or not token.is_current(now) or not token.has_owner():
        return None
    token.project = _PROJECT.made(row[_TOKEN.width :])
    if token.last_used_at is None or now - token.last_used_at > LAST_USED_STEP:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token
