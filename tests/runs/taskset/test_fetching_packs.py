"""`manage.py fetchpack` against a server that speaks the hub's protocol: downloaded with a bar, and taken in."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.running import ROOT, free_ports

TINY = ROOT / "tests" / "packs" / "tiny"
COMMIT = "c" * 40
NAME = "Snowflake/AgentWorldModel-1K"


class Hub(BaseHTTPRequestHandler):
    """The calls of a download: what is in the data set, how large, and each file."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path.startswith(f"/api/datasets/{NAME}/revision/"):
            files = [{"rfilename": f"data/{file.name}"} for file in sorted(TINY.iterdir())] + [
                {"rfilename": "README.md"}
            ]
            self._answer(json.dumps({"id": NAME, "sha": COMMIT, "siblings": files}).encode(), "application/json")
        elif path.startswith(f"/api/datasets/{NAME}/tree/{COMMIT}"):
            files = [
                {"type": "file", "path": f"data/{file.name}", "oid": "0" * 40, "size": file.stat().st_size}
                for file in TINY.iterdir()
            ]
            self._answer(json.dumps(files).encode(), "application/json")
        elif path.startswith(f"/datasets/{NAME}/resolve/{COMMIT}/data/"):
            self._answer((TINY / path.rpartition("/")[2]).read_bytes(), "text/plain")
        else:
            self.send_error(404)

    def _answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        """Silent."""


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetchpack(folder, address, *more):
    (folder / "var").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "AWMWEB_VAR": str(folder / "var"),
        "HF_HOME": str(folder / "hub"),
        "HF_ENDPOINT": address,
    }
    command = [sys.executable, "manage.py", "fetchpack", *more]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)


def test_the_data_set_is_downloaded_checked_and_taken_in(hub, tmp_path):
    done = fetchpack(tmp_path, hub)
    assert done.returncode == 0, done.stderr
    assert "2 scenarios in" in done.stdout and "Checked the verifiers of 3 tasks: 0 with warnings" in done.stdout
    assert "Fetching" in done.stderr and "100%" in done.stderr, "a progress bar"
    assert sorted(path.name for path in (tmp_path / "var" / "packs" / "awm-1k").iterdir()) == sorted(
        path.name for path in TINY.iterdir()
    )
    same = fetchpack(tmp_path, hub, "--replace")
    assert same.returncode == 0 and "Nothing to replace." in same.stdout


def test_without_a_network_it_says_so_and_leaves_nothing(tmp_path):
    done = fetchpack(tmp_path, f"http://127.0.0.1:{free_ports(1)[0]}")
    assert done.returncode == 1 and f"{NAME} could not be downloaded" in done.stderr
    assert "Traceback" not in done.stderr and not list((tmp_path / "var").glob("packs/*"))
