"""Every call of the API by a token of each single scope: allowed or refused, as the table says."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client

from awmclient.schema import AskOpen, EpisodeStart
from awmweb.urls import api
from episodes.record import recording
from experts.record import opening
from people import access
from people.errors import Invalid
from people.models import ApiToken, TokenScope, granted
from people.record import members
from tests.browsing import as_person, html
from tests.people_by_name import token

pytestmark = pytest.mark.attack("tokens and doors")


@functools.cache
def document() -> dict[str, Any]:
    """The API's own document, which processes that run no test of this file need not make."""
    return api.get_openapi_schema()


def calls() -> list[str]:
    paths = document()["paths"]
    return [f"{method.upper()} {path.removeprefix('/api/v1')}" for path, of in paths.items() for method in of]


def example(schema: dict[str, Any], name: str = "") -> Any:
    """Return the smallest value of a schema."""
    if "$ref" in schema:
        return example(document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]], name)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return example(schema[choice][0], name)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        return {one: example(schema["properties"][one], one) for one in schema.get("required", [])}
    if kind == "array":
        return [example(schema["items"], name)] * max(1, schema.get("minItems", 0))
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": True, "null": None}.get(kind or "", "x" * max(1, schema.get("minLength", 1)))


@pytest.fixture
def objects(ada):
    episode, _ = recording.start_episode(ada, EpisodeStart(key="k", task="t", expert="plain"))
    ask, _ = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="?"))
    return {"episode_id": episode.pk, "ask_id": ask.pk, "assignment_id": ask.assignment.pk}


def answer_to(call: str, secret: str, objects: dict[str, Any]) -> tuple[int, str]:
    method, path = call.split(" ")
    said = document()["paths"][f"/api/v1{path}"][method.lower()]
    query = {one["name"]: 1 for one in said.get("parameters", []) if one["in"] == "query" and one.get("required")}
    where = re.sub(r"{(\w+)}", lambda name: str(objects.get(name[1], 1)), f"/api/v1{path}")
    content = said.get("requestBody", {}).get("content", {})
    more: dict[str, Any] = {"headers": {"Authorization": f"Bearer {secret}"}}
    if "application/json" in content:
        body = BODIES.get(call) or example(content["application/json"]["schema"])
        more |= {"data": json.dumps(body), "content_type": "application/json"}
    elif "multipart/form-data" in content:
        more["data"] = {"file": SimpleUploadedFile("x.jsonl", b"{}")}
    elif method != "GET":
        more |= {"data": "", "content_type": "application/json"}
    if "application/octet-stream" in content:
        more |= {"data": b"x", "content_type": "application/octet-stream"}
    client = Client()
    response = client.get(where, query, **more) if method == "GET" else getattr(client, method.lower())(where, **more)
    text = b"" if response.streaming else response.content
    return response.status_code, json.loads(text)["error"] if response.status_code >= 400 else ""


