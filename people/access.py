"""Rights: one function per right, one actor type for people and tokens, one way to scope a queryset.

Owns who may do what. Leaves issuing and removing to `members.py`, HTTP to `http.py` and views. Called by every app.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.http import urlencode

from people.errors import AppError, Forbidden, NotFound, ProjectArchived, WrongScope
from people.models import ApiToken, Membership, Project, Role, display_name

if TYPE_CHECKING:
    from collections.abc import Collection

SESSION_PROJECT = "project"
SESSION_ENTRIES = "entries"
"""What the links of a session opened: it acts by the memberships of these entries, not by all of its account's."""
JUDGES = {Role.EXPERT, Role.REVIEWER}
M = TypeVar("M", bound=Model)
Rows = TypeVar("Rows", bound=QuerySet[Any])
View = Callable[..., HttpResponseBase]


@dataclass(frozen=True)
class Actor:
    """Who acts, in which project: a person with a role, or a token with a scope."""

    project: Project
    role: str | None = None
    scope: str | None = None
    user: User | None = None
    token: ApiToken | None = None
    model: str = ""
    entry: str = ""

    @property
    def name(self) -> str:
        if self.user is not None:
            return display_name(self.user)
        if self.model:
            return self.model
        return f"token {self.token.name}" if self.token is not None else "awmweb"

    @property
    def key(self) -> str:
        """Stable id for rows: `user:3`, `token:…`, `model:…` or `system`."""
        if self.user is not None:
            return f"user:{self.user.pk}"
        if self.model:
            return f"model:{self.model}"
        return f"token:{self.token.pk}" if self.token is not None else "system"


def person(membership: Membership) -> Actor:
    return Actor(membership.project, role=membership.role, user=membership.user, entry=membership.entry)


def bearer(token: ApiToken) -> Actor:
    return Actor(project=token.project, scope=token.scope, token=token)


def expert_model(project: Project, name: str) -> Actor:
    """Return a model that advises, by the name of its endpoint; what it says is told apart from people's words."""
    return Actor(project=project, model=name)


def system(project: Project) -> Actor:
    """Return the actor of awmweb itself: its worker, the demo, the sweep."""
    return Actor(project=project)


def current_memberships(user: User, session: Mapping[str, Any]) -> QuerySet[Membership]:
    """Return those by which a signed-in browser acts: of its person, not ended, and opened by a link that its own
    session was begun with. An account that joined another project is not there for who was signed in as it before.
    """
    mine = Membership.objects.current(timezone.now()).filter(user=user, entry__in=session.get(SESSION_ENTRIES, []))
    return mine.select_related("project", "user").order_by("pk")


def _holds(actor: Actor, roles: Collection[str], scopes: Collection[str] = ()) -> bool:
    if actor.scope is not None:
        return actor.scope in scopes
    # without a role it is awmweb itself, or a model: they act for someone whose right was checked
    return actor.role is None or actor.role in roles


def _demand(allowed: bool, actor: Actor) -> None:
    if not allowed:
        raise WrongScope if actor.scope is not None else Forbidden


def _demand_write(allowed: bool, actor: Actor) -> None:
    """Demand as `_demand` does, and that the project takes writes; a stranger does not learn whether it is archived."""
    _demand(allowed, actor)
    if actor.project.archived_at is not None:
        raise ProjectArchived


def holds(actor: Actor, right: Callable[[Actor], None]) -> bool:
    """Return whether an actor has a right, for pages that show a button or leave it out."""
    try:
        right(actor)
    except AppError:
        return False
    return True


def may_start_runs(actor: Actor) -> None:
    """Create runs: loops with an agent token, and those who may say what a run's episodes are given."""
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER}, {"agent", "launch"}), actor)


def may_record(actor: Actor) -> None:
    """Write episodes, steps and asks: loops with an agent token, researchers, ourselves."""
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER}, {"agent"}), actor)


def may_read(actor: Actor) -> None:
    """Read episodes and steps: everybody in the project."""
    _demand(_holds(actor, Role.values, {"agent", "expert", "export", "launch", "review"}), actor)


def sees_outcomes(actor: Actor) -> bool:
    """Allow verification steps and outcomes for all but an agent."""
    return actor.scope != "agent"


def may_advise(actor: Actor) -> None:
    """Claim and answer asks: experts, and those who run the place."""
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER, Role.EXPERT}, {"expert"}), actor)


def may_see_queue(actor: Actor) -> None:
    _demand(_holds(actor, Role.values, {"expert"}), actor)


def may_see_metrics(actor: Actor) -> None:
    """Allow how the desk works, people by name and outcomes included, for all but an agent."""
    _demand(_holds(actor, Role.values, {"expert", "export"}), actor)


def may_annotate(actor: Actor) -> None:
    """Say something about a step or an episode: whoever may advise or review."""
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER, Role.EXPERT, Role.REVIEWER}, {"expert", "review"}), actor)


def may_see_notices(actor: Actor) -> None:
    """Read one's own channels and deliveries: those who may say something, also of an archived project."""
    _demand(_holds(actor, {Role.ADMIN, Role.RESEARCHER, Role.EXPERT, Role.REVIEWER}), actor)


