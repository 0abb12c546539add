"""Pages about people: sign in by link, sign out, members, tokens, switch project.

Owns HTTP status and form texts. Every write is a function of `members.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout as end_session
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from pydantic import Field

from people.access import (
    Actor,
    MemberRequest,
    holds,
    may_issue_tokens,
    may_manage_people,
    member_required,
    personal_scopes,
    scoped,
)
from people.errors import AppError, Invalid, LinkSpent, NotFound
from people.http import IS_HEAD
from people.models import ApiToken, Membership, Role, TokenUser, display_name, granted
from people.pages import entering
from people.record import members, projects
from people.requests import addresses
from people.requests.forms import MAX_ID, FormFields, number_in, read, text_of
from people.text.zones import zone_of

SCOPES = [
    ("agent", "Records episodes and asks, and reads them. Can't see outcomes."),
    ("expert", "Reads, claims and answers asks."),
    ("export", "Reads and exports."),
    ("launch", "Reads, and creates runs, including runs with informed experts. Not for agents."),
    ("review", "Reads, and claims and gives reviews."),
    ("read", "Reads episodes, steps and runs, with outcomes."),
    ("write", "Records episodes and asks, and reads nothing back."),
    ("answer", "Lists, claims and answers asks, and reads no episode."),
]

PREVIEWS = re.compile(
    r"(?<!cu)bot\b|crawler|spider|preview|unfurl|externalhit|facebookcatalog|whatsapp/|mattermost|rocket\.chat|zulip|"
    r"embedly|iframely|urlscan",
    re.IGNORECASE,
)
"""What fetches a link that was pasted into a chat or a mail, to show what is behind it, and says so. Phones of CUBOT do
not."""


@require_GET
def login(request: HttpRequest) -> HttpResponse:
    """Explain how to get a sign-in link. A signed-in person goes to the home page."""
    if request.user.is_authenticated:
        return redirect(entering.safe_next(request, text_of(request.GET, "next")))
    context = {"provider": settings.AWMWEB_OIDC_NAME, "sign_in": _provider_address(request)}
    return render(request, "people/login.html", context)


def _provider_address(request: HttpRequest) -> str:
    """Return where the button leads that signs in at the provider; empty without one."""
    if not settings.AWMWEB_OIDC_ISSUER:
        return ""
    begin = reverse("openid_connect_login", kwargs={"provider_id": settings.OIDC_PROVIDER})
    back = text_of(request.GET, "next")
    return f"{begin}?{urlencode({'next': back})}" if back else begin


@require_GET
@never_cache
def login_once(request: HttpRequest, secret: str) -> HttpResponse:
    """Sign in by a one-time link.

    A prefetch or a load as a part of another page does not use it up. Nothing that a page loads from here receives its
    address, which is the secret.
    """
    if _is_no_visit(request):
        answer = HttpResponse("Open this link as a page.", status=403, content_type="text/plain; charset=utf-8")
    else:
        answer = _signed_in(request, secret)
    answer["Referrer-Policy"] = "no-referrer"
    return answer


def _signed_in(request: HttpRequest, secret: str) -> HttpResponse:
    """Sign in. A person signed in with the same account keeps what earlier links opened.

    The session's key always changes, so that an earlier copy of the key is not signed in with it.
    """
    try:
        user, entries = members.redeem_login_link(secret)
    except LinkSpent:
        # Often a second press on the same link: the person is signed in already.
        if request.user.is_authenticated:
            return redirect("home")
        return render(request, "people/link_spent.html", status=410)
    project = Membership.objects.get(entry=entries[0]).project.slug
    second = entering.second_factor()
    if second is not None and second.is_asked(user):
        return second.asked_first(request, user, entries, project)
    entering.begin_session(request, user, entries, project)
    return redirect(entering.safe_next(request, text_of(request.GET, "next")))


def _is_no_visit(request: HttpRequest) -> bool:
    """Return whether this is a prefetch, a HEAD of a link checker, the preview of a chat, or a load by an image, a
    frame or a script."""
    if IS_HEAD in request.META:
        return True
    if "Sec-Fetch-Dest" not in request.headers and PREVIEWS.search(request.headers.get("User-Agent", "")):
        return True
    purpose = request.headers.get("Sec-Purpose", "") + request.headers.get("Purpose", "")
    return "prefetch" in purpose or request.headers.get("Sec-Fetch-Dest", "document") != "document"


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    end_session(request)
    return redirect("login")


class MemberForm(FormFields):
    """A command about a member: `do` says which."""

    do: str = ""
    membership: str = ""
    name: str = ""
    role: str = ""
    ends: str = ""
    who: str = ""
    skills: str = ""

    @property
    def member(self) -> int:
        if (number := number_in(self.membership, MAX_ID)) is None:
            raise NotFound
        return number


@require_http_methods(["GET", "POST"])
@member_required()
@never_cache
def people(request: MemberRequest) -> HttpResponse:
    """Show the project's members; admins can invite by a link and remove."""
    link, problem, form, namesake = None, "", read(request.POST, MemberForm), None
    if request.method == "POST":
        try:
            namesake = _unasked_namesake(request, form)
            if namesake is None:
                link, form = _people_form(request, form), MemberForm()
        except AppError as refused:
            problem = refused.message
        if not problem and link is None and namesake is None:
            return redirect("people")
    actor = request.actor
    rows = list(scoped(Membership.objects.select_related("user"), actor.project).order_by("pk"))
    guarded = _with_factor(rows)
    context = {
        "members": [_member(row, actor) | {"has_factor": row.user_id in guarded} for row in rows],
        "roles": Role.choices,
        "given": {
            "role": "expert",
            **{name: value for name, value in form.model_dump(include={"name", "role", "ends"}).items() if value},
        },
        "link": link,
        "namesake": namesake,
        "problem": problem,
        "may_manage": holds(actor, may_manage_people),
        "headline": _people_headline(len(rows), actor),
    }
    return render(request, "people/people.html", context, status=422 if problem or namesake else 200)


