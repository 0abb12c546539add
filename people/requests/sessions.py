"""Sessions in the database, read only by well-formed keys.

A cookie can contain anything, and the database answers U+0000 with an error. Django and Channels find this by
`SESSION_ENGINE`.
"""

from __future__ import annotations

import string

from django.contrib.sessions.backends import db

LETTERS = frozenset(string.ascii_lowercase + string.digits)


class SessionStore(db.SessionStore):
    """The session of one browser."""

    def _validate_session_key(self, key: str | None) -> bool:
        return bool(super()._validate_session_key(key)) and LETTERS.issuperset(key or "")  # type: ignore[misc]  # the stubs leave it out
