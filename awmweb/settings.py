"""Settings, read only from the environment. A bad value stops the start with the reason.

Every variable has a line in docs/configuration.md.
"""

from __future__ import annotations

import hashlib
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
from celery.schedules import crontab
from csp.constants import NONE, SELF

from awmclient.choosing.chat import EndpointConfig
from awmenv import spans
from awmenv.version import version
from awmweb import embedded
from awmweb.embedded import services, space
from awmweb.embedded.paths import data_paths
from awmweb.weights import LOCAL
from people import identity
from runs.statistics.costs import TokenPrice, rates_in

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = version()


@dataclass(frozen=True)
class MailServer:
    """The server for outgoing mail."""

    host: str
    port: int
    username: str
    password: str
    use_tls: bool
    use_ssl: bool


def _stop(name: str, why: str) -> None:
    sys.exit(f"{name}: {why}")


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def number(name: str, default: int, low: int, high: int) -> int:
    raw = text(name, str(default))
    if not raw.isdecimal() or not low <= int(raw) <= high:
        _stop(name, f"expected a whole number from {low} to {high}, got {raw!r}")
    return int(raw)


def switch(name: str, default: bool) -> bool:
    raw = text(name, "1" if default else "0")
    if raw not in ("0", "1"):
        _stop(name, f"expected 0 or 1, got {raw!r}")
    return raw == "1"


def choice(name: str, default: str, among: Iterable[str]) -> str:
    raw = text(name, default)
    if raw not in among:
        _stop(name, f"expected one of {', '.join(among)}, got {raw!r}")
    return raw


def web_address(name: str, default: str) -> str:
    raw = text(name, default).rstrip("/")
    parts = urlsplit(raw)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
        _stop(name, f"expected an address such as https://awm.example.org, got {raw!r}")
    return raw


def traces_to(name: str) -> str:
    """Return the base address of a collector; "" without one. Its packages are looked for, and not loaded."""
    raw = text(name).rstrip("/")
    if raw and not spans.is_address(raw):
        _stop(name, f"expected {spans.ADDRESS}")
    if raw and not spans.are_possible():
        _stop(name, f"needs {spans.PACKAGES}")
    return raw


def endpoint(prefix: str, defaults: Mapping[str, str] = {}) -> EndpointConfig | None:
    """Return a model role's endpoint, or None if it is not configured. Roles do not share endpoints."""
    set_or_given = {prefix + name: value for name, value in defaults.items()} | os.environ
    try:
        return EndpointConfig.from_environment(prefix, set_or_given)
    except ValueError as error:
        _stop(prefix + "*", str(error))
        return None


def endpoints(role: str, first: EndpointConfig | None, further: str) -> dict[str, EndpointConfig]:
    """Return the models of a role by name.

    The first has the role's own name; each further one has its own variables (AWMWEB_EXPERT_SMALL_BASE_URL for
    `small`; `local` needs none). Expert models are asked in this order."""
    prefix, names = f"AWMWEB_{role.upper()}_", f"AWMWEB_{role.upper()}S"
    models = {role: first} if first is not None else {}
    for name in filter(None, (part.strip() for part in further.split(","))):
        if not name.isidentifier() or name in models:
            _stop(names, f"expected different plain names, got {name!r}")
        if model := endpoint(f"{prefix}{name.upper()}_", LOCAL if name == "local" else {}):
            models[name] = model
        else:
            _stop(f"{prefix}{name.upper()}_*", f"{names} names {name!r}, but its endpoint is not set")
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
        _stop(name, f"{raw}: {error}")
        return {}


