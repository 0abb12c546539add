"""Readers of the environment's variables, for `settings` alone: numbers, switches, addresses, endpoints, servers.

A bad value stops the start with the reason.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import dj_database_url

from awmclient.choosing.chat import EndpointConfig
from awmenv import spans
from awmweb.weights import LOCAL
from people import identity
from runs.statistics.costs import TokenPrice, rates_in

BASE_DIR = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class MailServer:
    """The server for outgoing mail."""

    host: str
    port: int
    username: str
    password: str
    use_tls: bool
    use_ssl: bool


def stop(name: str, why: str) -> None:
    sys.exit(f"{name}: {why}")


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def number(name: str, default: int, low: int, high: int) -> int:
    raw = text(name, str(default))
    if not raw.isdecimal() or not low <= int(raw) <= high:
        stop(name, f"expected a whole number from {low} to {high}, got {raw!r}")
    return int(raw)


def switch(name: str, default: bool) -> bool:
    raw = text(name, "1" if default else "0")
    if raw not in ("0", "1"):
        stop(name, f"expected 0 or 1, got {raw!r}")
    return raw == "1"


def choice(name: str, default: str, among: Iterable[str]) -> str:
    raw = text(name, default)
    if raw not in among:
        stop(name, f"expected one of {', '.join(among)}, got {raw!r}")
    return raw


def web_address(name: str, default: str) -> str:
    raw = text(name, default).rstrip("/")
    parts = urlsplit(raw)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
        stop(name, f"expected an address such as https://awm.example.org, got {raw!r}")
    return raw


def traces_to(name: str) -> str:
    """Return the base address of a collector; "" without one. Its packages are looked for, and not loaded."""
    raw = text(name).rstrip("/")
    if raw and not spans.is_address(raw):
        stop(name, f"expected {spans.ADDRESS}")
    if raw and not spans.are_possible():
        stop(name, f"needs {spans.PACKAGES}")
    return raw


def endpoint(prefix: str, defaults: Mapping[str, str] = {}) -> EndpointConfig | None:
    """Return a model role's endpoint, or None if it is not configured. Roles do not share endpoints."""
    set_or_given = {prefix + name: value for name, value in defaults.items()} | os.environ
    try:
        return EndpointConfig.from_environment(prefix, set_or_given)
    except ValueError as error:
        stop(prefix + "*", str(error))
        return None


def endpoints(role: str, first: EndpointConfig | None, further: str) -> dict[str, EndpointConfig]:
    """Return the models of a role by name.

    The first has the role's own name; each further one has its own variables (AWMWEB_EXPERT_SMALL_BASE_URL for
    `small`; `local` needs none). Expert models are asked in this order."""
    prefix, names = f"AWMWEB_{role.upper()}_", f"AWMWEB_{role.upper()}S"
    models = {role: first} if first is not None else {}
    for name in filter(None, (part.strip() for part in further.split(","))):
        if not name.isidentifier() or name in models:
            stop(names, f"expected different plain names, got {name!r}")
        if model := endpoint(f"{prefix}{name.upper()}_", LOCAL if name == "local" else {}):
            models[name] = model
        else:
            stop(f"{prefix}{name.upper()}_*", f"{names} names {name!r}, but its endpoint is not set")
    return models


def limits(first: int, agents: Iterable[str]) -> dict[str, int]:
    """Return the limit of concurrent episodes of each agent model that has one.

    Further models have their own variables (AWMWEB_AGENT_TUNED_PARALLEL for `tuned`).
    """
    further = {
        name: number(f"AWMWEB_AGENT_{name.upper()}_PARALLEL", 0, 0, 10_000) for name in agents if name != "agent"
    }
    return {name: most for name, most in {"agent": first, **further}.items() if most}


def price_table(name: str) -> dict[str, TokenPrice]:
    """Return the prices by model from the file that a setting names. A relative path starts at the checkout."""
    raw = text(name)
    if not raw:
        return {}
    try:
        return rates_in((BASE_DIR / Path(raw).expanduser()).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        stop(name, f"{raw}: {error}")
        return {}


def environment_server(name: str) -> dict[str, Any]:
    """Return a further environment server with its headers and its timeout. Messages never contain a header."""
    prefix = f"AWMWEB_ENVIRONMENT_{name.upper()}_"
    url = text(f"{prefix}URL")
    parts = urlsplit(url)
    # A password in an address would be in every error that names the address.
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname or "@" in parts.netloc or parts.query:
        stop(f"{prefix}URL", "expected an address such as http://127.0.0.1:8100, without password and query")
    try:
        headers = json.loads(text(f"{prefix}HEADERS", "{}"))
    except ValueError:
        headers = None
    fits = isinstance(headers, dict) and all(
        # A line break in a value would start another header.
        isinstance(value, str) and (key + value).isascii() and (key + value).isprintable()
        for key, value in headers.items()
    )
    if not fits:
        stop(f"{prefix}HEADERS", 'expected a JSON object of strings, such as {"X-Name": "value"}')
    return {"url": url, "headers": headers, "timeout_s": number(f"{prefix}TIMEOUT_S", 120, 1, 86_400)}


def environments(further: str) -> dict[str, dict[str, Any]]:
    """Return further environment servers by name, each with its own variables (AWMWEB_ENVIRONMENT_LAB_URL: `lab`)."""
    servers: dict[str, dict[str, Any]] = {}
    for name in filter(None, (part.strip() for part in further.split(","))):
        if not name.isidentifier() or name in servers or name == "awm":
            stop("AWMWEB_ENVIRONMENTS", f"expected different plain names other than 'awm', got {name!r}")
        servers[name] = environment_server(name)
    return servers


def policies(text_of_it: str) -> dict[str, str]:
    """Return the functions that plans can name as policies: `teacher=package.module:function`, with commas between."""
    named: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text_of_it.split(","))):
        name, _, place = part.partition("=")
        module, _, function = place.partition(":")
        if not name.isidentifier() or name in named or not function.isidentifier() or not module:
            stop("AWMWEB_POLICIES", f"expected names as teacher=package.module:function, got {part!r}")
        named[name] = place
    return named


