"""A loop that died goes on from its record: nothing is decided twice, nothing takes effect twice, nothing is shown
otherwise than before."""

import asyncio

import pytest

from awmclient.asking.gates import reached_world
from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.restoring import restore
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.record.progress import LoopProgress, active_s
from awmclient.schema import Advice, OfferedTools
from awmclient.testing import FakeEnv, MemoryDashboard, MemoryEpisode
from awmclient.words.toolcalls import Call

TURNS = [
    Turn(content="Let me look.", calls=[Call("list_items", {}, "a"), Call("get_item", {"item": "mug"}, "b")]),
    Turn(malformed="That is no call."),
    Turn(calls=[Call("get_item", {"item": "cup"}), Call("get_item", {"item": "jug"})], usage={"total_tokens": 7}),
    Turn(calls=[Call("ask_expert", {"question": "Which discount?"})]),
    Turn(calls=[Call("set_price", {"item": "mug", "price": 9})]),
    *[Turn(calls=[Call("list_items", {})])] * 6,
    Turn(content="So.", answer="The mug costs 9."),
]
SCRIPT = [
    {"say": "Let me see.", "call": {"name": "get_item", "arguments": {"item": "mug"}}},
    {"ask": {"question": "Which discount?"}, "listen": {"rate": r"(\d+)"}, "advised": [
        {"call": {"name": "set_price", "arguments": {"item": "mug", "price": "{{rate}}"}}}
    ]},
    {"call": {"name": "list_items", "arguments": {}}},
    {"answer": "Done."},
]  # fmt: skip


BRIEFING = {"text": "Mugs are cheap.", "author": "Mina", "privilege": "sees_verifier", "sources": ["e1"]}


class FromView:
    """Chooses from what it is shown alone, and keeps what that was."""

    def __init__(self):
        self.shown = []

    async def act(self, view):
        self.shown.append(told(view))
        return TURNS[view.turn - 1]


class Watched(ScriptedPolicy):
    def __init__(self, script):
        super().__init__(script)
        self.shown = []

    async def act(self, view):
        self.shown.append(told(view))
        return await super().act(view)


def told(view):
    return (view.turn, view.turns_left, [dict(step) for step in view.steps])


def advised(question):
    """Say the discount, and approve a call that waits at a gate."""
    if not question.startswith("May the agent"):
        return "Use 9."
    calls = [{"id": "1", "verdict": "approve"}]
    return Advice.model_validate({"text": "", "source": "human", "by": "person", "decision": {"calls": calls}})


class Killed(BaseException):
    """The process ends here."""


class Mortal(MemoryDashboard):
    """Kills its caller at one of its writes, before or after it is stored."""

    def __init__(self, at=None, stored=True):
        super().__init__(expert=advised)
        self.at, self.stored, self.writes = at, stored, 0

    async def start_episode(self, task, **fields):
        episode = await super().start_episode(task, **fields)
        return MortalEpisode(self, episode)


class MortalEpisode(MemoryEpisode):
    def __init__(self, dash, episode):
        super().__init__(dash.book, episode.id, episode._expert)
        self._dash = dash

    async def append(self, steps):
        return await self._write(super().append, steps)

    async def ask(self, question, **fields):
        return await self._write(super().ask, question, **fields)

    async def finish(self, *args, **fields):
        return await self._write(super().finish, *args, **fields)

    async def _write(self, write, *args, **fields):
        self._dash.writes += 1
        dies = self._dash.writes == self._dash.at
        if dies and not self._dash.stored:
            raise Killed
        done = await write(*args, **fields)
        if dies:
            raise Killed
        return done


async def play(dash, make_policy, approve=()):
    """Run until it is through, again after each death; returns the worlds and what the policies were shown."""
    worlds, shown = [], []
    while True:
        policy, world = make_policy(), FakeEnv()
        worlds.append(world)
        try:
            told = {"task": "Price the mug", "expert": "plain", "key": "one", "briefing": BRIEFING, "approve": approve}
            result = await rollout(policy, world, dash, **told)
        except Killed:
            shown += policy.shown
            continue
        return result, worlds, shown + policy.shown


def recorded(dash):
    (entry,) = dash.book.episodes.values()
    steps = [{name: value for name, value in step.items() if name not in ("ask", "at")} for step in entry.steps]
    return steps, entry.state, entry.stop_reason, entry.final_answer


POLICIES = {"from the view": FromView, "a script": lambda: Watched(SCRIPT)}


