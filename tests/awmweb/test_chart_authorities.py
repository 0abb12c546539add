"""The authority that the chart is given: the clients of the product believe it by the variables that each pod gets."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.awmweb.test_chart import PODS, pod_of, rendered
from tests.awmweb.test_proxy_files import certificate

CLIENTS = {
    "httpx": "import httpx; httpx.get(url)",
    "requests": "import requests; requests.get(url)",
    "urllib": "import urllib.request; urllib.request.urlopen(url)",
}
"""Those of models and the Hub, of the sign-in and the collector, and of Python itself."""


class Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Write nothing."""


@pytest.fixture
def server(tmp_path) -> Iterator[tuple[str, Path]]:
    """The address of a server with a certificate of its own, and the file with its authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    key, cert = certificate(tmp_path)
    house = HTTPServer(("127.0.0.1", 0), Empty)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    house.socket = context.wrap_socket(house.socket, server_side=True)
    thread = threading.Thread(target=house.serve_forever)
    thread.start()
    yield f"https://localhost:{house.server_port}/", cert
    house.shutdown()
    house.server_close()
    thread.join()


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_believe_the_authority_that_pods_get(client, server, tmp_path):
    url, cert = server
    found = rendered({"ca": {"configMap": "authorities"}})
    for part in PODS:
        pod = pod_of(found, part)
        [container] = pod["containers"]
        assert {"name": "ca", "configMap": {"name": "authorities"}} in pod["volumes"]
        assert {"name": "ca", "mountPath": "/ca", "readOnly": True} in container["volumeMounts"]
        own = {one["name"]: str(cert) for one in container["env"] if one.get("value") == "/ca/ca.crt"}
        assert own.keys() == {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE"}
    command = [sys.executable, "-c", f"url = {url!r}; {CLIENTS[client]}"]
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = [subprocess.run(command, env=plain | more, capture_output=True, text=True) for more in (own, {})]
    assert done[0].returncode == 0, done[0].stderr
    assert done[1].returncode == 1 and "CERTIFICATE_VERIFY_FAILED" in done[1].stderr
