"""Which processes of one `up` get which address: of the database, and of the environment server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from awmweb.embedded import services
from awmweb.embedded.services import Options
from tests.awmweb.accounts import as_self, processes_of, wait_until
from tests.awmweb.test_supervisor import run
from tests.commands import ROOT
from tests.documented import proves
from tests.examples import some_of
from tests.managing import managed

__all__ = ["run"]
ADDRESSES = {
    "DATABASE_URL": "postgres://pool/awmweb",
    "DATABASE_URL_WEB": "postgres://pool/awmweb_web",
    "DATABASE_URL_DIRECT": "postgres://server/awmweb",
    "AWMWEB_POOLER": "transaction",
}


def options(**changed):
    return Options(**{"base": str(ROOT), "var": "/tmp/none", "host": "127.0.0.1", "port": 1, "env_port": 2} | changed)


def addresses(name):
    found = services.environment(name, options())
    return found["DATABASE_URL"], found["AWMWEB_POOLER"]


def test_each_process_gets_its_address_of_the_database(monkeypatch):
    for name, value in ADDRESSES.items():
        monkeypatch.setenv(name, value)
    assert addresses("web") == ("postgres://pool/awmweb_web", "transaction")
    assert (
        addresses("worker") == addresses("rollouts") == addresses("beat") == ("postgres://pool/awmweb", "transaction")
    )
    assert addresses("prepare") == ("postgres://server/awmweb", "none")
    monkeypatch.setenv("DATABASE_URL_WEB", "")
    monkeypatch.setenv("DATABASE_URL_DIRECT", " ")
    assert addresses("web") == addresses("prepare") == ("postgres://pool/awmweb", "transaction")


@proves("docs/production.md", "AWMWEB_POOLER=transaction")
def test_documented_addresses_reach_their_processes(block, monkeypatch):
    given = dict(line.partition("#")[0].strip().split("=", 1) for line in block.text.strip().splitlines())
    assert set(given) == set(ADDRESSES)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert addresses("worker") == (given["DATABASE_URL"], "transaction")
    assert addresses("web") == (given["DATABASE_URL_WEB"], "transaction")
    assert addresses("prepare") == (given["DATABASE_URL_DIRECT"], "none")


@pytest.mark.parametrize("name", some_of(["DATABASE_URL_WEB", "DATABASE_URL_DIRECT"]))
def test_address_of_some_processes_needs_that_of_the_others(tmp_path, name):
    said = manage(tmp_path, "check", **{name: "postgres://server/awmweb"})
    assert name in said and "needs DATABASE_URL" in said


def test_commands_that_need_a_session_name_postgresql_itself(tmp_path):
    """Each address is of no server, and the error names the one that was asked."""
    there = {
        name: f"postgres://me@127.0.0.1:{port}/x" for name, port in (("DATABASE_URL", 1), ("DATABASE_URL_DIRECT", 2))
    }
    for command in (["backup", str(tmp_path / "saved.tar")], ["migrate"], ["partitionsteps", "--status"]):
        assert "port 2 failed" in manage(tmp_path, *command, **there), command
    assert "port 1 failed" in manage(tmp_path, "showmigrations", **there)


def test_up_without_env_needs_another_environment_server(tmp_path):
    assert "set AWMENV_URL" in manage(tmp_path, "up", "--without", "env")


@as_self
def test_environment_server_listens_where_others_reach_it(run):
    run.person.have_started_before()
    run.start(env_host="0.0.0.0", without=["beat"]).until_ready()
    assert f"env: ready on http://127.0.0.1:{run.env_port}" in run.output
    [server] = [one for one in processes_of(run.person.folder) if one.pid == run.pids()["env"]]
    wait_until(lambda: [one for one in server.net_connections("tcp") if one.laddr.ip == "0.0.0.0"], 60, "its port")


def test_address_of_the_environment_server_follows_its_host(tmp_path):
    code = "from awmweb import settings; print(settings.AWMENV_URL)"
    for host, url in (
        ("0.0.0.0", "ws://127.0.0.1:8100/ws"),
        ("10.0.0.4", "ws://10.0.0.4:8100/ws"),
        ("::", "ws://[::1]:8100/ws"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment(tmp_path, AWMENV_HOST=host),
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == url, done.stderr


def environment(var, **settings):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWM", "DATABASE", "DJANGO"))}
    return clean | {"AWMWEB_VAR": str(var)} | settings


def manage(var, *arguments, **settings):
    """Run a command that fails with a sentence; returns what it said."""
    code, output = managed(*arguments, environment=environment(var, **settings), timeout=120)
    assert code != 0, output
    return output
