"""Interrupts of LangGraph, decided at the desk of the running product (`make test-frameworks`)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypedDict

import pytest

from awmclient.client import HttpDashboard
from tests.frameworks.pausing import (
    Cuts,
    a_name,
    approve,
    asks_of,
    cut_dashboard,
    deciding,
    edit,
    every_cut,
    in_words,
    reject,
)
from tests.frameworks.story import ANSWER, SAYS, TASK, model, run, told, turn

pytestmark = pytest.mark.frameworks
PAYS = turn("", ("pay", '{"item": "tea"}'))
PAYS_TWICE = turn("", ("pay", '{"item": "tea"}'), ("pay", '{"item": "coffee"}'))


def thread(name):
    return {"configurable": {"thread_id": name}}


def payer(server, made, saver, **more):
    """An agent whose calls of `pay` wait for approval."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def pay(item: str) -> str:
        """Pay for an item."""
        made.append(item)
        return f"paid {item}"

    chat = ChatOpenAI(model="small", base_url=server.base_url, api_key="none")
    gate = HumanInTheLoopMiddleware({"pay": more.pop("allowed", True)}, **more)
    return create_agent(chat, tools=[pay], middleware=[gate], checkpointer=saver)


def decided(house, agent_token, expert_token, rule, turns=(PAYS, SAYS), **more):
    """Run the payer under a rule of the desk: what was paid, what the model read, the asks."""
    from langgraph.checkpoint.memory import InMemorySaver

    from awmclient.adapters.langgraph import Pauses

    made, name = [], a_name("lang")

    async def work(server):
        async with HttpDashboard(house.url, agent_token) as dash:
            given = {"messages": [("user", TASK)]}
            agent = payer(server, made, InMemorySaver(), **more)
            return await Pauses(dash, name).run(agent, given, thread(name))

    with model(*turns) as server, deciding(house, expert_token, rule) as seen:
        state = run(work(server))
        assert state["messages"][-1].text == ANSWER
        return made, told(server), asks_of(house, agent_token, name), seen


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_approved_call_of_langgraph_is_made_once(house, agent_token, expert_token, mode):
    made, read, asks, seen = decided(house, agent_token, expert_token, approve, interrupt_mode=mode)
    assert (made, read) == (["tea"], ["paid tea"])
    assert [one["consumed_at"] is not None for one in asks] == [True] and len(seen) == 1


# langchain-ai/langchain#33787, #40166: the edited call runs, of the same tool, and the model hears of it
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_edited_call_of_langgraph_is_made_in_its_place(house, agent_token, expert_token, mode):
    made, read, _, _ = decided(house, agent_token, expert_token, edit, interrupt_mode=mode)
    assert made == ["milk"] and "paid milk" in read[0] and read[0] != "paid milk"


# langchain-ai/langchainjs#11125: approve and reject in one pause
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_approve_and_reject_in_one_langgraph_pause_stay_apart(house, agent_token, expert_token, mode):
    def rule(ask):
        said = [approve, reject][ask["typed"]["calls"][0]["arguments"]["item"] == "tea"](ask)
        if len(ask["typed"]["calls"]) == 2:
            said["decision"]["calls"][0] = {"id": "1", "verdict": "reject", "reason": "Not today."}
            said["decision"]["calls"][1] = {"id": "2", "verdict": "approve"}
        return said

    made, read, _, _ = decided(house, agent_token, expert_token, rule, turns=(PAYS_TWICE, SAYS), interrupt_mode=mode)
    assert made == ["coffee"] and "Not today." in read[0] and read[1] == "paid coffee"


# NousResearch/hermes-agent#54110: a timeout is said as such; and nothing is approved by silence
def test_langgraph_hears_of_a_deadline(house, agent_token):
    from langgraph.checkpoint.memory import InMemorySaver

    from awmclient.adapters.langgraph import Pauses

    made, name = [], a_name("lang")

    async def work(server):
        async with HttpDashboard(house.url, agent_token) as dash:
            agent = payer(server, made, InMemorySaver())
            pauses = Pauses(dash, name, deadline_s=1)
            return await pauses.run(agent, {"messages": [("user", TASK)]}, thread(name))

    with model(PAYS, SAYS) as server:
        run(work(server))
        assert made == [] and "no decision before the deadline" in told(server)[0]


class Loop(TypedDict):
    said: list[str]
    before: Annotated[int, lambda one, other: one + other]


def looping(saver, effects, breaks=None):
    """A node that pauses twice with the same words, and one before it that must not run again."""
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    def first(state: Loop) -> dict[str, Any]:
        return {"before": 1}

    def asks(state: Loop) -> dict[str, Any]:
        said = [interrupt("Which shelf?")]
        if breaks:
            breaks.pop()
            raise ValueError("out of order")
        said.append(interrupt("Which shelf?"))
        effects.append(list(said))
        return {"said": said}

    graph = StateGraph(Loop).add_node("first", first).add_node("asks", asks)
    graph.add_edge(START, "first").add_edge("first", "asks")
    return graph.compile(checkpointer=saver)