def environment_server(name: str) -> dict[str, Any]:
    """Return a further environment server with its headers and its timeout. Messages never contain a header."""
    prefix = f"AWMWEB_ENVIRONMENT_{name.upper()}_"
    url = text(f"{prefix}URL")
    parts = urlsplit(url)
    # A password in an address would be in every error that names the address.
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname or "@" in parts.netloc or parts.query:
        _stop(f"{prefix}URL", "expected an address such as http://127.0.0.1:8100, without password and query")
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
        _stop(f"{prefix}HEADERS", 'expected a JSON object of strings, such as {"X-Name": "value"}')
    return {"url": url, "headers": headers, "timeout_s": number(f"{prefix}TIMEOUT_S", 120, 1, 86_400)}


def environments(further: str) -> dict[str, dict[str, Any]]:
    """Return further environment servers by name, each with its own variables (AWMWEB_ENVIRONMENT_LAB_URL: `lab`)."""
    servers: dict[str, dict[str, Any]] = {}
    for name in filter(None, (part.strip() for part in further.split(","))):
        if not name.isidentifier() or name in servers or name == "awm":
            _stop("AWMWEB_ENVIRONMENTS", f"expected different plain names other than 'awm', got {name!r}")
        servers[name] = environment_server(name)
    return servers


def policies(text_of_it: str) -> dict[str, str]:
    """Return the functions that plans can name as policies: `teacher=package.module:function`, with commas between."""
    named: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text_of_it.split(","))):
        name, _, place = part.partition("=")
        module, _, function = place.partition(":")
        if not name.isidentifier() or name in named or not function.isidentifier() or not module:
            _stop("AWMWEB_POLICIES", f"expected names as teacher=package.module:function, got {part!r}")
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
        _stop("AWMWEB_MAIL_URL", str(error))
        return None
    if parts.scheme not in ("smtp", "smtp+tls", "smtps") or not parts.hostname:
        _stop("AWMWEB_MAIL_URL", "expected an address such as smtps://user:password@mail.example.org")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MailServer(parts.hostname or "", port, user, password, parts.scheme == "smtp+tls", parts.scheme == "smtps")


def issuer(name: str) -> str:
    """Return the address of a sign-in provider as its discovery has it. Codes and tokens travel there: only https, or
    http on this machine."""
    raw = text(name).removesuffix("/.well-known/openid-configuration").rstrip("/")
    parts = urlsplit(raw)
    is_ours = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if raw and not (parts.scheme == "https" or is_ours) or raw and not parts.hostname or parts.query or parts.fragment:
        _stop(name, f"expected an address such as https://login.example.org/realms/lab, got {raw!r}")
    return raw


def required(name: str) -> str:
    raw = text(name)
    if not raw:
        _stop(name, "must be set with AWMWEB_OIDC_ISSUER")
    return raw


def rights_map(name: str) -> dict[str, dict[str, str]]:
    """Return roles by project by group, from a setting or the file that it names."""
    raw = required(name)
    try:
        if not raw.startswith("{"):
            raw = (BASE_DIR / Path(raw).expanduser()).read_text(encoding="utf-8")
        return identity.read_map(raw)
    except (OSError, ValueError) as error:
        _stop(name, str(error))
        return {}


def exports_storage(folder: Path) -> dict[str, object]:
    """Return the storage of datasets: a folder, or with AWMWEB_EXPORTS_S3 a bucket of an S3-compatible store.

    boto3 finds its keys (AWS_ACCESS_KEY_ID and others).
    """
    raw = text("AWMWEB_EXPORTS_S3")
    if not raw:
        return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": folder}}
    if importlib.util.find_spec("storages") is None or importlib.util.find_spec("boto3") is None:
        _stop("AWMWEB_EXPORTS_S3", "needs boto3, of the packages of requirements-extras.lock. Run: make install-extras")
    parts = urlsplit(raw)
    if parts.scheme != "s3" or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        _stop("AWMWEB_EXPORTS_S3", f"expected s3://bucket or s3://bucket/prefix, got {raw!r}")
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


def runs_on(var: Path) -> bool:
    """Return whether the database of a data folder responds; true with a database of the operator's own."""
    return not embedded.nothing_runs_on(os.environ | {"AWMWEB_VAR": str(var)})


