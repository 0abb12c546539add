"""The chat policy, over real HTTP against an endpoint that speaks the OpenAI protocol."""

import httpx
import pytest
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from awmclient.choosing import chat
from awmclient.choosing.chat import ChatClient, ChatPolicy, EndpointConfig
from awmclient.choosing.testing import check_endpoint
from awmclient.errors import EndpointError
from awmclient.loop.rollout import rollout
from awmclient.testing import FakeEnv, MemoryDashboard
from tests.awmclient.openai_server import OpenAIServer, error, tool_call
from tests.awmclient.spellings import spellings

KEY = "sk-very-secret-key-1234567890"


@pytest.fixture
async def serve():
    servers = []

    async def start(reply, key=""):
        server = OpenAIServer(reply, key)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.kill()


def in_turn(*replies):
    left = list(replies)
    return lambda body: left.pop(0)


async def test_a_model_acts_asks_and_answers_over_http(serve):
    server = await serve(
        in_turn(
            tool_call("list_items", {}),
            tool_call("ask_expert", {"question": "Which price?"}, "call_b"),
            {
                "role": "assistant",
                "content": "As told.",
                "tool_calls": tool_call("set_price", {"item": "mug", "price": 9})["tool_calls"],
            },
            "The mug costs 9 now.",
        ),
        KEY,
    )
    env, dash = FakeEnv(), MemoryDashboard(lambda question: "Nine.")
    policy = ChatPolicy(
        server.base_url, model="toy", api_key=KEY, headers={"X-Team": "blue"}, query={"api-version": "1"}
    )
    result = await rollout(policy, env, dash, task="Price the mug", expert="plain")
    assert (result.stop_reason, result.final_answer, env.prices["mug"]) == ("done", "The mug costs 9 now.", 9.0)
    assert server.heads[0]["x-team"] == "blue" and server.queries[0] == {"api-version": "1"}
    last = server.bodies[-1]["messages"]
    assert [message["role"] for message in last] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert last[5]["content"] == '{"status": "advice", "advice": "Nine."}'
    assert last[6]["content"] == "As told." and last[6]["tool_calls"][0]["function"]["name"] == "set_price"
    assert [step.get("usage", {}).get("total_tokens") for step in dash.steps(result.episode) if step.get("usage")] == [
        10
    ] * 4


async def test_rewards_never_reach_the_endpoint(serve):
    server = await serve(
        in_turn(tool_call("set_price", {"item": "mug", "price": "x"}), tool_call("list_items", {}), "Done.")
    )
    dash = MemoryDashboard()
    result = await rollout(ChatPolicy(server.base_url, model="toy"), FakeEnv(), dash, task="Price the mug")
    assert any(step.get("reward_type") == "invalid_args" for step in dash.steps(result.episode))
    sent = str(server.bodies)
    assert "reward" not in sent and "invalid_args" not in sent and "state_diff" not in sent


async def test_ask_expert_is_offered_only_where_an_expert_is(serve):
    server = await serve(lambda body: "Nothing to do.")
    for mode in ("off", "plain"):
        await rollout(ChatPolicy(server.base_url, model="toy"), FakeEnv(), MemoryDashboard(), task="Look", expert=mode)
    offered = [[tool["function"]["name"] for tool in body["tools"]] for body in server.bodies]
    assert offered[0] == ["list_items", "get_item", "set_price"]
    assert offered[1] == [*offered[0], "ask_expert"]
    assert "ask_expert" not in server.bodies[0]["messages"][0]["content"]


async def test_calls_written_as_text_are_understood(serve):
    text = '<tool_call>{"name": "set_price", "arguments": {"item": "pen", "price": 3}}</tool_call>'
    server, env = await serve(in_turn(text, "Done.")), FakeEnv()
    await rollout(ChatPolicy(server.base_url, model="toy"), env, MemoryDashboard(), task="Price the pen")
    assert env.prices["pen"] == 3.0


async def test_a_malformed_call_is_told_to_the_model(serve):
    broken = tool_call("list_items", {})
    broken["tool_calls"][0]["function"]["arguments"] = "{oops"
    server, dash = await serve(in_turn(broken, "I stop.")), MemoryDashboard()
    result = await rollout(ChatPolicy(server.base_url, model="toy"), FakeEnv(), dash, task="Look")
    assert result.stop_reason == "done"
    assert "not valid JSON" in server.bodies[1]["messages"][-1]["content"]
    assert [step["kind"] for step in dash.steps(result.episode)][-2:] == ["nudge", "message"]


