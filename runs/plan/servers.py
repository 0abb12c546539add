"""Environment servers by name: the address of each, its description of itself, and a client for it.

The built-in one is `awm`; further ones are any OpenEnv AWM servers. A server without awmweb's extensions gets only
upstream's protocol: no recorded environments, no state differences, no other clocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
from django.conf import settings

from awmenv.client import EnvironmentClient
from runs.errors import UnknownEnvironment

BUILTIN = "awm"
PATIENCE_S = 3.0


@dataclass(frozen=True)
class ServerProfile:
    """One environment server. `timeout_s` applies to each call; headers are secrets and appear in no text."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 120.0

    @property
    def address(self) -> str:
        """The HTTP address of the server."""
        return http_address(self.url)

    def client(self, *, restore: bool = False) -> EnvironmentClient:
        """Return a client of this server, not yet connected."""
        return EnvironmentClient(self.url, **self.options(), restore=restore)

    def options(self) -> dict[str, Any]:
        """Return the arguments of a client, beside the address."""
        limits = {f"{name}_timeout_s": self.timeout_s for name in ("reset", "step", "verify")}
        return {"headers": self.headers} | (limits if self.name != BUILTIN else {})


@dataclass(frozen=True)
class ServerReport:
    """A server's description of itself; `problem` if it did not respond. `extended` servers record environments, report
    state differences and keep control tools from agents."""

    address: str
    problem: str = ""
    title: str = ""
    version: str = ""
    extended: bool = False

    @property
    def words(self) -> str:
        """One line for pages and reports."""
        if self.problem:
            return f"does not respond: {self.problem}"
        what = " ".join(part for part in (self.title, self.version or "no version reported") if part)
        return f"{what}, {'records worlds' if self.extended else 'no recorded worlds and no state differences'}"

    def stored(self) -> dict[str, Any]:
        """Return the part that a run stores."""
        return asdict(self)


def profile(name: str) -> ServerProfile:
    """Return the server by this name. Raises `UnknownEnvironment`."""
    if name == BUILTIN:
        return ServerProfile(BUILTIN, settings.AWMENV_URL)
    if name not in settings.ENVIRONMENTS:
        known = ", ".join([BUILTIN, *settings.ENVIRONMENTS])
        raise UnknownEnvironment(f"AWMWEB_ENVIRONMENTS names no server {name!r}. Known: {known}.")
    given: dict[str, Any] = settings.ENVIRONMENTS[name]
    return ServerProfile(name, **given)


def known(name: str) -> ServerProfile:
    """Return the server by this name, or the built-in one: recorded and imported episodes can name any environment."""
    return profile(name if name in settings.ENVIRONMENTS else BUILTIN)


def reason_of(error: Exception) -> str:
    """Return why a server did not respond, without the system's error number."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error))[:300] or type(error).__name__


def probe(at: ServerProfile) -> ServerReport:
    """Ask a server for its health and metadata. A server of others may have neither; it answers all the same."""
    try:
        with httpx.Client(base_url=at.address, headers=dict(at.headers), timeout=PATIENCE_S, trust_env=False) as client:
            health, about = object_of(client.get("/health")), object_of(client.get("/metadata"))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return ServerReport(at.address, problem=reason_of(error))
    return ServerReport(
        at.address,
        title=_line(about.get("name")),
        version=_line(health.get("version") or about.get("version")),
        # upstream lists no extensions; a server that reports a sandbox level is awmweb's
        extended="tier" in health,
    )


def object_of(answer: httpx.Response) -> dict[str, Any]:
    """Return an object, or an empty one: an external server may lack this address and still work."""
    said = answer.json() if answer.is_success else {}
    return said if isinstance(said, dict) else {}


def _line(value: Any) -> str:
    return " ".join(value.replace("\x00", "").split())[:100] if isinstance(value, str) else ""


def http_address(url: str) -> str:
    """Return the HTTP address of a server whose socket is at `url`."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/").removesuffix("/ws"), "", ""))
