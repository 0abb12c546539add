"""The HTTP client when things go wrong: lost answers, busy and dead dashboards, deaths in the middle of a question."""

import asyncio
import base64
import inspect
import socket

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from awmclient import client
from awmclient.client import HttpDashboard, SyncHttpDashboard
from awmclient.client import episode as waiting
from awmclient.errors import (
    BadToken,
    EpisodeEnded,
    Invalid,
    KeyConflict,
    NotFound,
    Refused,
    SeqGap,
    StepConflict,
    Unreachable,
)
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.schema import Advice, ToolCallStep
from awmclient.testing import FakeEnv
from awmclient.words.conversation import as_text, conversation
from awmclient.words.toolcalls import Call
from tests.awmclient.http_dashboard import TOKEN, FakeHttpDashboard, Served

NOTE = {"kind": "note", "content": "looked"}


@pytest.fixture
async def server():
    server = FakeHttpDashboard()
    await server.start()
    yield server
    await server.kill()


@pytest.fixture
async def dash(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=5) as dash:
        yield dash


def now():
    return asyncio.get_running_loop().time()


def recorded(server, episode):
    return [(step["seq"], step["kind"]) for step in server.book.entry(episode.id).steps]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


async def answer(server, text="Ten."):
    await until(lambda: any(ask.status == "open" for ask in server.book.asks.values()))
    ask = next(ask for ask in server.book.asks.values() if ask.status == "open")
    server.book.close(ask, "answered", Advice(text=text, source="human"))
    return ask


async def test_a_busy_dashboard_is_asked_again_as_it_wishes(server, dash):
    episode = await dash.start_episode("Look")
    server.faults.extend(
        [
            Response(status_code=503, headers={"Retry-After": "1"}),
            Response(status_code=429),
            Response(status_code=408),
            Response(status_code=502),
        ]
    )
    start = now()
    assert await episode.append(NOTE) == 1
    assert now() - start >= 1.0
    assert recorded(server, episode) == [(1, "note")]


async def test_a_wish_beyond_our_patience_is_an_unreachable_dashboard(server, dash):
    episode = await dash.start_episode("Look")
    server.faults.append(Response(status_code=503, headers={"Retry-After": "3600"}))
    start = now()
    with pytest.raises(Unreachable, match="503"):
        await episode.append(NOTE)
    assert now() - start < 60


async def test_full_disk_of_the_dashboard_is_waited_for(server, monkeypatch):
    """Longer than any other fault, and only as long as its caller allows."""
    monkeypatch.setattr("awmclient.client.wire.LONGEST_PAUSE_S", 0.05)
    full = {"error": {"code": "no_space", "message": "The disk of the server is full."}}
    async with HttpDashboard(server.url, TOKEN, retry_s=0.1) as dash:
        episode = await dash.start_episode("Look")
        server.faults.extend(JSONResponse(full, status_code=503) for _ in range(20))
        assert await episode.append([NOTE]) == 1
        server.faults.extend(JSONResponse(full, status_code=503) for _ in range(20))
        with pytest.raises(Unreachable, match="The disk of the server is full"):
            await dash._wire.send("GET", "/asks/none", retry_s=0.1)


async def test_a_lost_answer_does_not_write_a_step_twice(server, dash):
    episode = await dash.start_episode("Look")
    server.lose_answers = 2
    assert await episode.append([NOTE, NOTE]) == 2
    assert recorded(server, episode) == [(1, "note"), (2, "note")]
    assert server.requests.count(("POST", f"/episodes/{episode.id}/steps")) == 3


async def test_a_lost_answer_does_not_start_an_episode_twice(server, dash):
    server.lose_answers = 1
    await dash.start_episode("Look")
    assert len(server.book.episodes) == 1


async def test_a_lost_answer_does_not_start_a_run_twice(server, dash):
    server.lose_answers = 1
    assert await dash.start_run("nightly") == "run-1"
    assert server.requests.count(("POST", "/runs")) == 2
    assert await dash.start_run("nightly") == "run-2", "each call of its own has a key of its own"