async def test_a_busy_endpoint_is_asked_again_as_it_wishes(serve):
    server = await serve(in_turn(error(429, "slow down", Retry_After="0"), error(503, "warming up"), "ready"))
    message = await ChatClient(EndpointConfig(server.base_url, "toy")).complete([{"role": "user", "content": "hi"}])
    assert message["content"] == "ready" and len(server.bodies) == 3


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(chat, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(chat, "LONGEST_PAUSE_S", 0.001)


@pytest.mark.parametrize("refusal", [error(503, "Loading model"), error(429, "slow down", Retry_After="0")])
async def test_server_that_loads_or_is_busy_is_waited_for(serve, quick, refusal):
    server, refusals = await serve(in_turn(*[refusal] * 9, "ready")), []

    async def note(why):
        refusals.append(why)

    message = await ChatClient(EndpointConfig(server.base_url, "toy"), on_away=note).complete([])
    assert message["content"] == "ready" and len(server.bodies) == 10
    assert len(refusals) == 10 and refusals[0].endswith(("503: Loading model", "429: slow down")) and not refusals[-1]


async def test_killed_server_is_waited_for_until_it_is_back(serve, quick):
    server, refusals = await serve(lambda body: "ready"), []
    await server.kill()

    async def start_again(why):
        refusals.append(why)
        # more often than another error is asked again
        if len(refusals) == 2 * chat.TRIES:
            await server.start()

    message = await ChatClient(EndpointConfig(server.base_url, "toy"), on_away=start_again).complete([])
    assert message["content"] == "ready" and "cannot reach" in refusals[0] and not refusals[-1]


async def test_error_of_the_server_itself_is_believed(serve, quick):
    server, refusals = await serve(lambda body: error(500, "CUDA error")), []
    with pytest.raises(EndpointError, match="500: CUDA error"):
        await ChatClient(EndpointConfig(server.base_url, "toy"), on_away=refusals.append).complete([])
    assert len(server.bodies) == chat.TRIES and not refusals


async def test_server_that_stays_away_is_left_after_its_time(serve, quick):
    server = await serve(lambda body: error(503, "Loading model", Retry_After="60"))
    with pytest.raises(EndpointError, match="503: Loading model"):
        await ChatClient(EndpointConfig(server.base_url, "toy", timeout_s=50)).complete([])
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda body: error(503, "Loading model"), "the endpoint answered 503: Loading model"),
        (lambda body: error(400, "max_tokens is too small"), ""),
        (lambda body: "ready", ""),
    ],
)
async def test_look_says_whether_an_endpoint_takes_requests(serve, reply, why):
    server = await serve(reply)
    assert await EndpointConfig(server.base_url, "toy").away() == why
    assert [body["max_tokens"] for body in server.bodies] == [1]
    await server.kill()
    assert "cannot reach" in await EndpointConfig(server.base_url, "toy").away()


async def test_model_endpoint_error_is_reported_without_the_key(serve):
    server = await serve(lambda body: "never", key="another")
    dash = MemoryDashboard()
    policy = ChatPolicy(server.base_url, model="toy", api_key=KEY)
    result = await rollout(policy, FakeEnv(), dash, task="Look")
    assert (result.fault, result.stop_reason) == ("model", None)
    assert result.detail == "the endpoint answered 401: Incorrect API key provided: [key]."
    assert dash.book.entry(result.episode).fault == "model"
    assert KEY not in str(dash.steps(result.episode)) + repr(policy) + repr(policy.endpoint) + result.detail


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (lambda body: error(404, "model toy does not exist"), "404: model toy does not exist"),
        (lambda body: PlainTextResponse("<html>gateway</html>", 502), "502: <html>gateway</html>"),
        (lambda body: PlainTextResponse("hello"), "no chat completion: hello"),
        (lambda body: RedirectResponse("http://elsewhere.example/v1"), "307"),
    ],
)
async def test_the_probe_says_what_the_endpoint_says(serve, reply, words):
    server = await serve(reply)
    probe = await check_endpoint(EndpointConfig(server.base_url, "toy", api_key=KEY))
    assert not probe.ok and words in probe.message and len(server.bodies) == 1


async def test_the_probe_of_a_dead_endpoint_says_so(serve):
    server = await serve(lambda body: "ready")
    await server.kill()
    probe = await check_endpoint(EndpointConfig(server.base_url, "toy", api_key=KEY))
    assert not probe.ok and "cannot reach" in probe.message and KEY not in probe.message


async def test_a_slow_endpoint_is_left_after_its_time():
    import asyncio
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = EndpointConfig(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "toy", timeout_s=0.5)
        start = asyncio.get_running_loop().time()
        with pytest.raises(EndpointError, match="no answer within 0.5 s"):
            await ChatClient(endpoint).complete([])
        assert asyncio.get_running_loop().time() - start < 20


ENVIRON = {
    "X_BASE_URL": "http://127.0.0.1:1/v1/",
    "X_MODEL": "toy",
    "X_API_KEY": KEY,
    "X_QUERY": "api-version=2024-10-21",
}


