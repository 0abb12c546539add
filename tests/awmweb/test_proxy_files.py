"""The nginx and Caddy files of the docs, read by the servers themselves where they are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from awmclient.schema import MAX_STEP_BYTES
from imports.importing import UPLOAD_MAX
from tests.commands import ROOT

FILES = ROOT / "docs" / "proxy"


def certificate(folder: Path) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [*command, "-days", "1", "-subj", "/CN=localhost", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    return key, cert


def test_nginx_reads_the_file_of_the_docs(tmp_path):
    nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if nginx is None or shutil.which("openssl") is None:
        pytest.skip("nginx or openssl is not installed here")
    key, cert = certificate(tmp_path)
    text = (FILES / "nginx.conf").read_text()
    text = re.sub(r"/etc/ssl/awmweb/fullchain.pem", str(cert), text)
    text = re.sub(r"/etc/ssl/awmweb/privkey.pem", str(key), text).replace("/var/log/nginx", str(tmp_path))
    whole = tmp_path / "nginx.conf"
    whole.write_text(f"pid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\nevents {{}}\nhttp {{\n{text}\n}}\n")
    done = subprocess.run([nginx, "-t", "-c", whole], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_caddy_reads_the_file_of_the_docs():
    caddy = shutil.which("caddy")
    if caddy is None:
        pytest.skip("Caddy is not installed here")
    command = [caddy, "adapt", "--config", FILES / "Caddyfile", "--adapter", "caddyfile"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "reverse_proxy" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_proxies_let_the_largest_step_and_import_through(name):
    megabytes = int(re.search(r"(?:max_body_size|max_size) (\d+)m", (FILES / name).read_text(), re.IGNORECASE)[1])
    size = 1024 * 1024 if name == "nginx.conf" else 1_000_000
    assert megabytes * size >= max(MAX_STEP_BYTES, UPLOAD_MAX + 64 * 1024)


def test_nginx_says_whose_request_it_is():
    """Without it all people share one address, and one client's sign-ins in a minute refuse everyone's."""
    said = re.findall(r"proxy_set_header X-Forwarded-For (\S+);", (FILES / "nginx.conf").read_text())
    # a list that begins with what the client sent could name any address
    assert said == ["$remote_addr"]
