"""All settings of the environment server, read from the environment once. A bad value stops the start with the reason.

Owns names, defaults and bounds (docs/configuration.md lists them). Called by `app`, `__main__` and, for its few,
`verifier`.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from awmenv import schemas, spans
from awmenv.server.sandbox import confine

T = TypeVar("T")
_HOST = re.compile(r"\*|\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_ORIGIN = re.compile(r"\*|https?://[^/?#@\s]+")


class BadSetting(ValueError):
    """An invalid setting; the message names it and the allowed values."""


@dataclass(frozen=True)
class Judge:
    """The chat endpoint that reads SQL evidence. Never set by a client, never inherited by a child."""

    base_url: str = ""
    api_key: str = field(default="", repr=False)
    model: str = ""
    headers: str = field(default="", repr=False)
    query: str = ""
    timeout_s: float = 120.0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of each request, such as `max_tokens`."""

    @property
    def configured(self) -> bool:
        return bool(self.base_url and self.model)


@dataclass(frozen=True)
class Settings:
    """The environment server's settings."""

    packs: tuple[Path, ...] = ()
    watched: tuple[Path, ...] = ()  # folders of packs, looked through again while the server runs
    host: str = "127.0.0.1"
    port: int = 8100
    allowed_hosts: tuple[str, ...] = ()  # names it is reached by, besides loopback, its host and addresses
    allowed_origins: tuple[str, ...] = ()  # origins of other pages that can use it
    run_dir: str = ""
    cache_dir: Path | None = None  # where indexes of packs and records of verifiers outlive the process
    max_sessions: int = 1000
    idle_s: float = 86400.0
    detached_s: float = 900.0
    call_timeout_s: float = 30.0
    load_timeout_s: float = 30.0
    verifier_timeout_s: float = 20.0
    verifier_slots: int = 4
    min_tier: str = confine.STRICT
    declared_tier: str = ""
    uid: int = 0  # 0: a block of users that no other server on this machine has
    warm_scenarios: int = 16
    template_hours: float = 6.0
    session_cpu_s: int = 900
    session_memory_mb: int = 2048
    session_disk_mb: int = 256
    labels: str = "cause"
    partial: bool = True
    schemas: str = schemas.FULL
    attest_key: str = field(default="", repr=False)  # shared with the dashboard; without it nothing is attested
    judge: Judge = field(default_factory=Judge)
    traces_to: str = ""  # a collector of OpenTelemetry

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        env = os.environ if environment is None else environment
        read = _Reader(env)
        return cls(
            packs=tuple(Path(part) for part in _pack_folders(env)),
            host=env.get("AWMENV_HOST") or cls.host,
            port=read.whole("AWMENV_PORT", cls.port, 0, 65535),
            allowed_hosts=(
                *_names(env.get("AWMENV_ALLOWED_HOSTS", ""), _HOST, "AWMENV_ALLOWED_HOSTS", "names without a port"),
                *_names(env.get("SPACE_HOST", ""), _HOST, "SPACE_HOST", "the name of a Space"),
            ),
            allowed_origins=_names(
                env.get("AWMENV_ALLOWED_ORIGINS", ""), _ORIGIN, "AWMENV_ALLOWED_ORIGINS", "origins as https://name:port"
            ),
            run_dir=env.get("AWMENV_RUN_DIR", ""),
            cache_dir=_cache_dir(env),
            max_sessions=read.whole("AWMENV_MAX_SESSIONS", cls.max_sessions, 1, 100_000),
            idle_s=read.number("AWMENV_IDLE_S", cls.idle_s, 1),
            detached_s=read.number("AWMENV_DETACHED_S", cls.detached_s, 1),
            call_timeout_s=read.number("AWMENV_CALL_TIMEOUT", cls.call_timeout_s, 0.1),
            load_timeout_s=read.number("AWMENV_LOAD_TIMEOUT", cls.load_timeout_s, 0.1),
            verifier_timeout_s=read.number("AWMENV_VERIFIER_TIMEOUT", cls.verifier_timeout_s, 1),
            verifier_slots=read.whole("AWMENV_VERIFIER_SLOTS", cls.verifier_slots, 1, 64),
            min_tier=read.choice("AWMENV_MIN_TIER", cls.min_tier, confine.TIERS[1:]),
            declared_tier=read.choice("AWMENV_DECLARED_TIER", "", ("", confine.CONTAINER, confine.DEGRADED)),
            uid=read.whole("AWMENV_SANDBOX_UID", cls.uid, 0, 2**31 - 5000),
            warm_scenarios=read.whole("AWMENV_WARM_SCENARIOS", cls.warm_scenarios, 1, 1000),
            template_hours=read.number("AWMENV_TEMPLATE_HOURS", cls.template_hours, 0.001),
            session_cpu_s=read.whole("AWMENV_SESSION_CPU_S", cls.session_cpu_s, 1, 10**6),
            session_memory_mb=read.whole("AWMENV_SESSION_MEMORY_MB", cls.session_memory_mb, 64, 10**6),
            session_disk_mb=read.whole("AWMENV_SESSION_DISK_MB", cls.session_disk_mb, 1, 10**6),
            labels=read.choice("AWMENV_LABELS", cls.labels, ("cause", "upstream")),
            partial=read.choice("AWMENV_PARTIAL", "1", ("0", "1")) == "1",
            schemas=read.choice("AWMENV_SCHEMAS", cls.schemas, (schemas.FULL, schemas.SHORT)),
            attest_key=_attest_key(env.get("AWMENV_ATTEST_KEY_FILE", "")),
            judge=_judge(env, read),
            traces_to=_traces_to(env.get("AWMENV_TRACES_TO", "")),
        )