def _unasked_namesake(request: MemberRequest, form: MemberForm) -> dict[str, Any] | None:
    """Return the known person whose account an invitation would open, unless the admin has said whom they mean."""
    if form.do != "invite" or form.who in ("same", "other"):
        return None
    member = members.namesake(request.actor, form.name)
    if member is None:
        return None
    here = member.project == request.project
    return {"name": display_name(member.user), "here": here, "project": member.project.name, "role": member.role}


def _member(row: Membership, actor: Actor) -> dict[str, Any]:
    you = actor.person is not None and row.user.pk == actor.person.pk
    by_groups = row.from_provider and bool(settings.AWMWEB_OIDC_ISSUER)
    about = {"you": you, "by_groups": by_groups, "last_login": row.user.last_login}
    return {"membership": row, "name": display_name(row.user), **about}


def _people_headline(count: int, actor: Actor) -> str:
    return f"{count} {'member' if count == 1 else 'members'} in {actor.project.name}."


def _people_form(request: MemberRequest, form: MemberForm) -> dict[str, Any] | None:
    """Invite, renew a link, set skills, change a role or remove. A link is returned to be shown once."""
    actor = request.actor
    if form.do == "remove":
        _remove(request, form.member)
        return None
    if form.do == "skills":
        _skills(request, form)
        return None
    if form.do == "role":
        membership, secret = projects.change_role(actor, form.member, form.role)
        return _link(display_name(membership.user), secret)
    if form.do == "factor":
        _reset_factor(request, form.member)
        return None
    if form.do == "link":
        return _new_link(actor, form.member)
    ends_at = end_of(form.ends, zone_of(request))
    membership, secret = members.invite(actor, form.name, form.role, ends_at, someone_else=form.who == "other")
    membership.user.refresh_from_db()  # the invitation may have given the account its name
    return _link(display_name(membership.user), secret)


def _reset_factor(request: MemberRequest, membership_id: int) -> None:
    second = entering.second_factor()
    if second is None:
        raise NotFound
    name = second.reset(request.actor, membership_id)
    messages.success(request, f"{name} signs in without a second factor now.")


def _with_factor(rows: Sequence[Membership]) -> set[int]:
    """Return the accounts of these members that have a second factor."""
    second = entering.second_factor()
    return second.with_factor([one.user_id for one in rows]) if second is not None else set()


def _skills(request: MemberRequest, form: MemberForm) -> None:
    skills = members.set_skills(request.actor, form.member, form.skills.split(","))
    row = scoped(Membership.objects.select_related("user"), request.project).get(pk=form.member)
    messages.success(request, f"{display_name(row.user)}: {', '.join(skills) or 'no skills'}.")


