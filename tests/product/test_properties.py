"""Whatever a caller sends to the API of the running product, it answers by its own OpenAPI document and never breaks.

The examples are made from `/api/v1/openapi.json`, always the same ones: few in every run of the tests, more in
`make long`.
"""

from __future__ import annotations

import gc
import json
from urllib.request import urlopen

import pytest
import schemathesis
from hypothesis import Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from people.models import new_id
from tests.examples import some_of

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
CALLS = 17
FORBIDDEN = 3
"""A call that refuses so many first examples of a caller refuses the others, too, for the caller's scope alone."""
FEW, MANY = 6, 14
BOUNDED = settings(
    database=None,
    phases=[Phase.explicit, Phase.generate],
)


@pytest.fixture(scope="module")
def document(house):
    with urlopen(house.url + "/api/v1/openapi.json") as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def api(house, document):
    gc.collect()  # Python 3.11 fails to parse while what it collects logs a traceback, and much is parsed here
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=house.url)
    return schema


@pytest.fixture(scope="module")
def known(house):
    """Ids of real rows, so that half of the examples get past 404. The ask is closed: nobody waits for it."""
    with house.http(house.token("agent")) as loop, house.http(house.token("expert")) as desk:
        episode = loop.post("/episodes", json={"key": new_id(), "task": "t", "expert": "plain"}).json()["id"]
        ask = loop.post("/asks", json={"key": new_id(), "episode": episode, "seq": 1, "question": "?"}).json()["id"]
        slot = desk.post(f"/asks/{ask}/claim").json()["assignment"]
        loop.post(f"/asks/{ask}/cancel")
    return {"episode_id": episode, "ask_id": ask, "assignment_id": slot}


@pytest.fixture(scope="module")
def calls(api):
    """How to make cases of each call, read from the document once for both callers."""
    return [result.ok().as_strategy() for result in api.get_all_operations()]


def tried(cases, token, known, examples):
    """Send the examples of one call; a counterexample is shown by hypothesis."""
    answers = []

    @seed(20261121)
    @settings(BOUNDED, max_examples=examples)
    @given(case=cases)
    def send(case):
        if answers[:FORBIDDEN] == [403] * FORBIDDEN:
            return
        for name, value in (case.path_parameters or {}).items():
            if name in known and len(str(value)) % 2:
                case.path_parameters[name] = known[name]
        answer = case.call(headers={"Authorization": f"Bearer {token}"}, timeout=40)
        answers.append(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    send()


@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"])
@pytest.mark.parametrize("scope", some_of(["agent", "expert"]))
def test_no_caller_meets_a_fault_or_an_undocumented_answer(house, calls, known, scope, examples):
    token = house.token(scope)
    for cases in calls:
        tried(cases, token, known, examples)
    assert len(calls) >= CALLS


def test_openapi_names_auth_errors_and_limits(document):
    assert document["info"]["title"] == "awmweb" and document["info"]["description"]
    schemes = document["components"]["securitySchemes"]
    assert {"type": "http", "scheme": "bearer"} in schemes.values()
    calls = [call for methods in document["paths"].values() for call in methods.values()]
    assert len(calls) >= CALLS
    for call in calls:
        assert {"400", "401", "403", "404", "409", "413", "422", "429", "503"} <= set(call["responses"])
        assert call["security"]
    shapes = document["components"]["schemas"]
    words, _parts = shapes["AskOpen"]["properties"]["question"]["anyOf"]
    assert words["maxLength"] == 20_000
    assert shapes["AskOpen"]["properties"]["deadline_s"]["maximum"] == 2_592_000
    assert shapes["StepBatch"]["properties"]["steps"]["maxItems"] == 2000
    assert all(shapes[name]["additionalProperties"] is False for name in ("AskOpen", "EpisodeStart", "StepBatch"))