async def test_the_same_key_goes_on_where_the_record_ends(server, dash):
    episode = await dash.start_episode("Look", key="mine", scenario="shop")
    await episode.append([NOTE, NOTE])
    again = await dash.start_episode("Look", key="mine", scenario="shop")
    assert (again.id, again.last_seq) == (episode.id, 2)
    assert await again.append(NOTE) == 3
    with pytest.raises(KeyConflict):
        await dash.start_episode("Something else", key="mine")


async def test_steps_buffered_during_an_outage_are_sent_first(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=0.3) as dash:
        episode = await dash.start_episode("Look")
        await server.kill()
        with pytest.raises(Unreachable):
            await episode.append({**NOTE, "content": "one"})
        with pytest.raises(Unreachable):
            await episode.append({**NOTE, "content": "two"})
        await server.start()
        assert await episode.append({**NOTE, "content": "three"}) == 3
        assert [step["content"] for step in server.book.entry(episode.id).steps] == ["one", "two", "three"]


async def test_many_tasks_may_append_at_once(server, dash):
    episode = await dash.start_episode("Look")
    await asyncio.gather(*[episode.append({**NOTE, "content": str(n)}) for n in range(30)])
    steps = server.book.entry(episode.id).steps
    assert [step["seq"] for step in steps] == list(range(1, 31))
    assert [step["content"] for step in steps] == [str(n) for n in range(30)]


async def test_a_refused_step_gives_its_number_back(server, dash):
    episode = await dash.start_episode("Look")
    await episode.append(NOTE)
    for bad in (
        {"kind": "nonsense"},
        {**NOTE, "extra": 1},
        {**NOTE, "content": float("nan")},
        {**NOTE, "content": object()},
    ):
        with pytest.raises(Invalid):
            await episode.append(bad)
    assert await episode.append(NOTE) == 2


async def test_typed_steps_are_taken_as_well(server, dash):
    episode = await dash.start_episode("Look")
    await episode.append(ToolCallStep(seq=1, name="get_item", arguments={"item": "mug"}, result=[1]))
    assert server.book.entry(episode.id).steps == [
        {"kind": "tool_call", "seq": 1, "name": "get_item", "arguments": {"item": "mug"}, "result": [1]}
    ]


async def test_a_large_append_goes_in_several_requests(server, dash):
    episode = await dash.start_episode("Look")
    big = {**NOTE, "content": "x" * 700_000}
    assert await episode.append([big] * 7) == 7
    sent = server.requests.count(("POST", f"/episodes/{episode.id}/steps"))
    assert sent == 4


async def test_refusals_carry_code_words_and_status(server, dash):
    async with HttpDashboard(server.url, "another-token") as stranger:
        with pytest.raises(BadToken) as caught:
            await stranger.start_episode("Look")
    assert (caught.value.code, caught.value.status) == ("unauthenticated", 401)
    server.faults.append(JSONResponse({"error": {"code": "brand_new", "message": "Not today."}}, status_code=409))
    with pytest.raises(Refused, match="Not today") as unknown:
        await dash.start_episode("Look")
    assert (unknown.value.code, unknown.value.status) == ("brand_new", 409)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (RedirectResponse("http://elsewhere.example/api?token=x"), "redirected"),
        (HTMLResponse("<html>hello</html>"), "not_a_dashboard"),
        (JSONResponse(["a", "list"]), "not_a_dashboard"),
    ],
)
async def test_what_is_no_dashboard_is_said_at_once(server, dash, answer, code):
    server.faults.append(answer)
    with pytest.raises(Refused) as caught:
        await dash.start_episode("Look")
    assert caught.value.code == code and "token=x" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "host:8000", "ftp://host", "http://"])
def test_a_url_that_is_none_is_refused_at_once(url):
    with pytest.raises(Invalid):
        HttpDashboard(url, TOKEN)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ümlaut"])