def _remove(request: MemberRequest, membership_id: int) -> None:
    """Remove a person, and report how many tokens remain: a token belongs to the project, not to its creator."""
    row = scoped(Membership.objects.select_related("user"), request.project).filter(pk=membership_id).first()
    made = scoped(ApiToken.objects.filter(revoked_at__isnull=True), request.project)
    made = made.filter(issued_by=row.user_id if row else None, personal=False)
    left = sum(token.is_current(timezone.now()) for token in made)
    name = display_name(row.user) if row is not None else ""
    members.remove_member(request.actor, membership_id)
    messages.success(request, f"Removed {name}. Their open pages stop working.")
    if row is not None and row.from_provider and settings.AWMWEB_OIDC_ISSUER:
        place = settings.AWMWEB_OIDC_NAME
        messages.warning(request, f"Their groups at {place} let them in again. Take them out of the groups there.")
    if row is not None and left:
        works = "1 API token they created still works" if left == 1 else f"{left} API tokens they created still work"
        messages.warning(request, f"{works}. Revoke tokens they should not have on the API tokens page.")


def _new_link(actor: Actor, membership_id: int) -> dict[str, Any]:
    """Return a fresh link for the same person with their role and end."""
    membership, secret = members.fresh_link(actor, membership_id)
    return _link(display_name(membership.user), secret)


def _link(name: str, secret: str) -> dict[str, Any]:
    url = settings.AWMWEB_PUBLIC_URL + addresses.without_project("login_once", secret)
    return {"name": name, "url": url, "ends_at": timezone.now() + members.LINK_LIFE}


def end_of(text: str, zone: tzinfo) -> datetime | None:
    """Return the end of the given day in the reader's zone; empty means no end."""
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(hour=23, minute=59, second=59, tzinfo=zone)
    except ValueError as error:
        raise Invalid("Enter the expiry as a date such as 2026-12-31.") from error


class TokenForm(FormFields):
    """A new token, or with `do` one to revoke."""

    do: str = ""
    token: str = ""
    name: str = ""
    scopes: list[str] = Field(default=[], alias="scope")
    personal: str = ""
    behind: str = TokenUser.SCRIPT
    ends: str = ""


@require_http_methods(["GET", "POST"])
@member_required()
@never_cache
def tokens(request: MemberRequest) -> HttpResponse:
    """List, create and revoke tokens; a new one is shown once."""
    secret, problem, form = None, "", read(request.POST, TokenForm)
    if request.method == "POST":
        try:
            secret = _tokens_form(request, form)
        except AppError as refused:
            problem = refused.message
        if not problem and secret is None:
            return redirect("tokens")
    actor = request.actor
    rows = list(
        scoped(ApiToken.objects.select_related("issued_by"), actor.project).order_by("revoked_at", "-created_at")
    )
    # PostgreSQL sorts NULL last; a stable sort puts active tokens first, the newest of them at the top.
    rows.sort(key=lambda token: token.revoked_at is not None)
    may_issue, own = holds(actor, may_issue_tokens), personal_scopes(actor)
    for row in rows:
        row.issuer = display_name(row.issued_by) if row.issued_by else ""  # type: ignore[attr-defined]
        mine = row.personal and row.issued_by == actor.person
        row.may_revoke = row.revoked_at is None and (may_issue or mine)  # type: ignore[attr-defined]
    typed = form if problem else TokenForm()
    context = {
        "tokens": rows,
        "scopes": [one for one in SCOPES if may_issue or granted(one[0]) <= own],
        "users": TokenUser.choices,
        "given": {**typed.model_dump(), "personal": typed.personal or ("" if may_issue else "1")},
        "secret": secret,
        "problem": problem,
        "may_issue": may_issue,
        "may_own": bool(own) and request.project.archived_at is None,
        "headline": _tokens_headline(rows),
    }
    return render(request, "people/tokens.html", context, status=422 if problem else 200)


def _tokens_headline(rows: list[ApiToken]) -> str:
    current = sum(row.is_current(timezone.now()) for row in rows)
    if not current:
        return "No active API tokens."
    return f"{current} active API token{'' if current == 1 else 's'}."


def _tokens_form(request: MemberRequest, form: TokenForm) -> dict[str, str] | None:
    actor = request.actor
    if form.do == "revoke":
        token_id = form.token[:60]
        members.revoke_token(actor, token_id)
        name = scoped(ApiToken.objects.all(), actor.project).get(pk=token_id).name
        messages.success(request, f"Revoked the token {name}.")
        return None
    if not form.scopes:
        raise Invalid("Choose at least one scope.")
    ends_at, personal = end_of(form.ends, zone_of(request)), bool(form.personal)
    _, text = members.issue_token(actor, form.name, form.scopes, ends_at, form.behind, personal=personal)
    return {"name": " ".join(form.name.split()), "text": text}
