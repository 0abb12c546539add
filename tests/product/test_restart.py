"""A second start on the same data: everything is still there, and people stay signed in."""

from __future__ import annotations

import tempfile
from pathlib import Path

import httpx
import pytest

from tests.running import free_ports, from_template, product, until


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
        ask = held_answer(first, token)
        first.kill("worker")
    with product(var, AWMWEB_PORT=port) as second:
        assert not any("creating the database" in line for line in second.said)
        with second.http(token) as agent:
            assert agent.get(f"/episodes/{episode}/steps").json()["steps"][0]["content"] == "kept"
        assert "Sign out" in browser.get("/").text
        assert "kept" in browser.get(f"/episodes/{episode}/").text
        assert second.login != first.login
        rows = f"AskEvent.objects.filter(ask={ask!r}, verb='answered')"
        code = f"from experts.models import AskEvent; print({rows}.count())"
        until(lambda: second.manage("shell", "-c", code).split()[-1] == "1", 90)
        with second.http(token) as agent:
            assert agent.get(f"/asks/{ask}").json()["advice"]["text"] == "Into 4127."
        assert second.manage("shell", "-c", code).split()[-1] == "1", "delivered once"


def held_answer(house, token):
    """Answer an ask so that its agent does not get it before the product is killed."""
    with house.http(token) as agent, house.http(house.token("expert")) as expert:
        episode = agent.post("/episodes", json={"key": "held", "task": "t", "expert": "plain"}).json()["id"]
        wanted = {"key": "q", "episode": episode, "seq": 1, "question": "Into which?", "deadline_s": 3000}
        ask = agent.post("/asks", json=wanted).json()["id"]
        lease = expert.post(f"/asks/{ask}/claim", json={}).json()
        body = {"lease_token": lease["lease_token"], "text": "Into 4127.", "nonce": "n", "hold_s": 10}
        assert expert.post(f"/assignments/{lease['assignment']}/answer", json=body).is_success
        assert agent.get(f"/asks/{ask}").json()["status"] == "open"
    return ask