READS = "read review export launch agent expert"
ANSWERS, WRITES, JUDGES = "answer expert", "write agent", "answer expert review"
TABLE = {
    "GET /episodes": READS,
    "POST /episodes": WRITES,
    "POST /episodes/whole": WRITES,
    "POST /episodes/{episode_id}/steps": WRITES,
    "GET /episodes/{episode_id}/steps": READS,
    "POST /episodes/{episode_id}/blobs": WRITES,
    "GET /episodes/{episode_id}/token": WRITES,
    "GET /blobs/{digest}": READS,
    "GET /episodes/{episode_id}": READS,
    "GET /episodes/{episode_id}/steps/{seq}": READS,
    "POST /episodes/{episode_id}/heartbeat": WRITES,
    "GET /episodes/{episode_id}/wheel": WRITES,
    "POST /episodes/{episode_id}/wheel/take": ANSWERS,
    "POST /episodes/{episode_id}/wheel/renew": ANSWERS,
    "POST /episodes/{episode_id}/wheel/call": ANSWERS,
    "POST /episodes/{episode_id}/wheel/undo": ANSWERS,
    "POST /episodes/{episode_id}/wheel/hand-back": ANSWERS,
    "POST /episodes/{episode_id}/limits": "launch",
    "POST /episodes/{episode_id}/park": WRITES,
    "POST /episodes/{episode_id}/finish": WRITES,
    "GET /runs": READS,
    "POST /runs": f"{WRITES} launch",
    "POST /runs/preview": "launch",
    "POST /runs/preflight": "launch",
    "GET /runs/{run_id}": READS,
    "POST /runs/{run_id}/pause": "launch",
    "POST /runs/{run_id}/resume": "launch",
    "POST /runs/{run_id}/cancel": "launch",
    "POST /runs/{run_id}/retry": "launch",
    "POST /runs/{run_id}/seeds": "launch",
    "GET /runs/{run_id}/comparison": READS,
    "GET /runs/{run_id}/asking": "launch",
    "GET /briefings": READS.replace(" agent", ""),
    "POST /briefings": "launch",
    "POST /episodes/{episode_id}/certify": "launch",
    "GET /episodes/{episode_id}/fork": "launch",
    "POST /episodes/{episode_id}/fork": "launch",
    "GET /episodes/{episode_id}/prompt": "launch",
    "GET /episodes/{episode_id}/tree": "launch",
    "POST /campaigns": "launch",
    "GET /campaigns": "launch",
    "POST /campaigns/estimate": "launch",
    "GET /campaigns/{campaign_id}": "launch",
    "GET /campaigns/{campaign_id}/places": "launch",
    "POST /campaigns/{campaign_id}/cancel": "launch",
    "POST /verifiers/reverify": "review launch",
    "GET /verifiers/reverify/{rejudging_id}": "review launch",
    "POST /asks": WRITES,
    "GET /asks": ANSWERS,
    "POST /runs/{run_id}/interrupts": WRITES,
    "GET /asks/{ask_id}": f"{READS} write",
    "POST /asks/{ask_id}/consumed": WRITES,
    "POST /asks/{ask_id}/cancel": WRITES,
    "POST /asks/{ask_id}/claim": ANSWERS,
    "POST /assignments/{assignment_id}/renew": ANSWERS,
    "POST /assignments/{assignment_id}/release": ANSWERS,
    "POST /assignments/{assignment_id}/decline": ANSWERS,
    "POST /assignments/{assignment_id}/answer": ANSWERS,
    "POST /assignments/{assignment_id}/undo": ANSWERS,
    "POST /standing-answers": ANSWERS,
    "GET /standing-answers": ANSWERS,
    "DELETE /standing-answers/{standing_id}": ANSWERS,
    "POST /asks/{ask_id}/attachments": f"{ANSWERS} {WRITES}",
    "GET /asks/{ask_id}/attachments": READS,
    "GET /attachments/{attachment_id}": READS,
    "DELETE /attachments/{attachment_id}": ANSWERS,
    "GET /desk/numbers": f"{ANSWERS} export",
    "POST /exports": "export",
    "POST /exports/preview": "export",
    "GET /exports": "export",
    "GET /exports/{export_id}": "export",
    "POST /exports/{export_id}/cancel": "export",
    "GET /exports/{export_id}/download": "export",
    "GET /exports/{export_id}/row": "export",
    "GET /exports/{export_id}/episode": "export",
    "GET /exports/{export_id}/compare": "export",
    "POST /imports": "launch",
    "GET /imports": "launch",
    "GET /imports/{import_id}": "launch",
    "GET /reviews": "review export",
    "POST /reviews/{review_id}/claim": "review",
    "POST /reviews/{review_id}/renew": "review",
    "POST /reviews/{review_id}/release": "review",
    "POST /reviews/{review_id}/decline": "review",
    "POST /reviews/{review_id}/verdict": "review",
    "POST /reviews/{review_id}/preference": "review",
    "POST /queues/{queue_id}/rule": "",
    "POST /reviews/{review_id}/explanation": "review export",
    "POST /episodes/{episode_id}/annotations": JUDGES,
    "POST /annotations/{annotation_id}/undo": JUDGES,
    "POST /episodes/{episode_id}/corrections": JUDGES,
    "POST /corrections/{correction_id}/undo": JUDGES,
    "POST /runs/{run_id}/steps": WRITES,
    "GET /runs/{run_id}/steps": READS,
    "GET /curriculum/next": READS,
    "GET /curriculum/rounds": READS,
}
"""By call, the scopes whose tokens are let in, each alone; all others are refused. A new call needs a line here."""
BODIES: dict[str, Any] = {
    "POST /episodes/{episode_id}/steps": {"steps": [{"seq": 2, "kind": "note", "content": "x"}]},
    "POST /episodes/{episode_id}/wheel/call": {"lease_token": "x", "nonce": "x", "words": "x"},
    "POST /standing-answers": {"tool": "x", "until": "2199-01-01T00:00:00Z"},
    "POST /exports": {"format": "raw"},
    "POST /exports/preview": {"format": "raw"},
}


