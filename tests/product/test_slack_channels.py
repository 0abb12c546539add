"""A Slack channel with the running product: its worker draws what an agent, a press and a window change."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from urllib.parse import urlencode

import httpx
import pytest

from people.models import new_id
from tests.notices.receivers import slack_server
from tests.running import product, until

SECRET, PLACE, EDO = "a signing secret", "C0DESK", "U0EDO"


@pytest.fixture(scope="module")
def there():
    with slack_server() as one:
        yield one


@pytest.fixture(scope="module")
def house(there):
    names = {"TOKEN": "xoxb-token", "SECRET": SECRET, "URL": there.url}
    with product(world=False, **{f"AWMWEB_SLACK_{name}": value for name, value in names.items()}) as one:
        yield one


@pytest.fixture(scope="module")
def edo(house, there):
    """Edo, who runs the project and confirmed his account in Slack."""
    with httpx.Client(base_url=house.url, follow_redirects=True) as browser:
        browser.get(house.link("edo", "admin"))
        send(browser, "/notifications/on", kind="slack", target=EDO)
        (code,) = until(lambda: there.of("chat.postMessage"), 30)
        pk = re.search(r"notifications/([^/]+)/confirm", browser.get("/notifications/").text)[1]
        code = re.search(r"Your code is (\w+)", json.dumps(code))[1]
        send(browser, f"/notifications/{pk}/confirm", code=code)
        send(browser, "/notifications/slack-channels", target=PLACE)
        yield browser


def send(browser, path, **form):
    csrf = re.search(r'name="csrf" content="([^"]+)"', browser.get("/notifications/").text)[1]
    answer = browser.post(path, data=form, headers={"X-CSRFToken": csrf, "Referer": str(browser.base_url)})
    assert answer.status_code == 200, answer.text


def from_slack(house, payload):
    body, stamp = urlencode({"payload": json.dumps({"user": {"id": EDO}, **payload})}), str(int(time.time()))
    sign = hmac.new(SECRET.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={sign}"}
    form = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
    assert httpx.post(f"{house.url}/slack/interactions", content=body, headers=form).content == b""


def test_agent_gets_what_a_person_wrote_in_a_channel(house, there, edo):
    with house.http(house.token("agent")) as agent:
        episode = agent.post("/episodes", json={"key": new_id(), "task": "merge", "expert": "plain"}).json()["id"]
        body = {"key": new_id(), "episode": episode, "seq": 1, "question": "Into which one?"}
        ask = agent.post("/asks", json=body).json()["id"]
        shown = until(lambda: [one for one in there.of("chat.postMessage") if one["channel"] == PLACE], 30)[0]
        value = shown["blocks"][-1]["elements"][0]["value"]
        press = {"type": "block_actions", "trigger_id": "t", "channel": {"id": PLACE}}
        from_slack(house, {**press, "actions": [{"action_id": "awm_answer", "value": value}]})
        until(lambda: "Claimed by edo." in json.dumps(there.of("chat.update")), 30)
        view = {"id": "V1", "private_metadata": there.of("views.open")[-1]["view"]["private_metadata"]}
        state = {"values": {"note": {"value": {"value": "Into 4127."}}}}
        from_slack(house, {"type": "view_submission", "view": {**view, "state": state}})
        assert agent.get(f"/asks/{ask}?wait=25").json()["advice"]["text"] == "Into 4127."
    until(lambda: "edo answered" in json.dumps(there.of("chat.update")), 30)
    assert len([one for one in there.of("chat.postMessage") if one["channel"] == PLACE]) == 1
