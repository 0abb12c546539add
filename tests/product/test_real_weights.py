"""A model with real weights, served as a person serves it: it plays an episode here, asks, and drafts advice."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import httpx
import pytest

from awmclient.choosing.chat import ChatPolicy, EndpointConfig
from awmclient.client import HttpDashboard
from awmclient.loop.rollout import rollout
from awmclient.testing import FakeEnv
from experts import llm
from tests.weights.conftest import smollm2  # noqa: F401


def schema(**properties) -> dict:
    form = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": form}}


WORDS = {"type": "string", "minLength": 5, "maxLength": 60}
ASKS = schema(name={"const": "ask_expert"}, arguments=schema(question=WORDS)["json_schema"]["schema"])
ADVISES = schema(advice=WORDS, confidence={"type": "number", "minimum": 0, "maximum": 1})


class AsksFirst:
    """The model, whose first turn the server holds to the form of an ask; the words are its own."""

    def __init__(self, endpoint: EndpointConfig) -> None:
        self.asking = ChatPolicy(replace(endpoint, options={**endpoint.options, "response_format": ASKS}))
        self.free = ChatPolicy(endpoint)

    async def act(self, view):
        return await (self.asking if view.turn == 1 else self.free).act(view)


async def answered(expert: httpx.AsyncClient) -> str:
    """Wait for the ask, answer it, and return its question."""
    while not (asks := (await expert.get("/asks?status=open")).raise_for_status().json()["asks"]):
        await asyncio.sleep(0.1)
    claim = (await expert.post(f"/asks/{asks[0]['id']}/claim", json={})).raise_for_status().json()
    body = {"lease_token": claim["lease_token"], "text": "The mug costs 9.", "nonce": uuid.uuid4().hex}
    (await expert.post(f"/assignments/{claim['assignment']}/answer", json=body)).raise_for_status()
    return asks[0]["question"]


@pytest.fixture
def endpoint(smollm2) -> EndpointConfig:  # noqa: F811
    return EndpointConfig(smollm2, "local", timeout_s=900, options={"max_tokens": 80, "temperature": 0})


async def test_a_small_model_plays_and_asks_a_person(house, endpoint):
    mine = await asyncio.to_thread(house.with_project, f"weights-{uuid.uuid4().hex[:6]}")
    agent, person = [await asyncio.to_thread(mine.token, scope) for scope in ("agent", "expert")]
    headers = {"Authorization": f"Bearer {person}"}
    async with (
        HttpDashboard(house.url, agent) as dash,
        httpx.AsyncClient(base_url=f"{house.url}/api/v1", headers=headers, timeout=40) as expert,
    ):
        answering = asyncio.create_task(answered(expert))
        played = await rollout(AsksFirst(endpoint), FakeEnv(), dash, task="Set the price of the mug.", expert="plain")
        question = await asyncio.wait_for(answering, 600)  # only a test that fails waits
        steps = (await expert.get(f"/episodes/{played.episode}/steps?since=0&limit=100")).json()["steps"]
    assert question.strip() and played.fault is None and played.stop_reason in ("done", "cut_off")
    (ask,) = [step for step in steps if step["kind"] == "ask"]
    assert ask["question"] == question and ask["advice"]["text"] == "The mug costs 9."
    turns = [step for step in steps if step["kind"] == "message" and step["role"] == "assistant"]
    assert turns and {step["finish_reason"] for step in turns} <= {"stop", "length"}
    assert all(step["usage"]["prompt_tokens"] > 100 for step in turns)


async def test_a_small_model_drafts_advice(endpoint):
    drafted = await llm.tested(replace(endpoint, options={**endpoint.options, "response_format": ADVISES}))
    assert drafted.ok and drafted.message.startswith("local: "), drafted
