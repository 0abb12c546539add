"""Approvals of the OpenAI Agents SDK and PydanticAI, and interrupts of AG-UI, decided at the desk of the
running product (`make test-frameworks`)."""

from __future__ import annotations

import asyncio

import pytest

from awmclient.client import HttpDashboard
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.frameworks.pausing import (
    Cuts,
    a_name,
    approve,
    asks_of,
    cut_dashboard,
    deciding,
    edit,
    every_cut,
    reject,
)
from tests.frameworks.story import ANSWER, SAYS, TASK, heard_advice, model, run, told, turn

pytestmark = pytest.mark.frameworks
PAYS = turn("", ("pay", '{"item": "tea"}'))
PAYS_TWICE = turn("", ("pay", '{"item": "tea"}'), ("pay", '{"item": "coffee"}'))


def only_coffee(ask):
    is_coffee = ask["typed"]["calls"][0]["arguments"]["item"] == "coffee"
    return approve(ask) if is_coffee else reject(ask)


def sdk_agent(server, made, name="clerk", **more):
    from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool(needs_approval=True)
    def pay(item: str) -> str:
        """Pay for an item."""
        made.append(item)
        return f"paid {item}"

    chat = OpenAIChatCompletionsModel("small", AsyncOpenAI(base_url=server.base_url, api_key="none"))
    return Agent(name, model=chat, tools=[pay], **more)


async def sdk_run(dash, server, folder, name, made, **more):
    from awmclient.adapters.openai_agents import Pauses

    agent = more.pop("agent", None) or sdk_agent(server, made)
    pauses = Pauses(dash, name, folder, deadline_s=more.pop("deadline_s", 60))
    return await pauses.run(agent, TASK, thread=name, **more)


def pydantic_agent(server, made):
    from pydantic_ai import Agent, DeferredToolRequests, Tool
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def pay(item: str) -> str:
        """Pay for an item."""
        made.append(item)
        return f"paid {item}"

    chat = OpenAIChatModel("small", provider=OpenAIProvider(base_url=server.base_url, api_key="none"))
    return Agent(chat, tools=[Tool(pay, requires_approval=True)], output_type=[str, DeferredToolRequests])


async def pydantic_run(dash, server, folder, name, made, **more):
    from awmclient.adapters.pydantic_ai import Pauses

    pauses = Pauses(dash, name, folder, deadline_s=more.pop("deadline_s", 60))
    return await pauses.run(more.pop("agent", None) or pydantic_agent(server, made), TASK, thread=name, **more)


RUNS = {"openai": sdk_run, "pydantic": pydantic_run}


@pytest.fixture(params=RUNS)
def framework(request):
    return RUNS[request.param]


def lived(house, token, framework, folder, *turns, **more):
    """One life of the agent: what was paid, what the model read, its run's name."""
    made, name = more.pop("made", []), more.pop("name", "") or a_name("calls")

    async def work(server):
        async with HttpDashboard(house.url, token) as dash:
            return await framework(dash, server, folder, name, made, **more)

    with model(*turns) as server:
        result = run(work(server))
        assert (getattr(result, "final_output", None) or result.output) == ANSWER
        return made, server, name


def test_approve_and_reject_in_one_pause_stay_apart(house, agent_token, expert_token, framework, tmp_path):
    with deciding(house, expert_token, only_coffee) as seen:
        made, server, name = lived(house, agent_token, framework, tmp_path, PAYS_TWICE, SAYS)
    read = told(server)
    assert made == ["coffee"] and len(seen) == 2
    assert "Not today." in read[0] and "paid coffee" in read[1]
    assert all(one["consumed_at"] for one in asks_of(house, agent_token, name)) and not list(tmp_path.iterdir())
    with house.http(agent_token) as http:
        listed = {one["id"]: one["policy_name"] for one in http.get("/episodes").json()["items"]}
    assert listed[seen[0]["episode"]] in {"OpenAI Agents", "PydanticAI"}, "the source that the queue shows"


# openai/openai-agents-js#1435: a second pause in one run, with the same call
def test_second_pause_of_a_run_is_asked_again(house, agent_token, expert_token, framework, tmp_path):
    with deciding(house, expert_token, approve) as seen:
        made, server, _ = lived(house, agent_token, framework, tmp_path, PAYS, PAYS, SAYS)
    assert made == ["tea", "tea"] and len(seen) == 2 and told(server) == ["paid tea", "paid tea"]


