"""The loop: what it offers, refuses, records and says at the end."""

import asyncio
import math
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import pytest

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.errors import SeqGap, Unreachable
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.schema import CONTROL_TOOLS, OfferedTools
from awmclient.testing import FakeEnv, FakeResult, MemoryDashboard, MemoryEpisode
from awmclient.words.encoding import encode
from awmclient.words.toolcalls import Call
from people.text.json_text import parse_json


class Watching:
    """Plays turns and keeps every view it was shown."""

    def __init__(self, *turns):
        self.turns, self.views = list(turns), []

    async def act(self, view):
        self.views.append(view)
        turn = self.turns.pop(0) if self.turns else Turn(answer="end")
        if isinstance(turn, BaseException):
            raise turn
        return turn


def calls(*names, **arguments):
    return Turn(calls=[Call(name, arguments) for name in names])


async def run(policy, env=None, dash=None, **options):
    env, dash = env or FakeEnv(), dash or MemoryDashboard()
    result = await rollout(policy, env, dash, **{"task": "Price the mug", **options})
    steps = dash.steps(result.episode) if result.episode else []
    return result, steps


async def test_every_step_is_recorded_in_order_with_its_signals():
    script = [
        {"say": "Let me see.", "call": {"name": "get_item", "arguments": {"item": "mug"}}},
        {"call": {"name": "set_price", "arguments": {"item": "mug", "price": 9}}},
        {"answer": "Done."},
    ]
    dash = MemoryDashboard()
    result, steps = await run(ScriptedPolicy(script), dash=dash, scenario="shop", task_idx=2)
    assert [(step["seq"], step["kind"]) for step in steps] == [
        (1, "message"),
        (2, "message"),
        (3, "message"),
        (4, "tool_call"),
        (5, "tool_call"),
        (6, "message"),
    ]
    assert [step.get("role") for step in steps[:3]] == ["system", "user", "assistant"]
    assert steps[3]["result"] == {"item": "mug", "price": 10.0} and steps[3]["turn"] == steps[2]["turn"] == 1
    assert steps[4]["reward_type"] == "tool_call_ok" and steps[4]["state_diff"]["items"]["changed"]
    entry = dash.book.entry(result.episode)
    assert (entry.state, entry.stop_reason, entry.final_answer) == ("finished", "done", "Done.")
    assert [tool.name for tool in entry.plan.tools] == ["list_items", "get_item", "set_price"]
    assert entry.plan.tools[1].input_schema["required"] == ["item"]


async def test_a_policy_never_sees_a_reward():
    policy = Watching(
        calls("set_price", item="mug", price=9), calls("set_price", item="mug", price="x"), Turn(answer="ok")
    )
    _, steps = await run(policy)
    assert {"reward", "reward_type", "state_diff"} <= set(steps[2])
    seen = {name for view in policy.views for step in view.steps for name in step}
    assert not seen & {"reward", "reward_type", "state_diff", "done"}


@pytest.mark.parametrize("name", sorted(CONTROL_TOOLS) + [" Verify", "ask_expert"])
async def test_control_tool_call_is_unknown_and_not_sent(name):
    env = FakeEnv()
    _, steps = await run(Watching(calls(name), calls("nowhere")), env)
    assert steps[2]["error"] == f"Unknown tool: {name}" and steps[2]["reward_type"] == "tool_not_found"
    assert steps[3]["error"] == "Unknown tool: nowhere"
    assert env.calls == ["reset", "nowhere"]


async def test_a_control_tool_that_an_environment_lists_is_not_offered():
    class Careless(FakeEnv):
        async def list_tools(self):
            tools = await super().list_tools()
            return [
                *tools,
                tools[0].model_copy(update={"name": "verify"}),
                tools[0].model_copy(update={"name": "ask_expert"}),
            ]

    policy = Watching()
    await run(policy, Careless())
    assert [tool.name for tool in policy.views[0].tools] == ["list_items", "get_item", "set_price"]


@pytest.mark.parametrize(("mode", "offered"), [("off", False), ("plain", True), ("informed", True)])
async def test_ask_expert_is_offered_where_the_episode_has_an_expert(mode, offered):
    policy, dash = Watching(), MemoryDashboard()
    result, _ = await run(policy, dash=dash, expert=mode)
    assert ("ask_expert" in [tool.name for tool in policy.views[0].tools]) is offered
    assert dash.book.entry(result.episode).plan.expert == mode