@pytest.mark.parametrize("stored", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("approve", [(), ("set_*",)], ids=["free", "gated"])
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_death_at_any_write_changes_nothing(policy, approve, stored):
    calm = Mortal()
    _, (world,), shown = await play(calm, POLICIES[policy], approve)
    assert world.prices["mug"] == 9, "the gated call is the one that writes"
    assert recorded(calm)[1:3] == ("finished", "done")
    for at in range(1, calm.writes):
        dash = Mortal(at, stored)
        result, worlds, seen = await play(dash, POLICIES[policy], approve)
        assert len(worlds) == 2, at
        assert recorded(dash) == recorded(calm), at
        assert worlds[-1].prices == world.prices and result.stop_reason == "done", at
        again = seen[: len(seen) - len(shown)]
        assert all(one in shown for one in again) and [one for one in shown if one not in seen] == [], at


async def test_what_is_known_follows_from_the_record_at_every_step():
    dash = Mortal()
    _, _, shown = await play(dash, FromView)
    steps = recorded(dash)[0]
    at_turn = {}
    for place, step in enumerate(steps):
        at_turn.setdefault(step.get("turn", 0), LoopProgress.after(steps[:place]))
    for turn, left, _ in shown:
        progress = at_turn[turn]
        assert (progress.turn, 30 - progress.spent, progress.pending) == (turn - 1, left, [])
    whole = LoopProgress.after(steps)
    assert (whole.turn, whole.spent, whole.asks, whole.end) == (12, 10, 1, ("done", "The mug costs 9."))
    kinds = [(step["kind"], step.get("turn")) for step in steps if step["kind"] == "nudge"]
    assert kinds == [("nudge", 2), ("nudge", 3), ("nudge", 11)], "unreadable, two errors in a row, nothing new"


async def test_a_world_that_answers_otherwise_is_not_gone_on_with():
    dash = Mortal(at=5)
    with pytest.raises(Killed):
        await rollout(FromView(), FakeEnv(), dash, task="Price the mug", expert="plain", key="one")
    other = FakeEnv(prices={"mug": 11.0, "pen": 2.0})
    result = await rollout(FromView(), other, dash, task="Price the mug", expert="plain", key="one")
    assert (result.fault, result.detail) == (
        "environment",
        "The world cannot be restored: step 4 brings something else now.",
    )
    assert recorded(dash)[1] == "failed"


ABOUT = {"task": "Price the mug", "expert": "plain", "key": "one", "briefing": BRIEFING}


class Slow(FakeEnv):
    """Makes no call before the policy has chosen."""

    def __init__(self, chosen, **about):
        super().__init__(**about)
        self.chosen = chosen

    async def call_tool(self, *call):
        async with asyncio.timeout(5):
            await self.chosen.wait()
        return await super().call_tool(*call)


class Choosing(FromView):
    """Says when it has chosen, and can fail then."""

    def __init__(self, fails=False):
        super().__init__()
        self.chosen, self.fails = asyncio.Event(), fails

    async def act(self, view):
        self.chosen.set()
        if self.fails:
            raise ValueError("no choice")
        return await super().act(view)


async def killed(at):
    dash = Mortal(at=at)
    with pytest.raises(Killed):
        await rollout(FromView(), FakeEnv(), dash, **ABOUT)
    return dash


async def test_the_policy_chooses_while_the_world_is_restored():
    calm = Mortal()
    await play(calm, FromView)
    # killed between two turns: a turn that was begun is completed first, in the restored world
    dash, policy = await killed(5), Choosing()
    before = recorded(dash)[0]
    result = await rollout(policy, Slow(policy.chosen), dash, **ABOUT)
    assert policy.shown and before[-1].get("turn", 0) < policy.shown[0][0]
    assert (result.stop_reason, recorded(dash)) == ("done", recorded(calm))


@pytest.mark.parametrize("fails", [False, True], ids=["chosen", "failed"])
async def test_no_choice_is_recorded_in_another_world(fails):
    dash, policy = await killed(5), Choosing(fails)
    before, prices = recorded(dash)[0], {"mug": 11.0, "pen": 2.0}
    world = Slow(policy.chosen, prices=prices)
    result = await rollout(policy, world, dash, **ABOUT)
    assert policy.chosen.is_set() and result.fault == "environment"
    assert "cannot be restored" in result.detail and recorded(dash)[0] == before


async def test_a_cancelled_loop_leaves_no_replay_behind():
    dash, policy = await killed(5), Choosing()
    chosen = asyncio.Event()
    world = Slow(chosen)
    playing = asyncio.create_task(rollout(policy, world, dash, **ABOUT))
    await policy.chosen.wait()
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def test_the_clock_leaves_out_the_wait_for_advice():
    at = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:03Z", "2026-01-01T09:00:03Z", "2026-01-01T09:00:04.500000Z"]
    kinds = ["message", "ask", "message", "tool_call"]
    steps = [{"kind": kind, "at": moment} for kind, moment in zip(kinds, at, strict=True)]
    assert active_s(steps) == 4.5


async def test_a_tool_that_is_not_offered_is_not_called_again():
    # a fork, a certificate and a repaired verifier choose what they call again by the same rule
    dash, env, again = MemoryDashboard(), FakeEnv(), FakeEnv()
    script = [{"call": {"name": "set_price", "arguments": {"item": "mug", "price": 9}}}, {"answer": "end"}]
    offered = OfferedTools(per_task=1, own=["get_item"], draw="1")
    result = await rollout(ScriptedPolicy(script), env, dash, task="Price the mug", tools=offered)
    steps = dash.steps(result.episode)
    (call,) = [step for step in steps if step["kind"] == "tool_call"]
    assert not reached_world(call) and await restore(again, steps) == 0
    assert again.calls == [] and "set_price" not in env.calls