def test_deadline_approves_nothing_and_is_said(house, agent_token, framework, tmp_path):
    made, server, _ = lived(house, agent_token, framework, tmp_path, PAYS, SAYS, deadline_s=1)
    assert made == [] and "no decision before the deadline" in told(server)[0]


# openai/openai-agents-python#4244: approval is ignored on resume as soon as a context object is passed
def test_sdk_run_with_a_context_goes_on_after_a_restart(house, agent_token, expert_token, tmp_path):
    made, name, context = [], a_name("calls"), {"user": "mina"}

    async def first(server):
        async with HttpDashboard(house.url, agent_token) as dash:
            task = asyncio.create_task(sdk_run(dash, server, tmp_path, name, made, context=context))
            while not list(tmp_path.iterdir()):
                await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with model(PAYS, SAYS) as server:
        run(first(server))
        with deciding(house, expert_token, approve) as seen:
            again = lived_in(house, agent_token, server, tmp_path, name, made, context)
        assert (made, again, len(server.bodies), len(seen)) == (["tea"], ANSWER, 2, 1)


def lived_in(house, token, server, folder, name, made, context):
    async def work():
        async with HttpDashboard(house.url, token) as dash:
            return await sdk_run(dash, server, folder, name, made, context=context)

    return run(work()).final_output


# openai/openai-agents-python#4264: an agent that was renamed meanwhile says so, and the saved run stays
def test_sdk_run_of_a_renamed_agent_says_so(house, agent_token, tmp_path):
    made, name = [], a_name("calls")

    async def work(server, agent):
        async with HttpDashboard(house.url, agent_token) as dash:
            task = asyncio.create_task(sdk_run(dash, server, tmp_path, name, made, agent=agent))
            while not list(tmp_path.iterdir()):
                await asyncio.sleep(0.05)
            if agent.name == "clerk":
                task.cancel()
            return await task

    with model(PAYS, SAYS) as server:
        with pytest.raises(asyncio.CancelledError):
            run(work(server, sdk_agent(server, made)))
        with pytest.raises(Exception, match=r"(?i)agent"):
            run(work(server, sdk_agent(server, made, "cashier")))
    assert made == [] and len(list(tmp_path.iterdir())) == 1


# openai/openai-agents-python#2487: the approval of an agent inside a tool survives the round trip
def test_approval_of_a_nested_sdk_agent_is_asked_once(house, agent_token, expert_token, tmp_path):
    from agents import Agent, OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    made, name = [], a_name("calls")
    delegates = turn("", ("clerk", '{"input": "pay"}'))

    async def work(server):
        inner = sdk_agent(server, made)
        chat = OpenAIChatCompletionsModel("small", AsyncOpenAI(base_url=server.base_url, api_key="none"))
        outer = Agent("chief", model=chat, tools=[inner.as_tool("clerk", "Let the clerk pay.")])
        async with HttpDashboard(house.url, agent_token) as dash:
            return await sdk_run(dash, server, tmp_path, name, made, agent=outer)

    with house.http(expert_token) as http:
        left = {one["id"] for one in http.get("/asks").json()["asks"]}  # by the run that ended above
    with model(delegates, PAYS, SAYS, SAYS) as server, deciding(house, expert_token, approve) as seen:
        assert run(work(server)).final_output == ANSWER
    assert made == ["tea"] and len({one["id"] for one in seen} - left) == 1


# langchain-ai/langchain#33787 in PydanticAI: the model reads that its call was edited
def test_edited_call_of_pydantic_ai_is_made_and_said(house, agent_token, expert_token, tmp_path):
    with deciding(house, expert_token, edit):
        made, server, _ = lived(house, agent_token, pydantic_run, tmp_path, PAYS, SAYS)
    assert made == ["milk"] and "A person changed the arguments" in heard_advice(server)


