"""The replay's tables with the rows that the world began with: asked for signed, merged, bounded, and never needed."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from awmclient.schema import EpisodeStart, StepBatch
from awmenv.attesting import asked
from episodes.models import Episode
from episodes.record import recording
from runs.play import start_tables
from tests.browsing import as_person, html
from tests.people_by_name import token

KEY = "k" * 40
BASE = {"clock": 1, "digest": "d" * 32}
LISTED = {"tables": [{"name": "tickets", "rows": 1234}, {"name": "<b>evil\u202e", "rows": 1}], "more": 3}
PAGE = {"columns": ["id", "by"], "key": ["id"], "offset": 0, "rows": [[7, "Ann"], [8, "<i>Bob</i>"]]}


@pytest.fixture
def server(settings, monkeypatch):
    """An environment server that answers as `answers` says, and keeps what it was asked."""
    answers, heard = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(asked(KEY, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            status, body = answers[0] if len(answers) == 1 else answers.pop(0)
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_):
            pass

    running = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    settings.AWMENV_URL = f"ws://127.0.0.1:{running.server_port}/ws"
    settings.ATTEST_KEY = KEY
    monkeypatch.setattr(start_tables, "_answers", start_tables._Answers())
    running.answers, running.heard = answers, heard
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def episode(ada):
    """An episode whose world is recorded, and whose second step changes a ticket."""
    one, _ = recording.start_episode(ada, EpisodeStart(key="t", task="Close 7.", scenario="desk_1", task_idx=0))
    diff = {"tickets": {"changed": [{"key": {"id": 7}, "before": {"by": "Ann"}, "after": {"by": "Edo"}}]}}
    call = {"kind": "tool_call", "name": "close", "arguments": {}, "result": 1}
    steps = [{"seq": 1, **call}, {"seq": 2, **call, "state_diff": diff}]
    recording.append_steps(ada, one.pk, StepBatch.model_validate({"steps": steps}).steps)
    Episode.objects.filter(pk=one.pk).update(world={"base": BASE})
    return Episode.objects.get(pk=one.pk)


def shown(actor, episode, query=""):
    return html(as_person(actor).get(f"/episodes/{episode.pk}/replay/tables?{query}"))


def test_chosen_table_has_start_rows_and_changes(rita, server, episode):
    server.answers[:] = [(200, LISTED), (200, {**LISTED, **PAGE})]
    page = shown(rita, episode, "step=2&table=tickets")
    assert "tickets, 1,234 rows, 1 changed" in page and "Start rows 1 to 2 of 1,234" in page
    assert "<ins>Edo</ins>" in page and "&lt;i&gt;Bob&lt;/i&gt;" in page and "data-from" in page
    assert "&lt;b&gt;evil⟨U+202E⟩" in page and "<b>evil" not in page and "3 more tables not listed." in page
    first = shown(rita, episode, "step=1&table=tickets")
    assert "Ann" in first and "Edo" not in first
    assert [one["table"] for one in server.heard] == ["", "tickets"]  # the second step asked for nothing new
    assert {name: server.heard[0][name] for name in ("scenario", "clock", "digest")} == {"scenario": "desk_1", **BASE}


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (409, {"detail": "The start database is not the one of the episode."}, "is not the one of the episode"),
        (403, {"detail": "<script>"}, "&lt;script&gt;"),
        (500, b"oops", "The environment server is unavailable"),
        (200, b"[1]", "The environment server is unavailable"),
        (200, b'"' + b"x" * 600_000 + b'"', "The environment server is unavailable"),
        (200, {"tables": 7, "rows": "x", "columns": None}, "as they stood after step 2"),
    ],
)
def test_without_an_answer_the_changed_rows_are_shown(rita, server, episode, status, body, words):
    server.answers[:] = [(status, body)]
    page = shown(rita, episode, "step=2&table=tickets")
    assert words in page and "<ins>Edo</ins>" in page
    assert words in shown(rita, episode, "step=2") and len(server.heard) == 1  # a failure is kept for a while


def test_episode_without_a_recorded_world_asks_nothing(rita, server, episode):
    Episode.objects.filter(pk=episode.pk).update(world={})
    page = shown(rita, episode, "step=2")
    assert "No environment server recorded how this episode began" in page and "<ins>Edo</ins>" in page
    assert server.heard == []


def test_stranger_and_agent_token_get_no_tables(client, max_, server, episode, project):
    path = f"/episodes/{episode.pk}/replay/tables"
    assert as_person(max_).get(path).status_code == 404
    answer = client.get(path, HTTP_AUTHORIZATION=f"Bearer {token(project, 'agent')[1]}")
    assert answer.status_code in (302, 401, 403) and server.heard == []
