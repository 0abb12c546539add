"""The product's own processes: how each is started, and which environment variables it gets.

Owns command lines. The compose file runs the same ones; a test compares them. Called by `supervisor`.
"""

import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from awmweb.embedded.paths import EmbeddedError, attest_key_file
from awmweb.embedded.processes import Spec

# Only the environment server calls the judge, so no other process gets its key.
SECRETS_OF_JUDGE = {"AWMENV_JUDGE_API_KEY", "AWMENV_JUDGE_HEADERS", "AWMENV_JUDGE_QUERY"}
# The environment server runs other people's code: it gets no database password and no model key but the judge's.
OPEN_TO_ENVIRONMENT_SERVER = ("AWMENV_", "AWM_", "LC_", "SSL_CERT_")
OF_WEB, DIRECT = "DATABASE_URL_WEB", "DATABASE_URL_DIRECT"
"""Addresses of the database that some processes have in place of DATABASE_URL."""
HEADERS_OF_COLLECTOR = "OTEL_EXPORTER_OTLP_HEADERS"
PLAIN = {
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "VIRTUAL_ENV",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
}
PLAIN |= {"http_proxy", "https_proxy", "no_proxy", "HF_HOME", "HF_ENDPOINT"}

LISTENER = 99
"""The number of the file by which several web processes listen: above those that a process opens before it."""
WORKER_THREADS = 16
"""Threads of the default worker: four more than can wait for children, receivers and expert models at the same time."""
ELSEWHERE = ("worker", "rollouts", "beat", "env")
"""Services that can be left to another machine."""


@dataclass(frozen=True)
class Options:
    """The settings of this start, passed as JSON, so that the supervising process needs no Django."""

    base: str
    var: str
    host: str
    port: int
    env_port: int
    public_url: str = ""
    web_processes: int = 1
    env_host: str = "127.0.0.1"
    external_database: bool = False
    external_queue: bool = False
    without: tuple[str, ...] = ()
    """Services that another machine of the installation runs."""
    preload: str = ""
    """The module that a process imports before the services are forked from it; none without it."""

    @property
    def local_url(self) -> str:
        """The address of the web process on this machine."""
        return f"http://{reached_at(self.host)}:{self.port}"

    @property
    def env_url(self) -> str:
        """The address of the environment server on this machine."""
        return f"http://{reached_at(self.env_host)}:{self.env_port}"


def reached_at(host: str) -> str:
    """Return how this machine itself names an address on which it listens."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host and "[" not in host else host


def kind(name: str) -> str:
    """Return which service a process is of: `web-2` is one of `web`."""
    return name.partition("-")[0]


def commands(options: Options) -> dict[str, list[str]]:
    """Return the command line of each service by name, without the interpreter."""
    celery = ["-m", "celery", "-A", "awmweb"]
    # Workers need nothing from each other, and mingling would delay each start.
    worker = [*celery, "worker", "--loglevel", "info", "--pool", "threads", "--without-gossip", "--without-mingle"]
    packs = [part for folder in pack_folders(options) for part in ("--packs", str(folder))]
    packs += ["--packs-in", str(Path(options.var) / "packs")]
    # several share one socket, which is the supervisor's: uvicorn's own parent of workers is one more process to lose
    port = (
        ["--fd", str(LISTENER)] if options.web_processes > 1 else ["--host", options.host, "--port", str(options.port)]
    )
    web = ["-m", "uvicorn", "awmweb.asgi:application", *port]
    schedule = str(Path(options.var) / "beat-schedule")
    return {
        "env": ["-m", "awmenv.server", *packs, "--host", options.env_host, "--port", str(options.env_port)],
        "web": [
            *web,
            "--ws",
            "episodes.live.wire:FrameSocket",
            # `FrameSocket` compresses a frame once for all sockets; uvicorn would do so for each.
            "--ws-per-message-deflate",
            "false",
            "--no-access-log",
            "--lifespan",
            "off",
            "--timeout-graceful-shutdown",
            "3",
        ],
        "worker": [*worker, "--queues", "default", "--concurrency", str(WORKER_THREADS), "--hostname", "worker@%h"],
        "rollouts": [*worker, "--queues", "rollouts", "--concurrency", "16", "--hostname", "rollouts@%h"],
        "beat": [*celery, "beat", "--loglevel", "warning", "--schedule", schedule, "--pidfile", ""],
    }


def specs(options: Options) -> dict[str, Spec]:
    """Return the specs of all processes, in start order. Further web processes are `web-2` and so on."""
    webs = ["web", *(f"web-{number}" for number in range(2, options.web_processes + 1))]
    running = [name for name in commands(options) if name not in options.without]
    processes = [name for service in running for name in (webs if service == "web" else [service])]
    return {name: _spec(name, options) for name in processes}


def _spec(name: str, options: Options) -> Spec:
    service = kind(name)
    return Spec(
        name,
        [sys.executable, *commands(options)[service]],
        Path(options.var) / "logs" / f"{service}.log",
        Path(options.base),
        environment(service, options),
        # the environment server ends its sandboxes itself
        orphan_signal=signal.SIGKILL if shares(service) else signal.SIGTERM,
        handles=(LISTENER,) if service == "web" and options.web_processes > 1 else (),
    )


def shares(name: str) -> bool:
    """Return whether a service may be forked: the environment server runs other people's code, and may not."""
    return name != "env"