async def test_advice_is_the_observation_of_its_step():
    policy = Watching(calls("ask_expert", question="How much?", context="none found"))
    dash = MemoryDashboard(lambda question: f"Ten, to {question}")
    _, steps = await run(policy, dash=dash, expert="plain")
    assert policy.views[1].advice() == {"status": "advice", "advice": "Ten, to How much?"}
    assert (steps[2]["kind"], steps[2]["question"], steps[2]["context"], steps[2]["turn"]) == (
        "ask",
        "How much?",
        "none found",
        1,
    )
    assert next(iter(dash.book.asks.values())).consumed


async def test_no_advice_is_typed_and_holds_no_sentence():
    policy = Watching(calls("ask_expert", question="How much?"))
    await run(policy, expert="plain", ask_deadline_s=1)
    assert policy.views[1].advice() == {"status": "no_advice", "reason": "deadline"}


@pytest.mark.parametrize("arguments", [{}, {"question": ""}, {"question": 3}, {"question": "x" * 20_001}])
async def test_a_question_without_words_is_an_error_for_the_agent(arguments):
    dash = MemoryDashboard(lambda question: "never")
    _, steps = await run(Watching(calls("ask_expert", **arguments)), dash=dash, expert="plain")
    assert "question" in steps[2]["error"] and not dash.book.asks


async def test_questions_are_bounded_and_then_there_is_no_advice():
    dash = MemoryDashboard(lambda question: "Yes.")
    policy = Watching(*[calls("ask_expert", question="Again?")] * 4)
    result, steps = await run(policy, dash=dash, expert="plain", max_asks=2)
    assert (result.asks, len(dash.book.asks)) == (2, 2)
    assert steps[4]["result"] == {"status": "no_advice", "reason": "no questions left"}


async def test_ask_only_turn_costs_no_step_or_time(monkeypatch):
    loop, late_s = asyncio.get_running_loop(), 0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + late_s)

    async def slow(question):
        nonlocal late_s
        late_s = 40
        return "Go on."

    policy = Watching(calls("ask_expert", question="a?"), calls("list_items"), Turn(answer="end"))
    result, _ = await run(policy, dash=MemoryDashboard(slow), expert="plain", max_steps=2, timeout_s=30)
    assert (result.stop_reason, result.turns) == ("done", 3)


async def test_the_loop_stops_after_its_steps():
    result, steps = await run(Watching(*[calls("list_items")] * 9), max_steps=3)
    assert (result.stop_reason, len(steps)) == ("max_steps", 2 + 3)


async def test_a_policy_that_takes_too_long_ends_by_timeout():
    class Slow:
        async def act(self, view):
            await asyncio.sleep(30)

    result, _ = await run(Slow(), timeout_s=0.2)
    assert (result.stop_reason, result.fault) == ("timeout", None)


async def test_three_unreadable_replies_in_a_row_end_the_episode():
    policy = Watching(*[Turn(content="<tool_call>{", malformed="The tool call is not valid JSON.")] * 5)
    result, steps = await run(policy)
    assert result.stop_reason == "gave_up"
    assert [step["kind"] for step in steps[2:]] == ["message", "nudge"] * 3


async def test_a_turn_that_does_nothing_is_told():
    result, steps = await run(
        Watching(
            Turn(),
            Turn(answer="Now."),
        )
    )
    assert steps[2]["kind"] == "nudge" and result.stop_reason == "done"


async def test_a_nudge_is_kept_apart_from_the_result_it_follows():
    policy = Watching(calls("get_item", item="cup"), calls("get_item", item="cup"))
    _, steps = await run(policy, expert="plain", nudge_after=2)
    assert [step["kind"] for step in steps[2:5]] == ["tool_call", "tool_call", "nudge"]
    assert steps[3]["error"] == "No item 'cup'"


async def test_two_errors_add_a_reminder_if_an_expert_is_offered():
    wrong = [calls("get_item", item="cup")] * 4
    for expert, kinds in (("plain", ["tool_call", "tool_call", "nudge"]), ("off", ["tool_call"] * 3)):
        _, steps = await run(Watching(*wrong), expert=expert)
        assert [step["kind"] for step in steps[2:5]] == kinds
    _, steps = await run(Watching(*wrong), expert="plain", max_asks=0)
    assert "nudge" not in {step["kind"] for step in steps}, "nobody is left to be asked"


