"""Calls to the dashboard from a hook, with `http.client` alone.

Owns time limits and the parsing of refusals. Leaves retries to the callers: a hook is short, and what it could not send
goes with the next one.
"""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from awmclient.hooks.desk import DeskAway, HookSettings, Refusal

CONNECT_S = 5.0
AGAIN = (408, 429)


class DeskCalls:
    """One dashboard, over one connection."""

    def __init__(self, settings: HookSettings) -> None:
        parts = urlsplit(settings.url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("The dashboard's URL must start with http:// or https:// and name a host.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._http = kind(parts.hostname, parts.port, timeout=CONNECT_S)
        self._root = parts.path.rstrip("/").removesuffix("/api/v1") + "/api/v1"
        self._token = settings.token.strip()

    def call(self, method: str, path: str, body: dict[str, Any] | None = None, wait_s: float = 10.0) -> dict[str, Any]:
        """Send once. Raises `DeskAway` if it can go again, and `Refusal`. No redirect is followed: a token is sent."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", "User-Agent": "awmclient"}
        sent = None
        if body is not None:
            sent = json.dumps(body, allow_nan=False).encode("ascii")
            headers["Content-Type"] = "application/json"
        try:
            if self._http.sock is None:
                self._http.timeout = CONNECT_S
                self._http.connect()
            self._http.sock.settimeout(wait_s)
            self._http.request(method, self._root + path, sent, headers)
            answer = self._http.getresponse()
            status, content = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise DeskAway(f"{type(error).__name__}: {error}") from None
        except BaseException:  # a signal in the middle of an answer: the next call needs another connection
            self._http.close()
            raise
        return _read_answer(status, content)


def _read_answer(status: int, content: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if status >= 500 or status in AGAIN:
        raise DeskAway(f"the dashboard answered {status}")
    error = fields.get("error") if isinstance(fields, dict) else None
    if status >= 300 or not isinstance(fields, dict):
        why = error if isinstance(error, dict) else {}
        raise Refusal(status, str(why.get("code") or ""), str(why.get("message") or f"the dashboard answered {status}"))
    return fields
