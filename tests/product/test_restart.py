"""A second start on the same data: everything is still there, and people stay signed in."""

from __future__ import annotations

import tempfile
from pathlib import Path

import httpx
import pytest

from tests.running import free_ports, from_template, product


@pytest.fixture
def var():
    with tempfile.TemporaryDirectory(prefix="awmweb-restart-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder) / "var"


@pytest.mark.slow
def test_a_restart_keeps_data_sessions_and_tokens(var):
    var.mkdir(mode=0o711)
    from_template(var)
    port = str(free_ports(1)[0])
    with product(var, AWMWEB_PORT=port) as first:
        token = first.token("agent")
        with first.http(token) as agent:
            episode = agent.post("/episodes", json={"key": "k", "task": "t"}).json()["id"]
            agent.post(f"/episodes/{episode}/steps", json={"steps": [{"seq": 1, "kind": "note", "content": "kept"}]})
        browser = httpx.Client(base_url=f"http://127.0.0.1:{port}", follow_redirects=True, timeout=40)
        assert browser.get(first.login).status_code == 200
        assert "Sign out" in browser.get("/").text
        spent = httpx.get(first.login)
        assert spent.status_code == 410
    with product(var, AWMWEB_PORT=port) as second:
        assert not any("creating the database" in line for line in second.said)
        with second.http(token) as agent:
            assert agent.get(f"/episodes/{episode}/steps").json()["steps"][0]["content"] == "kept"
        assert "Sign out" in browser.get("/").text
        assert "kept" in browser.get(f"/episodes/{episode}/").text
        assert second.login != first.login