def test_sdk_call_takes_no_edit_at_the_desk(house, agent_token, expert_token, tmp_path):
    refused = []

    def tries_an_edit(ask):
        [call] = ask["typed"]["calls"]
        refused.append(call["schema"])
        return reject(ask)

    with deciding(house, expert_token, tries_an_edit):
        made, server, _ = lived(house, agent_token, sdk_run, tmp_path, PAYS, SAYS)
    assert made == [] and "Not today." in told(server)[0]
    assert refused == [{"const": {"item": "tea"}}]


def test_external_call_of_pydantic_ai_gets_the_answers_words(house, agent_token, expert_token, tmp_path):
    from pydantic_ai import Agent, CallDeferred, DeferredToolRequests
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def count(shelf: str) -> str:
        """Count what is on a shelf."""
        raise CallDeferred

    counts = turn("", ("count", '{"shelf": "upper"}'))
    name = a_name("calls")

    async def work(server):
        chat = OpenAIChatModel("small", provider=OpenAIProvider(base_url=server.base_url, api_key="none"))
        agent = Agent(chat, tools=[count], output_type=[str, DeferredToolRequests])
        async with HttpDashboard(house.url, agent_token) as dash:
            return await pydantic_run(dash, server, tmp_path, name, [], agent=agent)

    with model(counts, SAYS) as server, deciding(house, expert_token, lambda ask: {"text": "Twelve."}):
        assert run(work(server)).output == ANSWER
        assert told(server) == ["Twelve."]


# microsoft/agent-framework#7458: an answer is not consumed before the tool ran; nothing is lost or doubled at any cut
def test_no_decision_is_lost_or_doubled_at_any_cut(house, agent_token, expert_token, framework, tmp_path):
    made = {}

    server = OpenAIServer(pays_and_says)
    with answering(server):

        async def once(name: str, cuts: Cuts) -> None:
            paid, folder = made.setdefault(name, []), tmp_path / name
            async with cut_dashboard(house, agent_token, cuts) as dash:
                await framework(dash, server, folder, name, paid)

        def check(name: str) -> None:
            asks = asks_of(house, agent_token, name)
            assert [one["advice"]["decision"]["calls"][0]["verdict"] for one in asks] == ["approve"], name
            assert set(made[name]) == {"tea"} and asks[0]["consumed_at"], name

        with deciding(house, expert_token, approve):
            assert every_cut(once, check) >= 3


def pays_and_says(body):
    """A model that pays, and says once it has read the result: the same after any restart."""
    if any(one["role"] == "tool" for one in body["messages"]):
        return SAYS
    return {**PAYS, "tool_calls": [{**PAYS["tool_calls"][0], "id": "c1"}]}


def finished(thread, run_id, *interrupts):
    from ag_ui.core import Interrupt, RunFinishedEvent, RunFinishedInterruptOutcome, RunFinishedSuccessOutcome

    made = [Interrupt(**one) for one in interrupts]
    outcome = RunFinishedInterruptOutcome(interrupts=made) if made else RunFinishedSuccessOutcome()
    return RunFinishedEvent(thread_id=thread, run_id=run_id, outcome=outcome)


def test_ag_ui_run_resumes_with_the_desks_entries(house, agent_token, expert_token):
    from ag_ui.core import AssistantMessage, FunctionCall, RunAgentInput, ToolCall

    from awmclient.adapters.ag_ui import Pauses

    name = a_name("agui")
    call = ToolCall(id="c1", function=FunctionCall(name="pay", arguments='{"item": "tea"}'))
    messages = [AssistantMessage(id="m1", tool_calls=[call])]
    event = finished(name, "1", {"id": "i1", "reason": "tool_call", "tool_call_id": "c1", "message": "Pay for tea?"})

    async def work():
        async with HttpDashboard(house.url, agent_token) as dash:
            pauses = Pauses(dash, name)
            first = await pauses.resume(event, messages=messages)
            again = await Pauses(dash, name).resume(event, messages=messages)  # the client started again
            before = asks_of(house, agent_token, name)
            await pauses.ended(finished(name, "2"))
            return first, again, before

    with deciding(house, expert_token, edit) as seen:
        first, again, before = run(work())
    following = RunAgentInput(thread_id=name, run_id="2", messages=[], resume=first)
    assert following.resume[0].payload == {"approved": True, "editedArgs": {"item": "milk"}}
    assert first == again and len(seen) == 1 and before[0]["consumed_at"] is None
    assert asks_of(house, agent_token, name)[0]["consumed_at"]


