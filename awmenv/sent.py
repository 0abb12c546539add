"""What a client sends and is refused: the address of a server's socket, batches that fit, and a refusal's words."""

import itertools
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from awmenv.errors import AwmenvError, CapacityReached, ServerRefused
from awmenv.models import one_line

MAX_REASON = 10_000
"""The most of an error's words: a server can send a whole frame of them."""
MOST = 64
"""Messages of a batch, as the server takes them."""
MOST_SIZE, MOST_VALUES = 200_000, 4_000
"""Characters and values of a batch, below the server's limits of a message."""


def socket_url(url: str) -> str:
    """Turn `http://host:port` into the address of its `/ws`. An address whose path ends in /ws is unchanged."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(scheme=scheme, path=path if path.endswith("/ws") else f"{path}/ws"))


def fitting(messages: Iterable[str]) -> int:
    """Return how many of these messages fit a batch; one that is too long for company goes alone."""
    taken, size, values = 0, 0, 0
    for written in itertools.islice(messages, MOST):
        # at least as many values as the message has: each of them follows one of these signs
        size, values = size + len(written), values + sum(written.count(sign) for sign in ",:[{")
        if taken and (size > MOST_SIZE or values > MOST_VALUES):
            break
        taken += 1
    return taken


def refusal_of(data: dict[str, Any]) -> AwmenvError:
    code, message = str(data.get("code", "")).lower(), str(data.get("message", "refused"))
    if details := _details(data.get("errors")):
        message = f"{message}: {details}"
    message = message[:MAX_REASON]
    if code == "capacity_reached":
        most = data.get("max_sessions")
        return CapacityReached(message, code, most if type(most) is int and most > 0 else None)
    refused = ServerRefused(message, code or "environment_error")
    refused.errors = data["errors"][:20] if isinstance(data.get("errors"), list) else []
    return refused


def _details(errors: Any) -> str:
    """Return the first of the errors that a server names beside its message: where, and what."""
    details = [one for one in errors[:5] if isinstance(one, dict)] if isinstance(errors, list) else []
    return "; ".join(
        f"{'.'.join(str(part) for part in place)} {one_line(str(detail.get('msg', '')))}".strip()
        for detail in details
        if isinstance(place := detail.get("loc", ()), list | tuple)
    )