async def test_five_turns_without_progress_add_a_reminder():
    same = [calls("list_items")] * 6
    _, steps = await run(Watching(*same), expert="plain")
    assert [step["kind"] for step in steps[2:9]] == [*["tool_call"] * 6, "nudge"]
    assert "nothing new" in steps[8]["content"] and "result" not in steps[8]
    _, steps = await run(Watching(*same), expert="plain", stall_after=0)
    assert "nudge" not in {step["kind"] for step in steps}
    other = [calls("get_item", item=name) for name in ("mug", "pen")] * 3
    _, steps = await run(Watching(*other[:2], *same[:4]), expert="plain")
    assert "nudge" not in {step["kind"] for step in steps}, "the first of each call brought news"


async def test_parallel_calls_share_their_turn():
    turn = Turn(content="Both.", calls=[Call("list_items", {}, "a"), Call("get_item", {"item": "pen"}, "b")])
    _, steps = await run(Watching(turn))
    assert [(step["turn"], step.get("call_id")) for step in steps[2:5]] == [(1, None), (1, "a"), (1, "b")]


async def test_a_call_id_that_no_record_can_hold_is_left_out():
    _, steps = await run(Watching(Turn(calls=[Call("list_items", {}, "x" * 500), Call("list_items", {}, "nul\x00")])))
    assert "call_id" not in steps[2] and "call_id" not in steps[3]


async def test_finish_is_stored_before_verify_and_done_is_last():
    env, dash, order = FakeEnv(), MemoryDashboard(), []

    async def verify(environment, final_answer):
        entry = next(iter(dash.book.episodes.values()))
        order.append((entry.state, environment is env, environment.is_done, final_answer))

    await run(Watching(Turn(answer="42")), env, dash, on_end=verify)
    assert order == [("finished", True, False, "42")] and env.is_done


async def test_a_verifier_call_that_breaks_leaves_the_finish_as_it_is():
    async def verify(environment, final_answer):
        raise ConnectionError("no verifier")

    env, dash = FakeEnv(), MemoryDashboard()
    result, _ = await run(Watching(Turn(answer="42")), env, dash, on_end=verify)
    entry = dash.book.entry(result.episode)
    assert (result.stop_reason, result.fault, result.detail) == (
        "done",
        "worker",
        "on_end: ConnectionError: no verifier",
    )
    assert (entry.state, entry.fault, env.is_done) == ("finished", None, True)


class Broken(FakeEnv):
    def __init__(self, where):
        super().__init__()
        self.where = where

    async def reset(self, **arguments):
        if self.where == "reset":
            raise ConnectionError("no server")
        return FakeResult(error="no such scenario" if self.where == "reset_error" else None)

    async def call_tool(self, name, arguments):
        raise ConnectionError("lost")


@pytest.mark.parametrize(
    ("where", "words"), [("reset", "no server"), ("reset_error", "no such scenario"), ("call", "ConnectionError: lost")]
)
async def test_a_broken_environment_is_a_fault_and_nobody_verifies(where, words):
    async def verify(environment, final_answer):
        raise AssertionError("asked to verify")

    dash = MemoryDashboard()
    result, _ = await run(Watching(calls("list_items")), Broken(where), dash, on_end=verify)
    entry = dash.book.entry(result.episode)
    assert (result.fault, entry.fault, entry.state) == ("environment", "environment", "failed")
    assert words in result.detail and result.stop_reason is None


async def test_a_broken_policy_is_a_fault_of_the_policy():
    dash = MemoryDashboard()
    result, _ = await run(Watching(ValueError("no idea")), dash=dash)
    assert (result.fault, result.detail) == ("policy", "ValueError: no idea")
    assert dash.book.entry(result.episode).detail == "ValueError: no idea"


async def test_dead_dashboard_is_a_fault_and_closes_the_environment():
    class Dead(MemoryDashboard):
        async def start_episode(self, task, **fields):
            raise Unreachable("nobody there")

    env = FakeEnv()
    result, _ = await run(Watching(), env, Dead())
    assert (result.fault, result.episode, env.is_done) == ("dashboard", None, True)