def environment(name: str, options: Options) -> dict[str, str]:
    """Return the environment of one service."""
    ours = dict(os.environ)
    if name == "env":
        ours = {key: value for key, value in ours.items() if key in PLAIN or key.startswith(OPEN_TO_ENVIRONMENT_SERVER)}
        if to := os.environ.get("AWMWEB_TRACES_TO"):
            ours.setdefault("AWMENV_TRACES_TO", to)
            ours |= {key: os.environ[key] for key in (HEADERS_OF_COLLECTOR,) if key in os.environ}
        ours.setdefault("AWMENV_CACHE_DIR", str(Path(options.var) / "cache"))
        ours.setdefault("AWMENV_ATTEST_KEY_FILE", str(attest_key_file(Path(options.var))))
    else:
        ours = {key: value for key, value in ours.items() if key not in SECRETS_OF_JUDGE}
        if name == "prepare":
            ours = direct(ours)
        elif name == "web" and (url := ours.get(OF_WEB, "").strip()):
            ours["DATABASE_URL"] = url
        ours |= {"DJANGO_SETTINGS_MODULE": "awmweb.settings", "AWMWEB_VAR": options.var}
    # One allocator arena per thread is what makes threaded workers large; unbuffered output is what makes logs current.
    return {"MALLOC_ARENA_MAX": "2", "PYTHONUNBUFFERED": "1"} | ours


def direct(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of what needs a session of PostgreSQL itself: migrations, backup and restore."""
    url = environ.get(DIRECT, "").strip()
    return {**environ, "DATABASE_URL": url, "AWMWEB_POOLER": "none"} if url else dict(environ)


def pack_folders(options: Options) -> list[Path]:
    """Return folders of packs that ship with the product."""
    return sorted(folder for folder in (Path(options.base) / "packs").glob("*/") if any(folder.glob("*.jsonl")))


def check_ports(options: Options) -> None:
    """Check the ports before anything starts. The error names the setting to change."""
    if options.web_processes == 1:  # several have their socket already
        _bound(options.host, options.port, "AWMWEB_PORT").close()
    if "env" not in options.without:
        _bound(options.env_host, options.env_port, "AWMENV_PORT").close()


def listener(options: Options) -> socket.socket | None:
    """Return the socket that several web processes share, under the number that they get. None of them listens yet."""
    if options.web_processes == 1:
        return None
    with _bound(options.host, options.port, "AWMWEB_PORT") as line:
        os.dup2(line.fileno(), LISTENER, inheritable=False)
        return socket.socket(line.family, line.type, line.proto, LISTENER)


def _bound(host: str, port: int, setting: str) -> socket.socket:
    try:
        family, form, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        line = socket.socket(family, form, protocol)
        # As the servers do: connections of the last run that still time out do not block the port.
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.bind(address)
    except OSError as error:
        raise EmbeddedError(
            f"Port {port} on {host} cannot be opened ({error.strerror or error}). Set {setting} to a free port, "
            f"for example `{setting}={port + 1} make run`."
        ) from error
    return line


def healthy(url: str) -> bool:
    """Return whether /health returns 200.

    Uses a plain socket: an HTTP library would double the size of the supervising process.
    """
    host, _, port = url.removeprefix("http://").rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5) as line:
            line.sendall(f"GET /health HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            return line.recv(64).split(b" ")[1:2] == [b"200"]
    except OSError:
        return False