def _names(text: str, form: re.Pattern[str], setting: str, rule: str) -> tuple[str, ...]:
    """Return a comma-separated list in lower case."""
    names = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    wrong = next((name for name in names if not form.fullmatch(name)), None)
    if wrong is not None:
        raise BadSetting(f"{setting} holds {wrong!r}; it must be {rule}, with commas between, or *")
    return names


def _judge(env: Mapping[str, str], read: "_Reader") -> Judge:
    judge = Judge(
        base_url=env.get("AWMENV_JUDGE_BASE_URL", ""),
        api_key=env.get("AWMENV_JUDGE_API_KEY", ""),
        model=env.get("AWMENV_JUDGE_MODEL", ""),
        headers=env.get("AWMENV_JUDGE_HEADERS", ""),
        query=env.get("AWMENV_JUDGE_QUERY", ""),
        timeout_s=read.number("AWMENV_JUDGE_TIMEOUT_S", Judge.timeout_s, 1),
        options=_judge_options(env.get("AWMENV_JUDGE_OPTIONS", "")),
    )
    if judge.base_url and not judge.base_url.startswith(("http://", "https://")):
        raise BadSetting("AWMENV_JUDGE_BASE_URL must be an http or https address")
    if bool(judge.base_url) != bool(judge.model):
        raise BadSetting("AWMENV_JUDGE_BASE_URL and AWMENV_JUDGE_MODEL are needed together")
    if judge.headers and not _is_headers(judge.headers):
        raise BadSetting("AWMENV_JUDGE_HEADERS must be a JSON object of texts that a header can carry")
    if not judge.api_key.isascii() or not judge.api_key.isprintable():
        raise BadSetting("AWMENV_JUDGE_API_KEY holds characters that no header can carry")
    return judge


def _judge_options(text: str) -> dict[str, Any]:
    try:
        options = json.loads(text or "{}")
    except (ValueError, RecursionError):
        options = None
    extra = options.pop("extra", {}) if isinstance(options, dict) else None
    if not isinstance(options, dict) or not isinstance(extra, dict) or {"model", "messages"} & {*options, *extra}:
        raise BadSetting('AWMENV_JUDGE_OPTIONS must be a JSON object of options, such as {"max_tokens": 512}')
    return {**options, **extra}


def _traces_to(address: str) -> str:
    if address and not spans.is_address(address):
        raise BadSetting(f"AWMENV_TRACES_TO must be {spans.ADDRESS}")
    if address and not spans.are_possible():
        raise BadSetting(f"AWMENV_TRACES_TO needs {spans.PACKAGES}")
    return address.rstrip("/")


def _is_headers(text: str) -> bool:
    """Return whether a text is a JSON object of headers.

    Messages about a bad value never contain it: it may be a key.
    """
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and all(
        isinstance(part, str) and part.isascii() and part.isprintable() for pair in value.items() for part in pair
    )


def _attest_key(file: str) -> str:
    if not file:
        return ""
    try:
        key = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"AWMENV_ATTEST_KEY_FILE: {error}") from error
    if len(key) < 32:
        raise BadSetting("AWMENV_ATTEST_KEY_FILE: the key needs at least 32 characters")
    return key


def _cache_dir(env: Mapping[str, str]) -> Path | None:
    """Return the cache folder; a user without a home has none."""
    if env.get("AWMENV_CACHE_DIR"):
        return Path(env["AWMENV_CACHE_DIR"])
    try:
        return Path.home() / ".cache" / "awmenv"
    except RuntimeError:
        return None


def _pack_folders(env: Mapping[str, str]) -> list[str]:
    """Return AWMENV_PACKS (separated like PATH), else AWM_DATA_DIR, upstream's name, which is one folder."""
    if env.get("AWMENV_PACKS"):
        return [part for part in env["AWMENV_PACKS"].split(os.pathsep) if part]
    return [env["AWM_DATA_DIR"]] if env.get("AWM_DATA_DIR") else []


class _Reader:
    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        return self._read(
            name, default, int, lambda value: low <= value <= high, f"a whole number from {low} to {high}"
        )

    def number(self, name: str, default: float, low: float) -> float:
        return self._read(name, default, float, lambda value: low <= value < float("inf"), f"a number, at least {low}")

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        rule = " or ".join(value for value in allowed if value)
        return self._read(name, default, str, lambda value: value in allowed, rule)

    def _read(self, name: str, default: T, kind: Callable[[str], T], good: Callable[[T], bool], rule: str) -> T:
        text = self.env.get(name, "")
        if text == "":
            return default
        try:
            value: T | None = kind(text)
        except ValueError:
            value = None
        if value is None or not good(value):
            raise BadSetting(f"{name} is {text!r}; it must be {rule}")
        return value
