"""Which environment server gets an episode? Of those at `AWMENV_URL`, the one with the most room.

A server says at `/stats` how many sessions it has, and how many it takes. What it said holds for `KNOWN_S`; sessions
that this process has sent there since are added. One that was silent is asked again after `SILENT_S`, and names are
looked up again after `LOOKED_UP_S`. With a single server nothing is asked.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import httpx
from django.conf import settings

KNOWN_S, SILENT_S, LOOKED_UP_S = 2.0, 5.0, 5.0
PATIENCE_S = 2.0
"""How long a server may take to say what room it has; all are asked at the same time."""


@dataclass
class Room:
    """What one server said: its sessions, and the most that it takes. `is_known` is false of a server of others that
    does not say; `responds` is false of a silent one."""

    asked_at: float
    responds: bool = False
    sessions: int = 0
    most: int = 0
    sent: int = 0
    """Sessions that this process has sent there since."""

    @property
    def is_known(self) -> bool:
        return self.most > 0

    @property
    def is_full(self) -> bool:
        return self.is_known and self.sessions + self.sent >= self.most

    @property
    def share(self) -> float:
        """The part of its room that is taken; of unequal servers each gets its part."""
        return (self.sessions + self.sent) / self.most if self.is_known else 1.0


def urls() -> list[str]:
    """Return the addresses of the built-in environment servers. A name that has several addresses, as that of a
    headless service of Kubernetes or a scaled one of compose, is a server at each of them."""
    named = (url.strip() for url in settings.AWMENV_URL.split(","))
    return [url for name in named if name for url in _names.urls_of(name)]


def with_room(before: str = "", lost: str = "") -> str:
    """Return the server for an episode: the one it had `before`, if that responds and has room, otherwise the one with
    the most room. A `lost` one is not asked for some seconds. If none responds, the first one: a call says why."""
    addresses = urls()
    return addresses[0] if len(addresses) == 1 else _rooms.choose(addresses, before, lost)


def silent(age_s: float) -> list[str]:
    """Return the built-in servers that did not respond when they were asked, at most `age_s` seconds ago."""
    return _rooms.silent(urls(), age_s)


def http_address(url: str) -> str:
    """Return the HTTP address of a server whose socket is at `url`."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/").removesuffix("/ws"), "", ""))


class Names:
    """The addresses of server names, as they were looked up last."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, list[str]]] = {}

    def urls_of(self, url: str) -> list[str]:
        looked_at, addresses = self._known.get(url, (-LOOKED_UP_S, []))
        if time.monotonic() - looked_at >= LOOKED_UP_S:
            addresses = _urls_at(url)
            self._known[url] = time.monotonic(), addresses
        return addresses


def _urls_at(url: str) -> list[str]:
    """Return a URL for each IPv4 address of its host, or the URL itself if there is one, or none, or a certificate."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        if parts.scheme not in ("ws", "http") or not parts.hostname or parts.port is None:
            return [url]
        records = socket.getaddrinfo(parts.hostname, parts.port, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, ValueError, UnicodeError):
        return [url]
    addresses = sorted({str(address[0]) for *_, address in records})
    if len(addresses) < 2:
        return [url]
    return [urlunsplit(parts._replace(netloc=f"{address}:{parts.port}")) for address in addresses]


class Rooms:
    """What the servers said last, shared by the threads of a process."""

    def __init__(self) -> None:
        self._known: dict[str, Room] = {}
        self._lock = threading.Lock()

    def choose(self, addresses: Sequence[str], before: str = "", lost: str = "") -> str:
        # held while servers are asked, so that of many threads one asks
        with self._lock:
            if lost in addresses:
                self._known[lost] = Room(time.monotonic())
            self._ask([url for url in addresses if self._is_old(url)])
            rooms = {url: room for url in addresses if (room := self._known[url]).responds}
            if before in rooms and not rooms[before].is_full:
                chosen = before
            else:
                # of equal ones any: other processes choose at the same time
                chosen = min(rooms, key=lambda url: (rooms[url].share, rooms[url].sent, random.random()), default="")
            if chosen:
                rooms[chosen].sent += 1
            return chosen or addresses[0]

    def silent(self, addresses: Sequence[str], age_s: float) -> list[str]:
        with self._lock:
            now = time.monotonic()
            self._ask([url for url in addresses if url not in self._known or now - self._known[url].asked_at > age_s])
            return [http_address(url) for url in addresses if not self._known[url].responds]

    def _is_old(self, url: str) -> bool:
        room = self._known.get(url)
        return room is None or time.monotonic() - room.asked_at > (KNOWN_S if room.responds else SILENT_S)

    def _ask(self, asked: Sequence[str]) -> None:
        if asked:
            with ThreadPoolExecutor(len(asked)) as threads:
                self._known.update(zip(asked, threads.map(room_of, asked), strict=True))


def room_of(url: str) -> Room:
    """Ask a server for its room."""
    now = time.monotonic()
    try:
        answer = httpx.get(http_address(url) + "/stats", timeout=PATIENCE_S, trust_env=False)
        stats = answer.json() if answer.is_success else {}
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return Room(now)
    counts = [stats.get(name) if isinstance(stats, dict) else None for name in ("sessions", "max_sessions")]
    sessions, most = [count if type(count) is int and count >= 0 else 0 for count in counts]
    return Room(time.monotonic(), responds=True, sessions=sessions, most=most)


_names, _rooms = Names(), Rooms()
