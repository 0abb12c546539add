"""A cluster of the product on one machine: each process has a port and a log of its own, each server a data folder.

Three web processes behind nginx, rollouts workers, a worker, beat, environment servers, PostgreSQL behind PgBouncer in
transaction mode, Valkey, and an S3-compatible store. Processes of the product share a folder with keys and packs, as
pods share a claim. Nothing coordinates them but these engines: a process that is killed is started again with the same
command line, as an orchestrator does.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import boto3
import httpx
import psycopg

from awmweb.embedded import paths, postgres, services
from awmweb.embedded.processes import ChildProcess, Spec
from tests.commands import Commands
from tests.running import free_ports, until

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {"nginx": "nginx-light", "pgbouncer": "pgbouncer"}
"""Programs that no Python package brings, and Debian's packages of them."""
BUCKET, KEY, SECRET = "rows", "cluster", "cluster-secret"
BACK_S = 0.5
"""After this long a killed process is started again, as the supervisor and an orchestrator do first."""
START_S = 300
NGINX = """
daemon off; master_process on; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn; user root;
events {{ worker_connections 4096; }}
http {{
    log_format lines '$msec $status "$upstream_status" $request_method $uri';
    access_log {folder}/access.log lines;
    client_body_temp_path {folder}/bodies; proxy_temp_path {folder}/proxied; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; client_max_body_size 25m;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    upstream awmweb {{ {servers} keepalive 64; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://awmweb; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 120s;
            proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade; proxy_set_header X-Forwarded-Proto $scheme;
        }}
    }}
}}
"""


class Missing(Exception):
    """A program of the operating system is missing."""


@dataclass
class Part:
    """One process: how it is started, and how to see that it works."""

    spec: Spec
    works: Callable[[], bool]
    start: Callable[[], ChildProcess] | None = None
    """For servers that recover in their own way."""
    child: ChildProcess | None = None
    said: int = 0
    """The size of its log when it was started last."""

    def begin(self) -> None:
        self.said = self.spec.log.stat().st_size if self.spec.log.exists() else 0
        self.child = self.start() if self.start else ChildProcess.start(self.spec)

    @property
    def runs(self) -> bool:
        return self.child is not None and self.child.running


@dataclass
class Cluster:
    """The running processes by name, in the order in which they were started."""

    folder: Path
    parts: dict[str, Part] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports['nginx']}"

    @property
    def bucket(self):
        return boto3.resource(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.ports['s3']}",
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        ).Bucket(BUCKET)

    def kill(self, name: str) -> float:
        """End a process by SIGKILL and start it again; return the seconds until it works. PostgreSQL's children end
        with it."""
        part, began = self.parts[name], time.monotonic()
        assert part.child is not None
        # its group: nginx has a worker, an environment server has sandboxes
        with contextlib.suppress(ProcessLookupError):
            os.killpg(part.child.process.pid, signal.SIGKILL)
        part.child.process.wait(30)
        time.sleep(BACK_S)
        part.begin()
        until(part.works, START_S)
        if name == "s3":
            # this store keeps objects in memory, and in its folder the requests that made them
            httpx.post(f"http://127.0.0.1:{self.ports['s3']}/moto-api/recorder/replay-recording", timeout=60)
        return time.monotonic() - began

    def manage(self, *arguments: str) -> str:
        code, out, err = self.commands.run(*arguments)
        if code:
            raise RuntimeError(f"manage.py {' '.join(arguments)}: {out}{err}")
        return out

    def token(self, scope: str) -> str:
        said = self.manage("createtoken", f"cluster {scope}", "--project", "demo", "--scope", scope)
        return said.strip().splitlines()[-1]

    def http(self, token: str) -> httpx.Client:
        return httpx.Client(
            base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=40, trust_env=False
        )

    @property
    def commands(self) -> Commands:
        if not hasattr(self, "_commands"):
            self._commands = Commands(self.environment)
        return self._commands

    def lines(self) -> list[tuple[float, int, str, str]]:
        """Return what nginx answered: time, status, statuses of the web processes, and the call."""
        found = []
        for line in (self.folder / "nginx" / "access.log").read_text().splitlines():
            at, status, rest = line.split(" ", 2)
            upstream, _, call = rest[1:].partition('" ')
            found.append((float(at), int(status), upstream, call))
        return found