async def test_a_refusal_of_the_dashboard_is_recorded_as_its_fault(monkeypatch):
    async def refuse(self, steps):
        raise SeqGap

    monkeypatch.setattr(MemoryEpisode, "append", refuse)
    dash = MemoryDashboard()
    result, _ = await run(Watching(), dash=dash)
    assert (result.fault, dash.book.entry(result.episode).fault) == ("dashboard", "dashboard")


async def test_a_person_who_stops_the_episode_stops_the_loop_quietly():
    dash = MemoryDashboard()

    class Stopped(Watching):
        async def act(self, view):
            dash.book.stop(next(iter(dash.book.episodes)))
            return calls("list_items")

    env = FakeEnv()
    result, _ = await run(Stopped(), env, dash)
    assert (result.stopped, result.fault, result.stop_reason, env.is_done) == (True, None, None, True)


async def test_signs_of_life_go_out_while_the_policy_thinks():
    dash = MemoryDashboard()

    class Thinking:
        async def act(self, view):
            entry = next(iter(dash.book.episodes.values()))
            while entry.heartbeats < 2:
                await asyncio.sleep(0.01)
            return Turn(answer="thought")

    result, _ = await run(Thinking(), dash=dash, heartbeat_s=0.02)
    assert result.stop_reason == "done"


class Strange(FakeEnv):
    async def call_tool(self, name, arguments):
        odd = {"nan": math.nan, "set": {1}, 3: (1, 2)}
        return FakeResult({"huge": "x" * 9_000_000} if name == "huge" else odd, reward=None, reward_type="two\nlines")


async def test_non_json_results_become_text():
    _, steps = await run(Watching(calls("odd")), Strange())
    assert steps[2]["result"] == {"nan": "nan", "set": "{1}", "3": [1, 2]}
    assert "reward" not in steps[2] and "reward_type" not in steps[2]


async def test_a_huge_result_is_cut_for_record_and_agent_alike():
    policy = Watching(calls("huge"))
    _, steps = await run(policy, Strange())
    assert len(steps[2]["result"]) < 110_000 and "[cut: " in steps[2]["result"]
    assert policy.views[1].steps[-1]["result"] == steps[2]["result"]


class Counter:
    """An OpenEnv environment without tools."""

    def __init__(self):
        self.total = 0

    async def reset(self, **arguments):
        return type("Result", (), {"observation": {"total": 0}, "reward": None, "done": False})()

    async def step(self, action):
        self.total += action["add"]
        return type("Result", (), {"observation": {"total": self.total}, "reward": 0.5, "done": self.total >= 3})()


class Rating(FakeEnv):
    """An environment with tools that gives its calls this reward."""

    def __init__(self, reward):
        super().__init__()
        self.reward = reward

    async def call_tool(self, name, arguments):
        return FakeResult({"ok": True}, reward=self.reward)


class RatingActions(Counter):
    def __init__(self, reward):
        super().__init__()
        self.reward = reward

    async def step(self, action):
        return type("Result", (), {"observation": {}, "reward": self.reward, "done": True})()


@pytest.mark.parametrize("reward", [math.nan, math.inf, "0.5", [1], 10**400], ids=lambda one: type(one).__name__)
async def test_reward_that_is_no_number_ends_the_episode(reward):
    for script, environment, place in (
        (Watching(calls("get_item")), Rating(reward), "turn 1, get_item: "),
        (ScriptedPolicy([{"act": {"add": 1}}]), RatingActions(reward), "turn 1: "),
    ):
        result, steps = await run(script, environment, environment_name="rating")
        said = f"{place}reward: {repr(reward)[:80]} is no finite number."
        assert (result.fault, result.detail) == ("environment", said)
        assert not any(step["kind"] in ("tool_call", "action") for step in steps)


@pytest.mark.parametrize("reward", [0, -1.5, True, Fraction(1, 2), Decimal("0.25")])
async def test_number_of_any_library_is_recorded_as_reward(reward):
    _, steps = await run(Watching(calls("get_item")), Rating(reward))
    assert next(step["reward"] for step in steps if step["kind"] == "tool_call") == float(reward)


