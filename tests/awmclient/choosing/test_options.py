"""Options of a model's requests: read once, sent with every request, and refused by name."""

import pytest

from awmclient.choosing import testing
from awmclient.choosing.chat import ChatClient, EndpointConfig
from awmclient.choosing.options import fields_of, options_in, options_of
from tests.awmclient.openai_server import OpenAIServer

OPTIONS = '{"max_tokens": 256, "temperature": 0, "stop": ["\\n\\n"], "extra": {"top_k": 20}}'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "options are a JSON object"),
        ({"max_token": 1}, "'max_token' is no option"),
        ({"max_tokens": True}, "max_tokens is a whole number from 1"),
        ({"temperature": "0"}, "temperature is a number"),
        ({"top_p": 2}, "top_p is a number from 0 to 1"),
        ({"seed": 0.5}, "seed is a whole number"),
        ({"stop": []}, "stop is a text, or at most 16"),
        ({"response_format": "json"}, "response_format is a JSON object"),
        ({"extra": {"model": "other"}}, "extra cannot hold model"),
        ({"extra": {"temperature": 1}}, "extra cannot hold temperature"),
        ({"extra": {"top_k": float("nan")}}, "options are JSON"),
        ({"extra": {"grammar": "x" * 10_000}}, "at most 10,000 characters"),
        ({"stop": ["\x00"]}, "no U\\+0000"),
        ({"extra": {"a": "\ud83d"}}, "no lone surrogate"),
        ({"extra": {"\ude00": 1}}, "no lone surrogate"),
        ({"extra": {"a": "\ud83d\\\ude00"}}, "no lone surrogate"),
    ],
)
def test_options_that_no_request_can_have_are_refused(value, words):
    with pytest.raises(ValueError, match=words):
        options_of(value)


def test_options_hold_emoji_and_escapes_as_text():
    for text in ("\U0001f600", "\\u0000", "\\ud83d"):
        assert options_of({"stop": text}) == {"stop": text}


def test_text_of_options_is_json_or_empty():
    assert options_in(" ") == {} and options_in(OPTIONS)["max_tokens"] == 256
    for text in ("max_tokens=1", "[", "[" * 100_000):
        with pytest.raises(ValueError, match="options are a JSON object"):
            options_in(text)


async def test_every_request_has_the_options_of_its_endpoint():
    environ = {"X_BASE_URL": "http://127.0.0.1:1/v1", "X_MODEL": "toy", "X_OPTIONS": OPTIONS}
    endpoint = EndpointConfig.from_environment("X_", environ)
    assert endpoint is not None and "256" not in repr(endpoint)
    with pytest.raises(ValueError, match=r"X_OPTIONS: top_p is a number"):
        EndpointConfig.from_environment("X_", environ | {"X_OPTIONS": '{"top_p": 7}'})
    server = OpenAIServer(lambda body: "ready")
    await server.start()
    try:
        served = EndpointConfig(server.base_url, "toy", options=endpoint.options)
        await ChatClient(served).complete([])
        await ChatClient(served).complete([], temperature=1)
        await testing.check_endpoint(served)
    finally:
        await server.kill()
    first, second, probed = server.bodies
    assert {name: first[name] for name in ("max_tokens", "temperature", "stop", "top_k")} == fields_of(endpoint.options)
    assert "extra" not in first and second["temperature"] == 1 and probed["max_tokens"] == 256