def disk_is_full() -> bool:
    """Return whether the disk of the data folder, or of the embedded database, is full."""
    here = data_paths(VAR)
    return space.full_among(here.var, here.home) is not None


VAR = Path(text("AWMWEB_VAR", str(BASE_DIR / "var"))).resolve()
RUNS_ON = runs_on
DISK_IS_FULL = disk_is_full
AWMWEB_HOST = text("AWMWEB_HOST", "127.0.0.1")
AWMWEB_PORT = number("AWMWEB_PORT", 8000, 1, 65535)
AWMWEB_PUBLIC_URL = web_address("AWMWEB_PUBLIC_URL", f"http://127.0.0.1:{AWMWEB_PORT}")
# commands print links to the product that runs on this data folder, on its actual address and port
LINK_BASE = text("AWMWEB_PUBLIC_URL") or embedded.address(VAR) or AWMWEB_PUBLIC_URL
AWMENV_PORT = number("AWMENV_PORT", 8100, 1, 65535)
AWMENV_CACHE_DIR = Path(text("AWMENV_CACHE_DIR", str(VAR / "cache")))
AWMENV_HOST = text("AWMENV_HOST", "127.0.0.1")
AWMENV_URL = text("AWMENV_URL", f"ws://{services.reached_at(AWMENV_HOST)}:{AWMENV_PORT}/ws")
AWMWEB_WEB_PROCESSES = number("AWMWEB_WEB_PROCESSES", 1, 1, 64)
EXPORT_PROCESSES = number("AWMWEB_EXPORT_PROCESSES", min(2, os.cpu_count() or 1), 1, 64)
AWMWEB_HEARTBEAT_S = number("AWMWEB_HEARTBEAT_S", 90, 2, 86_400)
AWMWEB_PARK_AFTER_S = number("AWMWEB_PARK_AFTER_S", 60, 0, 86_400)
AWMWEB_UNDO_S = number("AWMWEB_UNDO_S", 5, 0, 10)
AWMWEB_DEMO = switch("AWMWEB_DEMO", True)
PACKS_DIR = BASE_DIR / "packs"
AGENT_ENDPOINTS = endpoints("agent", endpoint("AWMWEB_AGENT_"), text("AWMWEB_AGENTS"))
ENVIRONMENTS = environments(text("AWMWEB_ENVIRONMENTS"))
AWMWEB_POLICIES = policies(text("AWMWEB_POLICIES"))
AGENT_LIMITS = limits(number("AWMWEB_AGENT_PARALLEL", 0, 0, 10_000), AGENT_ENDPOINTS)
EXPERT_ENDPOINT = endpoint("AWMWEB_EXPERT_")
EXPERT_ENDPOINTS = endpoints("expert", EXPERT_ENDPOINT, text("AWMWEB_EXPERTS"))
EXPERT_PROSE = switch("AWMWEB_EXPERT_PROSE", True)
PRICES = price_table("AWMWEB_PRICES")
AWMWEB_EXPERT_LIMIT = number("AWMWEB_EXPERT_LIMIT", 4, 1, 1000)
# the environment server asks the judge; here its secrets are not known (embedded/services.py), and not needed
JUDGE_ENDPOINT = endpoint("AWMENV_JUDGE_")
MAIL_SERVER = mail_server()
AWMWEB_MAIL_FROM = text("AWMWEB_MAIL_FROM", f"awmweb@{urlsplit(AWMWEB_PUBLIC_URL).hostname}")
AWMWEB_SLACK_TOKEN = text("AWMWEB_SLACK_TOKEN")
AWMWEB_SLACK_SECRET = text("AWMWEB_SLACK_SECRET")
AWMWEB_SLACK_URL = web_address("AWMWEB_SLACK_URL", "https://slack.com")
AWMWEB_NOTICES_PRIVATE = switch("AWMWEB_NOTICES_PRIVATE", False)
AWMWEB_OIDC_ISSUER = issuer("AWMWEB_OIDC_ISSUER")
AWMWEB_OIDC_NAME = text("AWMWEB_OIDC_NAME", urlsplit(AWMWEB_OIDC_ISSUER).hostname or "")
AWMWEB_OIDC_CLIENT_ID = required("AWMWEB_OIDC_CLIENT_ID") if AWMWEB_OIDC_ISSUER else ""
AWMWEB_OIDC_CLIENT_SECRET = required("AWMWEB_OIDC_CLIENT_SECRET") if AWMWEB_OIDC_ISSUER else ""
AWMWEB_OIDC_SCOPES = text("AWMWEB_OIDC_SCOPES", "openid profile email").split()
AWMWEB_OIDC_GROUPS = text("AWMWEB_OIDC_GROUPS", "groups")
AWMWEB_OIDC_MAP = rights_map("AWMWEB_OIDC_MAP") if AWMWEB_OIDC_ISSUER else {}
AWMWEB_OIDC_CHECK_S = number("AWMWEB_OIDC_CHECK_S", 30, 5, 3600)
AWMWEB_OIDC_SESSION_H = number("AWMWEB_OIDC_SESSION_H", 12, 1, 720)
AWMWEB_MFA = switch("AWMWEB_MFA", False)
HUB_TOKEN = text("AWMWEB_HUB_TOKEN", text("HF_TOKEN"))
HUB_ENDPOINT = web_address("HF_ENDPOINT", "https://huggingface.co")
VAPID_KEY = embedded.vapid_key(VAR)

