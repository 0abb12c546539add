"""Writes on projects: create one's own, rename, archive, restore, choose clocks, and change a member's role.

Leaves invitations, links and tokens to `members.py`, rights to `access.py`. Called by pages.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from people.access import Actor, may_manage_people, may_manage_projects, scoped
from people.errors import Invalid, NotFound
from people.models import Membership, Project, Role
from people.record.audit import record
from people.record.members import NAME_CHARS, create_project, ensure_member, fresh_link, refuse_last_admin_change

BeforeArchive = Callable[[Project], None]
_before_archive: list[BeforeArchive] = []


def before_archive(callback: BeforeArchive) -> None:
    """Register a check that raises if an upper app cannot let this project become read-only now."""
    _before_archive.append(callback)


@transaction.atomic
def create_own(actor: Actor, slug: str, name: str) -> Membership:
    """Create a project with the actor as its first admin.

    Raises `Forbidden` if the actor is not an admin of the current project, and `Invalid` if the slug or the name does
    not fit or the slug is taken.
    """
    may_manage_projects(actor)
    if actor.person is None:
        raise Invalid("A project page needs a person. Use the command createproject.")
    project = create_project(slug.strip(), name, by=actor)
    return ensure_member(project, actor.person.get_username(), Role.ADMIN)


def _locked(actor: Actor) -> Project:
    may_manage_projects(actor)
    # Two admins take turns, so that the trail has what each of them replaced.
    return Project.objects.select_for_update().get(pk=actor.project.pk)


@transaction.atomic
def rename(actor: Actor, name: str) -> Project:
    """Change how pages show the project; its slug, which commands and addresses use, stays."""
    project = _locked(actor)
    plain = " ".join(name.split())
    if not plain or len(plain) > NAME_CHARS or "\x00" in plain:
        raise Invalid(f"Enter a name of 1 to {NAME_CHARS} characters.")
    if plain != project.name:
        before, project.name = project.name, plain
        project.save(update_fields=["name"])
        record(actor, "renamed project", project.slug, f"from {before} to {plain}")
    return project


@transaction.atomic
def archive(actor: Actor) -> Project:
    """Make the project read-only and hide it from the project switcher. Idempotent."""
    project = _locked(actor)
    if project.archived_at is None:
        for check in _before_archive:
            check(project)
        project.archived_at = timezone.now()
        project.save(update_fields=["archived_at"])
        record(actor, "archived project", project.slug)
    return project


@transaction.atomic
def restore(actor: Actor) -> Project:
    """Let the project take writes again. Idempotent."""
    project = _locked(actor)
    if project.archived_at is not None:
        project.archived_at = None
        project.save(update_fields=["archived_at"])
        record(actor, "restored project", project.slug)
    return project


@transaction.atomic
def choose_clocks(actor: Actor, real: bool) -> Project:
    """Let apps of new episodes read the machine's time, or that of their recorded world. Idempotent."""
    project = _locked(actor)
    if project.real_clocks != real:
        project.real_clocks = real
        project.save(update_fields=["real_clocks"])
        record(actor, "turned recorded clocks off" if real else "turned recorded clocks on", project.slug)
    return project


@transaction.atomic
def change_role(actor: Actor, membership_id: int, role: str) -> tuple[Membership, str]:
    """Change a member's role. Return the membership and the secret of a new sign-in link.

    The change ends the member's sessions in this project, since open pages and sockets act by the role they started
    with.

    Raises `Invalid` if the role is unknown, already theirs or the sign-in provider's to change, the member is the
    actor, or the last admin would lose the role.
    """
    may_manage_people(actor)
    rows = Membership.objects.select_for_update(of=("self",)).select_related("user")
    membership = scoped(rows, actor.project).filter(pk=membership_id).first()
    if membership is None:
        raise NotFound
    if role not in Role.values:
        raise Invalid(f"Role must be one of {', '.join(Role.values)}.")
    if membership.from_provider and settings.AWMWEB_OIDC_ISSUER:
        raise Invalid(f"Groups at {settings.AWMWEB_OIDC_NAME} decide this role. Change them there.")
    if role == membership.role:
        raise Invalid(f"This member already has the role {role}.")
    username, before = membership.user.get_username(), membership.role
    refuse_last_admin_change(actor, username, role, membership.ends_at)
    if actor.person is not None and membership.user.pk == actor.person.pk:
        raise Invalid("You can't change your own role. Ask another admin.")
    ensure_member(actor.project, username, role, membership.ends_at)
    record(actor, "changed role of", username, f"from {before} to {role}")
    return fresh_link(actor, membership_id)
