"""Rights: one function per right, one actor type for people and tokens, one way to scope a queryset.

Leaves issuing and removing to `members.py`, HTTP to `http.py` and views. Called by every app.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from people.errors import AppError, Forbidden, NotFound, ProjectArchived, Unauthenticated, WrongScope
from people.models import ApiToken, Membership, Project, Role, TokenScope, TokenUser, display_name, granted
from people.requests import addresses
from people.text.zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Collection

SESSION_PROJECT = "project"
SESSION_ENTRIES = "entries"
"""Entries of the memberships that a session's links opened; it acts by these, not by all of its account's."""
SYSTEM = "system"
TOKEN_KEY = "token:"
NO_ROLE = ""
"""Of a personal token whose person is no member anymore: it has no right."""
JUDGES = {Role.EXPERT, Role.REVIEWER}
_ALL_SCOPES = frozenset({"read", "write", "answer", "review", "export", "launch"})
PERSONAL: dict[str, frozenset[str]] = {
    Role.ADMIN: _ALL_SCOPES,
    Role.RESEARCHER: _ALL_SCOPES,
    Role.EXPERT: frozenset({"read", "answer", "review"}),
    Role.REVIEWER: frozenset({"read", "review"}),
}
M = TypeVar("M", bound=Model)
Rows = TypeVar("Rows", bound=QuerySet[Any])
View = Callable[..., HttpResponseBase]


@dataclass(frozen=True)
class Actor:
    """The caller of an action in one project: a person, a person by a token of their own, a token of the project, a
    model, or awmweb itself.

    A personal token acts as its person: it has their key, their role and skills, and its scopes on top of them. Rules
    about people look at `person`, rules about pages at `signed_in`, and what a program does itself at `by_hand`.
    """

    project: Project
    role: str | None = None
    scope: str | None = None
    person: User | None = None
    token: ApiToken | None = None
    model: str = ""
    entry: str = ""
    episode: str = ""
    """Of a token for one episode alone: its ID. Only the desk's `/mcp` takes such a token."""

    @property
    def signed_in(self) -> bool:
        """Whether a person acts on a page, and not by a token."""
        return self.person is not None and self.token is None

    @property
    def by_hand(self) -> bool:
        """Whether a person acts: on a page, or by a token that they use themselves and no program."""
        return self.token.behind == TokenUser.PERSON if self.token is not None else self.person is not None

    @property
    def name(self) -> str:
        if self.person is not None:
            return display_name(self.person)
        if self.model:
            return self.model
        return f"token {self.token.name}" if self.token is not None else "awmweb"

    @property
    def key(self) -> str:
        """Stable id for rows: `user:3`, `token:…`, `model:…` or `system`. A person has one, whichever way they come."""
        if self.person is not None:
            return f"user:{self.person.pk}"
        if self.model:
            return f"model:{self.model}"
        return f"{TOKEN_KEY}{self.token.pk}" if self.token is not None else SYSTEM

    @functools.cached_property
    def keys(self) -> list[str]:
        """All keys that rows of this caller can have: of a person also those of their tokens, which wrote by keys of
        their own before they acted as their person."""
        return [self.key] if self.person is None else keys_of(self.person)

    def owns(self, key: str) -> bool:
        """Return whether a row with this key is the caller's own."""
        return key == self.key or (key.startswith(TOKEN_KEY) and key in self.keys)

    @property
    def scopes(self) -> frozenset[str]:
        """The finest scopes of a token; none of a person."""
        return granted(self.scope or "")


def keys_of(user: User) -> list[str]:
    """Return all keys that rows of an account can have: its own, and those of every token ever issued to it."""
    tokens = ApiToken.objects.filter(personal=True, issued_by=user).values_list("pk", flat=True)
    return [f"user:{user.pk}", *(f"{TOKEN_KEY}{pk}" for pk in tokens)]


def is_awmweb(actor: Actor) -> bool:
    """Return whether awmweb itself acts: its worker, the demo, the sweep, a command."""
    return actor.key == SYSTEM


def person(membership: Membership) -> Actor:
    return Actor(membership.project, role=membership.role, person=membership.user, entry=membership.entry)