def test_a_token_that_is_none_is_refused_and_not_repeated(token):
    with pytest.raises(Invalid) as caught:
        HttpDashboard("http://host", token)
    assert not token or token not in str(caught.value)


async def test_the_token_is_in_no_repr_and_no_error(server):
    dash = HttpDashboard(server.url.replace("http://", "http://user:hunter2@"), TOKEN, retry_s=0)
    await server.kill()
    with pytest.raises(Unreachable) as caught:
        await dash.start_episode("Look")
    shown = repr(dash) + repr(vars(dash)) + repr(vars(dash._wire)) + repr(caught.value) + str(caught.value)
    assert TOKEN not in shown and "hunter2" not in shown
    await dash.close()


async def test_advice_comes_as_soon_as_it_is_given_and_is_receipted(server, dash):
    episode = await dash.start_episode("Look", expert="plain")
    asking = asyncio.create_task(episode.ask("How much?", deadline_s=30))
    ask = await answer(server)
    start = now()
    advice = await asking
    assert (advice.text, advice.local) == ("Ten.", False) and now() - start < 10 and ask.consumed


async def test_a_lost_answer_does_not_ask_twice(server, dash):
    episode = await dash.start_episode("Look", expert="plain")
    server.lose_answers = 1
    asking = asyncio.create_task(episode.ask("How much?", deadline_s=20))
    await answer(server)
    assert (await asking).text == "Ten."
    assert len(server.book.asks) == 1


async def test_several_questions_may_be_open_and_steps_go_on(server, dash):
    episode = await dash.start_episode("Look", expert="plain")
    first = asyncio.create_task(episode.ask("a?", deadline_s=30))
    second = asyncio.create_task(episode.ask("b?", deadline_s=30))
    await until(lambda: len(server.book.asks) == 2)
    assert await episode.append(NOTE) == 3
    for ask in list(server.book.asks.values()):
        server.book.close(ask, "answered", Advice(text=f"to {ask.plan.question}", source="human"))
    assert [(await asked).text for asked in (first, second)] == ["to a?", "to b?"]


async def test_dead_dashboard_gives_local_fallback_and_later_report(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=0.3) as dash:
        episode = await dash.start_episode("Look", expert="plain")
        await episode.append(NOTE)
        await server.kill()
        start = now()
        advice = await episode.ask("How much?", context="why", deadline_s=2)
        assert now() - start <= 20
        assert advice.is_fallback and advice.local and not advice.text
        assert advice.observation() == {"status": "no_advice", "reason": "unreachable"}
        await server.start()
        assert await episode.append(NOTE) == 3
        assert recorded(server, episode) == [(1, "note"), (2, "note"), (3, "note")]
        stand_in = server.book.entry(episode.id).steps[1]
        assert stand_in["meta"]["local_ask"] == {"question": "How much?", "context": "why"}
        assert not server.book.asks
        await episode.finish("done")


@pytest.mark.parametrize("is_noted", [False, True])
async def test_key_is_asked_again_after_an_outage(server, is_noted):
    """Its question goes out then, or another one if the record has a note in its place."""
    fields = {"key": "discount", "deadline_s": 2}
    async with HttpDashboard(server.url, TOKEN, retry_s=0.3) as dash:
        episode = await dash.start_episode("Look", expert="plain")
        await server.kill()
        assert (await episode.ask("How much?", **fields)).local
        await server.start()
        if is_noted:
            await episode.append([])
        asking = asyncio.create_task(episode.ask("How much?", **fields))
        await answer(server)
        assert (await asking).text == "Ten."
        await episode.append(NOTE)
        kinds = [kind for _, kind in recorded(server, episode)]
        assert kinds == [*(["note"] if is_noted else []), "ask", "note"]


