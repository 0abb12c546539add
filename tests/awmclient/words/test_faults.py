"""Whose doing a failed turn is: one test for each row of the table in docs/runs.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from awmclient.errors import PolicyFault
from awmclient.loop.rollout import rollout
from awmclient.testing import FakeEnv, MemoryDashboard
from awmclient.words.faults import fault_of

DOCS = (Path(__file__).resolve().parents[3] / "docs" / "runs.md").read_text()
ROWS = {
    "the model server answered 5xx": ["the endpoint answered 503: overloaded", "InternalServerError: Error code: 500"],
    "the model server answered 401 or 403": ["the endpoint answered 401: Incorrect API key", "HTTP 403 from the proxy"],
    "the model server answered 429 until its time was up": [
        "the endpoint answered 429: slow down",
        "RateLimitError: no",
    ],
    "the model server answered another 4xx": ["the endpoint answered 404: no such model", "BadRequestError: bad field"],
    "the connection was refused or closed": [
        "cannot reach http://127.0.0.1:9/v1: ConnectError: refused", "ConnectionResetError: [Errno 104]",
        "httpx.RemoteProtocolError: peer closed connection", "requests.exceptions.ConnectionError: refused",
    ],
    "no answer within the time limit": ["no answer within 120 s", "TimeoutError: ", "httpx.ReadTimeout: timed out"],
    "the answer is no chat completion": ["the endpoint's answer is no chat completion: <html>"],
    "an exception of a vendor's client that names an outage": ["openai.APIConnectionError: Connection error."],
    "the conversation is longer than the model's context": [
        "the endpoint answered 400: This model's maximum context length is 8192 tokens.",
        "the endpoint answered 500: the request exceeds the available context size",
        "BadRequestError: Error code: 400 - prompt is too long: 210000 tokens > 200000 maximum",
    ],
    "any other exception of the policy's code": ["ValueError: no idea", "KeyError: 'choices'", "page 500 is missing"],
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_fault_is_that_of_its_row_in_the_docs(row):
    fault = {fault_of(words) for words in ROWS[row]}
    assert len(fault) == 1 and f"\n| {row} | `{fault.pop()}` | " in DOCS


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ConnectionRefusedError("refused"), "model"),
        (TimeoutError(), "model"),
        (ValueError("no idea"), "policy"),
        (PolicyFault("I give up."), "policy"),
        (RuntimeError("maximum context length is 10"), "policy"),
    ],
)
async def test_failed_turn_ends_a_rollout_with_its_fault(error, fault):
    class Failing:
        async def act(self, view):
            raise error

    result = await rollout(Failing(), FakeEnv(), MemoryDashboard(), task="Look")
    assert (result.fault, result.stop_reason) == (fault, None)