_embedded = embedded.urls(VAR)
DATABASE_URL = text("DATABASE_URL", _embedded.database)
_others = {"DATABASE_URL_WEB": text("DATABASE_URL_WEB"), "DATABASE_URL_DIRECT": text("DATABASE_URL_DIRECT")}
for _name, _value in _others.items():
    if _value and not text("DATABASE_URL"):
        _stop(_name, "needs DATABASE_URL, the address that all other processes have")
AWMWEB_POOLER = choice("AWMWEB_POOLER", "none", ("none", "transaction"))
REDIS_URL = text("REDIS_URL", _embedded.redis)
BROKER_URL = text("REDIS_URL", _embedded.broker)

try:
    ATTEST_KEY = embedded.attest_key(VAR)
except (OSError, UnicodeDecodeError) as error:
    _stop("AWMENV_ATTEST_KEY_FILE", str(error))
SECRET_KEY = embedded.secret_key(VAR)
DEBUG = False
_public = urlsplit(AWMWEB_PUBLIC_URL)
ALLOWED_HOSTS = sorted({_public.hostname or "", "127.0.0.1", "localhost", "[::1]"})
# A wildcard address is no name that a browser sends.
if AWMWEB_HOST not in ("0.0.0.0", "::", "127.0.0.1"):
    ALLOWED_HOSTS.append(AWMWEB_HOST)
