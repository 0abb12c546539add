"""Every service of the compose file starts with its command and passes its health check, without Docker.

What Docker would give is put in its place: names of services become loopback ports, `/data` a folder, the
official images' programs those of the wheels. Valkey's command line client is in no wheel; a small one replaces it.
"""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path

import httpx
import psutil
import pytest

from awmenv.attesting import question
from awmweb.embedded import services
from awmweb.embedded.paths import data_paths, named_account, postgres_programs, valkey_program
from awmweb.embedded.postgres import MAJOR
from awmweb.embedded.processes import identity
from tests.awmweb.accounts import ROOT, free_port
from tests.awmweb.containers import Missing, compose, health_command

FILE = ROOT / "docker-compose.yml"
PASSWORDS = {"AWMWEB_DATABASE_PASSWORD": secrets.token_hex(8), "AWMWEB_QUEUE_PASSWORD": secrets.token_hex(8)}
ORDER = [["postgres"], ["valkey"], ["prepare"], ["env", "web", "worker"], ["rollouts", "beat", "backup"]]
"""Who starts together. Rollouts start when a worker is there, which must not pass for them."""

VALKEY_CLIENT = f"""#!{sys.executable}
import os, sys, redis
client = redis.Redis(port=int(os.environ["VALKEY_PORT"]), password=os.environ["REDISCLI_AUTH"])
print("PONG" if sys.argv[1:] == ["ping"] and client.ping() else "no")
"""


class Host:
    """This machine in the place of a Docker host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data, self.backups = folder / "data", folder / "backups"
        self.data.mkdir()
        self.backups.mkdir()
        self.ports = {name: str(free_port()) for name in ("postgres", "valkey", "web", "env")}
        self.database = folder / "postgres"
        self.services = compose(FILE, PASSWORDS)["services"]
        self.tools = folder / "tools"
        self.tools.mkdir()
        (self.tools / "valkey-cli").write_text(VALKEY_CLIENT)
        (self.tools / "valkey-cli").chmod(0o755)
        here = data_paths(folder / "unused")
        self.programs = postgres_programs(here, MAJOR)
        (self.tools / "valkey-server").symlink_to(valkey_program(here))
        self.key = folder / "attest_key"
        self.key.write_text(secrets.token_hex(32))

    def here(self, text: str) -> str:
        """A word of the compose file with Docker's names replaced by this machine's."""
        ports = self.ports
        swaps = {
            "@postgres:5432": f"@127.0.0.1:{ports['postgres']}",
            "@valkey:6379": f"@127.0.0.1:{ports['valkey']}",
            "ws://env:8100": f"ws://127.0.0.1:{ports['env']}",
            "0.0.0.0": "127.0.0.1",
            "8000": ports["web"],
            "8100": ports["env"],
            "/data": str(self.data),
            "/backups": str(self.backups),
            "/run/secrets/attest_key": str(self.key),
        }
        for there, ours in swaps.items():
            text = text.replace(there, ours)
        return text

    def environment(self, name: str) -> dict[str, str]:
        path = [str(self.tools), str(Path(sys.executable).parent), str(self.programs), os.environ["PATH"]]
        known = {"PATH": os.pathsep.join(path), "HOME": str(self.folder), "LANG": "C.UTF-8"}
        known |= {"PGDATA": str(self.database), "PGPORT": self.ports["postgres"], "PGHOST": "127.0.0.1"}
        known |= {"VALKEY_PORT": self.ports["valkey"], "AWMWEB_DEMO": "0"}  # whose episodes would be played meanwhile
        given = self.services[name].get("environment", {})
        return known | {key: self.here(value) for key, value in given.items()}

    def command(self, name: str) -> list[str]:
        command = [self.here(word) for word in self.services[name]["command"]]
        if name == "valkey":  # the image listens on the port that the container publishes to its network
            command += ["--port", self.ports["valkey"], "--dir", str(self.folder)]
        if name == "postgres":
            command += ["-c", f"unix_socket_directories={self.database}"]
        return command

    def identity(self, name: str) -> dict:
        return dict(identity(named_account())) if name == "postgres" and os.geteuid() == 0 else {}

    def initialise_database(self) -> None:
        """What the entrypoint of the official image does before its command."""
        given = self.environment("postgres")
        self.database.mkdir(mode=0o700)
        who = self.identity("postgres")
        if who:
            os.chown(self.database, who["user"], who["group"])
        password = self.folder / "password"
        password.write_text(given["POSTGRES_PASSWORD"])
        password.chmod(0o644)
        arguments = [*given["POSTGRES_INITDB_ARGS"].split(), "-U", given["POSTGRES_USER"], f"--pwfile={password}"]
        command = [self.programs / "initdb", "-D", self.database, "--auth=scram-sha-256", *arguments]
        subprocess.run(command, env=given, cwd=self.folder, check=True, capture_output=True, **who)
        create = f"CREATE DATABASE {given['POSTGRES_DB']};"
        alone = [self.programs / "postgres", "--single", "-D", self.database, "postgres"]
        subprocess.run(alone, env=given, cwd=self.folder, input=create.encode(), check=True, capture_output=True, **who)

    def complaint(self, name: str) -> str:
        """What the health check says that fails, or nothing."""
        command = [self.here(word) for word in health_command(self.services[name])]
        done = subprocess.run(command, env=self.environment(name), cwd=ROOT, capture_output=True, text=True, timeout=90)
        return f"{done.stdout}{done.stderr} code {done.returncode}" if done.returncode else ""

    def start(self, name: str) -> subprocess.Popen:
        log = (self.folder / f"{name}.log").open("wb")
        cwd = self.folder if name in ("postgres", "valkey") else ROOT
        with log:
            return subprocess.Popen(
                self.command(name), env=self.environment(name), cwd=cwd, stdout=log, stderr=log, **self.identity(name)
            )


@pytest.fixture
def host(own_folder):
    return Host(own_folder)


def stop(processes: list[subprocess.Popen]) -> None:
    """Docker's stop: the signal, ten seconds, and then there is no asking. Rollouts that wait for people need it."""
    started = [psutil.Process(one.pid) for one in processes if one.poll() is None]
    family = [*started, *(child for one in started for child in one.children(recursive=True))]
    for process in reversed(processes):
        process.terminate()
    for left in psutil.wait_procs(started, timeout=10)[1]:
        left.kill()
    for process in processes:
        process.wait()
    for other in family:
        if other.is_running():
            other.kill()