def bearer(token: ApiToken) -> Actor:
    """Return the actor of a token: a token of the project, or the person of a personal one, with their role."""
    actor = Actor(project=token.project, scope=token.scope, token=token)
    if not token.personal:
        return actor
    owner = token.owner
    return replace(
        actor,
        role=owner.role if owner is not None else NO_ROLE,
        person=owner.user if owner is not None else token.issued_by,
    )


def sender_of_accepted(token: ApiToken) -> Actor:
    """Return who sent what was accepted earlier: rights were checked then, and what was acknowledged is stored even if
    the person behind the token has left since."""
    return replace(bearer(token), role=None)


def expert_model(project: Project, name: str) -> Actor:
    """Return the actor of an expert model, by the name of its endpoint. Its answers are kept apart from people's."""
    return Actor(project=project, model=name)


def system(project: Project) -> Actor:
    """Return the actor of awmweb itself: its worker, the demo, the sweep."""
    return Actor(project=project)


def project_named(slug: str) -> Project:
    project = Project.objects.filter(slug=slug).first()
    if project is None:
        raise NotFound(f"Project {slug!r} not found.")
    return project


def system_actor(slug: str) -> Actor:
    """Return the actor of awmweb in the project of this name, for commands."""
    return system(project_named(slug))


def current_memberships(user: User, session: Mapping[str, Any]) -> QuerySet[Membership]:
    """Return the memberships that a signed-in browser acts by.

    They belong to its person, have not ended, and were opened by a link of this session. A project that the account
    joined later is not included.
    """
    mine = Membership.objects.current(timezone.now()).filter(user=user, entry__in=session.get(SESSION_ENTRIES, []))
    return mine.select_related("project", "user").order_by("pk")


def _demand(actor: Actor, roles: Collection[str], scopes: Collection[str] = ()) -> None:
    """Demand one of these scopes of a token, and one of these roles of a person, whichever way they come."""
    if actor.scope is not None and not actor.scopes.intersection(scopes):
        raise WrongScope(_missing(actor, scopes))
    # without a role it is a token of the project, a model or awmweb: they act for someone whose right was checked
    if actor.role is not None and actor.role not in roles:
        raise Forbidden


def _missing(actor: Actor, scopes: Collection[str]) -> str:
    has = ", ".join(name for name in TokenScope.values if name in actor.scopes)
    needs = " or ".join(name for name in TokenScope.values if name in scopes)
    if not needs:
        return f"No token can make this call. A person can, on the pages. This token has scope {has}."
    return f"This call needs a token of scope {needs}. This token has scope {has}."


def _demand_write(actor: Actor, roles: Collection[str], scopes: Collection[str] = ()) -> None:
    """Demand a right and a project that takes writes. A stranger does not learn whether it is archived."""
    _demand(actor, roles, scopes)
    if actor.project.archived_at is not None:
        raise ProjectArchived


def holds(actor: Actor, right: Callable[[Actor], None]) -> bool:
    """Return whether an actor has a right, for pages that show or hide a button."""
    try:
        right(actor)
    except AppError:
        return False
    return True


def may_start_runs(actor: Actor) -> None:
    """Allow runs for loops with an agent token, and for members who set what a run's episodes are given."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER}, {"write", "launch"})


def may_record(actor: Actor) -> None:
    """Allow writing episodes, steps and asks for loops with an agent token, researchers and the system."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER}, {"write"})


def may_read(actor: Actor) -> None:
    """Allow reading episodes and steps for everyone in the project."""
    _demand(actor, Role.values, {"read"})


def records(actor: Actor) -> bool:
    """Return whether this is a loop's token: it writes, so it sees no outcome."""
    return "write" in actor.scopes


def sees_outcomes(actor: Actor) -> bool:
    """Allow verification steps and outcomes for all but an agent."""
    return not records(actor)


def may_advise(actor: Actor) -> None:
    """Allow claiming and answering asks for experts and managers."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER, Role.EXPERT}, {"answer"})


def may_see_queue(actor: Actor) -> None:
    _demand(actor, Role.values, {"answer"})


def may_see_metrics(actor: Actor) -> None:
    """Allow the desk's metrics, with people's names and outcomes, for all but an agent."""
    _demand(actor, Role.values, {"answer", "export"})


def may_annotate(actor: Actor) -> None:
    """Allow annotating steps and episodes for everyone who can advise or review."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER, Role.EXPERT, Role.REVIEWER}, {"answer", "review"})


