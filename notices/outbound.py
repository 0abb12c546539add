"""One POST to an address that a member or a browser gave, to the public network only.

Owns how an address is reached; which ones are public is `address_registry.py`'s. The name is resolved once, every
address it has must be public, and the connection goes to one of those, so that a name that changes (DNS rebinding) has
no effect. No redirect is followed, no proxy is used, and only the start of the response is read. AWMWEB_NOTICES_PRIVATE
allows the server's own network, for self-hosters and tests.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import httpx
from django.conf import settings

from notices.address_registry import special_purpose

TOTAL_S = 10.0
READ_BYTES = 300
ALLOW = "Set AWMWEB_NOTICES_PRIVATE=1 to allow private addresses."


class AddressRefused(Exception):
    """An address that must not be called; the message gives the reason."""


class Unreached(Exception):
    """No response, or not in time."""


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    retry_after_s: float
    text: str


def checked(url: str) -> SplitResult:
    """Return the parts of an address, if it is valid as far as can be checked without a lookup."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise AddressRefused("This is not a URL.") from error
    schemes = ("https", "http") if settings.AWMWEB_NOTICES_PRIVATE else ("https",)
    if parts.scheme not in schemes or not host or not url.isascii() or any(letter <= " " for letter in url):
        raise AddressRefused(f"Enter a URL such as {schemes[0]}://hooks.example.org/awm.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("The URL must not contain a user name or password.")
    try:
        refuse_private(host)
    except ValueError:
        return parts  # a name; it is resolved when it is used
    return parts


def refuse_private(address: str) -> None:
    """Refuse an address that is not public. Raises a plain ValueError for a name."""
    purpose = _special(address)
    if purpose:
        raise AddressRefused(f"{address} is not a public address ({purpose}). {ALLOW}")


def _special(address: str) -> str:
    purpose = special_purpose(ipaddress.ip_address(address.partition("%")[0]))
    return "" if settings.AWMWEB_NOTICES_PRIVATE else purpose


def post(url: str, body: bytes, headers: dict[str, str]) -> HttpAnswer:
    """Send one POST.

    1. Check the address. 2. Resolve the name once. 3. Connect to a checked address, under the given name.
    """
    return asyncio.run(_post(checked(url), body, headers))


async def _post(parts: SplitResult, body: bytes, headers: dict[str, str]) -> HttpAnswer:
    try:
        async with asyncio.timeout(TOTAL_S):
            return await _first_that_answers(parts, body, headers)
    except TimeoutError as error:
        raise Unreached(f"No response within {TOTAL_S:.0f} s.") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreached(f"{type(error).__name__}: {error}"[:300]) from error


async def _first_that_answers(parts: SplitResult, body: bytes, headers: dict[str, str]) -> HttpAnswer:
    addresses = await _addresses(parts)
    for address in addresses[:-1]:
        try:
            return await _to(address, parts, body, headers)
        except httpx.ConnectError:
            continue
    return await _to(addresses[-1], parts, body, headers)


async def _addresses(parts: SplitResult) -> list[str]:
    """Return every address of the name. One refused address refuses all of them."""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a label that is too long raises an encoding error
        raise Unreached(f"{parts.hostname} cannot be resolved: {error}") from error
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    if any(map(_special, addresses)):  # without the address: members must not learn the operator's internal names
        raise AddressRefused(f"{parts.hostname} resolves to an address that is not public. {ALLOW}")
    return addresses


async def _to(address: str, parts: SplitResult, body: bytes, headers: dict[str, str]) -> HttpAnswer:
    host = f"[{address}]" if ":" in address else address
    netloc = f"{host}:{parts.port}" if parts.port else host
    url = parts._replace(netloc=netloc, fragment="").geturl()
    sent = {**headers, "Host": parts.netloc, "User-Agent": "awmweb"}
    named = {"sni_hostname": parts.hostname}
    async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=TOTAL_S) as client:
        async with client.stream("POST", url, content=body, headers=sent, extensions=named) as response:
            return HttpAnswer(response.status_code, _pause(response), await _beginning(response))


def _pause(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0.0


async def _beginning(response: httpx.Response) -> str:
    """Return raw bytes, never decompressed: a small body could expand to a large one."""
    read = b""
    async for chunk in response.aiter_raw(READ_BYTES):
        read += chunk
        if len(read) >= READ_BYTES:
            break
    return read[:READ_BYTES].decode("utf-8", "replace")
