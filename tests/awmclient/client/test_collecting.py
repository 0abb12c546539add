"""Episodes that are recorded once they have ended."""

import asyncio
import gc

import pytest

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.client import HttpDashboard, HttpEpisode
from awmclient.client.collecting import CollectingDashboard
from awmclient.errors import EpisodeEnded, ExpertOff, Refused, SeqGap, StepConflict, Unreachable
from awmclient.loop.rollout import rollout
from awmclient.schema import MAX_BATCH_BYTES, Advice
from awmclient.testing import FakeEnv
from tests.awmclient.contract import CALL, NOTE
from tests.awmclient.http_dashboard import TOKEN, FakeHttpDashboard

LATER = 3600
"""Seconds that no test waits: what is sent is sent for another reason."""


@pytest.fixture
async def server():
    server = FakeHttpDashboard()
    await server.start()
    yield server
    await server.kill()


@pytest.fixture
async def http(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=0) as http:
        yield http


async def ended(dash, *, task="look", **fields):
    episode = await dash.start_episode(task, **fields)
    await episode.append([NOTE, CALL])
    return episode


async def test_episodes_that_end_together_are_one_request(server, http):
    dash = CollectingDashboard(http, wait_s=LATER)
    episodes = [await ended(dash, key=f"e{at}") for at in range(5)]
    assert server.requests == []
    await asyncio.gather(*(one.finish("done", final_answer="seen") for one in episodes))
    assert server.requests == [("POST", "/episodes/whole")] and server.batches == [5]
    entries = [server.book.entry(one.id) for one in episodes]
    assert [(entry.state, len(entry.steps), entry.plan.key) for entry in entries] == [
        ("finished", 2, f"e{at}") for at in range(5)
    ]
    assert episodes[0].url.endswith(episodes[0].id)


async def test_full_batch_leaves_while_others_are_at_work(server, http):
    dash = CollectingDashboard(http, batch=2, wait_s=LATER)
    first, second, third = [await ended(dash) for _ in range(3)]
    await asyncio.gather(first.finish("done"), second.finish("done"))
    assert server.batches == [2]
    await third.finish("done")
    assert server.batches == [2, 1]


async def test_ended_episode_waits_at_most_its_time(server, http):
    dash = CollectingDashboard(http, wait_s=0.01)
    at_work, done = await ended(dash), await ended(dash)
    await done.finish("done")
    assert server.batches == [1] and not at_work.id


async def test_question_makes_the_episode_live(server, http):
    dash = CollectingDashboard(http, wait_s=LATER)
    episode = await ended(dash, expert="plain")
    asking = asyncio.create_task(episode.ask("which?", deadline_s=20))
    while not server.book.asks:
        await asyncio.sleep(0.01)
    (ask,) = server.book.asks.values()
    server.book.close(ask, "answered", Advice(text="the first", source="human"))
    assert (await asking).text == "the first"
    assert await episode.append(NOTE) == 4
    await episode.finish("done")
    assert server.batches == [] and server.book.entry(episode.id).state == "finished"


async def test_live_episode_holds_up_no_one_else(server, http):
    dash = CollectingDashboard(http, wait_s=LATER)
    asks, done = await ended(dash, expert="plain"), await ended(dash)
    finishing = asyncio.create_task(done.finish("done"))
    await asks.ask("which?", deadline_s=1)
    await finishing
    assert server.batches == [1]


async def test_episode_of_a_cancelled_loop_holds_up_no_one(server, http):
    dash = CollectingDashboard(http, wait_s=LATER)
    abandoned, done = await ended(dash), await ended(dash)
    del abandoned
    gc.collect()
    await done.finish("done")
    assert server.batches == [1]


async def test_question_without_an_expert_stays_collected(server, http):
    episode = await ended(CollectingDashboard(http))
    with pytest.raises(ExpertOff):
        await episode.ask("which?")
    assert server.requests == []


async def test_large_episode_goes_live(server, http):
    dash = CollectingDashboard(http, wait_s=LATER)
    episode = await ended(dash)
    await episode.append({**NOTE, "content": "x" * MAX_BATCH_BYTES})
    assert len(server.book.entry(episode.id).steps) == 3


async def test_drawn_share_is_live_from_its_start(server, http):
    dash = CollectingDashboard(http, live=0.5, seed=1)
    kinds = [type(await dash.start_episode("look")) for _ in range(20)]
    assert 0 < kinds.count(HttpEpisode) < 20 and len(server.book.episodes) == kinds.count(HttpEpisode)
    again = CollectingDashboard(http, live=0.5, seed=1)
    assert [type(await again.start_episode("look")) for _ in range(20)] == kinds


async def test_steps_follow_the_rules_of_the_dashboard(http):
    episode = await ended(CollectingDashboard(http, wait_s=LATER))
    assert await episode.append({**NOTE, "seq": 3}) == 3
    assert await episode.append({**NOTE, "seq": 3}) == 3
    with pytest.raises(StepConflict):
        await episode.append({**CALL, "seq": 3})
    with pytest.raises(SeqGap):
        await episode.append({**CALL, "seq": 5})
    await episode.finish("done")
    with pytest.raises(EpisodeEnded):
        await episode.append(NOTE)


async def test_refused_episode_raises_in_its_own_loop(server, http):
    dash = CollectingDashboard(http, wait_s=LATER)
    good, bad = await ended(dash), await ended(dash)
    await bad.append({"kind": "verification", "reward_type": "complete"})
    results = await asyncio.gather(good.finish("done"), bad.finish("done"), return_exceptions=True)
    assert results[0] is None and isinstance(results[1], Refused)
    assert server.book.entry(good.id).state == "finished"


async def test_episode_is_kept_while_the_dashboard_is_away(server, http):
    dash = CollectingDashboard(http, wait_s=LATER)
    episode = await ended(dash)
    await server.kill()
    with pytest.raises(Unreachable):
        await episode.finish("done")
    await server.start()
    await episode.finish("done")
    assert len(server.book.entry(episode.id).steps) == 2


async def test_lost_response_records_nothing_twice(server):
    async with HttpDashboard(server.url, TOKEN, retry_s=20) as http:
        server.lose_answers = 1
        episode = await ended(CollectingDashboard(http, wait_s=LATER))
        await episode.finish("done")
    assert server.batches == [1, 1] and len(server.book.episodes) == 1


async def test_rollout_runs_on_a_collecting_dashboard(server, http):
    dash = CollectingDashboard(http, wait_s=LATER)
    script = [{"call": {"name": "get_item", "arguments": {"item": "mug"}}}, {"answer": "seen"}]
    done = await asyncio.gather(*(rollout(ScriptedPolicy(script), FakeEnv(), dash, task="look") for _ in range(3)))
    assert server.batches == [3]
    for result in done:
        entry = server.book.entry(result.episode)
        assert (entry.state, entry.final_answer) == ("finished", "seen")
        assert [step["kind"] for step in entry.steps] == [step["kind"] for step in result.steps]


async def test_failed_boundary_is_recorded_with_its_note(server, http):
    episode = await ended(CollectingDashboard(http, wait_s=LATER))
    await episode.fail("environment", "the server is gone")
    entry = server.book.entry(episode.id)
    assert (entry.state, entry.fault, entry.steps[-1]["meta"]) == ("failed", "environment", {"fault": "environment"})