# langchain-ai/langgraph#7780: a pause in a loop replays earlier ones; and an answer that came before a failure would
# be given to the next pause as well
def test_langgraph_pauses_in_a_loop_are_asked_once_each(house, agent_token, expert_token):
    from langgraph.checkpoint.memory import InMemorySaver

    from awmclient.adapters.langgraph import Pauses

    effects, name, saver, numbers = [], a_name("lang"), InMemorySaver(), iter("abc")

    async def work():
        async with HttpDashboard(house.url, agent_token) as dash:
            graph = looping(saver, effects, breaks)
            return await Pauses(dash, name).run(graph, {"said": [], "before": 0}, thread(name))

    breaks = [True]
    with deciding(house, expert_token, lambda ask: {"text": next(numbers)}) as seen:
        with pytest.raises(ValueError, match="out of order"):
            run(work())
        state = run(work())
    assert (state["said"], state["before"], effects) == (["a", "b"], 1, [["a", "b"]])
    assert len(seen) == 2 and all(one["consumed_at"] for one in asks_of(house, agent_token, name))


# langchain-ai/agent-chat-ui#269: going on does not start the agent again
def test_langgraph_thread_goes_on_after_a_restart(house, agent_token, expert_token):
    from langgraph.checkpoint.memory import InMemorySaver

    from awmclient.adapters.langgraph import Pauses

    made, name, saver = [], a_name("lang"), InMemorySaver()

    async def work(server, patient):
        async with HttpDashboard(house.url, agent_token) as dash:
            going = Pauses(dash, name).run(payer(server, made, saver), {"messages": [("user", TASK)]}, thread(name))
            if patient:
                return await going
            task = asyncio.create_task(going)
            while not [one for one in asks_of_soon() if one["status"] == "open"]:
                await asyncio.sleep(0.05)
            task.cancel()  # as a process that ends while it waits
            return await asyncio.gather(task, return_exceptions=True)

    def asks_of_soon():
        return asks_of(house, agent_token, name)

    async def both(server):
        await work(server, patient=False)
        with deciding(house, expert_token, approve) as seen:
            return await work(server, patient=True), seen

    with model(PAYS, SAYS) as server:
        state, seen = run(both(server))
        assert len(server.bodies) == 2
    assert made == ["tea"] and len(seen) == 1
    assert [one.type for one in state["messages"]] == ["human", "ai", "tool", "ai"]


def cut_saver(saver, cuts):
    """A checkpointer whose writes are commits."""
    from langgraph.checkpoint.memory import InMemorySaver

    class CutSaver(InMemorySaver):
        async def aput(self, *given, **named):
            return await cuts.around(lambda: InMemorySaver.aput(self, *given, **named))

        async def aput_writes(self, *given, **named):
            return await cuts.around(lambda: InMemorySaver.aput_writes(self, *given, **named))

    made = CutSaver()
    made.storage, made.writes, made.blobs = saver.storage, saver.writes, saver.blobs
    return made


def test_langgraph_loses_and_doubles_no_decision_at_any_cut(house, agent_token, expert_token):
    from langgraph.checkpoint.memory import InMemorySaver

    from awmclient.adapters.langgraph import Pauses

    savers, effects = {}, {}

    async def once(name: str, cuts: Cuts) -> None:
        saver = savers.setdefault(name, InMemorySaver())
        done = effects.setdefault(name, [])
        async with cut_dashboard(house, agent_token, cuts) as dash:
            graph = looping(cut_saver(saver, cuts), done)
            # as a program does that reads its thread first: an ended one would begin again with an input
            given = None if saver.get_tuple(thread(name)) else {"said": [], "before": 0}
            await Pauses(dash, name).run(graph, given, thread(name), durability="sync")

    def check(name: str) -> None:
        asks = asks_of(house, agent_token, name)
        texts = [one["advice"]["text"] for one in asks]
        # the tool can run again where the framework had not stored its result: but with the same decisions
        assert len(asks) == 2 and {tuple(one) for one in effects[name]} == {tuple(texts)}, name
        assert all(one["consumed_at"] for one in asks), name

    numbers = iter(range(1000))
    with deciding(house, expert_token, lambda ask: {"text": f"{next(numbers)}"}):
        assert every_cut(once, check) > 6


def test_question_of_a_graph_gets_the_words_of_the_answer(house, agent_token, expert_token):
    from langgraph.checkpoint.memory import InMemorySaver

    from awmclient.adapters.langgraph import Pauses

    name = a_name("lang")

    async def work():
        async with HttpDashboard(house.url, agent_token) as dash:
            return await Pauses(dash, name).run(looping(InMemorySaver(), []), {"said": [], "before": 0}, thread(name))

    with deciding(house, expert_token, in_words):
        assert run(work())["said"] == ["To: Which shelf?"] * 2