def may_review(actor: Actor) -> None:
    """Claim reviews and judge episodes: whoever may say something about them, and programs that review."""
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER, Role.EXPERT, Role.REVIEWER}, {"review"}), actor)


def judges_only(role: str) -> bool:
    """Return whether members of this role judge episodes and make no queues of them."""
    return role in JUDGES


def members_who_judge(project: Project) -> list[Actor]:
    """Return the project's members who judge and make no queues: a blind queue withholds from them from its start."""
    rows = Membership.objects.filter(project=project, role__in=JUDGES).select_related("project", "user")
    return [person(one) for one in rows]


def may_see_reviews(actor: Actor) -> None:
    """Read queues, verdicts and agreement: everybody but an agent."""
    _demand(_holds(actor, Role.values, {"export", "review"}), actor)


def may_set_reviews(actor: Actor) -> None:
    """Make review queues and label schemas, fill queues, and rule in the verifier court."""
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER}), actor)


def may_set_desk(actor: Actor) -> None:
    """Say how asks are routed and what they may cost."""
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER}), actor)


def may_launch(actor: Actor) -> None:
    """Start rollouts of our own, and let agents ask experts who have read the verifier."""
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER}, {"launch"}), actor)


def may_see_imports(actor: Actor) -> None:
    """Read imports: those who may start one, also of an archived project."""
    _demand(_holds(actor, {Role.ADMIN, Role.RESEARCHER}, {"launch"}), actor)


def may_export(actor: Actor) -> None:
    _demand(_holds(actor, {Role.ADMIN, Role.RESEARCHER}, {"export"}), actor)


def may_push(actor: Actor) -> None:
    """Send datasets to a service outside with the operator's token: admins, who may export as well."""
    may_export(actor)
    _demand(_holds(actor, {Role.ADMIN}), actor)


def may_issue_tokens(actor: Actor) -> None:
    _demand_write(_holds(actor, {Role.ADMIN, Role.RESEARCHER}), actor)


def may_manage_people(actor: Actor) -> None:
    _demand_write(_holds(actor, {Role.ADMIN}), actor)


def may_manage_projects(actor: Actor) -> None:
    """Create, rename, archive and restore projects, and read the audit trail, also of an archived project."""
    _demand(_holds(actor, {Role.ADMIN}), actor)


def scoped(rows: Rows, project: Project, path: str = "project") -> Rows:
    """Return only the rows of this project. Queries are narrowed in no other way."""
    return rows.filter(**{path: project})


def visible_or_404(rows: QuerySet[M], actor: Actor, pk: str, path: str = "project") -> M:
    # one row has no order: to write one costs more than to read the row
    found = next(iter(scoped(rows, actor.project, path).filter(pk=pk).order_by()[:1]), None) if is_id(pk) else None
    if found is None:
        raise NotFound
    return found


def is_id(pk: str) -> bool:
    """Return whether an object can have this id at all; the database takes no U+0000 and would answer with a fault."""
    return "\x00" not in pk


def memberships(request: HttpRequest) -> QuerySet[Membership]:
    """Return those by which a request's person acts."""
    return current_memberships(request.user, request.session)  # type: ignore[arg-type]


def project_of_object(request: HttpRequest, rows: QuerySet[Any], pk: str, path: str = "project_id") -> Membership:
    """Return the membership through which a person sees an object by its shared link, whatever
    project is chosen now."""
    projects = rows.filter(pk=pk).values(path)
    found = memberships(request).filter(project_id__in=projects).first() if is_id(pk) else None
    if found is None:
        raise NotFound
    return found


def chosen_membership(request: HttpRequest) -> Membership | None:
    """Return the project a person works in: the session's choice while it holds, else the first
    that is not archived."""
    mine = sorted(memberships(request), key=lambda one: one.project.archived_at is not None)
    slug = request.session.get(SESSION_PROJECT)
    return next((one for one in mine if one.project.slug == slug), mine[0] if mine else None)


class MemberRequest(HttpRequest):
    """A request that `member_required` let through."""

    membership: Membership
    project: Project
    actor: Actor


def member_required(
    right: Callable[[Actor], None] = may_read,
    *,
    rows: Callable[[], QuerySet[Any]] | None = None,
    path: str = "project_id",
) -> Callable[[View], View]:
    """Return a page for members: sets `request.membership`, `request.project` and `request.actor`.

    With `rows`, the view's `pk` decides the project, so that a shared link works from any chosen project.
    """

    def wrap(view: View) -> View:
        @functools.wraps(view)
        def inner(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            # a page sends strangers to sign in; the JSON API answers 401 instead
            if not request.user.is_authenticated:
                return redirect(f"/login?{urlencode({'next': request.get_full_path()})}")
            if rows is not None:
                membership = project_of_object(request, rows(), str(kwargs["pk"]), path)
            else:
                chosen = chosen_membership(request)
                if chosen is None:
                    raise Forbidden("You are in no project any more; ask its admin for a new link.")
                membership = chosen
            member = adopt(request, membership)
            right(member.actor)
            return view(member, *args, **kwargs)

        return inner

    return wrap


def adopt(request: HttpRequest, membership: Membership) -> MemberRequest:
    """Return the same request, with who acts in which project."""
    member = cast(MemberRequest, request)
    member.membership, member.project, member.actor = membership, membership.project, person(membership)
    return member