def may_see_notices(actor: Actor) -> None:
    """Allow reading one's own channels and deliveries for everyone who can annotate, also in an archived project."""
    _demand(actor, {Role.ADMIN, Role.RESEARCHER, Role.EXPERT, Role.REVIEWER})


def may_review(actor: Actor) -> None:
    """Allow claiming reviews and judging episodes for everyone who can annotate, and for review tokens."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER, Role.EXPERT, Role.REVIEWER}, {"review"})


def judges_only(role: str) -> bool:
    """Return whether members of this role judge episodes and cannot make review queues."""
    return role in JUDGES


def members_who_judge(project: Project) -> list[Actor]:
    """Return the members from whom a blind queue withholds outcomes: they judge and cannot make queues."""
    rows = Membership.objects.filter(project=project, role__in=JUDGES).select_related("project", "user")
    return [person(one) for one in rows]


def may_see_reviews(actor: Actor) -> None:
    """Allow reading queues, verdicts and agreement for all but an agent."""
    _demand(actor, Role.values, {"export", "review"})


def may_set_reviews(actor: Actor) -> None:
    """Allow making review queues and label schemas, filling queues, and ruling in the verifier court."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER})


def may_repair(actor: Actor) -> None:
    """Allow repairing a verifier and judging stored episodes again, for those who rule in the verifier court."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER}, {"launch", "review"})


def may_set_desk(actor: Actor) -> None:
    """Allow setting how asks are routed and what they can cost."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER})


def may_launch(actor: Actor) -> None:
    """Allow starting our own rollouts, and giving episodes an informed expert."""
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER}, {"launch"})


def may_see_asking(actor: Actor) -> None:
    """Allow reading how a run's arms asked, for those who launch runs, also in an archived project."""
    _demand(actor, {Role.ADMIN, Role.RESEARCHER}, {"launch"})


def may_see_imports(actor: Actor) -> None:
    """Allow reading imports for everyone who can start one, also in an archived project."""
    _demand(actor, {Role.ADMIN, Role.RESEARCHER}, {"launch"})


def may_scrape(actor: Actor) -> None:
    """Allow the figures of the whole installation for metrics tokens only, which no role has."""
    if actor.scope is None:
        raise Forbidden
    _demand(actor, (), {"metrics"})


def may_export(actor: Actor) -> None:
    _demand(actor, {Role.ADMIN, Role.RESEARCHER}, {"export"})


def may_push(actor: Actor) -> None:
    """Allow pushing datasets to an external service with the operator's token: admins who can export."""
    may_export(actor)
    _demand(actor, {Role.ADMIN})


def may_issue_tokens(actor: Actor) -> None:
    _demand_write(actor, {Role.ADMIN, Role.RESEARCHER})


def personal_scopes(actor: Actor) -> frozenset[str]:
    """Return the finest scopes of a person's own tokens: none gives more than their role."""
    return PERSONAL.get(actor.role or "", frozenset()) if actor.signed_in else frozenset()


def may_issue_personal(actor: Actor, scope: str) -> None:
    """Allow people tokens of their own, which end with their membership or role."""
    if not scope or not granted(scope) <= personal_scopes(actor):
        raise Forbidden
    _demand_write(actor, Role.values)


def may_manage_people(actor: Actor) -> None:
    _demand_write(actor, {Role.ADMIN})


def may_manage_projects(actor: Actor) -> None:
    """Allow admins to create, rename, archive and restore projects and to read the audit trail, also of an archived
    one."""
    _demand(actor, {Role.ADMIN})


def opaque(project_id: str, name: str) -> str:
    """Return the ID of a person in the steps and the files of one project."""
    # with the project, so that IDs of a person differ between projects
    return f"person-{hashlib.sha256(f'{project_id}/{name}'.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def scoped(rows: Rows, project: Project, path: str = "project") -> Rows:
    """Return only the rows of this project. All queries are scoped by this function."""
    return rows.filter(**{path: project})


