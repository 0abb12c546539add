"""What every `Dashboard` owes a loop. One suite, run over the memory one, the HTTP one and the in-process one.

Subclass `DashboardContract` in a test module whose `world` fixture yields a `World`.
"""

import asyncio
from typing import Any, Protocol

import pytest

from awmclient.errors import EpisodeEnded, ExpertOff, Refused, SeqGap, StepConflict
from awmclient.loop.ports import Dashboard

NOTE = {"kind": "note", "content": "looked around"}
CALL = {
    "kind": "tool_call",
    "name": "get_item",
    "arguments": {"item": "mug"},
    "result": {"price": 10},
    "reward_type": "tool_call_ok",
    "turn": 1,
}


class World(Protocol):
    """A dashboard under test, and the people behind it."""

    dash: Dashboard

    async def steps(self, episode: str) -> list[dict[str, Any]]:
        """The recorded steps, without the verifier's."""

    async def answer(self, episode: str, text: str, tool_calls: list[dict[str, Any]] | None = None) -> None:
        """A person answers the open ask of the episode, waiting for one to be there."""

    async def stop(self, episode: str) -> None:
        """A person stops the episode."""

    async def ended(self, episode: str) -> tuple[str, str | None]:
        """State and stop reason."""


class DashboardContract:
    async def test_steps_are_numbered_from_one_and_come_back_in_order(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        assert episode.last_seq == 0
        assert await episode.append(NOTE) == 1
        assert await episode.append([CALL, NOTE]) == 3
        assert episode.last_seq == 3
        steps = await world.steps(episode.id)
        assert [(step["seq"], step["kind"]) for step in steps] == [(1, "note"), (2, "tool_call"), (3, "note")]
        assert steps[1]["result"] == {"price": 10} and steps[1]["turn"] == 1

    async def test_the_same_step_again_is_a_quiet_yes(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        step = {**NOTE, "seq": 1}
        assert await episode.append(step) == 1
        assert await episode.append(step) == 1
        assert len(await world.steps(episode.id)) == 1

    async def test_no_step_is_a_quiet_yes_that_says_what_stands(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        assert await episode.append([]) == 0
        await episode.append(NOTE)
        assert await episode.append([]) == 1 and len(await world.steps(episode.id)) == 1

    async def test_another_step_at_the_same_number_is_a_conflict(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        await episode.append({**NOTE, "seq": 1})
        with pytest.raises(StepConflict) as caught:
            await episode.append({**NOTE, "seq": 1, "content": "something else"})
        assert caught.value.code == "step_conflict"

    async def test_a_gap_is_refused_and_the_episode_goes_on(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        await episode.append(NOTE)
        with pytest.raises(SeqGap):
            await episode.append({**NOTE, "seq": 3})
        assert await episode.append(NOTE) == 2

    async def test_a_loop_cannot_write_the_steps_of_the_dashboard(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        for kind in ({"kind": "verification", "reward_type": "complete"}, {"kind": "ask", "question": "?"}):
            with pytest.raises(Refused):
                await episode.append(kind)
        assert await world.steps(episode.id) == []

    async def test_briefing_is_taken_once_and_before_an_action(self, world):
        briefing = {"kind": "briefing", "text": "Mugs are 9.", "author": "Mina", "sources": ["e1"]}
        briefed = await world.dash.start_episode("Price the mug")
        assert await briefed.append([NOTE, {**briefing, "seq": 2}]) == 2
        assert await briefed.append({**briefing, "seq": 2}) == 2
        for late in (briefing, [NOTE, briefing]):
            with pytest.raises(Refused) as caught:
                await briefed.append(late)
            assert caught.value.code == "briefing_late"
        assert [step["kind"] for step in await world.steps(briefed.id)] == ["note", "briefing"]
        acted = await world.dash.start_episode("Price the mug")
        with pytest.raises(Refused):
            await acted.append([CALL, briefing])
        await acted.append(CALL)
        with pytest.raises(Refused):
            await acted.append(briefing)
        for wrong in ({"text": " "}, {"text": "x" * 20_001}, {"sources": ["e"] * 101}, {"privilege": "all"}):
            with pytest.raises(Refused):
                await (await world.dash.start_episode("Price the mug")).append({**briefing, **wrong})

    async def test_nothing_is_taken_after_the_end(self, world):
        episode = await world.dash.start_episode("Look at the mug", expert="plain")
        await episode.append(NOTE)
        await episode.finish("done", final_answer="seen")
        await episode.finish("done", final_answer="seen")
        with pytest.raises(EpisodeEnded):
            await episode.append(CALL)
        with pytest.raises(EpisodeEnded):
            await episode.ask("Still there?", deadline_s=1)
        assert await world.ended(episode.id) == ("finished", "done")

    async def test_a_stopped_episode_says_so_at_the_next_word(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        await episode.append(NOTE)
        await world.stop(episode.id)
        with pytest.raises(EpisodeEnded):
            await episode.append(CALL)
        assert (await world.ended(episode.id))[0] == "cancelled"

    async def test_a_broken_boundary_fails_the_episode(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        await episode.fail("environment", "the server is gone")
        assert await world.ended(episode.id) == ("failed", "error")

    async def test_an_answer_reaches_the_asker_and_its_step(self, world):
        episode = await world.dash.start_episode("Discount the mug", expert="plain")
        await episode.append(NOTE)
        call = {"name": "set_price", "arguments": {"item": "mug", "price": 9}}
        asking = asyncio.ensure_future(episode.ask("How much?", context="no rule found", deadline_s=20))
        await world.answer(episode.id, "Ten percent.", [call])
        advice = await asking
        assert (advice.text, advice.source, advice.local) == ("Ten percent.", "human", False)
        assert [found.model_dump() for found in advice.tool_calls or []] == [call]
        assert await episode.append(NOTE) == 3
        asked = (await world.steps(episode.id))[1]
        assert (asked["kind"], asked["seq"], asked["question"]) == ("ask", 2, "How much?")
        assert asked["advice"]["text"] == "Ten percent." and asked["advice"]["source"] == "human"

    async def test_nobody_answers_and_the_agent_gets_no_advice(self, world):
        episode = await world.dash.start_episode("Discount the mug", expert="plain")
        start = asyncio.get_running_loop().time()
        advice = await episode.ask("How much?", deadline_s=1)
        assert 0.9 <= asyncio.get_running_loop().time() - start <= 20
        assert advice.is_fallback and not advice.text
        assert advice.observation()["status"] == "no_advice"
        assert await episode.append(NOTE) == 2

    async def test_an_episode_without_an_expert_refuses_the_question(self, world):
        episode = await world.dash.start_episode("Discount the mug")
        with pytest.raises(ExpertOff):
            await episode.ask("How much?", deadline_s=5)
        assert await episode.append(NOTE) == 1

    async def test_stopping_the_episode_ends_the_wait(self, world):
        episode = await world.dash.start_episode("Discount the mug", expert="plain")
        await episode.append(NOTE)
        asking = asyncio.ensure_future(episode.ask("How much?", deadline_s=600))
        while len(await world.steps(episode.id)) < 2:
            await asyncio.sleep(0.02)
        await world.stop(episode.id)
        advice = await asyncio.wait_for(asking, 90)
        assert advice.is_fallback
        with pytest.raises(EpisodeEnded):
            await episode.append(NOTE)

    async def test_odd_characters_in_steps_come_back_unchanged(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        content = "nul \x00, half a pair \ud83d, <b>markup</b> &amp; ünïcode \u2028"
        await episode.append({"kind": "message", "role": "assistant", "content": content})
        assert (await world.steps(episode.id))[0]["content"] == content

    async def test_a_sign_of_life_is_taken(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        await episode.heartbeat()
        assert await episode.append(NOTE) == 1