def mail_server() -> MailServer | None:
    """Return the server for outgoing mail, or None.

    smtp: plain, smtp+tls: STARTTLS, smtps: TLS from the first byte.
    """
    raw = text("AWMWEB_MAIL_URL")
    if not raw:
        return None
    try:
        parts = urlsplit(raw)
        port = parts.port or {"smtp": 25, "smtp+tls": 587}.get(parts.scheme, 465)
    except ValueError as error:
        stop("AWMWEB_MAIL_URL", str(error))
        return None
    if parts.scheme not in ("smtp", "smtp+tls", "smtps") or not parts.hostname:
        stop("AWMWEB_MAIL_URL", "expected an address such as smtps://user:password@mail.example.org")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MailServer(parts.hostname or "", port, user, password, parts.scheme == "smtp+tls", parts.scheme == "smtps")


def issuer(name: str) -> str:
    """Return the address of a sign-in provider as its discovery has it. Codes and tokens travel there: only https, or
    http on this machine."""
    raw = text(name).removesuffix("/.well-known/openid-configuration").rstrip("/")
    parts = urlsplit(raw)
    is_ours = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if raw and not (parts.scheme == "https" or is_ours) or raw and not parts.hostname or parts.query or parts.fragment:
        stop(name, f"expected an address such as https://login.example.org/realms/lab, got {raw!r}")
    return raw


def required(name: str) -> str:
    raw = text(name)
    if not raw:
        stop(name, "must be set with AWMWEB_OIDC_ISSUER")
    return raw


def rights_map(name: str) -> dict[str, dict[str, str]]:
    """Return roles by project by group, from a setting or the file that it names."""
    raw = required(name)
    try:
        if not raw.startswith("{"):
            raw = (BASE_DIR / Path(raw).expanduser()).read_text(encoding="utf-8")
        return identity.read_map(raw)
    except (OSError, ValueError) as error:
        stop(name, str(error))
        return {}


def exports_storage(folder: Path) -> dict[str, object]:
    """Return the storage of datasets: a folder, or with AWMWEB_EXPORTS_S3 a bucket of an S3-compatible store.

    boto3 finds its keys (AWS_ACCESS_KEY_ID and others).
    """
    raw = text("AWMWEB_EXPORTS_S3")
    if not raw:
        return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": folder}}
    if importlib.util.find_spec("storages") is None or importlib.util.find_spec("boto3") is None:
        stop("AWMWEB_EXPORTS_S3", "needs boto3, of the packages of requirements-extras.lock. Run: make install-extras")
    parts = urlsplit(raw)
    if parts.scheme != "s3" or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        stop("AWMWEB_EXPORTS_S3", f"expected s3://bucket or s3://bucket/prefix, got {raw!r}")
    endpoint_url = web_address("AWMWEB_S3_ENDPOINT", "") if text("AWMWEB_S3_ENDPOINT") else None
    options: dict[str, object] = {
        "bucket_name": parts.netloc,
        "location": parts.path.strip("/"),
        "endpoint_url": endpoint_url,
        "region_name": text("AWMWEB_S3_REGION") or None,
        # Stores of one's own rarely have a host name for each bucket.
        "addressing_style": "path" if endpoint_url else "auto",
        "signature_version": "s3v4",
        # A repeated export writes the same names again; otherwise the library would make up others.
        "file_overwrite": True,
        # Buckets without ACLs refuse a request that names one.
        "default_acl": None,
    }
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}


def database(url: str, pooler: str) -> dict[str, Any]:
    """Return Django's settings of the database. A pooler in transaction mode gives each transaction another session of
    the server, so nothing may depend on a session: no prepared statement, no cursor after its transaction, and no limit
    that is set when the connection is made (`awmweb.asgi`)."""
    has_session = pooler == "none"
    config: dict[str, Any] = dict(dj_database_url.parse(url, engine="people.postgres"))
    options = config.setdefault("OPTIONS", {})
    # without `reconnect_timeout` a pool waits longer after each attempt, and pages fail long after the database is back
    options["pool"] = {"min_size": 0, "max_size": 32, "timeout": 4, "max_idle": 60, "reconnect_timeout": 2}
    options["server_side_binding"] = True
    # a statement that a connection sends for the sixth time is prepared: parsing and planning took half of its time
    options["prepare_threshold"] = 5 if has_session else None
    config["DISABLE_SERVER_SIDE_CURSORS"] = not has_session
    return config
