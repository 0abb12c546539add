"""Inspect AI at work, recorded in the running product (`make test-frameworks`)."""

from __future__ import annotations

import json
import threading

import pytest

from awmclient.client import SyncHttpDashboard
from tests.frameworks.story import (
    ANSWER,
    ASKS,
    INSTRUCTIONS,
    LOOKS,
    PATIENCE_S,
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
    turn,
)
from tests.running import until

pytestmark = pytest.mark.frameworks


@pytest.fixture
def environment(house, agent_token):
    """Find episodes by the name of their environment, which is a test's own."""

    def episodes(name):
        with house.http(agent_token) as http:
            return [one["id"] for one in http.get("/episodes", params={"environment": name}).json()["items"]]

    return episodes


def look_up_tool():
    from inspect_ai.tool import ToolDef, ToolError

    async def execute(item: str) -> str:
        try:
            return json.dumps(look_up(item))
        except ValueError as error:
            raise ToolError(str(error)) from error

    return ToolDef(execute, "look_up", "Tell how many are left.", {"item": "what to look for"}).as_tool()


def evaluate(house, token, server, name, samples=1, tools=None, recording=None, **more):
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, system_message, use_tools

    from awmclient.adapters.inspect_ai import ask_expert, recorded

    chat = get_model("openai-api/local/small", base_url=server.base_url, api_key="none")
    solver = [system_message(INSTRUCTIONS), use_tools(*(tools or [look_up_tool()]), ask_expert()), generate()]
    dataset = [Sample(TASK, target="12", id=number) for number in range(samples)]
    task = Task(dataset, solver=solver, scorer=includes(), **more)
    with SyncHttpDashboard(house.url, token) as dash:
        with recorded(dash, expert="plain", environment=name, **(recording or {})):
            return eval(task, model=chat, display="none", log_dir=str(house.var / "inspect"))[0]


def test_inspect_sample_is_recorded_in_order(house, agent_token, expert_token, environment):
    found = []

    def answer():
        found.extend(until(lambda: environment("inspect-story"), PATIENCE_S))
        with an_expert(house, expert_token, found[0]):
            pass

    expert = threading.Thread(target=answer)
    expert.start()
    with model(LOOKS, ASKS, SAYS) as server:
        log = evaluate(house, agent_token, server, "inspect-story")
    expert.join(PATIENCE_S)
    view, steps = recorded(house, agent_token, found[0])
    assert outline(steps) == [f"system: {INSTRUCTIONS}", *STORY]
    assert [step.get("call_id") for step in of_kinds(steps, "tool_call", "ask")] == ["c1", "c2", "c3"]
    assert of_kinds(steps, "tool_call")[0]["error"] == "no shelf of tea"
    assert (view["state"], view["stop_reason"], log.status) == ("finished", "done", "success")
    assert '"advice": "Twelve."' in heard_advice(server)


def test_inspect_samples_without_advice_are_episodes(house, agent_token, environment):
    with model(ASKS, ASKS, SAYS) as server:
        log = evaluate(house, agent_token, server, "inspect-none", 2, recording={"deadline_s": 1}, max_samples=1)
    episodes = [recorded(house, agent_token, one) for one in environment("inspect-none")]
    assert [view["state"] for view, _ in episodes] == ["finished", "finished"]
    asks = [step["advice"]["source"] for _, steps in episodes for step in of_kinds(steps, "ask")]
    assert asks == ["fallback", "fallback"] and log.results.scores[0].metrics["accuracy"].value == 1
    assert outline(episodes[0][1])[-1].endswith(f"assistant: {ANSWER}")


def test_inspect_limit_is_max_steps_and_error_a_fault(house, agent_token, environment):
    from inspect_ai.tool import ToolDef

    async def broken(item: str) -> str:
        raise RuntimeError("the shelf fell down")

    with model(LOOKS) as server:
        evaluate(house, agent_token, server, "inspect-limit", message_limit=6)
        tool = ToolDef(broken, "look_up", "Tell.", {"item": "what"}).as_tool()
        evaluate(house, agent_token, server, "inspect-error", tools=[tool])
    [limited], [failed] = environment("inspect-limit"), environment("inspect-error")
    view, steps = recorded(house, agent_token, limited)
    assert (view["state"], view["stop_reason"]) == ("finished", "max_steps") and of_kinds(steps, "tool_call")
    view, steps = recorded(house, agent_token, failed)
    assert view["state"] == "failed" and steps[-1]["meta"] == {"fault": "worker"}


def test_inspect_sample_ends_with_a_stopped_episode(house, agent_token, environment):
    def stop():
        with house.http(agent_token) as http:
            [episode] = until(lambda: environment("inspect-stop"), PATIENCE_S)
            until(lambda: http.get(f"/episodes/{episode}").json()["state"] == "waiting", PATIENCE_S)
            http.post(f"/episodes/{episode}/finish", json={"stop_reason": "gave_up"}).raise_for_status()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with model(ASKS, LOOKS) as server:
        log = evaluate(house, agent_token, server, "inspect-stop", message_limit=30)
    stopper.join(PATIENCE_S)
    view, _ = recorded(house, agent_token, environment("inspect-stop")[0])
    assert log.samples[0].limit.type == "custom" and view["stop_reason"] == "gave_up"


def test_inspect_scorer_models_are_not_recorded(house, agent_token, environment):
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import model_graded_qa
    from inspect_ai.solver import generate

    from awmclient.adapters.inspect_ai import recorded as recorded_samples

    with model(SAYS, turn("GRADE: C")) as server, SyncHttpDashboard(house.url, agent_token) as dash:
        chat = get_model("openai-api/local/small", base_url=server.base_url, api_key="none")
        task = Task([Sample(TASK, target="12")], solver=generate(), scorer=model_graded_qa(model=chat))
        with recorded_samples(dash, environment="inspect-graded"):
            eval(task, model=chat, display="none", log_dir=str(house.var / "inspect"))
    [episode] = environment("inspect-graded")
    _, steps = recorded(house, agent_token, episode)
    assert outline(steps) == [f"user: {TASK}", f"1 assistant: {ANSWER}"]
