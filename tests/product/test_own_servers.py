"""The product with a PostgreSQL and a Valkey of the operator: over TCP, with passwords, as a plain role."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest
import redis

from awmweb.embedded import paths, postgres
from people.models import new_id
from tests.commands import Commands
from tests.house import VAR
from tests.running import free_ports, product, until

PASSWORD = "p@ss/w:rd %1"
"""What has a meaning in an address, and must be quoted there."""


@dataclass
class Servers:
    ports: list[int]

    def database(self, name: str, role: str = "desk") -> str:
        return f"postgres://{role}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.ports[0]}/{name}"

    @property
    def queue(self) -> str:
        return f"redis://:{quote(PASSWORD, safe='')}@127.0.0.1:{self.ports[1]}/0"


@contextmanager
def process(command: list[str | Path], by: dict[str, object]) -> Iterator[None]:
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **by)
    try:
        yield
    finally:
        started.terminate()
        started.wait(30)


def _answers(connect):
    try:
        return connect() is not None
    except (psycopg.OperationalError, redis.RedisError):
        return False


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Both servers as an operator starts them, with two empty databases that belong to the role `desk`."""
    here = paths.data_paths(VAR)
    programs = paths.postgres_programs(here, postgres.MAJOR)
    account = paths.named_account() if os.geteuid() == 0 else None  # initdb refuses an ID without a name
    by = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    made = Servers(free_ports(2))
    with tempfile.TemporaryDirectory(prefix="awmweb-own-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        if account:
            for path in (folder, folder / "password"):
                os.chown(path, account.uid, account.gid)
        data = folder / "data"
        new = ["-U", "boss", "-A", "scram-sha-256", "--pwfile", folder / "password", "--no-sync", "-D", data]
        subprocess.run([programs / "initdb", *new], check=True, capture_output=True, cwd=folder, **by)
        # no socket, and no durability, which this test is not about
        options = ["listen_addresses=127.0.0.1", f"port={made.ports[0]}", "unix_socket_directories=", "fsync=off"]
        database = [programs / "postgres", "-D", data, *(word for one in options for word in ("-c", one))]
        queue = [paths.valkey_program(here), "--bind", "127.0.0.1", "--port", str(made.ports[1]), "--dir", folder]
        with process(database, by), process([*queue, "--requirepass", PASSWORD], by):
            boss = made.database("postgres", "boss")
            until(lambda: _answers(lambda: psycopg.connect(boss).close() or True), 60)
            until(lambda: _answers(redis.Redis.from_url(made.queue).ping), 60)
            with psycopg.connect(boss, autocommit=True) as connection:
                connection.execute(f"CREATE ROLE desk LOGIN PASSWORD '{PASSWORD}'")
                for one in ("first", "second"):
                    connection.execute(f"CREATE DATABASE {one} OWNER desk")
            yield made


def connections(servers, house):
    """By which address each process has reached the database, once each has."""
    with psycopg.connect(servers.database("postgres", "boss"), autocommit=True) as boss:

        def seen():
            rows = boss.execute("SELECT application_name, client_port FROM pg_stat_activity WHERE usename = 'desk'")
            names = {port: name for name, port in rows}
            found = {name: set() for name in ("web", "worker", "rollouts")}
            for name in found:
                for one in psutil.Process(house.children()[name]).net_connections("tcp"):
                    if one.laddr and one.laddr.port in names:
                        found[name].add(names[one.laddr.port])
            return found if house.healthy() and all(found.values()) else None

        return until(seen, 60)


@pytest.mark.long
def test_ask_is_answered_saved_and_restored_over_tcp(servers, tmp_path):
    var, other, file = tmp_path / "var", tmp_path / "other", tmp_path / "saved.tar"
    addresses = {"DATABASE_URL": "others", "DATABASE_URL_WEB": "web", "DATABASE_URL_DIRECT": "direct"}
    own = {name: f"{servers.database('first')}?application_name={role}" for name, role in addresses.items()}
    with product(var, REDIS_URL=servers.queue, **own) as house:
        assert not {"postgres", "valkey"} & set(house.children())
        assert connections(servers, house) == {"web": {"web"}, "worker": {"others"}, "rollouts": {"others"}}
        with house.http(house.token("agent")) as agent, house.http(house.token("expert")) as expert:
            episode = agent.post("/episodes", json={"key": new_id(), "task": "t", "expert": "plain"}).json()["id"]
            body = {"key": new_id(), "episode": episode, "seq": 1, "question": "Into which one?"}
            ask = agent.post("/asks", json=body).json()["id"]
            lease = expert.post(f"/asks/{ask}/claim").json()
            answer = {"lease_token": lease["lease_token"], "text": "Into the oldest.", "nonce": new_id()}
            assert expert.post(f"/assignments/{lease['assignment']}/answer", json=answer).status_code == 200
            assert agent.get(f"/asks/{ask}?wait=25").json()["advice"]["text"] == "Into the oldest."
        house.manage("backup", str(file))
        said = "\n".join(house.said) + house.logs()
        assert PASSWORD not in said and quote(PASSWORD, safe="") not in said
        to_second = {"AWMWEB_VAR": str(other), "DATABASE_URL": servers.database("second"), "DATABASE_URL_DIRECT": ""}
        elsewhere = Commands(house.environment | to_second)
        try:
            code, out, err = elsewhere.run("restore", str(file))
        finally:
            elsewhere.stop()
    assert code == 0, out + err
    with psycopg.connect(servers.database("second")) as restored:
        rows = restored.execute("SELECT text FROM experts_advice").fetchall()
    assert rows == [('"Into the oldest."',)]
    assert (other / "secret_key").read_text() == (var / "secret_key").read_text()