async def test_key_that_is_asked_again_is_not_withdrawn(server):
    fields = {"key": "discount", "deadline_s": 4}
    async with HttpDashboard(server.url, TOKEN, retry_s=0.2) as dash:
        episode = await dash.start_episode("Look", expert="plain")
        asking = asyncio.create_task(episode.ask("How much?", **fields))
        await until(lambda: server.book.asks)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        sent = len(server.requests)
        asking = asyncio.create_task(episode.ask("How much?", **fields))
        await until(lambda: "GET" in [request[0] for request in server.requests[sent:]])  # it waits
        await episode.append(NOTE)
        await answer(server)
        assert (await asking).text == "Ten."


async def test_ask_keeps_its_number_when_dashboard_dies_while_waiting(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=0.3) as dash:
        episode = await dash.start_episode("Look", expert="plain")
        asking = asyncio.create_task(episode.ask("How much?", deadline_s=4))
        await until(lambda: server.book.asks)
        start = now()
        await server.kill()
        advice = await asking
        assert now() - start <= 20 and advice.local and advice.is_fallback
        with pytest.raises(Unreachable):
            await episode.append(NOTE)
        await server.start()
        assert await episode.append(NOTE) == 3
        assert recorded(server, episode) == [(1, "ask"), (2, "note"), (3, "note")]
        assert next(iter(server.book.asks.values())).status in ("cancelled", "fell_back")


async def test_a_dashboard_that_comes_back_in_time_still_delivers(server, dash):
    episode = await dash.start_episode("Look", expert="plain")
    asking = asyncio.create_task(episode.ask("How much?", deadline_s=20))
    await until(lambda: server.book.asks)
    await server.kill()
    await server.start()
    await answer(server, "Still here.")
    assert (await asking).text == "Still here."
    assert await episode.append(NOTE) == 2


async def test_ask_with_lost_response_is_found_again(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=0.2) as dash:
        episode = await dash.start_episode("Look", expert="plain")
        server.lose_answers = 1_000
        advice = await episode.ask("How much?", deadline_s=1)
        assert advice.local and len(server.book.asks) == 1
        server.lose_answers = 0
        assert await episode.append(NOTE) == 2
        assert recorded(server, episode) == [(1, "ask"), (2, "note")]
        assert next(iter(server.book.asks.values())).status in ("cancelled", "fell_back")


async def test_advice_without_a_listener_is_marked_unheard(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=0.2) as dash:
        episode = await dash.start_episode("Look", expert="plain")
        asking = asyncio.create_task(episode.ask("How much?", deadline_s=4))
        await until(lambda: server.book.asks)
        await server.kill()
        ask = await answer(server, "Ten.")
        assert (await asking).is_fallback
        await server.start()
        await episode.append(NOTE)
        last = server.book.entry(episode.id).steps[-1]
        assert last["meta"] == {"unheard_ask": ask.id} and last["kind"] == "note"
        assert not ask.consumed


async def test_record_says_what_a_loop_told_its_agent_alone(server, dash, monkeypatch):
    """On a busy machine the question opens late, and the dashboard's deadline is after the loop's."""
    monkeypatch.setattr(waiting, "GRACE_S", -0.7)
    episode = await dash.start_episode("Look", expert="plain")
    advice = await episode.ask("How much?", deadline_s=1)
    assert advice.local
    await episode.append(NOTE)
    step = next(one for one in server.book.entry(episode.id).steps if one["kind"] in ("ask", "note"))
    (_, read) = conversation([step])
    assert read.message["content"] == as_text(advice.observation())


async def test_a_receipt_that_got_lost_is_given_later(server, dash):
    episode = await dash.start_episode("Look", expert="plain")
    asking = asyncio.create_task(episode.ask("How much?", deadline_s=20))
    await until(lambda: any(method == "GET" for method, _ in server.requests))
    ask = next(iter(server.book.asks.values()))
    server.faults.append(Response(status_code=503))
    server.book.close(ask, "answered", Advice(text="Ten.", source="human"))
    assert (await asking).text == "Ten." and not ask.consumed
    await episode.append(NOTE)
    assert ask.consumed


