"""Where the embedded servers live, and what is generated there. Starts nothing."""

import json
import os
import platform
import stat
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

import dj_database_url
import pytest

from awmweb.embedded import paths as module
from awmweb.embedded import secret_key, urls
from awmweb.embedded.paths import EmbeddedError, data_paths, ensure_folders, reachable, valkey_program

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="about what root does")


def test_addresses_are_known_before_first_start(own_folder):
    var = own_folder / "var"
    known = urls(var)
    assert dj_database_url.parse(known.database)["HOST"] == str(var / "sockets")
    assert known.redis == f"unix://{var}/sockets/valkey.sock?db=0"
    assert known.broker == f"redis+socket://{var}/sockets/valkey.sock?virtual_host=1"
    assert not var.exists()


def test_passwords_are_generated_once_and_owner_readable(own_folder):
    here = data_paths(own_folder / "var")
    first = ensure_folders(here)
    assert ensure_folders(here) == first
    assert first.database != first.admin != first.queue
    assert stat.S_IMODE(here.credentials.stat().st_mode) == 0o600
    assert urlsplit(urls(here.var).database).password == first.database
    assert unquote(urlsplit(urls(here.var).redis).password or "") == first.queue


def test_the_socket_folder_is_private_and_its_paths_stay_short(own_folder):
    deep = own_folder / "/".join(["a-long-name"] * 8) / "var"
    for var in (own_folder / "var", deep):
        here = data_paths(var)
        assert len(os.fsencode(here.sockets / ".s.PGSQL.5432")) < 100
        ensure_folders(here)
        assert stat.S_IMODE(here.sockets.stat().st_mode) == 0o700
        assert data_paths(var) == here
    data_paths(deep).sockets.rmdir()


def test_a_socket_folder_of_somebody_else_is_refused(own_folder, monkeypatch):
    here = data_paths(own_folder / ("x" * 90) / "var")
    here.sockets.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    try:
        with pytest.raises(EmbeddedError, match="belongs to another user"):
            module.own_folder(here.sockets, None, 0o700)
    finally:
        here.sockets.rmdir()


def test_a_symbolic_link_is_not_taken_for_the_socket_folder(own_folder):
    (own_folder / "real").mkdir()
    link = own_folder / "link"
    link.symlink_to(own_folder / "real")
    with pytest.raises(EmbeddedError):
        module.own_folder(link, None, 0o700)


def test_the_signing_key_is_made_once_even_by_many_at_once(own_folder):
    var = own_folder / "var"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: secret_key(var), range(16)))
    assert len(keys) == 1 and len(keys.pop()) >= 50
    assert stat.S_IMODE((var / "secret_key").stat().st_mode) == 0o600
    assert [path.name for path in var.iterdir()] == ["secret_key"]


@as_root
def test_root_with_closed_home_keeps_server_data_elsewhere(own_folder, monkeypatch):
    monkeypatch.setattr(module, "STATE_BASE", own_folder / "state")
    (own_folder / "state").mkdir()
    closed = own_folder / "home"
    closed.mkdir(mode=0o700)
    here = data_paths(closed / "var")
    assert here.home.parent == own_folder / "state"
    ensure_folders(here)
    closed.chmod(0o755)
    assert data_paths(closed / "var") == here, "a choice once made stays"


@as_root
def test_root_with_an_open_folder_keeps_the_servers_data_in_it(own_folder):
    here = data_paths(own_folder / "var")
    ensure_folders(here)
    assert here.home == here.var
    assert reachable(here.sockets.parent, module.SERVICE_UID)


def test_data_without_its_passwords_is_refused_untouched(own_folder):
    here = data_paths(own_folder / "var")
    here.database.mkdir(parents=True)
    with pytest.raises(EmbeddedError, match="passwords .* are missing"):
        ensure_folders(here)
    assert [path.name for path in here.var.iterdir()] == ["postgres"]


def test_damaged_passwords_are_said_to_be_damaged(own_folder):
    here = data_paths(own_folder / "var")
    here.var.mkdir()
    here.credentials.write_text(json.dumps({"unknown": 1}))
    with pytest.raises(EmbeddedError, match="damaged"):
        urls(here.var)


def test_a_platform_without_a_build_is_told_what_to_set(own_folder, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(EmbeddedError, match=r"no built-in Valkey .*riscv64.* REDIS_URL"):
        valkey_program(data_paths(own_folder))


def test_a_wheel_of_another_postgresql_is_told_apart_from_ours(own_folder):
    with pytest.raises(EmbeddedError, match="no built-in PostgreSQL .* DATABASE_URL"):
        module.postgres_programs(data_paths(own_folder), 99)


def test_only_folders_open_to_an_account_are_in_its_reach(own_folder):
    inner = own_folder / "inner"
    inner.mkdir(mode=0o711)
    assert reachable(inner, 12345)
    inner.chmod(0o700)
    assert not reachable(inner, 12345)
    assert reachable(inner, os.geteuid())
