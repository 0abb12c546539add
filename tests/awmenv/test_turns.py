"""Calls that come together take turns, and who hangs keeps nobody out for long."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from awmenv.client import EnvironmentClient
from awmenv.server.session.turns import CoreTurns
from tests.awmenv.conftest import Server, eventually
from tests.awmenv.hostile_packs import pack


async def test_no_more_than_so_many_run_at_once_and_all_of_them_do() -> None:
    turns, running, most, done = CoreTurns(3, patience_s=5), 0, 0, 0

    async def call() -> None:
        nonlocal running, most, done
        async with turns.hold():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            done += 1

    await asyncio.gather(*(call() for _ in range(20)))
    assert (most, done) == (3, 20)


async def test_who_hangs_makes_room_and_gives_the_place_back_only_once() -> None:
    turns = CoreTurns(1, patience_s=0.05)

    async def hang() -> None:
        async with turns.hold():
            await asyncio.sleep(60)

    hanging = [asyncio.create_task(hang()) for _ in range(2)]
    started = time.monotonic()
    await asyncio.sleep(0)
    async with turns.hold():
        assert time.monotonic() - started > 0.09
        assert not any(task.done() for task in hanging)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(enter(turns), 0.01)


async def enter(turns: CoreTurns, whose: str | None = None) -> None:
    async with turns.hold(whose):
        return


async def test_who_leaves_while_waiting_takes_no_place_along() -> None:
    turns = CoreTurns(1, patience_s=5)

    async def wait() -> None:
        async with turns.hold():
            raise AssertionError("it had left")

    async with turns.hold():
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(30), turns.hold():
        assert waiting.cancelled()


async def test_turns_go_to_whoever_holds_fewest_and_round_and_round() -> None:
    turns, order = CoreTurns(2, patience_s=5), list[str]()

    async def work(whose: str) -> None:
        async with turns.hold(whose):
            order.append(whose)
            await asyncio.sleep(0.002)

    await asyncio.gather(*(work(whose) for whose in "aaaaaabbc"))
    assert "".join(order[:2]) == "aa", "nobody else had come"
    assert order.index("c") < 5 and order.index("b") < 5
    assert sorted(order) == list("aaaaaabbc")


async def test_turns_prefer_who_holds_none_to_who_came_first() -> None:
    turns, order = CoreTurns(3, patience_s=60), list[str]()

    async def hold(whose: str, seconds: float) -> None:
        async with turns.hold(whose):
            order.append(whose)
            await asyncio.sleep(seconds)

    waiting = [asyncio.create_task(hold(*one)) for one in (("a", 60), ("a", 60), ("x", 0.02), ("a", 0), ("b", 0))]
    async with asyncio.timeout(60):
        while len(order) < 5:
            await asyncio.sleep(0.01)
    assert "".join(order) == "aaxba"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_turns_keep_a_place_for_the_next_holder() -> None:
    turns = CoreTurns(4, patience_s=60, each=2)

    async def hang() -> None:
        async with turns.hold("a"):
            await asyncio.sleep(60)

    hanging = [asyncio.create_task(hang()) for _ in range(8)]
    await asyncio.sleep(0.01)
    async with asyncio.timeout(30):
        await enter(turns, "b")
        async with turns.hold("b"):
            await enter(turns, "b")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(enter(turns, "a"), 0.05)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    await asyncio.wait_for(enter(turns, "a"), 30)
    assert not turns._held and not turns._overdue and turns._free == 4, "nothing is left of those who are gone"


async def test_turns_let_only_so_many_go_on_late() -> None:
    """Two of four places are late in all, one of each holder; the others keep theirs to the end."""
    patience_s, running = 0.02, Counter[str]()
    turns = CoreTurns(2, patience_s, each=1, late=2)

    async def hang(whose: str) -> None:
        async with turns.hold(whose):
            running[whose] += 1
            await asyncio.sleep(60)

    hanging = [asyncio.create_task(hang(whose)) for whose in "aaabbbccc"]
    async with asyncio.timeout(60):
        while running.total() < 4:
            await asyncio.sleep(0.01)
    await asyncio.sleep(5 * patience_s)  # no one else is to begin when the last two are late, too
    assert running.total() == 4 and max(running.values()) == 2
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    await asyncio.wait_for(enter(turns, "d"), 30)


def family(server: Server) -> set[int]:
    return {one.pid for one in psutil.Process(server.process.pid).children(recursive=True)}


async def test_eight_hanging_verifiers_hold_no_other_scenario(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """Each of them takes twenty seconds, and there are four places."""
    folder = pack(pack(tmp_path / "pack", name="hangs"), name="other")
    codes = {"hangs": "    import time\n    time.sleep(600)\n", "other": "    return {'result': 'others'}\n"}
    with (folder / "gen_verifier.pure_code.jsonl").open("w") as rows:
        for name, body in codes.items():
            code = f"def verify_task_completion(a, b, c=None):\n{body}"
            row = {"scenario": name, "task_idx": 0, "task": "", "verification": {"code": code, "raw_response": ""}}
            rows.write(json.dumps(row) + "\n")
    server = make_server(folder)
    async with contextlib.AsyncExitStack() as stack:

        async def opened(scenario: str) -> EnvironmentClient:
            env = await stack.enter_async_context(EnvironmentClient(server.url))
            await env.reset(scenario=scenario, task_idx=0, state_diff=scenario == "other")
            return env

        hang, other = [await opened("hangs") for _ in range(8)], await opened("other")
        before = family(server)
        hanging = [asyncio.create_task(one.verify()) for one in hang]
        # one scenario may have half of the places
        assert await asyncio.to_thread(eventually, lambda: len(family(server) - before) >= 2)
        assert (await other.verify()).reward_type == "others"
        assert not any(task.done() for task in hanging), "it waited for one of them"
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
