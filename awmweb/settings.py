"""Settings, read only from the environment. A bad value stops the start with the reason.

Every variable has a line in docs/configuration.md.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import urlsplit

from celery.schedules import crontab
from csp.constants import NONE, SELF

from awmenv.version import version
from awmweb import embedded
from awmweb.embedded import services, space
from awmweb.embedded.paths import data_paths
from awmweb.variables import (
    BASE_DIR,
    choice,
    database,
    endpoint,
    endpoints,
    environments,
    exports_storage,
    issuer,
    limits,
    mail_server,
    number,
    policies,
    price_table,
    required,
    rights_map,
    stop,
    switch,
    text,
    traces_to,
    web_address,
)

VERSION = version()


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
        stop(_name, "needs DATABASE_URL, the address that all other processes have")
AWMWEB_POOLER = choice("AWMWEB_POOLER", "none", ("none", "transaction"))
REDIS_URL = text("REDIS_URL", _embedded.redis)
BROKER_URL = text("REDIS_URL", _embedded.broker)

try:
    ATTEST_KEY = embedded.attest_key(VAR)
except (OSError, UnicodeDecodeError) as error:
    stop("AWMENV_ATTEST_KEY_FILE", str(error))
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
