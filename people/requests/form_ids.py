"""IDs of forms: a row that a form makes gets the ID of the form, so that a form that was sent twice makes one row.

The primary key decides between two requests at the same time. Used by pages whose command is costly.
"""

from __future__ import annotations

from collections.abc import Mapping

from people.models import is_id, new_id

FIELD = "form"


def form_id(fields: Mapping[str, str]) -> str:
    """Return the ID that came with a form, or a new one for a form that is shown first."""
    sent = fields.get(FIELD, "")
    return sent if is_id(sent) else new_id()
