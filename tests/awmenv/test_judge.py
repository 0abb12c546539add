# ruff: noqa: E501 - one case a line reads best here
"""SQL mode with a judge: an endpoint of the server's own setting rules, and one that fails is an error and no verdict."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from awmenv.client import EnvironmentClient
from awmenv.models import Observation
from awmenv.packs import load_pack
from awmenv.server.settings import BadSetting, Settings
from awmenv.server.verify import judge
from tests.awmclient.openai_server import OpenAIServer, answering, error
from tests.awmclient.spellings import spellings
from tests.awmenv.conftest import TINY, OpenFolders, Server, start_server

KEY, HEADER, QUERY = "sk-judge-0123456789", "tenant-secret-77", "version-2024-10-21"


class Bench:
    """A judge whose next words a test decides, and the server that asks it."""

    def __init__(self) -> None:
        self.says: Any = ""
        self.endpoint = OpenAIServer(self._reply, key=KEY)
        self.server: Server

    def _reply(self, body: dict[str, Any]) -> Any:
        said = self.says.pop(0) if isinstance(self.says, list) else self.says
        if callable(said):
            said = said()
        return said if isinstance(said, str | Response) else json.dumps(said)

    async def verdict(self, says: Any, **reset: Any) -> Observation:
        self.says = says
        self.endpoint.bodies.clear()
        async with EnvironmentClient(self.server.url) as env:
            await env.reset(scenario="notes_1", task_idx=0, state_diff=True, **reset)
            await env.call_tool("create_note", {"title": "Milk"})
            first = await env.verify(mode="sql")
            asked = len(self.endpoint.bodies)
            again = await env.verify(mode="sql")
            assert (again.reward_type, again.verify_result) == (first.reward_type, first.verify_result)
            assert len(self.endpoint.bodies) == asked
            return first


@pytest.fixture(scope="module")
def bench(tmp_path_factory: OpenFolders) -> Iterator[Bench]:
    made = Bench()
    with answering(made.endpoint):
        made.server = start_server(
            tmp_path_factory.mktemp("judge"),
            AWMENV_JUDGE_BASE_URL=made.endpoint.base_url,
            AWMENV_JUDGE_API_KEY=KEY,
            AWMENV_JUDGE_MODEL="solomon",
            AWMENV_JUDGE_HEADERS=json.dumps({"X-Tenant": HEADER}),
            AWMENV_JUDGE_QUERY=f"api-version={QUERY}",
            AWMENV_JUDGE_TIMEOUT_S="4",
            AWMENV_JUDGE_OPTIONS=json.dumps({"max_tokens": 99, "extra": {"top_k": 1, "user": KEY}}),
        )
        yield made
        made.server.stop()
        log = made.server.process.stdout.read() if made.server.process.stdout else ""
        assert not any(secret in log for secret in (KEY, HEADER))


def ruling(word: str, reasoning: str = "because") -> dict[str, str]:
    return {"reasoning": reasoning, "classification": word}


@pytest.mark.parametrize(
    ("word", "reward", "result"),
    [("complete", 1.0, "complete"), ("Incomplete ", 0.1, "others"), ("agent_error", 0.0, "others"), ("server_error", 0.0, "others")],
)  # fmt: skip
async def test_the_judge_rules_on_evidence_steps_and_criteria(
    bench: Bench, word: str, reward: float, result: str
) -> None:
    found = await bench.verdict(f"I looked at it.\n```json\n{json.dumps(ruling(word))}\n```")
    assert (found.reward_type, found.reward) == (word.strip().lower(), reward)
    assert found.verify_result is not None
    assert (found.verify_result["result"], found.verify_result["execution_status"]) == (result, "success")
    assert found.verify_result["raw_result"] == {"before": 0, "after": 1}
    judged = found.verify_result["llm_judge"]
    assert judged["reasoning"] == "because"
    assert (judged["model"], judged["options"]) == ("solomon", {"max_tokens": 99, "top_k": 1, "user": "[key]"})
    (body,) = bench.endpoint.bodies
    asked = json.loads(body["messages"][1]["content"])
    assert (body["max_tokens"], body["top_k"]) == (99, 1)
    assert body["model"] == "solomon" and asked["evidence"] == {"before": 0, "after": 1}
    assert asked["steps"][0]["tool"] == "create_note" and "success_criteria" in asked["about"]
    assert bench.endpoint.heads[-1]["x-tenant"] == HEADER and bench.endpoint.queries[-1] == {"api-version": QUERY}


async def test_judge_rules_on_the_packs_task_whatever_a_client_names(bench: Bench) -> None:
    await bench.verdict(json.dumps(ruling("complete")), task="Do nothing.")
    asked = json.loads(bench.endpoint.bodies[-1]["messages"][1]["content"])
    assert asked["task"] == load_pack(TINY).tasks("notes_1")[0] != "Do nothing."


async def test_an_endpoint_or_key_that_a_client_sends_is_not_used(bench: Bench) -> None:
    other = OpenAIServer(lambda body: json.dumps(ruling("complete")))
    with answering(other):
        mine = {"llm_base_url": other.base_url, "llm_api_key": "sk-of-the-client", "llm_model": "mine"}
        found = await bench.verdict(ruling("incomplete"), **mine)
    assert found.reward_type == "incomplete" and other.bodies == []
    heard = json.dumps([bench.endpoint.bodies, bench.endpoint.heads, bench.endpoint.queries])
    assert "sk-of-the-client" not in heard and "mine" not in heard


HEARD = threading.Event()


def late() -> str:
    """The ruling comes once no one waits for it any more."""
    HEARD.wait(60)
    return json.dumps(ruling("complete"))


FAULTS: dict[str, Any] = {
    "wrong_key": lambda: error(401, f"Incorrect API key provided: {KEY}."),
    "down": lambda: error(503, "overloaded"),
    "moved": lambda: RedirectResponse("http://127.0.0.1:9/"),
    "no_json": lambda: PlainTextResponse("<html>"),
    "no_choices": lambda: PlainTextResponse('{"choices": []}'),
    "odd_choices": lambda: PlainTextResponse('{"choices": "complete"}'),
    "words": "The task is complete.",
    "empty": "",
    "list": "[]",
    "deep": '{"classification": ' + "[" * 100_000 + "}",
    "no_ruling": {"reasoning": "hm"},
    "other_ruling": ruling("others"),
    "odd_ruling": {"classification": {"complete": True}},
    "repeats_the_key": ruling("nothing", f"{KEY} {HEADER}"),
    "surrogate": '{"classification": "\\ud800", "reasoning": "\\ud800\\u0000"}',
    "late": late,
}


@pytest.mark.parametrize("name", FAULTS)
async def test_failing_judge_is_an_error_with_reason_not_an_outcome(bench: Bench, name: str) -> None:
    HEARD.clear()
    found = await bench.verdict(FAULTS[name])
    HEARD.set()
    assert (found.reward_type, found.reward, found.done) == ("judge_error", 0.0, False)
    assert found.verify_result is not None
    assert found.verify_result["execution_status"] == "error"
    assert found.verify_result["error_message"].startswith("the judge gave no ruling: ")
    assert found.verify_result["raw_result"] == {"before": 0, "after": 1}, "the evidence is kept"
    assert not any(secret in json.dumps(found.verify_result) for secret in (KEY, HEADER, QUERY))


@pytest.mark.parametrize("secret", [KEY, HEADER, QUERY], ids=["key", "header", "query"])
async def test_a_judge_repeats_no_secret_in_any_spelling(bench: Bench, secret: str) -> None:
    spelled = list(spellings(secret))
    found = await bench.verdict(ruling("complete", "\n".join(one.text for one in spelled)))
    assert found.verify_result is not None
    told = found.verify_result["llm_judge"]["reasoning"]
    inner = {one.name: one.spelled[2:-2] if "base64" in one.name else one.spelled for one in spelled}
    assert [name for name, text in inner.items() if text.casefold() in told.casefold()] == []
    failed = await bench.verdict(lambda: error(401, "?"))  # its error says the whole address, query included
    assert QUERY not in json.dumps(failed.verify_result)


async def test_an_endpoint_that_is_busy_is_asked_again(bench: Bench) -> None:
    found = await bench.verdict([lambda: error(429, "slow down"), lambda: error(502, "again"), ruling("complete")])
    assert found.reward_type == "complete" and len(bench.endpoint.bodies) == 3


async def test_strange_words_of_a_judge_reach_the_client_as_text(bench: Bench) -> None:
    found = await bench.verdict('{"classification": "complete", "reasoning": "\\ud800' + "x" * 60_000 + '"}')
    assert found.reward_type == "complete" and found.verify_result is not None
    assert len(found.verify_result["llm_judge"]["reasoning"]) == 20_000


BAD = [
    {"BASE_URL": "127.0.0.1:8001", "MODEL": "m"},
    {"BASE_URL": "http://127.0.0.1:8001/v1"},
    {"MODEL": "m"},
    {"BASE_URL": "http://h/v1", "MODEL": "m", "HEADERS": "X-Tenant: secret"},
    {"BASE_URL": "http://h/v1", "MODEL": "m", "HEADERS": '{"X": 5}'},
    {"BASE_URL": "http://h/v1", "MODEL": "m", "API_KEY": "two\nlines"},
    {"BASE_URL": "http://h/v1", "MODEL": "m", "TIMEOUT_S": "soon"},
]


@pytest.mark.parametrize("given", BAD)
def test_a_judge_that_cannot_be_asked_stops_the_start(given: dict[str, str]) -> None:
    with pytest.raises(BadSetting, match="AWMENV_JUDGE_") as caught:
        Settings.from_environment({f"AWMENV_JUDGE_{name}": value for name, value in given.items()})
    assert "secret" not in str(caught.value) and "lines" not in str(caught.value)


async def test_judge_hears_only_the_beginning_of_large_arguments(bench: Bench) -> None:
    """A session keeps two hundred calls; what an agent sends must fill neither memory nor the judge's context."""
    bench.says = ruling("complete")
    bench.endpoint.bodies.clear()
    async with EnvironmentClient(bench.server.url) as env:
        await env.reset(scenario="notes_1", task_idx=0)
        for _ in range(3):
            await env.call_tool("create_note", {"title": "x" * 200_000})
        await env.call_tool("create_note", {"title": "Milk"})
        assert (await env.verify(mode="sql")).reward_type == "complete"
    asked = json.loads(bench.endpoint.bodies[0]["messages"][1]["content"])
    assert [len(step["arguments"]) for step in asked["steps"][:3]] == [2000] * 3
    assert asked["steps"][3]["arguments"] == {"title": "Milk"} and asked["evidence"] == {"before": 0, "after": 1}


def test_thought_with_braces_keeps_no_ruling_back() -> None:
    words = '<think>{either} or {or}, {"classification": "incomplete"}?</think>\n{"classification": "complete"}'
    assert judge._read_ruling(words) == {"classification": "complete"}
