"""A model advises beside people in the running product: the demo asks both, and the model answers over real HTTP."""

from __future__ import annotations

import json

import pytest

from tests.awmclient.openai_server import OpenAIServer, answering
from tests.running import product, until

KEY = "sk-expert-0123456789abcdef"
ADVICE = "Merge into the oldest ticket of that customer."


@pytest.fixture(scope="module")
def wise():
    said = json.dumps({"advice": ADVICE, "confidence": 0.9, "needs_person": False})
    server = OpenAIServer(lambda body: said, key=KEY)
    with answering(server):
        yield server


@pytest.fixture(scope="module")
def house(wise):
    endpoint = {"BASE_URL": wise.base_url, "MODEL": "wise-1", "API_KEY": KEY}
    with product(AWMWEB_DEMO="1", **{f"AWMWEB_EXPERT_{name}": value for name, value in endpoint.items()}) as running:
        yield running


def test_the_demo_asks_a_person_and_a_model_side_by_side(house, wise):
    with house.http(house.token("launch")) as reader:
        (run,) = reader.get("/runs", params={"name": "demo"}).raise_for_status().json()["items"]
    with house.http(house.token("expert")) as expert:

        def asks(status):
            return expert.get("/asks", params={"status": status, "run": run["id"]}).raise_for_status().json()["asks"]

        (answered,) = until(lambda: asks("answered"), 60)
        (waiting,) = until(lambda: asks("open"), 60)
        assert answered["question"] == waiting["question"]  # the same task, one arm asks people, the other the model
        steps = expert.get(f"/episodes/{answered['episode']}/steps", params={"limit": 200}).json()["steps"]
        (step,) = (one for one in steps if one["kind"] == "ask")
        assert step["advice"] == {"text": ADVICE, "source": "llm", "author": "expert", "privilege": "blind"}
        told = json.loads(wise.bodies[0]["messages"][1]["content"])
        assert told["question"] == answered["question"] and told["tools"]
    assert KEY not in house.logs()