CSRF_TRUSTED_ORIGINS = [AWMWEB_PUBLIC_URL]
_secure = _public.scheme == "https"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _secure
SESSION_COOKIE_HTTPONLY = True
# With the prefix `__Host-` browsers take the cookie only over TLS, and from this very host.
# Cookies ignore the port: two installations on one machine would sign each other's people out. The port is that of the
# address that people open, which all web processes of an installation share.
SESSION_COOKIE_NAME = f"awmweb_session_{_public.port or 80}" if not _secure else "__Host-awmweb_session"
CSRF_COOKIE_NAME = f"awmweb_csrf_{_public.port or 80}" if not _secure else "__Host-awmweb_csrf"
# Links in mails open signed in, and a POST from another site brings no cookie.
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_ENGINE = "people.requests.sessions"
SESSION_COOKIE_AGE = 3600 * number("AWMWEB_SESSION_H", 720, 1, 8760)
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
# Only with TLS: without a proxy that sets the header, any client could claim https.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _secure else None
SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365 if _secure else 0
X_FRAME_OPTIONS = "DENY"
# TLS ends at the operator's proxy, which also owns redirects and the domain's subdomains and preload list
SILENCED_SYSTEM_CHECKS = ["security.W008", "security.W005", "security.W021"]
if not _secure:
    # plain http on loopback or in a trusted network: the cookies cannot be marked secure
    SILENCED_SYSTEM_CHECKS += ["security.W004", "security.W012", "security.W016"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "manifest-src": [SELF],
        "worker-src": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",  # for its tag alone, which asks `kept_files.py` for the address of a file
    "django_htmx",
    "channels",
    "csp",
    "awmweb",
    "people",
    "notices",
    "episodes",
    "reviews",
    "experts",
    "runs",
    "curriculum",
    "exports",
    "imports",
]
MIDDLEWARE = [
    "awmweb.middleware.Answers",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "awmweb.middleware.InProject",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "awmweb.middleware.Refusals",
]
if AWMWEB_OIDC_ISSUER or AWMWEB_MFA:
    INSTALLED_APPS.append("allauth.account")
    if AWMWEB_OIDC_ISSUER:
        INSTALLED_APPS += ["allauth.socialaccount", "allauth.socialaccount.providers.openid_connect"]
    if AWMWEB_MFA:
        INSTALLED_APPS.append("allauth.mfa")
    MIDDLEWARE.insert(
        MIDDLEWARE.index("django_htmx.middleware.HtmxMiddleware"), "allauth.account.middleware.AccountMiddleware"
    )
# A provider that takes another's place can use its names for other people, so the issuer is a part of each account.
OIDC_PROVIDER = f"oidc-{hashlib.sha256(AWMWEB_OIDC_ISSUER.encode()).hexdigest()[:16]}"
if AWMWEB_OIDC_ISSUER:
    ACCOUNT_ADAPTER = "people.pages.provider.Accounts"
MFA_ADAPTER = "people.record.factors.Factors"
ACCOUNT_EMAIL_VERIFICATION = SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_EMAIL_NOTIFICATIONS = SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
SOCIALACCOUNT_ADAPTER = "people.pages.provider.Provider"
# Not by a form: browsers apply `form-action` to redirects too, and the policy would have to name the provider.
SOCIALACCOUNT_LOGIN_ON_GET = True
SOCIALACCOUNT_STORE_TOKENS = False  # people/record/following.py keeps one, sealed
LOGIN_REDIRECT_URL = "/"
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "APPS": [
            {
                "provider_id": OIDC_PROVIDER,
                "name": AWMWEB_OIDC_NAME,
                "client_id": AWMWEB_OIDC_CLIENT_ID,
                "secret": AWMWEB_OIDC_CLIENT_SECRET,
                "settings": {"server_url": AWMWEB_OIDC_ISSUER, "oauth_pkce_enabled": True},
            }
        ],
        "SCOPE": AWMWEB_OIDC_SCOPES,
        "OAUTH_PKCE_ENABLED": True,
    }
}
ROOT_URLCONF = "awmweb.urls"
ASGI_APPLICATION = "awmweb.asgi.application"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": VAR / "files"}},
    "staticfiles": {"BACKEND": "awmweb.kept_files.VersionedFiles"},
    "exports": exports_storage(VAR / "exports" / "datasets"),
}
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "awmweb.views.frame",
            ],
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    ["awmweb.templates.Loader"],
                )
            ],
        },
    }
]
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_URL = "/static/"
LOGIN_URL = "/login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False
# A step has at most 8 MB; the rest is what surrounds it.
DATA_UPLOAD_MAX_MEMORY_SIZE = 9 * 1024 * 1024
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