async def test_a_silent_dashboard_is_left_at_the_deadline():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        async with HttpDashboard(f"http://127.0.0.1:{silent.getsockname()[1]}", TOKEN) as dash:
            episode = client.HttpEpisode(dash._wire, "some-id", "")
            start = now()
            advice = await episode.ask("How much?", deadline_s=1)
            assert now() - start <= 20 and advice.local


async def test_a_refused_question_raises_and_gives_its_number_back(server, dash):
    episode = await dash.start_episode("Look", expert="plain")
    with pytest.raises(Invalid):
        await episode.ask("   ", deadline_s=5)
    with pytest.raises(Invalid):
        await episode.ask("How much?", deadline_s=0)
    assert await episode.append(NOTE) == 1
    await episode.finish("done")
    with pytest.raises(EpisodeEnded):
        await episode.ask("Still?", deadline_s=5)


async def test_cancelled_wait_withdraws_the_ask_at_next_request(server, dash):
    episode = await dash.start_episode("Look", expert="plain")
    asking = asyncio.create_task(episode.ask("How much?", deadline_s=60))
    await until(lambda: server.book.asks)
    await until(lambda: any(method == "GET" for method, _ in server.requests))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await episode.append(NOTE) == 2
    assert next(iter(server.book.asks.values())).status == "cancelled"


async def test_finish_sends_what_is_left_first_and_may_be_repeated(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=0.2) as dash:
        episode = await dash.start_episode("Look")
        await server.kill()
        with pytest.raises(Unreachable):
            await episode.append(NOTE)
        await server.start()
        outcome = {"reward_type": "exact", "reward": 1.0}
        await episode.finish("done", final_answer="42", outcome=outcome)
        await episode.finish("done", final_answer="42", outcome=outcome)
        entry = server.book.entry(episode.id)
        assert (recorded(server, episode), entry.reported) == ([(1, "note")], outcome)


async def test_a_fault_is_named_before_the_end(server, dash):
    episode = await dash.start_episode("Look")
    await episode.fail("environment", "gone")
    entry = server.book.entry(episode.id)
    assert (entry.state, entry.stop_reason, entry.steps[0]["meta"]) == ("failed", "error", {"fault": "environment"})
    assert (entry.fault, entry.detail) == ("environment", "gone")


async def test_fail_sends_only_faults_a_loop_can_name(server, dash):
    """The others are the dashboard's to find; the note has them."""
    for fault, stored in (("policy", "policy"), ("expert", "expert"), ("worker", None), ("dashboard", None)):
        episode = await dash.start_episode("Look")
        await episode.fail(fault, "x" * 5000)
        entry = server.book.entry(episode.id)
        assert (entry.state, entry.fault, entry.steps[0]["meta"]) == ("failed", stored, {"fault": fault})
        assert len(entry.detail or "") == (4000 if stored else 0)


async def test_lost_world_of_an_own_loop_is_recorded_as_fault(server, dash):
    class Lost(FakeEnv):
        async def call_tool(self, name, arguments):
            raise ConnectionError("the session is lost")

    class Looking:
        async def act(self, view):
            return Turn(calls=[Call("list_items", {})])

    result = await rollout(Looking(), Lost(), dash, task="Look")
    entry = server.book.entry(result.episode)
    assert (result.fault, entry.fault, entry.state) == ("environment", "environment", "failed")
    assert entry.detail == result.detail and "the session is lost" in entry.detail


async def test_the_sync_face_does_the_same(server):
    def loop():
        with SyncHttpDashboard(server.url, TOKEN, retry_s=5) as dash:
            run = dash.start_run("nightly")
            episode = dash.start_episode("Look", run=run, expert="plain")
            episode.append(NOTE)
            episode.heartbeat()
            advice = episode.ask("How much?", deadline_s=20)
            episode.append({**NOTE, "content": advice.text})
            with pytest.raises(SeqGap):
                episode.append({**NOTE, "seq": 9})
            with pytest.raises(StepConflict):
                episode.append({**NOTE, "seq": 1})
            episode.finish("done", final_answer="x")
            return episode.id, episode.last_seq, episode.view().state

    working = asyncio.create_task(asyncio.to_thread(loop))
    await answer(server, "Eleven.")
    found = await working
    assert found[1:] == (3, "finished")
    assert [step["kind"] for step in server.book.entry(found[0]).steps] == ["note", "ask", "note"]


