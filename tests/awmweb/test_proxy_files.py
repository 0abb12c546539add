"""The nginx and Caddy files of the docs, read by the servers themselves where they are installed."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from awmclient.schema import MAX_STEP_BYTES
from imports.record.importing import UPLOAD_MAX
from tests.commands import ROOT

FILES = ROOT / "docs" / "proxy"
PROGRAMS = {"nginx": shutil.which("nginx") or shutil.which("/usr/sbin/nginx"), "caddy": shutil.which("caddy")}


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of a key and a certificate for localhost."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [*command, "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        + ["-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    return key, cert


def nginx_file(folder: Path, key: Path, cert: Path, changed: Mapping[str, str] | None = None) -> Path:
    """Write the file of the docs into one that nginx starts with, with a certificate and what else is changed."""
    text = (FILES / "nginx.conf").read_text()
    own = {"/etc/ssl/awmweb/fullchain.pem": str(cert), "/etc/ssl/awmweb/privkey.pem": str(key)}
    for old, new in {**own, "/var/log/nginx": str(folder), **(changed or {})}.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = folder / "nginx.conf"
    start = f"pid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
    whole.write_text(f"{start}http {{\n{temporary}{text}\n}}\n")
    return whole


def caddy_file(folder: Path, key: Path, cert: Path, house: str, port: int) -> Path:
    """Write the documented file with a name and ports of this machine, and without what changes the machine."""
    text = (FILES / "Caddyfile").read_text()
    for old, new in {
        "awm.example.org {": f"localhost:{port} {{\n\ttls {cert} {key}",
        "127.0.0.1:8000": house,
        "{\n\t# Errors are logged": "{\n\tadmin off\n\tauto_https disable_redirects\n\t# Errors are logged",
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    whole = folder / "Caddyfile"
    whole.write_text(text)
    return whole


@contextmanager
def proxying(name: str, folder: Path, tls: tuple[Path, Path], house: str, port: int) -> Iterator[ssl.SSLContext]:
    """Run a documented proxy at a port of this machine in front of `house`; yield what trusts its certificate.

    Everything that it logs is in `folder`.
    """
    program, (key, cert) = PROGRAMS[name], tls
    if program is None:
        pytest.skip(f"{name} is not installed here")
    if name == "nginx":
        here = {"127.0.0.1:8000": house, "listen 443 ssl": f"listen {port} ssl"}
        command = [program, "-c", nginx_file(folder, key, cert, here), "-g", "daemon off; user root;"]
    else:
        command = [program, "run", "--config", caddy_file(folder, key, cert, house, port)]
    own = {"PATH": "/usr/sbin:/usr/bin:/bin", "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=own, stdout=log, stderr=log)
    try:
        yield ssl.create_default_context(cafile=str(cert))
    finally:
        process.terminate()
        process.wait(60)


def test_nginx_reads_the_file_of_the_docs(tmp_path):
    nginx = PROGRAMS["nginx"]
    if nginx is None or shutil.which("openssl") is None:
        pytest.skip("nginx or openssl is not installed here")
    whole = nginx_file(tmp_path, *certificate(tmp_path))
    done = subprocess.run([nginx, "-t", "-c", whole], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_caddy_reads_the_file_of_the_docs():
    caddy = PROGRAMS["caddy"]
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