def prepare(host: Host) -> None:
    done = subprocess.run(host.command("prepare"), env=host.environment("prepare"), cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert b"@login /login/once/" in done.stdout


def has_started(host: Host, name: str) -> bool:
    """Whether a look is worth its price: it is a process that costs as much as the service it looks at."""
    if name in ("web", "env"):
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", int(host.ports[name]))) == 0
    return name not in ("worker", "rollouts") or " ready." in (host.folder / f"{name}.log").read_text()


def wait_healthy(host: Host, name: str, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not has_started(host, name) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    while complaint := host.complaint(name):
        said = (host.folder / f"{name}.log").read_text()[-2000:]
        assert process.poll() is None, f"{name} ended:\n{said}"
        assert time.monotonic() < deadline, f"{name} is not healthy:\n{complaint}\n{said}"
        time.sleep(1)  # a look is a process that costs more than the wait


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_compose_services_start_and_are_healthy(host):
    host.initialise_database()
    with ExitStack() as ending, ThreadPoolExecutor() as threads:
        started: list[subprocess.Popen] = []
        ending.callback(stop, started)
        for names in ORDER:
            if names == ["prepare"]:
                prepare(host)
                continue
            complaints = dict(zip(names, threads.map(host.complaint, names), strict=True))
            assert all(complaints.values()), f"a health check passes before its service runs: {complaints}"
            for name in names:
                started.append(host.start(name))
            list(threads.map(wait_healthy, repeat(host), names, started[-len(names) :]))
        assert {name for names in ORDER for name in names} == set(host.services)
        assert not any(host.complaint(name) for name in ("postgres", "valkey", "web", "env"))
        [saved] = host.backups.glob("*.tar")
        with tarfile.open(saved) as archive:
            assert {"database.dump", "manifest.json"} <= set(archive.getnames())


def test_our_services_run_the_commands_of_make_run(host):
    options = services.Options(str(ROOT), "/data", "0.0.0.0", 8000, 8100)
    for name, expected in services.commands(options).items():
        expected = [word.removeprefix(f"{ROOT}/") for word in expected]
        if name == "env":
            expected[expected.index("127.0.0.1")] = "0.0.0.0"  # its own network is the fence
        assert host.services[name]["command"] == ["python", *expected]


def test_environment_shares_no_secret_or_network_with_database(host):
    given = host.services["env"]
    others = [name for name in given["environment"] if not name.startswith("AWMENV_")]
    assert others == ["OTEL_EXPORTER_OTLP_HEADERS"]
    assert not set(given["networks"]) & set(host.services["postgres"]["networks"])
    assert not set(given["networks"]) & set(host.services["valkey"]["networks"])
    assert given["secrets"] == ["attest_key"]
    (mounted,) = given["volumes"]
    assert mounted == {"type": "volume", "source": "data", "target": "/data/packs", "read_only": True,
                       "volume": {"subpath": "packs"}}  # fmt: skip


def test_every_secret_is_a_reference(host):
    stored = compose(FILE, PASSWORDS)["secrets"]
    assert stored == {"attest_key": {"environment": "AWMWEB_ATTEST_KEY"}}
    for name in ("web", "worker", "rollouts", "beat", "prepare", "backup", "env"):
        given = host.services[name]
        assert given["secrets"] == ["attest_key"]
        assert given["environment"]["AWMENV_ATTEST_KEY_FILE"] == "/run/secrets/attest_key"


def asked(host, key, scenario):
    """What the environment server says to a question about a scenario that is signed with this key."""
    about = {"scenario": scenario, "clock": 1_700_000_000, "digest": "0" * 64, "table": "", "offset": 0}
    url = f"http://127.0.0.1:{host.ports['env']}/start_tables"
    return httpx.post(url, json=question(key, about), timeout=60)


def test_environment_has_loaded_packs_and_the_shared_key(host):
    loaded = host.data / "packs"
    loaded.mkdir()
    with ExitStack() as ending:
        started = [host.start("env")]
        ending.callback(stop, started)
        wait_healthy(host, "env", started[0])
        stranger = asked(host, secrets.token_hex(32), "helpdesk_1_blocked")
        assert stranger.status_code == 403 and "not signed with this server's key" in stranger.text
        assert asked(host, host.key.read_text(), "helpdesk_1_blocked").status_code == 404
        shutil.copytree(ROOT / "packs" / "optional" / "starter_blocked", loaded / "starter_blocked")
        until = time.monotonic() + 60
        while (answer := asked(host, host.key.read_text(), "helpdesk_1_blocked")).status_code == 404:
            assert time.monotonic() < until, answer.text
            time.sleep(0.5)
        # it knows the scenario, whose start tables are others than those of the digest above
        assert answer.status_code == 409, answer.text


def test_compose_does_not_start_without_passwords():
    with pytest.raises(Missing, match="AWMWEB_DATABASE_PASSWORD"):
        compose(FILE, {})


def test_example_settings_cover_all_compose_variables():
    named = {line.split("=")[0] for line in (ROOT / ".env.example").read_text().splitlines() if "=" in line}
    asked: set[str] = set()

    class Noting(dict):
        def get(self, name, default=None):
            asked.add(name)
            return "x"

        def __getitem__(self, name):
            return "x"

    found = compose(FILE, Noting())
    asked |= {one["environment"] for one in found["secrets"].values()}
    assert asked == named


DOCUMENTED = (ROOT / "docs" / "configuration.md").read_text()
NOT_PASSED = set(re.findall(r"`([A-Z0-9_]+)`", "".join(re.findall(r"^- (`.*?):", DOCUMENTED, re.MULTILINE))))
OF_JUDGE = {"AWMENV_JUDGE_API_KEY", "AWMENV_JUDGE_HEADERS", "AWMENV_JUDGE_QUERY"}


def settings_of(*sections: str) -> set[str]:
    """Names in the tables of sections of the page."""
    parts = re.split(r"^## ", DOCUMENTED, flags=re.MULTILINE)
    rows = [row for part in parts if part.startswith(sections) for row in part.splitlines() if row.startswith("| `")]
    # names of the operator's own are examples: `AWMWEB_AGENT_TUNED_PARALLEL` is not in a first cell
    return {name for row in rows for name in re.findall(r"`([A-Z0-9_]+)`", row.split("|")[1])}


def test_every_documented_setting_reaches_who_reads_it():
    product = settings_of("The product", "Model endpoints") - OF_JUDGE
    server = settings_of("The environment server") | {
        name for name in settings_of("Model endpoints") if name.startswith("AWMENV_")
    }
    assert len(product) > 60 and len(server) > 25
    known = {name: f"of {name}" for name in product | server} | PASSWORDS
    given = compose(FILE, known)["services"]
    for service in ("prepare", "web", "worker", "rollouts", "beat"):
        passed = {name for name, value in given[service]["environment"].items() if value == f"of {name}"}
        assert product - passed - NOT_PASSED == set(), service
        assert passed & NOT_PASSED == set()
    passed = {name for name, value in given["env"]["environment"].items() if value == f"of {name}"}
    assert server - passed - NOT_PASSED == set()
    assert passed & NOT_PASSED == set()
    assert product | server >= NOT_PASSED, "listed as not passed, but no setting"


def test_file_of_settings_gives_the_product_no_secret_of_others(host):
    """Names that the file cannot list come from `.env` as it is, which has more than the product may know."""
    for service in ("prepare", "web", "worker", "rollouts", "beat"):
        given = host.services[service]
        assert given["env_file"] == [{"path": ".env", "required": False}]
        secret = OF_JUDGE | {"AWMWEB_ATTEST_KEY", "AWMWEB_DATABASE_PASSWORD", "AWMWEB_QUEUE_PASSWORD"}
        assert {given["environment"][name] for name in secret} == {""}
    assert not [name for name in ("env", "postgres", "valkey") if "env_file" in host.services[name]]


def test_compose_sends_traces_only_to_a_named_collector():
    for more, to in (({}, ""), ({"AWMWEB_TRACES_TO": "http://collector:4318"}, "http://collector:4318")):
        given = compose(FILE, PASSWORDS | more | {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=s3cret"})["services"]
        assert {given[name]["environment"]["AWMWEB_TRACES_TO"] for name in ("web", "worker", "rollouts")} == {to}
        assert given["env"]["environment"]["AWMENV_TRACES_TO"] == to
        for name in ("web", "env"):
            assert given[name]["environment"]["OTEL_EXPORTER_OTLP_HEADERS"] == "x-key=s3cret"


def test_image_settings_replace_every_base_image():
    digest = "@sha256:" + 64 * "0"
    images = {name: f"some/{name.lower()}{digest}" for name in ("PYTHON", "POSTGRES", "VALKEY")}
    chosen = {f"AWMWEB_{name}_IMAGE": image for name, image in images.items()} | {"AWMWEB_COMMIT": "75f12609"}
    given = compose(FILE, PASSWORDS | chosen)["services"]
    assert {given["postgres"]["image"], given["valkey"]["image"]} == {images["POSTGRES"], images["VALKEY"]}
    built = [service["build"]["args"] for service in given.values() if service["image"] == "awmweb"]
    assert len(built) == 7 and all(
        args == {"PYTHON_IMAGE": images["PYTHON"], "AWMWEB_COMMIT": "75f12609"} for args in built
    )


def test_compose_durability_equals_embedded_settings(host):
    command = host.services["postgres"]["command"]
    assert {"fsync=on", "synchronous_commit=on", "full_page_writes=on"} <= set(command)
    assert "--data-checksums" in host.services["postgres"]["environment"]["POSTGRES_INITDB_ARGS"]
    assert {"--appendonly", "noeviction"} <= set(host.services["valkey"]["command"])


def test_docker_itself_accepts_the_file_where_it_is_installed():
    if not shutil.which("docker") or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not installed here")
    command = ["docker", "compose", "-f", str(FILE), "config", "--quiet"]
    done = subprocess.run(command, env=dict(os.environ) | PASSWORDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