def test_every_call_is_in_the_table():
    assert sorted(calls()) == sorted(TABLE)


@pytest.mark.parametrize("scope", TokenScope.values)
def test_each_scope_alone_opens_what_the_table_says(project, objects, scope):
    secret, opened, unread = token(project, scope)[1], set(), {}
    for call in calls():
        with transaction.atomic():
            status, error = answer_to(call, secret, objects)
            transaction.set_rollback(True)
        if status in (400, 401, 405) or status >= 500:
            unread[call] = status, error
        elif status != 403:
            opened.add(call)
        else:
            assert error["code"] == "scope", (call, error)
            assert "token" in error["message"] and any(
                word in error["message"] for word in ("needs", "cannot", "No token can")
            )
    assert unread == {}
    assert opened == {call for call, scopes in TABLE.items() if scope in scopes.split()}


def test_each_refusal_says_the_scope_that_is_missing(project, objects):
    secret = token(project, "answer")[1]
    assert answer_to("GET /episodes", secret, objects)[1]["message"] == (
        "This call needs a token of scope read. This token has scope answer."
    )
    assert answer_to("POST /runs", secret, objects)[1]["message"] == (
        "This call needs a token of scope write or launch. This token has scope answer."
    )


def test_list_of_scopes_opens_what_each_of_them_does(project, objects):
    secret = token(project, "answer,export")[1]
    for call in ("GET /asks", "GET /exports", "GET /episodes"):
        assert answer_to(call, secret, objects)[0] == 200
    assert answer_to("GET /imports", secret, objects)[0] == 403


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("agent", "agent"),
        (["read", "agent", "agent"], "agent"),
        ("write,read", "read write"),
        ("export answer read", "export answer"),
        ("expert review launch", "review launch expert"),
    ],
)
def test_scopes_are_kept_without_those_included(given, kept):
    assert members.one_scope(given) == kept


@pytest.mark.parametrize(
    "given", ["", "admin", "read admin", "agent export", "write answer", "metrics read", "write review", "write launch"]
)
def test_scopes_that_no_token_has_are_refused(ada, given):
    with pytest.raises(Invalid):
        members.issue_token(ada, "x", given)
    assert not ApiToken.objects.exists()


def test_old_scopes_are_sets_of_the_finer_ones():
    assert {one: sorted(granted(one)) for one in ("agent", "expert", "export", "launch", "review", "metrics")} == {
        "agent": ["read", "write"],
        "expert": ["answer", "read"],
        "export": ["export", "read"],
        "launch": ["launch", "read"],
        "review": ["read", "review"],
        "metrics": ["metrics"],
    }


def test_token_that_writes_sees_no_outcome(project):
    blind = {one for one in TokenScope.values if not access.sees_outcomes(token(project, one)[0])}
    assert blind == {"write", "agent"}
    assert not access.sees_outcomes(token(project, "read write")[0])


def test_command_takes_a_list_of_scopes(ada, project, capsys):
    call_command("createtoken", "both", "--project", project.slug, "--scope", "read,answer", "--scope", "export")
    assert members.token_of(capsys.readouterr().out.split()[-1]).grants == ["read", "answer", "export"]
    with pytest.raises(CommandError, match="choose from read, write, answer"):
        call_command("createtoken", "both", "--project", project.slug, "--scope", "read,admin")


def test_page_makes_and_shows_a_token_of_several_scopes(ada):
    page = as_person(ada)
    form = {"do": "issue", "name": "two", "scope": ["answer", "export"]}
    assert page.post("/api-tokens/", form).status_code == 200
    assert "export answer <small>read, answer, export</small>" in html(page.get("/api-tokens/"))
    refused = page.post("/api-tokens/", {"do": "issue", "name": "none"})
    assert refused.status_code == 422 and "Choose at least one scope." in html(refused)
    clash = page.post("/api-tokens/", {"do": "issue", "name": "x", "scope": ["agent", "export"]})
    assert clash.status_code == 422 and "Create two tokens." in html(clash)
    assert html(clash).count("checked") == 3
