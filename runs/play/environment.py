"""Reads the status of the environment server: whether it responds, its sandbox level, and the configured minimum. Used
by a page only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
from django.conf import settings

from runs.plan import choosing, servers
from runs.plan.servers import object_of

TIERS = ("none", "degraded", "container", "strict")  # weakest first, in the order of `awmenv.server.sandbox.confine`
PATIENCE_S = 2.0


@dataclass(frozen=True)
class Partial:
    """A scenario that runs without the SQL statements of its pack that fail."""

    scenario: str
    failures: int
    statements: int
    reasons: list[str]


@dataclass(frozen=True)
class ServerStatus:
    """The server's description of itself; `problem` if it did not answer."""

    address: str
    problem: str = ""
    tier: str = ""
    minimum: str = ""
    version: str = ""
    scenarios: int = 0
    sessions: int = 0
    max_sessions: int = 0
    probes: dict[str, bool] = field(default_factory=dict)
    partial: list[Partial] = field(default_factory=list)
    among: list[tuple[str, choosing.Room]] = field(default_factory=list)
    """Of several built-in servers, the address and the room of each; this status is that of one."""

    @property
    def known(self) -> bool:
        """Whether the sandbox level is known; external servers may not report one."""
        return self.tier in TIERS and self.minimum in TIERS

    @property
    def runs(self) -> bool:
        return self.known and TIERS.index(self.tier) >= TIERS.index(self.minimum)


def address() -> str:
    """Return the HTTP address of the environment server; of several, of one with room."""
    return servers.profile(servers.BUILTIN).address


def addresses() -> list[str]:
    """Return the HTTP addresses of the built-in environment servers."""
    return [choosing.http_address(url) for url in choosing.urls()]


def further() -> list[tuple[str, servers.ServerReport]]:
    """Fetch the descriptions of the servers in `AWMWEB_ENVIRONMENTS`, by name."""
    return [(name, servers.probe(servers.profile(name))) for name in settings.ENVIRONMENTS]


def status() -> ServerStatus:
    """Fetch the environment server's current health and stats."""
    known = choosing.urls()
    among = [(choosing.http_address(url), choosing.room_of(url)) for url in known] if len(known) > 1 else []
    where = next((at for at, room in among if room.responds), choosing.http_address(known[0]))
    try:
        with httpx.Client(base_url=where, timeout=PATIENCE_S, trust_env=False) as client:
            health, stats = object_of(client.get("/health")), object_of(client.get("/stats"))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return ServerStatus(where, problem=servers.reason_of(error), among=among)
    probes = stats.get("probes")
    return ServerStatus(
        where,
        tier=str(stats.get("tier", health.get("tier", ""))),
        minimum=str(stats.get("min_tier", "")),
        version=str(health.get("version", "")),
        scenarios=_count(health, "scenarios"),
        sessions=_count(stats, "sessions"),
        max_sessions=_count(stats, "max_sessions"),
        probes={str(name): holds is True for name, holds in probes.items()} if isinstance(probes, dict) else {},
        partial=_partial(stats.get("partial")),
        among=among,
    )


def _partial(report: Any) -> list[Partial]:
    if not isinstance(report, dict):
        return []
    entries = [(str(name), entry) for name, entry in report.items() if isinstance(entry, dict)]
    return [
        Partial(name, _count(entry, "failures"), _count(entry, "statements"), [str(one) for one in _list(entry)])
        for name, entry in entries
    ]


def _list(entry: dict[str, Any]) -> list[Any]:
    reasons = entry.get("reasons")
    return reasons if isinstance(reasons, list) else []


def _count(counts: dict[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) else 0
