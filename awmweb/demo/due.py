"""Which projects still wait for the recorded demo?

`bootstrap` asks for it on an empty database, and a worker has it loaded after the start. Two lines of the audit trail
say what is due: asked for, and not loaded. A kill in the middle leaves it due, and a project whose demo was removed
stays without it. Imports little, because every start waits for `bootstrap`.
"""

from __future__ import annotations

from people.access import Actor
from people.models import AuditEntry
from people.record.audit import record

ASKED, LOADED = "asked for the demo", "loaded the demo"


def ask_for(actor: Actor) -> None:
    """Have a worker load the demo after the start."""
    record(actor, ASKED)


def due() -> list[str]:
    """Return the IDs of projects whose demo was asked for and not loaded yet."""
    loaded = AuditEntry.objects.filter(verb=LOADED).values("project")
    asked = AuditEntry.objects.filter(verb=ASKED).exclude(project__in=loaded)
    return list(asked.values_list("project", flat=True).distinct())
