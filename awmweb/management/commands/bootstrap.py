"""`manage.py bootstrap`: create the rows that a start needs. Called by `up` after the migrations; idempotent.

The last line on stdout is the owner's login path.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from awmweb.demo import due
from episodes.models import Run
from episodes.stored import packs
from people import access
from people.models import Role
from people.record import members
from runs.launch import launching

OWNER = "owner"
DEMO = "demo"


class Command(BaseCommand):
    help = (
        "Create the demo project and its owner; on an empty database start the demo run and have the recorded demo "
        "loaded; print the owner's link."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        project = members.ensure_project(DEMO, "Demo")
        owner = members.ensure_member(project, OWNER, Role.ADMIN).user
        theirs = list(owner.memberships.select_related("user").order_by("pk"))
        for pack in packs.packs():
            rejected = f", {len(pack.rejected)} rejected" if pack.rejected else ""
            self.stdout.write(f"pack {pack.name}: {len(pack.scenarios)} scenarios{rejected}")
        if settings.AWMWEB_DEMO and not Run.objects.exists():
            run = launching.start_demo(access.system(project))
            due.ask_for(access.system(project))
            self.stdout.write(f"demo run: {run.episodes.count()} episodes")
        self.stdout.write(f"/login/once/{members.issue_login_link(theirs)}")
