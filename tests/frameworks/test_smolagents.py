"""smolagents at work, recorded in the running product (`make test-frameworks`)."""

from __future__ import annotations

import json
import threading

import pytest

from tests.frameworks.story import (
    ANSWER,
    ASKS,
    LOOKS,
    NOBODY_S,
    PATIENCE_S,
    STORY,
    TASK,
    an_expert,
    look_up,
    model,
    of_kinds,
    outline,
    recorded,
    started,
    turn,
)
from tests.running import until

pytestmark = pytest.mark.frameworks
ENDS = turn("", ("final_answer", json.dumps({"answer": ANSWER})))
CODE = "print(look_up('coffee'))\nprint(ask_expert('How many coffees?', 'none are left'))"


def clerk(record, server, kind="ToolCallingAgent", **more):
    import smolagents

    chat = smolagents.OpenAIModel("small", api_base=server.base_url, api_key="none")
    tools = [smolagents.tool(look_up), record.ask_expert]
    return record.attach(getattr(smolagents, kind)(tools, chat, verbosity_level=0, **more))


def without_instructions(steps):
    """smolagents brings its own, of several pages."""
    assert steps[0]["role"] == "system" and "ask_expert" in steps[0]["content"]
    return [line.replace("user: New task:\n", "user: ") for line in outline(steps[1:])]


def test_smolagents_run_is_recorded_in_order(house, agent_token, expert_token):
    from awmclient.adapters.smolagents import Recording

    with model(LOOKS, ASKS, ENDS) as server, started(house, agent_token) as episode:
        with an_expert(house, expert_token, episode.id), Recording(episode) as record:
            said = clerk(record, server).run(TASK)
    view, steps = recorded(house, agent_token, episode.id)
    ends = ["3 assistant: ", f"3 final_answer {{'answer': '{ANSWER}'}} -> {ANSWER}"]
    assert without_instructions(steps) == [*STORY[:-1], *ends]
    assert [step.get("call_id") for step in of_kinds(steps, "tool_call", "ask")] == ["c1", "c2", "c3", "c4"]
    assert "no shelf of tea" in of_kinds(steps, "tool_call")[0]["error"]
    assert (view["state"], view["stop_reason"], said) == ("finished", "done", ANSWER)
    assert '"advice": "Twelve."' in json.dumps(server.bodies[-1]["messages"]).replace("\\", "")


def test_smolagents_code_agent_asks_within_its_code(house, agent_token, expert_token):
    from awmclient.adapters.smolagents import Recording

    turns = [turn(f"<code>\n{code}\n</code>") for code in (CODE, "look_up('tea')", f"final_answer('{ANSWER}')")]
    with model(*turns) as server, started(house, agent_token) as episode:
        with an_expert(house, expert_token, episode.id), Recording(episode) as record:
            said = clerk(record, server, "CodeAgent").run(TASK)
    view, steps = recorded(house, agent_token, episode.id)
    kinds = [step["kind"] for step in steps[2:]]
    assert kinds == ["message", "ask", "tool_call", "message", "tool_call", "message", "tool_call"]
    ran, failed, _ = of_kinds(steps, "tool_call")
    assert ran["arguments"] == {"code": CODE} and "Twelve." in ran["result"] and "no shelf" in failed["error"]
    assert (view["state"], said) == ("finished", ANSWER)


def test_smolagents_without_advice_reaches_its_step_limit(house, agent_token):
    from awmclient.adapters.smolagents import Recording

    with model(ASKS, ASKS, turn("I give up.")) as server, started(house, agent_token) as episode:
        with Recording(episode, deadline_s=NOBODY_S, max_asks=1) as record:
            clerk(record, server, max_steps=2).run(TASK)
    view, steps = recorded(house, agent_token, episode.id)
    asked, refused = of_kinds(steps, "ask", "tool_call")
    assert asked["advice"]["source"] == "fallback" and refused["result"]["reason"] == "no questions left"
    assert (view["state"], view["stop_reason"]) == ("finished", "max_steps")


def test_smolagents_run_ends_with_a_stopped_episode(house, agent_token):
    """smolagents makes words of a tool's exception; the model is not asked again all the same."""
    from smolagents import AgentError

    from awmclient.adapters.smolagents import Recording

    def stop(episode):
        with house.http(agent_token) as http:
            until(lambda: http.get(f"/episodes/{episode}").json()["state"] == "waiting", PATIENCE_S)
            http.post(f"/episodes/{episode}/finish", json={"stop_reason": "gave_up"}).raise_for_status()

    with model(ASKS, LOOKS, ENDS) as server, started(house, agent_token) as episode:
        stopper = threading.Thread(target=stop, args=(episode.id,))
        stopper.start()
        with pytest.raises(AgentError), Recording(episode) as record:
            clerk(record, server).run(TASK)
        stopper.join(PATIENCE_S)
    view, steps = recorded(house, agent_token, episode.id)
    assert view["stop_reason"] == "gave_up" and not of_kinds(steps, "tool_call")