@contextmanager
def cluster(webs: int = 3, rollouts: int = 2, environments: int = 2, **settings: str) -> Iterator[Cluster]:
    """Start a cluster in a temporary folder, and stop it. Raises `Missing`."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise Missing(f"{program} is missing. On Debian and Ubuntu: apt install {package}")
    folder = Path(tempfile.mkdtemp(prefix="awmweb-cluster-"))
    folder.chmod(0o755)
    made = Cluster(folder)
    names = [
        *("postgres", "pgbouncer", "valkey", "s3", "nginx"),
        *(f"web {n + 1}" for n in range(webs)),
        *(f"environment {n + 1}" for n in range(environments)),
    ]
    made.ports = dict(zip(names, free_ports(len(names)), strict=True))
    try:
        _engines(made)
        made.environment = _environment(made, environments, settings)
        direct = made.environment | {"DATABASE_URL": _direct(made), "AWMWEB_POOLER": "none"}
        subprocess.run(
            [sys.executable, "manage.py", "prepare"], cwd=ROOT, env=direct, check=True, stdout=subprocess.DEVNULL
        )
        _processes(made, webs, rollouts, environments)
        yield made
    finally:
        if hasattr(made, "_commands"):
            made._commands.stop()
        for part in reversed(made.parts.values()):
            if part.child is not None:
                part.child.stop(10)
        if os.environ.get("CLUSTER_KEEP") != "1":
            here = paths.data_paths(folder / "data")
            for left in {folder, here.home, here.sockets}:
                shutil.rmtree(left, ignore_errors=True)


def _add(made: Cluster, part: Part) -> None:
    made.parts[part.spec.name] = part
    part.begin()


def _spec(
    made: Cluster, name: str, command: list[str], environment: Mapping[str, str], account: paths.Account | None = None
) -> Spec:
    log = made.folder / "logs" / f"{name.replace(' ', '-')}.log"
    log.parent.mkdir(exist_ok=True)
    return Spec(name, command, log, ROOT, environment, account, orphan_signal=signal.SIGTERM)


def _engines(made: Cluster) -> None:
    """Start PostgreSQL, PgBouncer, Valkey and the store, each on its port."""
    data = made.folder / "data"
    here = paths.data_paths(data)
    paths.make_var(data)
    data.chmod(0o711)
    passwords = paths.ensure_folders(here)
    # TCP instead of a private socket, as on machines of their own
    postgres.SETTINGS |= {"listen_addresses": "127.0.0.1", "port": str(made.ports["postgres"])}
    access = made.folder / "pg_hba.conf"
    access.write_text("local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n")
    postgres.SETTINGS["hba_file"] = str(access)
    postgres.ENVIRONMENT |= {"PGPORT": str(made.ports["postgres"])}
    spec = Spec("postgres", [], made.folder / "logs" / "postgres.log", ROOT)
    _add(made, Part(spec, lambda: _answers_sql(_direct(made)), lambda: postgres.start(here, passwords)))
    account = paths.account(here)
    for name in ("pgbouncer", "valkey", "nginx", "s3"):
        own = made.folder / name
        own.mkdir(mode=0o755)
        if account and name in ("pgbouncer", "valkey"):
            os.chown(own, account.uid, account.gid)
    own = made.folder / "pgbouncer" / "pgbouncer.ini"
    own.write_text(_pooler_file(made, passwords.database))
    own.chmod(0o644)
    plain = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    pooled = _pooled(made, "awmweb")
    pooler = _spec(made, "pgbouncer", [shutil.which("pgbouncer") or "", str(own)], plain, account)
    _add(made, Part(pooler, lambda: _answers_sql(pooled)))
    password = secrets.token_hex(12)
    program = str(paths.valkey_program(here))
    valkey = [
        *(program, "--bind", "127.0.0.1", "--port", str(made.ports["valkey"]), "--requirepass", password),
        *("--dir", str(made.folder / "valkey"), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
        *("--maxmemory-policy", "noeviction"),
    ]
    made.environment["REDIS_URL"] = f"redis://:{password}@127.0.0.1:{made.ports['valkey']}/0"
    _add(made, Part(_spec(made, "valkey", valkey, plain, account), lambda: _listens(made.ports["valkey"])))
    store = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(made.ports["s3"])]
    kept = {"MOTO_ENABLE_RECORDING": "1", "MOTO_RECORDER_FILEPATH": str(made.folder / "s3" / "requests")}
    _add(made, Part(_spec(made, "s3", store, plain | kept), lambda: _listens(made.ports["s3"])))
    for part in made.parts.values():
        until(part.works, START_S)
    made.bucket.create()


def _pooler_file(made: Cluster, password: str) -> str:
    """Return the configuration of the docs, with the addresses of this cluster and without a file of users."""
    written = (ROOT / "docs" / "proxy" / "pgbouncer.ini").read_text()
    login = f"user={paths.DATABASE_USER} password={password}"
    changes = {
        "host=10.0.0.5 port=5432 dbname=awmweb": f"host=127.0.0.1 port={made.ports['postgres']} "
        f"dbname={paths.DATABASE_NAME} {login}",
        "listen_port = 6432": f"listen_port = {made.ports['pgbouncer']}\nunix_socket_dir =",
        "auth_type = scram-sha-256": "auth_type = any",
        "auth_file = /etc/pgbouncer/userlist.txt": f"logfile = {made.folder}/pgbouncer/pgbouncer.log",
    }
    for old, new in changes.items():
        assert old in written, old
        written = written.replace(old, new)
    return written


def _direct(made: Cluster) -> str:
    """Return the address of PostgreSQL itself, for migrations and backups."""
    known = paths.read_secrets(paths.data_paths(made.folder / "data"))
    place = f"127.0.0.1:{made.ports['postgres']}/{paths.DATABASE_NAME}"
    return f"postgres://{paths.DATABASE_USER}:{known.database}@{place}"


def _pooled(made: Cluster, database: str) -> str:
    return f"postgres://{paths.DATABASE_USER}:any@127.0.0.1:{made.ports['pgbouncer']}/{database}"


def _environment(made: Cluster, environments: int, settings: Mapping[str, str]) -> dict[str, str]:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWMWEB_", "AWMENV_", "DJANGO_"))
    }
    servers = ",".join(f"ws://127.0.0.1:{made.ports[f'environment {n + 1}']}/ws" for n in range(environments))
    return clean | made.environment | {
        "DJANGO_SETTINGS_MODULE": "awmweb.settings", "AWMWEB_VAR": str(made.folder / "data"), "AWMWEB_DEMO": "0",
        "DATABASE_URL": _pooled(made, "awmweb"), "AWMWEB_POOLER": "transaction", "AWMENV_URL": servers,
        "AWMWEB_PUBLIC_URL": made.url, "AWMWEB_EXPORTS_S3": f"s3://{BUCKET}/awmweb", "AWMWEB_S3_REGION": "us-east-1",
        "AWMWEB_S3_ENDPOINT": f"http://127.0.0.1:{made.ports['s3']}", "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true", "AWMWEB_HEARTBEAT_S": "30",
        "MALLOC_ARENA_MAX": "2", "PYTHONUNBUFFERED": "1", **settings,
    }  # fmt: skip


def _processes(made: Cluster, webs: int, rollouts: int, environments: int) -> None:
    """Start the product's processes, with the command lines of `awmweb.embedded.services`, and nginx before them."""
    var = str(made.folder / "data")
    for number in range(environments):
        name = f"environment {number + 1}"
        own = made.folder / f"environment-{number + 1}"
        own.mkdir(mode=0o711)
        options = services.Options(str(ROOT), var, "127.0.0.1", 0, made.ports[name])
        given = services.environment("env", options) | {
            "AWMENV_CACHE_DIR": str(own / "cache"), "AWMENV_RUN_DIR": str(own / "run"), "AWMENV_MAX_SESSIONS": "200",
        }  # fmt: skip
        (own / "run").mkdir(mode=0o711)
        spec = _spec(made, name, [sys.executable, *services.commands(options)["env"]], given)
        _add(made, Part(spec, lambda port=made.ports[name]: services.healthy(f"http://127.0.0.1:{port}")))
    web = made.environment | {"DATABASE_URL": _pooled(made, "awmweb_web")}
    for number in range(webs):
        name = f"web {number + 1}"
        options = services.Options(str(ROOT), var, "127.0.0.1", made.ports[name], 0)
        spec = _spec(made, name, [sys.executable, *services.commands(options)["web"]], web)
        _add(made, Part(spec, lambda port=made.ports[name]: _is_healthy(port, made.url)))
    commands = services.commands(services.Options(str(ROOT), var, "127.0.0.1", 0, 0))
    for name in ("worker", *(f"rollouts {number + 1}" for number in range(rollouts)), "beat"):
        kind = name.split()[0]
        command = [part.replace("%h", name.replace(" ", "-")) for part in commands[kind]]
        works = (lambda: True) if kind == "beat" else lambda name=name: _is_ready(made.parts[name])
        _add(made, Part(_spec(made, name, [sys.executable, *command], made.environment), works))
    servers = " ".join(
        f"server 127.0.0.1:{made.ports[f'web {number + 1}']} max_fails=1 fail_timeout=1s;" for number in range(webs)
    )
    own = made.folder / "nginx"
    (own / "nginx.conf").write_text(NGINX.format(folder=own, servers=servers, port=made.ports["nginx"]))
    command = [shutil.which("nginx") or "", "-c", str(own / "nginx.conf"), "-p", str(own)]
    spec = _spec(made, "nginx", command, {"PATH": os.environ["PATH"]})
    _add(made, Part(spec, lambda: services.healthy(made.url)))
    for name, part in made.parts.items():
        try:
            until(part.works, START_S)
            print(f"{name}: works", file=sys.stderr, flush=True)
        except AssertionError:
            raise RuntimeError(f"{name} did not start:\n{part.spec.log.read_text()[-3000:]}") from None


def _is_healthy(port: int, url: str) -> bool:
    """Ask a web process itself, by the name under which it is known."""
    try:
        host = url.removeprefix("http://")
        return httpx.get(f"http://127.0.0.1:{port}/health", headers={"Host": host}, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _is_ready(part: Part) -> bool:
    """Return whether a worker has said since its last start that it is ready."""
    with part.spec.log.open("rb") as log:
        log.seek(part.said)
        return b" ready." in log.read()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
        return True
    return False


def _answers_sql(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=3, prepare_threshold=None, autocommit=True) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.Error:
        return False


if __name__ == "__main__":
    with cluster() as here:
        print(json.dumps({"url": here.url, "folder": str(here.folder), "ports": here.ports}), flush=True)
        print(here.manage("loginlink", "owner", "--role", "admin", "--project", "demo").strip(), flush=True)
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        with contextlib.suppress(KeyboardInterrupt):
            stop.wait()
