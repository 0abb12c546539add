"""The web process below Django: what it says while the database is away, and that no socket is left open and silent."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from asgiref.testing import ApplicationCommunicator
from channels import auth
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DataError, IntegrityError, OperationalError
from django.http import StreamingHttpResponse
from django.templatetags.static import static

from awmclient.schema import STEP, AskOpen, EpisodeStart, ToolCall
from awmweb import kept_files
from awmweb.asgi import FOREVER, OneThread, application, django_app
from episodes.live import consumers
from episodes.models import OutcomeHold
from episodes.record import committer, recording
from episodes.visible import trajectory
from experts import consumers as waiting
from experts.record import advising, opening, queue
from people import known_tokens
from people.errors import Busy
from people.record import members
from tests.browsing import as_person
from tests.people_by_name import token

COOKIE = (b"cookie", f"{settings.SESSION_COOKIE_NAME}=somebody".encode())
OURS = (b"origin", settings.AWMWEB_PUBLIC_URL.encode())
HOST = (b"host", b"127.0.0.1")
WAIT_S = 10


def gone(*args, **kwargs):
    raise OperationalError("connection refused")


class Call(ApplicationCommunicator):
    """One connection to the application, without a server."""

    def __init__(self, kind, path, *headers, query=b"", method="GET", host=HOST):
        super().__init__(
            application,
            {"type": kind, "method": method, "path": path, "query_string": query, "headers": [host, *headers]},
        )

    async def connect(self):
        await self.send_input({"type": "websocket.connect"})
        return await self.said()

    async def said(self):
        return await self.receive_output(WAIT_S)


FOREIGN = [
    b"evil.example",
    b"evil.example:8000",
    b"127.0.0.1.evil.example",
    b"",
    b"127.0.0.1,evil.example",
    b"a@127.0.0.1",
]


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize(
    "path", ["/static/site.css", "/mcp", "/api/v1/episodes/one/steps", "/api/v1/asks/one", "/login"]
)
async def test_host_that_is_not_ours_is_refused_at_every_address(path, host):
    call = Call("http", path, method="POST" if path.endswith(("steps", "mcp")) else "GET", host=(b"host", host))
    await call.send_input({"type": "http.request"})
    assert (await call.said())["status"] == 400


@pytest.mark.parametrize("host", FOREIGN)
async def test_host_that_is_not_ours_opens_no_socket(watching, host):
    socket = watching(host=(b"host", host))
    assert (await socket.connect())["type"] == "websocket.close"


@pytest.mark.parametrize("host", [b"127.0.0.1", b"localhost:8000", b"[::1]:8000", b"LOCALHOST"])
async def test_host_of_this_machine_is_ours(host):
    call = Call("http", "/static/site.css", host=(b"host", host))
    await call.send_input({"type": "http.request"})
    assert (await call.said())["status"] == 200


ODD_FILES = [
    "nope",
    "",
    "../awmweb/settings.py",
    "..%2f..%2fmanage.py",
    "a\x00b",
    "x" * 3000,
    "\ud800",
    "site.css/x",
    "/etc/passwd",
]


@pytest.mark.parametrize("name", ODD_FILES)
async def test_file_that_is_not_there_is_404(name):
    call = Call("http", f"/static/{name}")
    await call.send_input({"type": "http.request"})
    assert (await call.said())["status"] == 404


@pytest.mark.parametrize(
    ("name", "kept"),
    [("site.css", b"no-cache"), ("vendor/plotly-basic-4.1.1.min.js", b"public, max-age=31536000, immutable")],
)
async def test_static_file_is_compressed_and_kept(name, kept):
    call = Call("http", f"/static/{name}", (b"accept-encoding", b"gzip"))
    await call.send_input({"type": "http.request"})
    headers = dict((await call.said())["headers"])
    assert (headers[b"content-encoding"], headers[b"cache-control"]) == (b"gzip", kept)
    body, more = b"", True
    while more:
        part = await call.said()
        body, more = body + part["body"], part.get("more_body", False)
    file = (settings.STATICFILES_DIRS[0] / name).read_bytes()
    assert gzip.decompress(body) == file and len(body) < len(file) / 2


async def test_file_of_this_version_is_at_its_own_address():
    call = Call("http", static("site.css"))
    await call.send_input({"type": "http.request"})
    head = await call.said()
    assert head["status"] == 200 and dict(head["headers"])[b"cache-control"] == FOREVER


async def test_edited_file_has_another_address(house_servers, monkeypatch, tmp_path):
    """A page with the address of before gets the file of before; none is served under an address of another one."""
    edited = tmp_path / "edited.js"
    edited.write_text("const one = 1;")
    monkeypatch.setattr(kept_files, "_paths", lambda: iter([("edited.js", str(edited))]))
    monkeypatch.setattr(kept_files.finders, "find", lambda name: str(edited))
    monkeypatch.setattr(kept_files, "ours", kept_files.Version())
    monkeypatch.setattr(kept_files, "LOOKED_S", 0)
    before = static("edited.js")
    kept_files.keep(kept_files.ours.digest)
    edited.write_text("const two = 22;")
    call = Call("http", before)
    await call.send_input({"type": "http.request"})
    assert (await call.said())["status"] == 200 and (await call.said())["body"] == b"const one = 1;"
    after = static("edited.js")
    assert after != before and kept_files.read(kept_files.version_of(after)[0], "edited.js") is not None
    edited.unlink()
    assert static("edited.js") == after


@pytest.mark.parametrize("accepted", ["gzip", "identity"])
async def test_file_of_another_version_is_found(house_servers, monkeypatch, accepted):
    monkeypatch.setattr(kept_files, "_files", lambda: iter([("gone/old.js", b"const old = 1;")]))
    kept_files.keep("0123456789ab")
    call = Call("http", "/static/0123456789ab/gone/old.js", (b"accept-encoding", accepted.encode()))
    await call.send_input({"type": "http.request"})
    head, body = await call.said(), (await call.said())["body"]
    headers = dict(head["headers"])
    assert head["status"] == 200 and headers[b"content-type"] == b"text/javascript"
    assert (gzip.decompress(body) if accepted == "gzip" else body) == b"const old = 1;"
    for path in ("/static/0123456789ab/site.css", "/static/ba9876543210/site.css"):
        call = Call("http", path)
        await call.send_input({"type": "http.request"})
        assert (await call.said())["status"] == 404


def test_four_versions_of_files_are_kept(house_servers, monkeypatch):
    monkeypatch.setattr(kept_files, "_files", lambda: iter([("one.js", b"1")]))
    versions = [f"{number:012x}" for number in range(6)]
    for version in versions:
        kept_files.keep(version)
    assert [kept_files.read(version, "one.js") is not None for version in versions] == [False] * 2 + [True] * 4


async def test_missing_file_of_others_is_not_kept():
    call = Call("http", "/static/vendor/nope.js")
    await call.send_input({"type": "http.request"})
    head = await call.said()
    assert head["status"] == 404 and not any(b"immutable" in value for _, value in head["headers"])


@pytest.fixture
def watching(transactional_db, project, ada):
    """A socket of an agent on an episode; `since` goes into its address as it is."""
    episode, _ = recording.start_episode(ada, EpisodeStart(key="one", task="t"))
    bearer = (b"authorization", f"Bearer {token(project, 'agent')[1]}".encode())

    def watch(since="0", **more):
        query = f"since={since}".encode("latin-1")
        return Call("websocket", f"/ws/episodes/{episode.pk}", bearer, query=query, **more)

    return watch


@pytest.fixture
def appending(transactional_db, project, ada):
    """Begin an append of steps by a token, whose body is still to come."""
    episode, _ = recording.start_episode(ada, EpisodeStart(key="one", task="t"))
    bearer = (b"authorization", f"Bearer {token(project, 'agent')[1]}".encode())
    return lambda: Call("http", f"/api/v1/episodes/{episode.pk}/steps", bearer, method="POST")


async def test_poll_by_cookie_is_503_without_a_database(monkeypatch):
    monkeypatch.setattr(auth, "get_user", gone)
    poll = Call("http", "/api/v1/asks/one", COOKIE, query=b"wait=1")
    await poll.send_input({"type": "http.request"})
    head, body = await poll.said(), await poll.said()
    assert head["status"] == 503 and (b"retry-after", b"1") in head["headers"]
    assert json.loads(body["body"])["error"]["code"] == "unavailable"


async def test_waiting_poll_tells_calls_with_half_a_pair_as_a_key(transactional_db, project, ada, edo):
    odd = {"a": {"\ud800": 1}}

    def answered():
        episode, _ = recording.start_episode(ada, EpisodeStart(key="one", task="t", expert="plain"))
        ask, _ = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="?"))
        lease = queue.claim(edo, ask.pk)
        calls = [ToolCall(name="x", arguments=odd)]
        advising.answer(edo, lease.assignment_id, lease.lease_token, "Try this.", "n", calls)
        return ask.pk, token(project, "agent")[1]

    ask, secret = await database_sync_to_async(answered)()
    poll = Call("http", f"/api/v1/asks/{ask}", (b"authorization", f"Bearer {secret}".encode()), query=b"wait=1")
    await poll.send_input({"type": "http.request"})
    head, body = await poll.said(), await poll.said()
    told = json.loads(body["body"])
    assert head["status"] == 200 and told["advice"]["tool_calls"] == [{"name": "x", "arguments": odd}]
    assert told["deadline_at"].endswith("Z") and "reason" not in told


async def test_wait_ends_with_its_token_at_a_long_heartbeat(transactional_db, project, ada, settings, monkeypatch):
    settings.AWMWEB_HEARTBEAT_S = 86_400
    monkeypatch.setattr(waiting, "LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr(known_tokens, "KNOWN_S", 0.0)

    def asked():
        episode, _ = recording.start_episode(ada, EpisodeStart(key="one", task="t", expert="plain"))
        ask, _ = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, question="?"))
        return ask.pk, *token(project, "agent")

    ask, actor, secret = await database_sync_to_async(asked)()
    poll = Call("http", f"/api/v1/asks/{ask}", (b"authorization", f"Bearer {secret}".encode()), query=b"wait=25")
    await poll.send_input({"type": "http.request"})
    await asyncio.sleep(0.3)
    await database_sync_to_async(members.revoke_token)(ada, actor.token.pk)
    head = await asyncio.wait_for(poll.said(), 60)
    assert head["status"] == 401


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [(OperationalError, 503, "unavailable"), (DataError, 500, "internal"), (IntegrityError, 500, "internal")],
)
async def test_only_an_append_that_can_succeed_later_is_503(appending, monkeypatch, fault, status, code):
    def broken(group):
        raise fault("in the middle")

    monkeypatch.setattr(committer, "append_together", broken)
    append = appending()
    await append.send_input(
        {"type": "http.request", "body": b'{"steps": [{"seq": 1, "kind": "note", "content": "x"}]}'}
    )
    head, body = await append.said(), await append.said()
    assert (head["status"], json.loads(body["body"])["error"]["code"]) == (status, code)
    assert ((b"retry-after", b"1") in head["headers"]) == (status == 503)


async def test_a_socket_by_cookie_is_503_while_the_database_is_away(monkeypatch):
    monkeypatch.setattr(auth, "get_user", gone)
    assert (await Call("websocket", "/ws/queue", COOKIE, OURS).connect())["status"] == 503


async def test_an_agents_socket_is_503_while_the_database_is_away(watching, monkeypatch):
    monkeypatch.setattr(consumers, "token_of", gone)
    assert (await watching().connect())["status"] == 503


@pytest.mark.parametrize(
    ("fault", "code"), [(OperationalError, 1013), (Busy, 1013), (DataError, 1011), (ValueError, 1011)]
)
async def test_a_socket_whose_first_frames_fail_is_closed(watching, monkeypatch, fault, code):
    def broken(*args, **kwargs):
        raise fault("in the middle")

    monkeypatch.setattr(trajectory, "sent_after", broken)
    socket = watching()
    assert (await socket.connect())["type"] == "websocket.accept"
    closed = await socket.said()
    assert (closed["type"], closed["code"]) == ("websocket.close", code)
    await socket.send_input({"type": "websocket.disconnect", "code": code})
    await socket.wait()


async def test_blind_reviewer_hears_live_steps_without_rewards(transactional_db, project, ada, rita, house_servers):
    def begun():
        episode, _ = recording.start_episode(ada, EpisodeStart(key="one", task="t"))
        OutcomeHold.objects.create(actor_key=rita.key, episode=episode, by="review")
        cookies = {name: str(morsel.value) for name, morsel in as_person(rita).cookies.items()}
        return episode.pk, "; ".join(f"{name}={value}" for name, value in cookies.items()).encode()

    def go_on(seq):
        body = {"kind": "action", "action": {"go": seq}, "observation": {"at": 1}, "reward": 0.4375, "done": True}
        recording.append_steps(ada, pk, [STEP.validate_python({**body, "seq": seq})])

    pk, cookie = await database_sync_to_async(begun)()
    await database_sync_to_async(go_on)(1)
    socket = Call("websocket", f"/ws/episodes/{pk}", (b"cookie", cookie), OURS, query=b"since=0")
    assert (await socket.connect())["type"] == "websocket.accept"
    heard = [(await socket.said())["text"]]
    await database_sync_to_async(go_on)(2)
    while '"seq":2' not in heard[-1].replace(" ", ""):
        heard.append((await socket.said())["text"])
    assert not any(word in text for text in heard for word in ("reward", "0.4375", "done"))
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()


@pytest.mark.parametrize("since", ["\xff", "x", "-1", "9" * 30])
async def test_an_odd_since_is_the_beginning(watching, since):
    socket = watching(since)
    assert (await socket.connect())["type"] == "websocket.accept"
    assert json.loads((await socket.said())["text"])["steps"] == []
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()


async def test_streamed_blocks_are_read_one_by_one_and_closed(monkeypatch):
    """Each block is sent before the next one is read, and the response is closed although its reader fails."""
    seen = []

    def blocks():
        for number in range(3):
            seen.append(f"read {number}")
            yield b"x"
        raise OSError("the store is away")

    class Streamed(StreamingHttpResponse):
        def close(self):
            seen.append("closed")
            super().close()

    monkeypatch.setattr(OneThread, "get_response", lambda self, request: Streamed(blocks()))

    async def send(message):
        if message.get("body"):
            seen.append("sent")

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [HOST]}
    with pytest.raises(OSError, match="store is away"):
        await django_app(scope, receive, send)
    assert seen == [*(word for n in range(3) for word in (f"read {n}", "sent")), "closed"]
