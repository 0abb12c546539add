"""The one write of the audit trail. Leaves reading it to `audit_trail.py`. Called by every write to be answered for."""

from __future__ import annotations

from people.access import Actor
from people.models import AuditEntry


def record(actor: Actor, verb: str, target: str = "", reason: str = "") -> None:
    """Write one line of the audit trail, in the transaction of the act."""
    by = f"{actor.name[:80]} (token {actor.token.name[:70]})" if actor.person and actor.token else actor.name
    AuditEntry.objects.create(project=actor.project, actor=by, verb=verb, target=target[:200], reason=reason)