async def test_the_sync_face_returns_in_time_from_a_dead_dashboard(server):
    def loop():
        import time

        with SyncHttpDashboard(server.url, TOKEN, retry_s=0.2) as dash:
            episode = dash.start_episode("Look", expert="plain")
            dead.set()
            while not killed.is_set():
                time.sleep(0.01)
            start = time.monotonic()
            return episode.ask("How much?", deadline_s=1), time.monotonic() - start

    dead, killed = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop()
    working = asyncio.create_task(asyncio.to_thread(loop))
    await until(lambda: dead.is_set())
    await server.kill()
    killed.set()
    advice, took = await working
    assert advice.local and took <= 20


@pytest.mark.parametrize(
    ("awaited", "plain"), [(client.HttpDashboard, client.SyncHttpDashboard), (client.HttpEpisode, client.SyncEpisode)]
)
def test_the_sync_face_mirrors_the_async_one(awaited, plain):
    def face(kind):
        names = [name for name in vars(kind) if not name.startswith("_")]
        return {
            name: list(inspect.signature(getattr(kind, name)).parameters.values())
            for name in names
            if callable(getattr(kind, name))
        }

    assert face(awaited) == face(plain)


async def test_files_are_sent_and_fetched_as_bytes():
    kept = {}

    async def attach(request):
        name, sent = request.query_params["name"], await request.body()
        ref = {"id": f"f{len(kept)}", "name": name, "media_type": "image/png", "size": len(sent), "sha256": "0" * 64}
        kept[ref["id"]] = ({**ref, "side": "ask"}, request.headers["content-type"], sent)
        return JSONResponse(kept[ref["id"]][0], status_code=201)

    async def listed(request):
        return JSONResponse({"files": [ref for ref, _, _ in kept.values()]})

    async def download(request):
        if (found := kept.get(request.path_params["id"])) is None:
            return JSONResponse({"error": {"code": "not_found", "message": "Not found."}}, status_code=404)
        return Response(found[2], media_type="image/png")

    routes = [
        Route("/api/v1/asks/a1/attachments", attach, methods=["POST"]),
        Route("/api/v1/asks/a1/attachments", listed, methods=["GET"]),
        Route("/api/v1/attachments/{id}", download, methods=["GET"]),
    ]
    server = Served(Starlette(routes=routes))
    await server.start()
    picture = bytes(range(256))
    async with HttpDashboard(server.url, TOKEN, retry_s=5) as dash:
        made = await dash.attach("a1", "a & b.png", picture)
        assert (made.name, made.size, made.side) == ("a & b.png", 256, "ask")
        assert kept[made.id][1] == "application/octet-stream"
        assert await dash.attachments("a1") == [made]
        assert await dash.download(made.id) == picture
        with pytest.raises(NotFound):
            await dash.download("gone")
    await server.kill()


PART = {"type": "image", "blob": "0" * 64, "media_type": "image/png", "width": 1, "height": 1}


def shot(data):
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}