def test_an_endpoint_is_read_from_the_environment():
    found = EndpointConfig.from_environment(
        "X_", {**ENVIRON, "X_HEADERS": '{"api-key": "abcdefgh"}', "X_TIMEOUT_S": "7"}
    )
    assert (found.base_url, found.model, found.api_key, found.timeout_s) == ("http://127.0.0.1:1/v1", "toy", KEY, 7.0)
    assert found.headers == {"api-key": "abcdefgh"} and found.query == {"api-version": "2024-10-21"}
    assert "secret" not in repr(found) and "abcdefgh" not in repr(found)
    assert EndpointConfig.from_environment("Y_", ENVIRON) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X_BASE_URL", "ftp://host"),
        ("X_BASE_URL", "http://user:hunter2@host/v1"),
        ("X_BASE_URL", ""),
        ("X_MODEL", ""),
        ("X_API_KEY", "bad\nkey-hunter2"),
        ("X_HEADERS", "hunter2"),
        ("X_HEADERS", '["hunter2"]'),
        ("X_TIMEOUT_S", "hunter2"),
        ("X_TIMEOUT_S", "-1"),
    ],
)
def test_a_bad_setting_is_named_and_its_value_is_not(name, value):
    with pytest.raises(ValueError, match=name) as caught:
        EndpointConfig.from_environment("X_", {**ENVIRON, name: value})
    assert "hunter2" not in str(caught.value)


def test_an_api_key_inside_a_header_is_blotted_out_too():
    endpoint = EndpointConfig(
        "http://h/v1", "toy", headers={"Authorization": "Bearer tok-abcdef"}, query={"key": "qk-123456"}
    )
    assert endpoint.without_secrets("bad token tok-abcdef in ?key=qk-123456") == "bad token [key] in ?key=[key]"


HEADER, QUERY = "tenant-Secret-77", "a+code/of-ours"


def echoing(one):
    """An assistant message that says a text wherever a message can hold one."""
    call = tool_call("set_price", {"item": one.text, "price": 9, one.text: [one.text]}, call_id=one.text[:190])
    function = call["tool_calls"][0]["function"]
    return {
        **call,
        "content": one.text,
        "reasoning_content": one.text,
        "tool_calls": [*call["tool_calls"], {"id": "b", "function": {**function, "name": one.text[:190]}}],
    }


@pytest.mark.parametrize("secret", [KEY, HEADER, QUERY], ids=["key", "header", "query"])
async def test_no_step_and_no_call_holds_an_echoed_secret(serve, secret):
    """Neither the record nor the environment, which runs code of strangers, gets to see it in any spelling."""
    spelled = [one for one in spellings(secret) if "lines" not in one.name]
    server = await serve(in_turn(*map(echoing, spelled), f"I used {secret.upper()}."))
    env, dash = FakeEnv(), MemoryDashboard()
    endpoint = EndpointConfig(server.base_url, "toy", KEY, {"X-Tenant": HEADER}, {"code": QUERY})
    result = await rollout(ChatPolicy(endpoint), env, dash, task="Price it", max_steps=99)
    assert (result.stop_reason, result.final_answer) == ("done", "I used [key].")
    steps = dash.steps(result.episode)
    seen = "\n".join([*map(texts_of, steps), *env.calls])
    for one in spelled:
        inner = one.spelled[2:-2] if "base64" in one.name else one.spelled
        assert inner.casefold() not in seen.casefold(), one.name
    assert seen.count("[key]") > 5 * len(spelled)
    assert sum(step["kind"] == "tool_call" for step in steps) == 2 * len(spelled)


def texts_of(value):
    """All texts of a JSON value, as they are."""
    if isinstance(value, dict):
        return "\n".join(f"{name}\n{texts_of(item)}" for name, item in value.items())
    return "\n".join(map(texts_of, value)) if isinstance(value, list) else str(value)


async def test_an_error_cut_inside_a_secret_shows_no_half_of_it(serve):
    long = "x" * 1480 + KEY
    for reply in (
        lambda body: error(400, long),
        lambda body: PlainTextResponse(long),
        lambda body: f"{'x' * 190}{KEY}",
    ):
        server = await serve(reply)
        probe = await check_endpoint(EndpointConfig(server.base_url, "toy", api_key=KEY))
        assert KEY[:8] not in probe.message and "xxx" in probe.message


@pytest.mark.parametrize("asked_for", ["0", "Thu, 01 Jan 2026 00:00:00 GMT", f"Thu, 01 Jan {9**30} 00:00:00 GMT"])
def test_pause_of_none_is_our_own(asked_for):
    answer = httpx.Response(429, headers={"Retry-After": asked_for})
    assert all(chat._pause(attempt, answer) >= chat.FIRST_PAUSE_S / 2 for attempt in range(1, 20))
    assert max(chat._pause(10, answer) for _ in range(20)) > chat.FIRST_PAUSE_S


async def test_refusal_in_words_that_no_database_takes_is_readable(serve):
    server = await serve(lambda body: Response(b'{"error": "no\\u0000 \\ud800room"}', 400))
    with pytest.raises(EndpointError, match=r"400: no \?room"):
        await ChatClient(EndpointConfig(server.base_url, "toy")).complete([])


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ('<think>{"move": "left"}</think>{"move": "right"}', {"move": "right"}),
        ('```json\n{"move": 1}\n```', {"move": 1}),
        ('{"move": 1e999}', None),
        ('{"move": 1} then 2', None),
    ],
)
def test_action_is_the_object_behind_the_thoughts(words, action):
    assert chat._action({"content": words}).action == action
