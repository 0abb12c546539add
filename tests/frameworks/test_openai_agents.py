"""The OpenAI Agents SDK at work, recorded in the running product (`make test-frameworks`)."""

from __future__ import annotations

import threading

import pytest

from awmclient.client import HttpDashboard
from awmclient.errors import EpisodeEnded
from tests.frameworks.story import (
    ANSWER,
    ASKS,
    INSTRUCTIONS,
    LOOKS,
    NOBODY_S,
    PATIENCE_S,
    SAYS,
    STORY,
    TASK,
    an_expert,
    heard_advice,
    look_up,
    model,
    outline,
    recorded,
    run,
    start,
    started,
    turn,
)
from tests.running import until

pytestmark = pytest.mark.frameworks


def clerk(record, server, **more):
    from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=server.base_url, api_key="none")
    tools = [function_tool(look_up), record.ask_expert]
    chat = OpenAIChatCompletionsModel("small", client)
    return Agent("clerk", instructions=INSTRUCTIONS, model=chat, tools=tools, **more)


async def runs(house, token, server, expert=None, **limits):
    from agents import Runner

    from awmclient.adapters.openai_agents import Recording

    async with HttpDashboard(house.url, token) as dash:
        episode = await start(dash)
        if expert is not None:
            expert(episode.id)
        async with Recording(episode, **limits) as record:
            agent = clerk(record, server)
            result = await Runner.run(agent, TASK, hooks=record, run_config=record.run_config, max_turns=4)
        return episode.id, result.final_output


def test_agents_sdk_run_is_recorded_in_order(house, agent_token, expert_token):
    from agents import Runner

    from awmclient.adapters.openai_agents import Recording

    async def work(episode, server):
        async with Recording(episode) as record:
            agent = clerk(record, server)
            return await Runner.run(agent, TASK, hooks=record, run_config=record.run_config)

    with model(LOOKS, ASKS, SAYS) as server, started(house, agent_token) as episode:
        with an_expert(house, expert_token, episode.id):
            result = run(work(episode, server))
    view, steps = recorded(house, agent_token, episode.id)
    assert outline(steps) == [f"system: {INSTRUCTIONS}", *STORY]
    assert [step.get("call_id") for step in steps if step["kind"] != "message"] == ["c1", "c2", "c3"]
    assert (view["state"], view["stop_reason"]) == ("finished", "done")
    assert result.final_output == ANSWER and '"advice": "Twelve."' in heard_advice(server)


def test_agents_sdk_hears_of_no_advice_and_goes_on(house, agent_token):
    with model(ASKS, ASKS, SAYS) as server:
        episode, said = run(runs(house, agent_token, server, deadline_s=NOBODY_S, max_asks=1))
    view, steps = recorded(house, agent_token, episode)
    asked, refused = [step for step in steps if step["kind"] in ("ask", "tool_call")]
    assert asked["advice"]["source"] == "fallback"
    assert refused["result"] == {"status": "no_advice", "reason": "no questions left"}
    read = [message["content"] for message in server.bodies[-1]["messages"] if message["role"] == "tool"]
    assert all('"status": "no_advice"' in words for words in read) and len(read) == 2
    assert (view["state"], said) == ("finished", ANSWER)


def test_agents_sdk_turn_limit_is_max_steps(house, agent_token):
    from agents import MaxTurnsExceeded

    ids = []
    with model(LOOKS) as server, pytest.raises(MaxTurnsExceeded):
        run(runs(house, agent_token, server, expert=ids.append))
    view, _ = recorded(house, agent_token, ids[0])
    assert (view["state"], view["stop_reason"]) == ("finished", "max_steps")


def test_agents_sdk_handoff_is_recorded_as_a_call(house, agent_token):
    from agents import Runner

    from awmclient.adapters.openai_agents import Recording

    async def work(episode, server):
        async with Recording(episode) as record:
            buyer = clerk(record, server)
            buyer.name = "buyer"
            first = clerk(record, server, handoffs=[buyer])
            await Runner.run(first, TASK, hooks=record, run_config=record.run_config)

    with model(turn("", ("transfer_to_buyer", "{}")), SAYS) as server, started(house, agent_token) as episode:
        run(work(episode, server))
    _, steps = recorded(house, agent_token, episode.id)
    assert "1 transfer_to_buyer {} -> {'assistant': 'buyer'}" in outline(steps)


def test_agents_sdk_run_ends_with_a_stopped_episode(house, agent_token):
    """Someone ends the episode while its agent waits for advice."""
    ids = []

    def stop():
        with house.http(agent_token) as http:
            until(lambda: ids and http.get(f"/episodes/{ids[0]}").json()["state"] == "waiting", PATIENCE_S)
            http.post(f"/episodes/{ids[0]}/finish", json={"stop_reason": "gave_up"}).raise_for_status()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with model(ASKS, LOOKS, SAYS) as server, pytest.raises(EpisodeEnded):
        run(runs(house, agent_token, server, expert=ids.append))
    stopper.join(PATIENCE_S)
    view, _ = recorded(house, agent_token, ids[0])
    assert (view["state"], view["stop_reason"]) == ("finished", "gave_up")