DATABASES = {"default": database(DATABASE_URL, AWMWEB_POOLER)}
DATABASES["default"]["TEST"] = {"NAME": "awmweb_test"}

CELERY_BROKER_URL = BROKER_URL
# The database is the record of all work, so no result is stored a second time.
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False
# A worker takes only what it can start: a prefetched rollout would wait behind one that waits for a person.
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A rollout goes on while Valkey restarts: all it needs is in the database.
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_TIMEZONE = "UTC"
CELERY_TASK_ROUTES = {"runs.tasks.play": {"queue": "rollouts"}}
# what is late by more than half a day waits for the next night
DAY = {"expires": 43_200}
# A tick that could not run in time expires: the next one does the same work.
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "experts.tasks.sweep", "schedule": 5.0, "options": {"expires": 5}},
    "notify": {"task": "notices.tasks.send", "schedule": 5.0, "options": {"expires": 5}},
    "redraw_slack": {"task": "notices.tasks.redraw_missed", "schedule": 30.0, "options": {"expires": 30}},
    "forget_notices": {"task": "notices.tasks.forget", "schedule": 3600.0, "options": {"expires": 600}},
    "forget_answers": {"task": "awmweb.tasks.forget_answers", "schedule": 3600.0, "options": {"expires": 600}},
    "wake_exports": {"task": "exports.tasks.wake", "schedule": 15.0, "options": {"expires": 15}},
    "index": {"task": "episodes.tasks.index", "schedule": 2.0, "options": {"expires": 2}},
    "wake_imports": {"task": "imports.tasks.wake", "schedule": 15.0, "options": {"expires": 15}},
    "settle_traces": {"task": "imports.tasks.settle", "schedule": 15.0, "options": {"expires": 15}},
    "wake": {"task": "runs.tasks.wake", "schedule": 10.0, "options": {"expires": 10}},
    "withdraw": {"task": "runs.tasks.withdraw", "schedule": 20.0, "options": {"expires": 20}},
    # at night in Europe and the Americas
    "retain": {"task": "awmweb.tasks.retain", "schedule": crontab(hour=3, minute=20), "options": DAY},
    "make_partitions": {"task": "awmweb.tasks.make_partitions", "schedule": crontab(hour=2, minute=40), "options": DAY},
    "fill_queues": {"task": "reviews.tasks.fill_queues", "schedule": 60.0, "options": {"expires": 60}},
    "pay_ended": {"task": "runs.tasks.pay_ended", "schedule": 15.0, "options": {"expires": 15}},
}
if AWMWEB_OIDC_ISSUER:
    CELERY_IMPORTS = ("people.watching",)
    every_5_s = {"schedule": 5.0, "options": {"expires": 5}}
    CELERY_BEAT_SCHEDULE["check_provider"] = {"task": "people.watching.check", **every_5_s}
CELERY_BEAT_SCHEDULER = "awmweb.beat:Scheduler"
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR / "beat" / "schedule")

AWMWEB_TRACES_TO = traces_to("AWMWEB_TRACES_TO")
AWMWEB_LOG_FORMAT = choice("AWMWEB_LOG_FORMAT", "line", ("line", "json"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "class": "awmweb.logs.LineFormatter",
            "format": "{asctime} {levelname} {name} {message}",
            "style": "{",
        },
        "json": {"class": "awmweb.logs.JsonFormatter"},
    },
    "filters": {"addresses": {"()": "awmweb.logs.NoAddresses"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": AWMWEB_LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": text("AWMWEB_LOG_LEVEL", "INFO")},
    "loggers": {
        **{name: {"level": "WARNING"} for name in ("httpx", "httpx2", "httpcore", "mcp")},
        "uvicorn": {"handlers": ["console"], "propagate": False},  # which would write in a form of its own
        # addresses hold search words; uvicorn's own switch leaves a logger alone that has a parent with a handler
        "uvicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
        "uvicorn.error": {"filters": ["addresses"]},
    },
}
