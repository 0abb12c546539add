"""Every task over the environment server itself: its tools, its walls, and both of its verifiers."""

import asyncio
import re
from collections.abc import Iterator

import pytest

from awmenv.client import EnvironmentClient
from awmenv.models import Observation
from tests.awmenv.conftest import OpenFolders, start_server
from tests.packs_starter.conftest import ROOT, Task, Turns

TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """One server over the starter pack for all tests here."""
    folders = OpenFolders()
    running = start_server(folders.mktemp("awmenv"), ROOT / "packs" / "starter", own_zygotes=False)
    yield running.url
    running.stop()
    folders.remove()


async def play(url: str, task: Task, turns: Turns) -> tuple[str, str, list[Observation]]:
    """What the code form says, what the SQL form shows (without the times of day), and what each call gave."""
    async with EnvironmentClient(url) as env:
        await env.reset(scenario=task.scenario, task_idx=task.idx)
        calls = [turn["call"] for turn in turns if "call" in turn]
        seen = [await env.call_tool(call["name"], call["arguments"]) for call in calls]
        answer = next((turn["answer"] for turn in turns if "answer" in turn), None)
        verdict = await env.verify(final_answer=answer)
        evidence = ((await env.verify(mode="sql")).verify_result or {})["raw_result"]
    assert "changes" in evidence
    return str(verdict.reward_type), TIMES.sub("then", repr(evidence)), seen


async def test_only_the_oracle_completes_each_task(url: str, task: Task) -> None:
    oracle, negative, nothing = await asyncio.gather(
        *(play(url, task, turns) for turns in (task.scripts["oracle"], task.scripts["negative"], []))
    )
    kind = task.about["kind"]
    assert [one.reward_type for one in oracle[2]] == ["tool_call_ok"] * len(oracle[2])
    assert (oracle[0], negative[0]) == ("complete", "others")
    assert nothing[0] == ("complete" if kind == "passes_untouched" else "others")
    assert (oracle[1] != negative[1]) == (kind != "answer_only")
    assert (oracle[1] != nothing[1]) == (kind == "normal")
