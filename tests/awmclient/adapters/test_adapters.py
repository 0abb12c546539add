"""What all adapters share: the order of steps, the questions' rules, and the end. Needs no framework."""

from __future__ import annotations

import asyncio
import importlib
import sys

import pytest

from awmclient.adapters.recording import Recording
from awmclient.adapters.transcript import Transcript, UnreportedCalls, as_arguments
from awmclient.client import SyncHttpDashboard
from awmclient.errors import EpisodeEnded, ExpertOff, PolicyFault
from awmclient.schema import QUESTION_MAX
from awmclient.testing import MemoryDashboard
from awmclient.words.toolcalls import Call
from tests.awmclient.http_dashboard import TOKEN, FakeHttpDashboard

TEA, COFFEE = Call("look_up", {"item": "tea"}, "c1"), Call("look_up", {"item": "coffee"}, "c2")
QUESTION = Call("ask_expert", {"question": "How many?"}, "c3")
FRAMEWORKS = {
    "openai_agents": ("agents", "openai-agents"),
    "langgraph": ("langchain_core", "langgraph"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "smolagents": ("smolagents", "smolagents"),
    "inspect_ai": ("inspect_ai", "inspect_ai"),
    "openenv": ("openenv", "openenv"),
    "openenv_harbor": ("openenv", r"'openenv\[harbor\]'"),
}


@pytest.fixture
def dash():
    return MemoryDashboard(expert=lambda question: "Twelve.")


@pytest.fixture
async def episode(dash):
    return await dash.start_episode("Order tea", expert="plain")


def entry(dash):
    [found] = dash.book.episodes.values()
    return found


@pytest.mark.parametrize(("module", "needs"), FRAMEWORKS.items())
def test_adapter_without_its_framework_names_the_package(monkeypatch, module, needs):
    monkeypatch.delitem(sys.modules, f"awmclient.adapters.{module}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == needs[0]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, needs[0], None)
    with pytest.raises(ImportError, match=f"is not installed: pip install {needs[1]} "):
        importlib.import_module(f"awmclient.adapters.{module}")


def test_concurrent_calls_are_recorded_as_decided():
    told = Transcript()
    assert told.said("Let me look.", [TEA, COFFEE])[0]["calls"][1]["arguments"] == {"item": "coffee"}
    assert told.came(COFFEE, result=0) == []
    both = told.came(TEA, error="no shelf", traceback="line 1")
    assert [(step["call_id"], step.get("error"), step.get("result")) for step in both] == [
        ("c1", "no shelf", None),
        ("c2", None, 0),
    ]
    assert both[0]["meta"] == {"traceback": "line 1"} and both[0]["turn"] == 1


def test_calls_of_one_id_in_a_turn_keep_their_results():
    told, held = Transcript(), UnreportedCalls()
    first, second = Call("shelf", {"item": "tea"}, "same"), Call("shelf", {"item": "coffee"}, "same")
    told.said("", [first, second])
    held.open([first, second])
    assert told.came(second, result=0) == []
    assert [(step["arguments"]["item"], step["result"]) for step in told.came(first, result=1)] == [
        ("tea", 1),
        ("coffee", 0),
    ]
    assert [held.take("same"), held.take("same"), held.take("same")] == [first, second, None]


def test_call_of_a_shared_id_is_taken_by_its_name():
    held = UnreportedCalls()
    held.open([TEA, Call("price", {}, TEA.call_id)])
    assert [held.take(TEA.call_id, "price").name, held.take(TEA.call_id, "price")] == ["price", TEA]


def test_question_holds_up_no_result_of_its_turn():
    told = Transcript()
    told.said("", [QUESTION, COFFEE])
    assert told.asks_now(QUESTION) == []
    assert [step["call_id"] for step in told.came(COFFEE, result=0)] == ["c2"]


def test_result_behind_a_lost_call_comes_with_the_next_turn():
    told = Transcript()
    told.said("", [TEA, COFFEE])
    told.came(COFFEE, result=0)
    assert [step.get("call_id") for step in told.said("On.")] == ["c2", None]
    assert told.rest() == []


def test_instructions_and_users_are_recorded_once():
    told = Transcript()
    assert [step["role"] for step in told.heard("Be brief.", ["Order tea"])] == ["system", "user"]
    assert told.heard("Be brief.", ["Order tea"]) == []
    assert [step["content"] for step in told.heard("Buy.", ["Order tea", "And milk"])] == ["Buy.", "And milk"]


@pytest.mark.parametrize(
    ("given", "read"),
    [('{"a": 1}', {"a": 1}), ("", {}), ({"a": 1}, {"a": 1}), ("{a", {"text": "{a"}), ("[1]", {"value": [1]})],
)
def test_arguments_are_an_object_whatever_a_model_wrote(given, read):
    assert as_arguments(given) == read


async def test_recording_finishes_with_the_last_words(dash, episode):
    async with Recording(episode) as record:
        await record.said("Let me look.", [TEA], {"prompt_tokens": 7})
        await record.came(TEA, result={"left": 4})
        assert await record.ask("How many?", {"left": 4}, "c3") == {"status": "advice", "advice": "Twelve."}
        await record.said("I order 12.")
    found = entry(dash)
    assert [step["kind"] for step in found.steps] == ["message", "tool_call", "ask", "message"]
    assert found.steps[2]["context"] == '{"left":4}' and found.steps[2]["turn"] == 1
    assert (found.state, found.stop_reason, found.final_answer) == ("finished", "done", "I order 12.")


async def test_recording_refuses_what_is_no_question(dash, episode):
    async with Recording(episode, max_asks=1) as record:
        assert (await record.ask(" "))["status"] == "error"
        assert (await record.ask("x" * (QUESTION_MAX + 1)))["status"] == "error"
        assert (await record.ask("How many?"))["status"] == "advice"
        assert await record.ask("Really?") == {"status": "no_advice", "reason": "no questions left"}
    assert [step["kind"] for step in entry(dash).steps] == ["tool_call", "tool_call", "ask", "tool_call"]


async def test_recording_tells_of_no_advice_after_the_deadline():
    dash = MemoryDashboard()
    async with Recording(await dash.start_episode("Order tea", expert="plain"), deadline_s=1) as record:
        assert await record.ask("How many?") == {"status": "no_advice", "reason": "deadline"}


async def test_recording_without_an_expert_refuses_to_ask(dash):
    with pytest.raises(ExpertOff):
        async with Recording(await dash.start_episode("Order tea")) as record:
            await record.ask("How many?")
    assert (entry(dash).state, entry(dash).fault) == ("failed", "dashboard")


@pytest.mark.parametrize(("error", "fault"), [(KeyError("shelf"), "worker"), (PolicyFault("no model"), "policy")])
async def test_exception_is_a_fault_and_keeps_held_results(dash, episode, error, fault):
    with pytest.raises(type(error)):
        async with Recording(episode) as record:
            await record.said("", [TEA, COFFEE])
            await record.came(COFFEE, result=0)
            raise error
    found = entry(dash)
    assert (found.state, found.fault) == ("failed", fault)
    assert found.steps[1]["result"] == 0 and str(error) in found.detail


async def test_a_limit_of_the_framework_is_max_steps(dash, episode):
    class Limited(Recording):
        limits = (LookupError,)

    with pytest.raises(LookupError):
        async with Limited(episode):
            raise LookupError
    assert (entry(dash).stop_reason, entry(dash).final_answer) == ("max_steps", None)


async def test_nothing_is_recorded_after_a_stop(dash, episode):
    async with Recording(episode) as record:
        await episode.finish("gave_up")
        for _ in range(2):
            with pytest.raises(EpisodeEnded):
                await record.said("On.")
        assert record.left
    assert (entry(dash).stop_reason, entry(dash).steps) == ("gave_up", [])


async def test_recording_ends_quietly_after_a_late_stop(dash, episode):
    async with Recording(episode) as record:
        await record.said("I order 12.")
        await episode.finish("gave_up")
    assert record.left and entry(dash).stop_reason == "gave_up"


async def test_recording_sends_heartbeats_while_open(dash, episode):
    async with Recording(episode, heartbeat_s=0.001):
        async with asyncio.timeout(60):
            while entry(dash).heartbeats < 2:
                await asyncio.sleep(0.01)


def test_recording_of_an_async_episode_needs_a_loop(dash):
    episode = asyncio.run(dash.start_episode("Order tea"))
    with pytest.raises(TypeError, match="SyncHttpDashboard"):
        Recording(episode).__enter__()


async def test_recording_works_from_other_loops_and_threads(dash, episode):
    async with Recording(episode) as record:
        await asyncio.to_thread(record.now, record.said("From a thread."))
        await asyncio.to_thread(lambda: asyncio.run(record.here(record.said("From its loop."))))
        with pytest.raises(TypeError, match="SyncHttpDashboard"):
            record.now(record.said("From its own loop, which it would block."))
    assert [step["content"] for step in entry(dash).steps] == ["From a thread.", "From its loop."]


async def test_sync_recording_works_from_any_loop():
    server = FakeHttpDashboard()
    await server.start()
    try:
        await asyncio.to_thread(lives_in_another_loop, server.url)
    finally:
        await server.kill()
    found = next(iter(server.book.episodes.values()))
    assert [step["content"] for step in found.steps] == ["Sync.", "Async."]
    assert (found.state, found.final_answer) == ("finished", "Async.")


def lives_in_another_loop(url):
    with SyncHttpDashboard(url, TOKEN) as sync, Recording(sync.start_episode("Order tea")) as record:
        record.now(record.said("Sync."))
        asyncio.run(record.here(record.said("Async.")))
