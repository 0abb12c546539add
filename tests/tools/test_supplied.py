"""Licenses and known vulnerabilities of pinned packages: what is wrong fails, and what was not checked is named."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tools import supplied

HASH = "a" * 64


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "requirements.lock"
    path.write_text(f"django==5.2.1 \\\n    --hash=sha256:{HASH}\n")
    return path


@pytest.fixture
def osv():
    """A server that answers as OSV does: Django 5.2.1 has the vulnerabilities that `known` names."""
    known: list[dict] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"vulns": known} if known else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query", known
    server.shutdown()
    server.server_close()


def test_licenses_of_what_ships_are_allowed():
    names = sorted(supplied.locked(supplied.LOCK.read_text()))
    wrong, absent = supplied.wrong_licenses(names)
    assert wrong == [] and len(names) - len(absent) > 100
    assert set(supplied.EXCEPT) <= set(names)


@pytest.mark.parametrize(
    ("about", "classifiers", "found"),
    [
        ({"License-Expression": "MPL-2.0 AND (Apache-2.0 OR MIT)"}, [], {"MPL-2.0", "Apache-2.0", "MIT"}),
        ({"License": "GPL"}, ["License :: OSI Approved :: MIT License"], {"MIT"}),
        ({"License": "3-Clause BSD License"}, ["License :: OSI Approved"], {"BSD-3-Clause"}),
        ({"License": "Proprietary\nmore"}, [], {"Proprietary"}),
        ({}, [], set()),
    ],
)
def test_licenses_are_read_from_metadata(about, classifiers, found):
    assert supplied.licenses_of(about, classifiers) == found


def test_license_that_is_not_allowed_fails(lock, monkeypatch, capsys):
    monkeypatch.setattr(supplied, "ALLOWED", supplied.ALLOWED - {"BSD-3-Clause"})
    assert supplied.main(["--lock", str(lock), "--osv-url", "http://127.0.0.1:9/v1/query"]) == 1
    assert "License not allowed: django: BSD-3-Clause." in capsys.readouterr().out


def test_unreachable_service_is_named_and_fails_if_strict(lock, capsys):
    options = ["--lock", str(lock), "--osv-url", "http://127.0.0.1:9/v1/query"]
    assert supplied.main(options) == 0
    assert capsys.readouterr().out.endswith("VULNERABILITIES WERE NOT CHECKED: 127.0.0.1 is unreachable.\n")
    assert supplied.main([*options, "--strict"]) == 1


def test_known_vulnerability_fails_and_none_passes(lock, osv, capsys):
    url, known = osv
    assert supplied.main(["--lock", str(lock), "--osv-url", url]) == 0
    assert "No known vulnerabilities found" in capsys.readouterr().out
    package = {"name": "django", "ecosystem": "PyPI"}
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "5.2.2"}]}]
    affected = [{"package": package, "ranges": ranges, "versions": ["5.2.1"]}]
    known.append({"id": "PYSEC-2099-1", "summary": "x", "modified": "2099-01-01T00:00:00Z", "affected": affected})
    assert supplied.main(["--lock", str(lock), "--osv-url", url]) == 1
    assert "PYSEC-2099-1" in capsys.readouterr().out