def visible_or_404(rows: QuerySet[M], actor: Actor, pk: str, path: str = "project") -> M:
    # without an order by clause: for one row Django needs longer to write it than PostgreSQL to read the row
    row = next(iter(scoped(rows, actor.project, path).filter(pk=pk).order_by()[:1]), None) if is_id(pk) else None
    if row is None:
        raise NotFound
    return row


def is_id(pk: str) -> bool:
    """Return whether an object can have this ID. PostgreSQL would answer U+0000 with an error."""
    return "\x00" not in pk


def memberships(request: HttpRequest) -> QuerySet[Membership]:
    """Return the memberships that a request's person acts by."""
    return current_memberships(request.user, request.session)  # type: ignore[arg-type]


def project_of_object(request: HttpRequest, rows: QuerySet[Any], pk: str, path: str = "project_id") -> Membership:
    """Return the membership that opens an object's shared link. An address in another project is not found."""
    if not is_id(pk):
        raise NotFound
    if (here := addressed_membership(request)) is not None:
        # the middleware has read it, so only the object is asked for
        if rows.filter(pk=pk, **{path: here.project_id}).exists():
            return here
        raise NotFound
    membership = memberships(request).filter(project_id__in=rows.filter(pk=pk).values(path)).first()
    if membership is None:
        raise NotFound
    return membership


def addressed_membership(request: HttpRequest) -> Membership | None:
    """Return the membership in the project of the address, which `awmweb.middleware.InProject` has checked."""
    return getattr(request, "addressed", None)


def chosen_membership(request: HttpRequest) -> Membership | None:
    """Return the person's current project: the address's; without one the last used while it is valid, else the first
    one not archived.
    """
    if (here := addressed_membership(request)) is not None:
        return here
    # `sorted` is stable: archived projects come last, all others stay in the order of joining.
    mine = sorted(memberships(request), key=lambda membership: membership.project.archived_at is not None)
    slug = request.session.get(SESSION_PROJECT)
    return next((one for one in mine if one.project.slug == slug), mine[0] if mine else None)


class MemberRequest(HttpRequest):
    """A request that passed `member_required`."""

    membership: Membership
    project: Project
    actor: Actor


def member_required(
    right: Callable[[Actor], None] = may_read,
    *,
    rows: Callable[[], QuerySet[Any]] | None = None,
    path: str = "project_id",
    in_project: bool = True,
) -> Callable[[View], View]:
    """Restrict a page to members; set `request.membership`, `request.project` and `request.actor`.

    With `rows`, the view's `pk` decides the project, so that an address without one opens from any project. Such an
    address redirects to the project's, unless the page belongs to no project (`in_project=False`).
    """

    def wrap(view: View) -> View:
        @functools.wraps(view)
        def inner(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _signed_out(request)
            if rows is not None:
                membership = project_of_object(request, rows(), str(kwargs["pk"]), path)
            else:
                chosen = chosen_membership(request)
                if chosen is None:
                    raise Forbidden("You are in no project any more; ask its admin for a new link.")
                membership = chosen
            # A POST is not redirected: the browser would send its form again as a GET.
            if in_project and request.method in addresses.SAFE_METHODS and addressed_membership(request) is None:
                return redirect(addresses.in_project(membership.project.slug, request.get_full_path()))
            member = adopt(request, membership)
            # After the redirect: the right is that of the project which the address now names.
            right(member.actor)
            # a day that is typed on a page is a day of its reader
            with timezone.override(zone_of(request)):
                return view(member, *args, **kwargs)

        return inner

    return wrap


def _signed_out(request: HttpRequest) -> HttpResponseBase:
    """Send a visitor to sign in. A script of a page is refused: its page stays, with what was typed."""
    if not addresses.is_visit(request):
        raise Unauthenticated
    return redirect(addresses.login_address(request))


def adopt(request: HttpRequest, membership: Membership) -> MemberRequest:
    """Set the request's membership, project and actor, and return it. Addresses that it makes are in the project."""
    addresses.enter(membership.project.slug)
    member = cast(MemberRequest, request)
    member.membership, member.project, member.actor = membership, membership.project, person(membership)
    return member
