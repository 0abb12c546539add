"""The pack of blocked tasks: it loads, each task's registry holds its proof, and the server agrees with it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from awmclient.words import listening
from awmenv.blockers import holds, matched
from awmenv.client import EnvironmentClient
from awmenv.packs import Pack, load_pack
from episodes.stored.packs import pack_folders
from tests.awmenv.conftest import OpenFolders, start_server
from tests.packs_starter.conftest import ROOT, Turns, replaced

FOLDER = ROOT / "packs" / "optional" / "starter_blocked"


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack(FOLDER)


def tasks(pack: Pack) -> Iterator[tuple[str, int]]:
    return ((name, idx) for name, known in pack.scenarios.items() for idx in range(known.task_count))


def advised(pack: Pack, task: tuple[str, int]) -> tuple[Turns, str]:
    """The turns of an oracle whose question gets the registry's answer, and the fact that it heard."""
    turns = pack.scripts(*task)["oracle"]
    asking = turns[-1]
    blocker = matched(asking["ask"]["question"], pack.blockers(*task))
    assert blocker is not None
    fact = listening.heard(asking["listen"]["fact"], blocker.answer)
    assert fact is not None and fact == blocker.fact
    return [*turns[:-1], *replaced(asking["advised"], {"fact": fact})], fact


def test_blocked_pack_loads_and_is_no_default(pack: Pack, settings: Any) -> None:
    assert not pack.report.errors and not any(one.partial for one in pack.scenarios.values())
    assert list(pack.scenarios) == ["helpdesk_1_blocked", "library_1_blocked", "trucking_1_blocked"]
    assert sum(one.task_count for one in pack.scenarios.values()) == 10
    assert FOLDER not in pack_folders() and FOLDER.parents[1] == settings.PACKS_DIR
    starter = load_pack(ROOT / "packs" / "starter")
    for name in pack.scenarios:
        for kind in ("db", "sample", "envs"):
            ours, theirs = pack.row(kind, name), starter.row(kind, name.removesuffix("_blocked"))
            assert ours is not None and {**ours, "scenario": ""} == {**(theirs or {}), "scenario": ""}, "make it again"


def test_fact_is_in_the_registry_and_the_verifier_alone(pack: Pack) -> None:
    for task in tasks(pack):
        turns, fact = advised(pack, task)
        scenario, idx = task
        code = pack.verifier(scenario, idx, "code")
        assert code is not None and any(one in code.code for one in (fact, "".join(filter(str.isdigit, fact)))), task
        readable = [pack.tasks(scenario)[idx], pack.app_code(scenario), *(one for _, one in pack.statements(scenario))]
        assert not any(holds(text, fact) for text in readable), task
        assert not matched("Can you help me? What should I do next?", pack.blockers(*task)), task
        assert fact in str(turns) and fact not in str(pack.scripts(*task)["negative"]), task


async def test_only_the_fact_completes_a_blocked_task(pack: Pack) -> None:
    folders = OpenFolders()
    server = start_server(folders.mktemp("awmenv"), FOLDER, own_zygotes=False)

    async def play(task: tuple[str, int], turns: Turns) -> str:
        async with EnvironmentClient(server.url) as env:
            await env.reset(scenario=task[0], task_idx=task[1])
            for turn in turns:
                if "call" in turn:
                    await env.call_tool(turn["call"]["name"], turn["call"]["arguments"])
            return str((await env.verify(final_answer=turns[-1].get("answer"))).reward_type)

    try:
        # one task of each fact: the others differ in its value alone
        first = {(name, pack.tasks(name)[idx]): (name, idx) for name, idx in tasks(pack)}.values()
        for task in first:
            known, _ = advised(pack, task)
            found = await asyncio.gather(play(task, known), play(task, pack.scripts(*task)["negative"]))
            assert found == ["complete", "others"], task
    finally:
        server.stop()
        folders.remove()