@pytest.fixture
async def shown():
    """A dashboard that takes the picture `good`, and what came to it. While `away` is clear it is there; `turned_down`
    is set once it was asked in vain."""
    calls, away, turned_down = [], asyncio.Event(), asyncio.Event()

    async def start(request):
        return JSONResponse({"id": "e1", "url": "http://desk/e1"}, status_code=201)

    async def upload(request):
        if away.is_set():
            turned_down.set()
            return JSONResponse({"error": {"code": "busy"}}, status_code=429)
        calls.append(data := await request.body())
        if data == b"good":
            return JSONResponse(PART, status_code=201)
        return JSONResponse({"error": {"code": "invalid", "message": "This is no picture."}}, status_code=422)

    async def append(request):
        calls.append((await request.json())["steps"])
        return JSONResponse({"acknowledged": calls[-1][-1]["seq"]})

    async def ask(request):
        calls.append(await request.json())
        return JSONResponse({"id": "a1", "status": "cancelled"}, status_code=201)

    async def consumed(request):
        return JSONResponse({"id": "a1", "status": "cancelled"})

    routes = [
        Route("/api/v1/episodes", start, methods=["POST"]),
        Route("/api/v1/episodes/e1/blobs", upload, methods=["POST"]),
        Route("/api/v1/episodes/e1/steps", append, methods=["POST"]),
        Route("/api/v1/asks", ask, methods=["POST"]),
        Route("/api/v1/asks/a1/consumed", consumed, methods=["POST"]),
    ]
    server = Served(Starlette(routes=routes))
    await server.start()
    yield server, calls, away, turned_down
    await server.kill()


async def test_picture_goes_before_its_step_or_becomes_words(shown):
    server, calls, *_ = shown
    async with HttpDashboard(server.url, TOKEN, retry_s=5) as dash:
        episode = await dash.start_episode("look")
        result = [shot(b"good"), shot(b"bad"), shot(b"good")]
        first = episode.append({"kind": "tool_call", "name": "shot", "result": result})
        # a step that is appended meanwhile does not overtake it
        await asyncio.gather(first, episode.append({"kind": "note", "content": "after"}))
    good, bad, *batches = calls
    (step, after) = [step for batch in batches for step in batch]
    assert (good, bad) == (b"good", b"bad")
    words = {"type": "text", "text": "[picture left out: This is no picture.]"}
    assert (step["seq"], step["result"], after["seq"]) == (1, [PART, words, PART], 2)


async def test_picture_is_kept_with_its_step_through_an_outage(shown):
    server, calls, away, _ = shown
    async with HttpDashboard(server.url, TOKEN, retry_s=0) as dash:
        episode = await dash.start_episode("look")
        away.set()
        for number in range(2):
            with pytest.raises(Unreachable):
                await episode.append({"kind": "tool_call", "name": f"shot {number}", "result": [shot(b"good")]})
        await server.kill()
        with pytest.raises(Unreachable):
            await episode.append([])
        assert calls == [] and episode.last_seq == 2
        away.clear()
        await server.start()
        await episode.append([])
    steps = [step for batch in calls if isinstance(batch, list) for step in batch]
    assert [(step["seq"], step["result"]) for step in steps] == [(1, [PART]), (2, [PART])]


async def test_question_keeps_its_picture_through_an_outage(shown):
    server, calls, away, turned_down = shown
    async with HttpDashboard(server.url, TOKEN, retry_s=0) as dash:
        episode = await dash.start_episode("look")
        away.set()
        parts = [{"type": "text", "text": "Which?"}, shot(b"good")]
        asked = asyncio.create_task(episode.ask(parts, key="q"))
        await turned_down.wait()
        with pytest.raises(Unreachable):  # behind the question
            await episode.append({"kind": "note", "content": "meanwhile"})
        away.clear()
        await asked
        assert (calls[1]["question"], calls[1]["pictures"]) == ("Which?", [PART])
        with pytest.raises(ValueError, match="text or a picture"):
            await episode.ask([{"type": "audio"}])
        await episode.append({"kind": "note", "content": "goes on"})
    assert [step["seq"] for batch in calls[2:] for step in batch] == [2, 3]


async def test_question_given_up_in_an_outage_leaves_its_words(shown):
    server, calls, away, turned_down = shown
    async with HttpDashboard(server.url, TOKEN, retry_s=0) as dash:
        episode = await dash.start_episode("look")
        away.set()
        parts = [{"type": "text", "text": "Which?"}, shot(b"good")]
        asked = asyncio.create_task(episode.ask(parts))
        await turned_down.wait()
        asked.cancel()
        await asyncio.wait([asked])
        away.clear()
        await episode.append([])
    assert calls[0][0]["meta"]["local_ask"]["question"] == "Which?\n[picture]"
