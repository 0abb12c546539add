"""Calls that are served below Django take and refuse what their operations document."""

import json

import pytest

from episodes.api import append_steps
from experts.api import get_ask
from people.errors import AppError
from people.models import new_id
from tests.browsing import as_person

pytestmark = pytest.mark.django_db


def refusal_of(read, raw):
    with pytest.raises(AppError) as refused:
        read(raw)
    return refused.value.status, {"error": {"code": refused.value.code, "message": refused.value.message}}


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"steps": 1}', b'{"steps": [], "more": 1}'])
def test_body_is_refused_as_its_operation_refuses_it(ada, body):
    sent = as_person(ada).post(f"/api/v1/episodes/{new_id()}/steps", body, content_type="application/json")
    assert (sent.status_code, json.loads(sent.content)) == refusal_of(append_steps.read_body, body)


@pytest.mark.parametrize("query", ["wait=26", "wait=-1", "wait=x", "wait="])
def test_query_is_refused_as_its_operation_refuses_it(ada, query):
    sent = as_person(ada).get(f"/api/v1/asks/{new_id()}?{query}")
    assert (sent.status_code, json.loads(sent.content)) == refusal_of(get_ask.read_query, query.encode())


def test_call_knows_its_address_and_its_route():
    assert get_ask.key_in("GET", "/api/v1/asks/a") == "a" and get_ask.route == "api/v1/asks/<ask_id>"
    assert get_ask.key_in("POST", "/api/v1/asks/a") is get_ask.key_in("GET", "/api/v1/asks/a/consumed") is None
    assert append_steps.key_in("POST", "/api/v1/episodes/e/steps") == "e"
    assert get_ask.read_query(b"wait=25&other=1").wait == 25 and get_ask.read_query(b"").wait == 0
