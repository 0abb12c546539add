"""What the running product leaves for commands in another shell."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from awmweb.embedded import known_settings
from awmweb.embedded.paths import DATABASE_SOCKET, data_paths
from tests.commands import ROOT

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
}


def test_settings_left_for_commands_hold_no_secret(tmp_path):
    known_settings.leave(tmp_path, PRODUCT)
    file = tmp_path / known_settings.FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert "wise" in file.read_text() and "tiny" in file.read_text() and "secret" not in file.read_text()


def test_command_in_another_shell_knows_the_model(tmp_path):
    sockets = data_paths(tmp_path).sockets
    sockets.mkdir(parents=True, exist_ok=True)
    known_settings.leave(tmp_path, PRODUCT)
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("AWM", "DATABASE"))}
    look = (
        "from django.conf import settings as s; print(*[one.model for one in s.AGENT_ENDPOINTS.values()],"
        " list(s.EXPERT_ENDPOINTS))"
    )
    with socket.socket(socket.AF_UNIX) as database:
        database.bind(str(sockets / DATABASE_SOCKET))
        database.listen()
        done = subprocess.run(
            [sys.executable, "manage.py", "shell", "--no-imports", "-c", look],
            cwd=ROOT,
            env={**shell, "AWMWEB_VAR": str(tmp_path), "AWMWEB_AGENT_MODEL": "another"},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.stdout.strip() == "wise wiser ['small']", done.stderr