# inngest/inngest#1433, #2423; triggerdotdev/trigger.dev#2295: an answer that comes at once, and one over a restart
def test_answer_over_a_killed_web_process_is_seen(house, agent_token, expert_token):
    from awmclient.adapters.ag_ui import Pauses

    name = a_name("agui")
    event = finished(name, "1", {"id": "i1", "reason": "confirmation", "message": "Go on?"})

    async def work():
        async with HttpDashboard(house.url, agent_token) as dash:
            waiting = asyncio.create_task(Pauses(dash, name).resume(event))
            while not asks_of(house, agent_token, name):
                await asyncio.sleep(0.05)
            await asyncio.to_thread(house.kill, "web")
            return await waiting

    def rule(ask):
        return {"decision": {"chosen": ["true"]}}

    with deciding(house, expert_token, rule):
        assert run(work())[0].payload is True


# TanStack/ai#1430: a pause of the first turn arrives as not resolvable. Here what cannot be asked is refused
def test_pause_of_a_first_turn_can_be_resolved(house, agent_token, expert_token):
    from awmclient.adapters.ag_ui import Pauses
    from awmclient.errors import Invalid

    name = a_name("agui")
    remote = {"type": "object", "properties": {"size": {"$ref": "https://example.org/size.json"}}}
    form = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    asked = {"id": "i1", "reason": "input_required", "message": "Which size?"}

    async def work():
        async with HttpDashboard(house.url, agent_token) as dash:
            with pytest.raises(Invalid, match="response_schema"):
                await Pauses(dash, name).resume(finished(name, "1", {**asked, "response_schema": remote}))
            assert asks_of(house, agent_token, name) == []
            return await Pauses(dash, name).resume(finished(name, "1", {**asked, "response_schema": form}))

    with deciding(house, expert_token, lambda ask: {"decision": {"value": {"size": 7}}}) as seen:
        [entry] = run(work())
    assert (entry.interrupt_id, entry.status, entry.payload) == ("i1", "resolved", {"size": 7}) and len(seen) == 1


# CopilotKit/CopilotKit#1809: after an approval the next chat message is taken as another answer
def test_chat_message_after_an_approval_is_no_answer(house, agent_token, expert_token, framework, tmp_path):
    asks = []

    def only_the_first(ask):
        asks.append(ask["id"])
        return approve(ask) if ask["id"] == asks[0] else reject(ask)

    # the model gives both calls the same ID
    with deciding(house, expert_token, only_the_first) as seen:
        made, _, name = lived(house, agent_token, framework, tmp_path, PAYS, SAYS)
        again, server, _ = lived(house, agent_token, framework, tmp_path, PAYS, SAYS, name=name)
        assert (made, again, len(seen)) == (["tea"], [], 2) and "Not today." in told(server)[0]
        _, server, _ = lived(house, agent_token, framework, tmp_path, SAYS, name=name)
    assert len(seen) == 2 and server.bodies[0]["messages"][-1] == {"role": "user", "content": TASK}


def test_chat_message_beside_an_interrupt_is_no_answer(house, agent_token, expert_token):
    from ag_ui.core import UserMessage

    from awmclient.adapters.ag_ui import Pauses

    name = a_name("agui")
    chat = [UserMessage(id="m1", content="Yes, and coffee, too.")]

    async def work():
        async with HttpDashboard(house.url, agent_token) as dash:
            pauses = Pauses(dash, name)
            await pauses.resume(finished(name, "1", {"id": "i1", "reason": "confirmation", "message": "Pay for tea?"}))
            await pauses.ended(finished(name, "2"))
            asked = {"id": "i1", "reason": "confirmation", "message": "Pay for coffee?"}
            return await pauses.resume(finished(name, "3", asked), messages=chat)

    def only_tea(ask):
        return {"decision": {"chosen": ["true" if "tea" in ask["question"] else "false"]}}

    with deciding(house, expert_token, only_tea) as seen:
        [entry] = run(work())
    assert entry.payload is False and [one["question"] for one in seen] == ["Pay for tea?", "Pay for coffee?"]
