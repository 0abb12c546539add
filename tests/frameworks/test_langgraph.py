"""LangGraph at work, recorded in the running product (`make test-frameworks`)."""

from __future__ import annotations

import pytest

from awmclient.client import HttpDashboard
from tests.frameworks.story import (
    ANSWER,
    ASKS,
    INSTRUCTIONS,
    LOOKS,
    NOBODY_S,
    SAYS,
    STORY,
    TASK,
    an_expert,
    heard_advice,
    look_up,
    model,
    of_kinds,
    outline,
    recorded,
    run,
    start,
    started,
    told,
    turn,
)

pytestmark = pytest.mark.frameworks


def chat(server):
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="small", base_url=server.base_url, api_key="none")


def graph(record, server):
    """A graph of one's own, whose tool node makes words of errors."""
    from langchain_core.tools import tool
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    tools = [tool(look_up), record.ask_expert]
    model = chat(server).bind_tools(tools)

    async def think(state):
        return {"messages": [await model.ainvoke([("system", INSTRUCTIONS), *state["messages"]])]}

    made = StateGraph(MessagesState).add_node("think", think)
    made.add_node("tools", ToolNode(tools, handle_tool_errors=True)).add_edge(START, "think")
    return made.add_conditional_edges("think", tools_condition).add_edge("tools", "think").compile()


def given(record):
    return {"messages": [("user", TASK)]}, {"callbacks": [record]}


def test_langgraph_graph_is_recorded_in_order(house, agent_token, expert_token):
    from awmclient.adapters.langgraph import Recording

    async def work(episode, server):
        async with Recording(episode) as record:
            await graph(record, server).ainvoke(*given(record))

    with model(LOOKS, ASKS, SAYS) as server, started(house, agent_token) as episode:
        with an_expert(house, expert_token, episode.id):
            run(work(episode, server))
    view, steps = recorded(house, agent_token, episode.id)
    assert outline(steps) == [f"system: {INSTRUCTIONS}", *STORY]
    assert [step.get("call_id") for step in of_kinds(steps, "tool_call", "ask")] == ["c1", "c2", "c3"]
    assert of_kinds(steps, "tool_call")[0]["error"] == "ValueError: no shelf of tea"
    assert (view["state"], view["stop_reason"]) == ("finished", "done")
    assert '"advice": "Twelve."' in heard_advice(server)


def test_langgraph_sync_agent_hears_of_no_advice(house, agent_token):
    from langchain.agents import create_agent

    from awmclient.adapters.langgraph import Recording

    with model(ASKS, ASKS, SAYS) as server, started(house, agent_token) as episode:
        with Recording(episode, deadline_s=NOBODY_S, max_asks=1) as record:
            agent = create_agent(chat(server), tools=[record.ask_expert])
            said = agent.invoke(*given(record))["messages"][-1].text
    view, steps = recorded(house, agent_token, episode.id)
    asked, refused = of_kinds(steps, "ask", "tool_call")
    assert asked["advice"]["source"] == "fallback" and refused["result"]["reason"] == "no questions left"
    assert len(told(server)) == 2 and all('"status": "no_advice"' in words for words in told(server))
    assert (view["state"], said) == ("finished", ANSWER)


def test_langgraph_recursion_limit_is_max_steps(house, agent_token):
    from langgraph.errors import GraphRecursionError

    from awmclient.adapters.langgraph import Recording

    ids = []

    async def work(server):
        async with HttpDashboard(house.url, agent_token) as dash:
            episode = await start(dash)
            ids.append(episode.id)
            async with Recording(episode) as record:
                state, config = given(record)
                await graph(record, server).ainvoke(state, {**config, "recursion_limit": 5})

    with model(LOOKS) as server, pytest.raises(GraphRecursionError):
        run(work(server))
    view, _ = recorded(house, agent_token, ids[0])
    assert (view["state"], view["stop_reason"]) == ("finished", "max_steps")


def test_langgraph_model_inside_a_tool_is_not_recorded(house, agent_token):
    from langchain.agents import create_agent
    from langchain_core.tools import tool

    from awmclient.adapters.langgraph import Recording

    with model(turn("", ("sum_up", "{}")), turn("inner words"), SAYS) as server, started(house, agent_token) as episode:
        inner = chat(server)

        @tool
        def sum_up() -> str:
            """Sum up what is there."""
            return inner.invoke("Sum up.").text

        with Recording(episode) as record:
            create_agent(chat(server), tools=[sum_up]).invoke(*given(record))
    _, steps = recorded(house, agent_token, episode.id)
    lines = [f"user: {TASK}", "1 assistant: ", "1 sum_up {} -> inner words", f"2 assistant: {ANSWER}"]
    assert outline(steps) == lines


def test_langgraph_tool_that_ends_the_run_is_an_error(house, agent_token):
    from langchain.agents import create_agent

    from awmclient.adapters.langgraph import Recording

    with model(LOOKS) as server, started(house, agent_token) as episode:
        with pytest.raises(ValueError, match="no shelf of tea"), Recording(episode) as record:
            create_agent(chat(server), tools=[look_up]).invoke(*given(record))
    view, steps = recorded(house, agent_token, episode.id)
    assert of_kinds(steps, "tool_call")[0]["error"] == "ValueError: no shelf of tea"
    assert view["state"] == "failed" and steps[-1]["meta"] == {"fault": "worker"}


def test_langgraph_interrupt_is_no_error(house, agent_token):
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command, interrupt

    from awmclient.adapters.langgraph import Recording

    @tool
    def pay() -> str:
        """Pay, once a person agrees."""
        return f"paid: {interrupt('May I pay?')}"

    with model(turn("", ("pay", "{}")), SAYS) as server, started(house, agent_token) as episode:
        with Recording(episode) as record:
            agent = create_agent(chat(server), tools=[pay], checkpointer=InMemorySaver())
            state, config = given(record)
            config["configurable"] = {"thread_id": "1"}
            agent.invoke(state, config)
            agent.invoke(Command(resume="yes"), config)
    _, steps = recorded(house, agent_token, episode.id)
    assert outline(steps)[2:] == ["1 pay {} -> paid: yes", f"2 assistant: {ANSWER}"]
