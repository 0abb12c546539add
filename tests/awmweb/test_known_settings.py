"""What the running product leaves for commands in another shell."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import manage
from awmweb.embedded import known_settings
from awmweb.embedded.paths import DATABASE_SOCKET, data_paths, replace_file
from tests.awmenv.hostile_packs import pack
from tests.awmenv.test_partial import partial_pack
from tests.commands import ROOT
from tests.managing import managed

PRODUCT = {
    "AWMWEB_AGENT_BASE_URL": "http://127.0.0.1:9/v1",
    "AWMWEB_AGENT_MODEL": "wise",
    "AWMWEB_AGENT_API_KEY": "secret-1",
    "AWMWEB_AGENT_HEADERS": '{"X-Key": "secret-2"}',
    "AWMWEB_AGENTS": "tuned",
    "AWMWEB_AGENT_TUNED_BASE_URL": "http://127.0.0.1:9/v1",
    "AWMWEB_AGENT_TUNED_MODEL": "wiser",
    "AWMWEB_EXPERTS": "small",
    "AWMWEB_EXPERT_SMALL_BASE_URL": "http://127.0.0.1:9/v1",
    "AWMWEB_EXPERT_SMALL_MODEL": "tiny",
    "AWMWEB_EXPERT_SMALL_QUERY": "key=secret-3",
    "AWMWEB_MAIL_URL": "smtps://me:secret-4@mail.example.org",
    "DATABASE_URL": "postgres://me:secret-5@db/awmweb",
    "AWMENV_PARTIAL": "0",
    "AWMENV_VERIFIER_TIMEOUT": "7",
    "AWMENV_JUDGE_API_KEY": "secret-6",
    "AWMENV_JUDGE_HEADERS": '{"X-Key": "secret-7"}',
    "AWMENV_ATTEST_KEY_FILE": "/etc/secret-8",
}


def another_shell(var: Path, *arguments: str, **more: str) -> str:
    """What a command says that knows only the data folder, while something answers in place of its database."""
    sockets = data_paths(var).sockets
    sockets.mkdir(parents=True, exist_ok=True)
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("AWM", "DATABASE"))}
    with socket.socket(socket.AF_UNIX) as database:
        database.bind(str(sockets / DATABASE_SOCKET))
        database.listen()
        return managed(*arguments, environment={**shell, "AWMWEB_VAR": str(var), **more}, timeout=120)[1]


def leave(var: Path) -> None:
    replace_file(var / known_settings.FILE, known_settings.text(PRODUCT))


def test_settings_left_for_commands_hold_no_secret(tmp_path):
    leave(tmp_path)
    file = tmp_path / known_settings.FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert "wise" in file.read_text() and "tiny" in file.read_text() and "secret" not in file.read_text()


def test_command_in_another_shell_knows_the_model(tmp_path):
    leave(tmp_path)
    look = (
        "from django.conf import settings as s; print(*[one.model for one in s.AGENT_ENDPOINTS.values()],"
        " list(s.EXPERT_ENDPOINTS))"
    )
    output = another_shell(tmp_path, "shell", "--no-imports", "-c", look, AWMWEB_AGENT_MODEL="another")
    assert output.strip() == "wise wiser ['small']"


def test_loadpack_in_another_shell_rejects_partial_scenarios(tmp_path):
    var = tmp_path / "var"
    var.mkdir()
    leave(var)
    folder = pack(partial_pack(tmp_path / "mine"), name="whole_1")
    output = another_shell(var, "loadpack", str(folder), "--unchecked", AWMENV_PARTIAL="1")
    assert f"1 scenario in {var}/packs/mine, 1 rejected" in output
    assert output.splitlines()[-1] == "A running environment server loads them within 5 s."


def test_settings_for_commands_leave_out_what_is_not_shared():
    named = {name for name in server_settings_read() if known_settings.NAMES.fullmatch(name)}
    assert {"AWMENV_PARTIAL", "AWMENV_CACHE_DIR", "AWMENV_VERIFIER_TIMEOUT", "AWMENV_MIN_TIER"} <= named
    assert not [name for name in named if "KEY" in name or "JUDGE" in name]
    assert not named & {"AWMENV_RUN_DIR", "AWMENV_SANDBOX_UID"}


def server_settings_read() -> set[str]:
    """Every name that the environment server reads."""
    return set(re.findall(r"AWMENV_[A-Z_]+", (ROOT / "awmenv" / "server" / "settings.py").read_text()))


def test_start_takes_no_settings_from_an_earlier_one():
    assert {"prepare", "bootstrap"} <= manage.NEED_THE_DATABASE
    assert not manage.NEED_THE_DATABASE & (manage.NEED_THE_PRODUCT | manage.NEED_THE_FOLDER)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"AWMWEB_PORT": "8123"}, "awmweb_session_8123 awmweb_csrf_8123"),
        # further web processes of an installation share its sign-ins
        ({"AWMWEB_PORT": "8124", "AWMWEB_PUBLIC_URL": "http://lab:8123"}, "awmweb_session_8123 awmweb_csrf_8123"),
        ({"AWMWEB_PUBLIC_URL": "http://lab"}, "awmweb_session_80 awmweb_csrf_80"),
        ({"AWMWEB_PUBLIC_URL": "https://lab:8443"}, "__Host-awmweb_session __Host-awmweb_csrf"),
    ],
)
def test_cookies_have_the_port_that_people_open(tmp_path, given, names):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWMWEB_")}
    code = "from awmweb import settings as s; print(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME)"
    environment = clean | given | {"AWMWEB_VAR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == names, done.stderr
