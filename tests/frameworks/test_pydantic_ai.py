"""PydanticAI at work, recorded in the running product (`make test-frameworks`)."""

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
)

pytestmark = pytest.mark.frameworks


def look_up_again(item: str):
    """Tell how many are left; the model may try another item."""
    from pydantic_ai import ModelRetry

    try:
        return look_up(item)
    except ValueError as error:
        raise ModelRetry(str(error)) from error


def clerk(record, server, look=look_up_again):
    from pydantic_ai import Agent, Tool
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    chat = OpenAIChatModel("small", provider=OpenAIProvider(base_url=server.base_url, api_key="none"))
    tools = [Tool(look, name="look_up"), record.ask_expert]
    return Agent(chat, instructions=INSTRUCTIONS, tools=tools, capabilities=[record])


def test_pydantic_ai_run_is_recorded_in_order(house, agent_token, expert_token):
    from awmclient.adapters.pydantic_ai import Recording

    async def work(episode, server):
        async with Recording(episode) as record:
            return (await clerk(record, server).run(TASK)).output

    with model(LOOKS, ASKS, SAYS) as server, started(house, agent_token) as episode:
        with an_expert(house, expert_token, episode.id):
            said = run(work(episode, server))
    view, steps = recorded(house, agent_token, episode.id)
    assert outline(steps) == [f"system: {INSTRUCTIONS}", *STORY]
    assert [step.get("call_id") for step in of_kinds(steps, "tool_call", "ask")] == ["c1", "c2", "c3"]
    assert of_kinds(steps, "tool_call")[0]["error"] == "no shelf of tea"
    assert (view["state"], view["stop_reason"], said) == ("finished", "done", ANSWER)
    assert '"advice":"Twelve."' in heard_advice(server)


def test_pydantic_ai_sync_run_hears_of_no_advice(house, agent_token):
    from awmclient.adapters.pydantic_ai import Recording

    with model(ASKS, ASKS, SAYS) as server, started(house, agent_token) as episode:
        with Recording(episode, deadline_s=NOBODY_S, max_asks=1) as record:
            said = clerk(record, server).run_sync(TASK).output
    view, steps = recorded(house, agent_token, episode.id)
    asked, refused = of_kinds(steps, "ask", "tool_call")
    assert asked["advice"]["source"] == "fallback" and refused["result"]["reason"] == "no questions left"
    assert len(told(server)) == 2 and all('"status":"no_advice"' in words for words in told(server))
    assert (view["state"], said) == ("finished", ANSWER)


def test_pydantic_ai_usage_limit_is_max_steps(house, agent_token):
    from pydantic_ai.exceptions import UsageLimitExceeded
    from pydantic_ai.usage import UsageLimits

    from awmclient.adapters.pydantic_ai import Recording

    ids = []

    async def work(server):
        async with HttpDashboard(house.url, agent_token) as dash:
            episode = await start(dash)
            ids.append(episode.id)
            async with Recording(episode, deadline_s=1) as record:
                await clerk(record, server).run(TASK, usage_limits=UsageLimits(request_limit=2))

    with model(ASKS) as server, pytest.raises(UsageLimitExceeded):
        run(work(server))
    view, _ = recorded(house, agent_token, ids[0])
    assert (view["state"], view["stop_reason"]) == ("finished", "max_steps")


def test_pydantic_ai_tool_that_ends_the_run_is_an_error(house, agent_token):
    from awmclient.adapters.pydantic_ai import Recording

    with model(LOOKS) as server, started(house, agent_token) as episode:
        with pytest.raises(ValueError, match="no shelf of tea"), Recording(episode) as record:
            clerk(record, server, look_up).run_sync(TASK)
    view, steps = recorded(house, agent_token, episode.id)
    assert of_kinds(steps, "tool_call")[0]["error"] == "ValueError: no shelf of tea"
    assert view["state"] == "failed" and steps[-1]["meta"] == {"fault": "worker"}