async def test_an_environment_without_tools_is_recorded_as_actions():
    script = [{"act": {"add": 1}}, {"say": "More.", "act": {"add": 2}}, {"act": {"add": 9}}]
    dash = MemoryDashboard()
    result, steps = await run(ScriptedPolicy(script), Counter(), dash, environment_name="counter")
    actions = [step for step in steps if step["kind"] == "action"]
    assert [step["observation"] for step in actions] == [{"total": 1}, {"total": 3}]
    assert [step.get("done") for step in actions] == [None, True] and actions[0]["reward"] == 0.5
    assert '{"total": 0}' in steps[1]["content"]
    assert (result.stop_reason, dash.book.entry(result.episode).plan.environment) == ("done", "counter")


async def test_rollouts_side_by_side_do_not_mix():
    dash = MemoryDashboard(lambda question: question)

    async def one(number):
        policy = ScriptedPolicy([{"ask": {"question": f"{number}?"}, "advised": [{"answer": str(number)}]}])
        return await rollout(policy, FakeEnv(), dash, task=f"task {number}", expert="plain")

    results = await asyncio.gather(*[one(number) for number in range(20)])
    assert [result.final_answer for result in results] == [str(number) for number in range(20)]
    assert all(dash.steps(result.episode)[2]["question"] == f"{n}?" for n, result in enumerate(results))


class Breaking(FakeEnv):
    """A world that tells its control side what broke inside a tool."""

    async def call_tool(self, name, arguments):
        detail = "Traceback\n  line 7, in get_item\nKeyError: 'inner-secret'"
        return SimpleNamespace(
            tool_result=None, error="Error calling get_item. Status code: 500.", reward=0.0, reward_type="server_error",
            done=False, state_diff=None, metadata={"detail": detail, "status": 500},
        )  # fmt: skip


async def test_traceback_is_recorded_but_hidden_from_the_agent():
    policy = Watching(calls("get_item", item="mug"), Turn(answer="It broke."))
    result, steps = await run(policy, Breaking())
    (broken,) = [step for step in steps if step["kind"] == "tool_call"]
    assert "inner-secret" in broken["meta"]["traceback"] and "inner-secret" not in broken["error"]
    assert result.stop_reason == "done" and len(policy.views) == 2
    assert "inner-secret" not in repr(policy.views)


class Answering(FakeEnv):
    """Has one value as the result of every call."""

    async def call_tool(self, name, arguments):
        return FakeResult({"value": arguments["item"]})


def nested(levels):
    return 1 if levels == 0 else [nested(levels - 1)]


@pytest.mark.parametrize(
    "value", [10**400, 10**5000, -(10**400), nested(150), math.inf], ids=["long", "longer", "negative", "deep", "inf"]
)
async def test_what_the_dashboard_would_refuse_is_recorded_as_words(value):
    result, steps = await run(Watching(calls("get_item", item=value), Turn(answer="done")), Answering())
    assert result.stop_reason == "done", result.detail
    (call,) = [step for step in steps if step["kind"] == "tool_call"]
    for said in (call["arguments"]["item"], call["result"]["value"]):
        assert "cut: " in str(said) or said == "inf"
    assert parse_json(encode({"steps": [call]}))["steps"] == [call]


async def test_withheld_tool_is_not_shown_and_unknown_if_called():
    policy, dash = Watching(calls("set_price", item="mug", price=9), Turn(answer="end")), MemoryDashboard()
    env = FakeEnv()
    result, steps = await run(policy, env, dash, tools=OfferedTools(per_task=1, own=["get_item"], draw="1"))
    assert [tool.name for tool in policy.views[0].tools] == ["get_item"]
    assert [tool.name for tool in dash.book.entry(result.episode).plan.tools] == ["get_item"]
    refused = next(step for step in steps if step["kind"] == "tool_call")
    assert refused["reward_type"] == "tool_not_found" and "set_price" in refused["error"]


def test_others_are_drawn_and_own_tools_are_always_offered():
    listed = [f"tool_{number}" for number in range(20)]
    offer = OfferedTools(per_task=5, own=["tool_7", "tool_3", "not_listed"], draw="a")
    names = offer.names(listed)
    assert len(names) == 5 and {"tool_3", "tool_7"} < set(names) and names == sorted(names, key=listed.index)
    assert names == offer.names(listed) != OfferedTools(per_task=5, own=offer.own, draw="b").names(listed)
    assert set(names) >= set(offer.names([*listed, "late"])) - {"late"}
    assert OfferedTools(per_task=0, own=["tool_3"]).names(listed) == ["tool_3"]
    assert OfferedTools.of(["tool_1"]) is None and OfferedTools.of(None) is None
