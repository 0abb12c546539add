"""Writes: tasks with blockers, each proven on the environment server, as a pack of their own.

1. The oracle of each task runs, which shows the calls that write. 2. The values that can be taken out become
candidates (`taskset.blocks`). 3. These are loaded under a temporary name, and each is proven: nothing that an agent can
read has the value, the oracle passes with it, and attempts without it do not. 4. The candidates are unloaded, and the
proven ones written. Called by the command `block`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from awmenv.blockers import holds_words, words_of
from awmenv.client import EnvironmentClient
from awmenv.errors import AwmenvError, ResetFailed, ServerUnreachable
from awmenv.models import MAX_TASKS
from awmenv.packs import FILES, SCENARIO_FILES, Pack
from episodes.stored.packs import VERSIONS, loaded_folder, packs
from runs.errors import BadPack, NoServer
from runs.launch import launching
from runs.plan import choosing
from runs.play import probing, start_tables
from runs.taskset import blocks
from runs.taskset.blocks import ORACLE, BlockedTask, Fact, Turn

PER_FACT = 10
SESSIONS = 4
"""Sessions at the same time."""
PASSES = 0.05
"""The most of the attempts without the fact that may pass."""
COLUMN_VALUES = 20
APPEARS_S = 60
"""How long a loaded pack may take to be served."""
SUFFIX = "_blocked"
FAILED = "the environment failed"


@dataclass
class MadeTasks:
    """The result: the proven tasks by scenario, and what was refused for which reason.

    Each is counted where it fell: `unfit` are tasks and values of which no candidate was made, `refused` the candidates
    that were not proven. The proven and the refused ones are all candidates.
    """

    tasks: dict[str, list[BlockedTask]] = field(default_factory=lambda: defaultdict(list))
    unfit: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    sessions: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.tasks.values()))


@dataclass(frozen=True)
class _Readable:
    """Everything that a scenario's tools could read: its rows and texts as words, and the values of each column."""

    said: str
    columns: dict[str, list[Any]]


@dataclass(frozen=True)
class _Session:
    """One session: whether it passed, and the words of the result of each turn; "" for a turn without a call."""

    passed: bool
    results: list[str]
    wrote: list[bool]


def chosen(names: Sequence[str]) -> list[tuple[Pack, str]]:
    """Return the scenarios of these names, or of `all` loaded packs without those that were made here."""
    if "all" not in names:
        return [(launching.pack_with(name), name) for name in dict.fromkeys(names)]
    return [(pack, name) for pack in packs() for name in sorted(pack.scenarios) if not name.endswith(SUFFIX)]


async def made(
    scenarios: Sequence[tuple[Pack, str]], per_fact: int, seed: int, on_proven: Callable[[int, int], object]
) -> MadeTasks:
    """Make and prove the tasks. Raises `NoServer`, and `BadPack` if the candidates cannot be loaded."""
    result, room = MadeTasks(), asyncio.Semaphore(SESSIONS)
    try:
        return await _made(scenarios, per_fact, seed, on_proven, result, room)
    except ServerUnreachable as away:
        raise NoServer(str(away)) from away


async def _made(
    scenarios: Sequence[tuple[Pack, str]],
    per_fact: int,
    seed: int,
    on_proven: Callable[[int, int], object],
    result: MadeTasks,
    room: asyncio.Semaphore,
) -> MadeTasks:
    worlds: dict[str, _Readable] = {}
    candidates: dict[str, list[BlockedTask]] = {}
    for pack, name in scenarios:
        try:
            worlds[name] = await _world_of(pack, name, result)
        except ServerUnreachable:
            raise
        except AwmenvError as fault:
            result.unfit[f"{FAILED}: {type(fault).__name__}"] += 1
            continue
        candidates[name] = await _candidates(pack, name, worlds[name], per_fact, seed, result)
    if not any(candidates.values()):
        return result
    mark = secrets.token_hex(4)
    total, done = sum(map(len, candidates.values())), 0
    async with _loaded(sources_of(scenarios), candidates, f"block-{mark}", f"_{mark}"):

        async def prove(name: str, idx: int, task: BlockedTask) -> None:
            nonlocal done
            try:
                async with room:
                    why = await _disproof(f"{name}_{mark}", idx, task, worlds[name], result)
            except ServerUnreachable as away:
                lost.append(away)
                return
            done += 1
            on_proven(done, total)
            if why:
                result.refused[why] += 1
            else:
                proven[name, idx] = task

        proven: dict[tuple[str, int], BlockedTask] = {}
        lost: list[ServerUnreachable] = []
        async with asyncio.TaskGroup() as group:
            for name, tasks in candidates.items():
                for idx, task in enumerate(tasks):
                    group.create_task(prove(name, idx, task))
    if lost:
        raise lost[0]
    # in the order in which they were made, so that the same seed gives the same pack
    for (name, _), task in sorted(proven.items(), key=lambda pair: pair[0]):
        result.tasks[name].append(task)
    return result


def sources_of(scenarios: Sequence[tuple[Pack, str]]) -> dict[str, Pack]:
    return {name: pack for pack, name in scenarios}


async def _world_of(pack: Pack, name: str, result: MadeTasks) -> _Readable:
    """Read a scenario's rows from the server, what its read tools say, and the texts that build it."""
    async with EnvironmentClient(choosing.with_room()) as client:
        result.sessions += 1
        await client.reset(scenario=name, task_idx=0, state_diff=True, world=True)
        base = (client.world or {}).get("base")
    columns = await asyncio.to_thread(start_tables.all_values, name, base)
    texts = [json.dumps([*columns.values()], ensure_ascii=False, default=str), pack.app_code(name)]
    # cells longer than the server shows stand in the statements
    texts += [statement for _, statement in pack.statements(name)]
    texts += await probing.read_results(name)
    return _Readable(words_of("\n".join(texts)), columns)


async def _candidates(
    pack: Pack, name: str, world: _Readable, per_fact: int, seed: int, result: MadeTasks
) -> list[BlockedTask]:
    tasks: list[BlockedTask] = []
    for idx in range(pack.scenario(name).task_count):
        turns = pack.scripts(name, idx).get(ORACLE)
        if not turns or not all(map(_acts_alone, turns)):
            result.unfit["the task has no oracle that acts alone"] += 1
            continue
        try:
            session = await _play(name, idx, turns, result)
        except ServerUnreachable:
            raise
        except AwmenvError as fault:
            result.unfit[f"{FAILED}: {type(fault).__name__}"] += 1
            continue
        if not session.passed:
            result.unfit["its own oracle does not pass"] += 1
            continue
        for fact in blocks.facts_of(pack, name, idx, session.wrote):
            why = fact if isinstance(fact, str) else _revealed(fact.text, fact, world, session)
            if why or isinstance(fact, str):
                result.unfit[why] += 1
                continue
            for value in blocks.variants(fact, per_fact, seed):
                task = blocks.blocked(pack, fact, value)
                if isinstance(task, str):
                    result.unfit[task] += 1
                else:
                    tasks.append(task)
    if len(tasks) > MAX_TASKS:
        result.unfit[f"a scenario has at most {MAX_TASKS} tasks"] += len(tasks) - MAX_TASKS
    return tasks[:MAX_TASKS]


def _acts_alone(turn: Any) -> bool:
    """Return whether a turn of a stranger's script is a call or an answer."""
    if not isinstance(turn, dict) or "ask" in turn:
        return False
    call = turn.get("call")
    if call is None:
        return "answer" in turn
    return isinstance(call, dict) and isinstance(call.get("name"), str) and isinstance(call.get("arguments", {}), dict)


def _revealed(value: str, fact: Fact, world: _Readable, session: _Session) -> str:
    """Return where an agent could read a value before it needs it; "" if nowhere."""
    if holds_words(world.said, value):
        return "the world's rows or read tools hold the value"
    if any(holds_words(said, value) for said in session.results[: fact.first]):
        return "an earlier result of the oracle holds the value"
    return ""


async def _disproof(scenario: str, idx: int, task: BlockedTask, world: _Readable, result: MadeTasks) -> str:
    """Return why a candidate is refused; "" if everything about it is proven."""
    value, fact = str(task.value), task.fact
    for phrase in (value, fact.text):
        if holds_words(words_of(task.text), phrase):
            return "the task's text still holds the value"
    try:
        with_fact = await _play(scenario, idx, task.oracle, result)
        if why := _revealed(value, fact, world, with_fact):
            return why
        if not with_fact.passed:
            return "the oracle does not pass with the new value"
        return await _attempted(scenario, idx, task, world, result)
    except ServerUnreachable:
        raise
    except AwmenvError as fault:
        return f"{FAILED}: {type(fault).__name__}"


async def _attempted(scenario: str, idx: int, task: BlockedTask, world: _Readable, result: MadeTasks) -> str:
    """Make attempts without the fact. Return why they disprove the task; "" if they do not."""
    fact, probed = task.fact, probing.ProbedTask(scenario, idx, task.text, "", "")
    guesses = [one for one in dict.fromkeys(world.columns.get(fact.argument, [])) if isinstance(one, str | int | float)]
    tries = [blocks.without_argument(task.oracle, task.value), blocks.with_value(task.oracle, task.value, fact.value)]
    tries += [blocks.with_value(task.oracle, task.value, one) for one in guesses[:COLUMN_VALUES]]
    most = PASSES * (len(tries) + len(probing.ATTEMPTS))
    passed = 0
    for attempt in probing.ATTEMPTS.values():
        result.sessions += 1
        passed += (await attempt(probed))[0].reward_type == "complete"
    for turns in tries:
        if passed > most:
            break
        session = await _play(scenario, idx, turns, result)
        passed += session.passed
        if any(holds_words(said, str(task.value)) for said in session.results):
            return "a result of an attempt without the fact holds the value"
    return "attempts without the fact pass" if passed > most else ""


async def _play(scenario: str, idx: int, turns: Sequence[Turn], result: MadeTasks) -> _Session:
    """Make the calls of a script in a session of its own, and verify."""
    result.sessions += 1
    results: list[str] = []
    wrote: list[bool] = []
    answer = None
    async with EnvironmentClient(choosing.with_room()) as client:
        await client.reset(scenario=scenario, task_idx=idx, state_diff=True)
        for turn in turns:
            call, answer = turn.get("call"), turn.get("answer", answer)
            if call is None:
                results.append("")
                wrote.append(False)
                continue
            observation = await client.call_tool(call["name"], call.get("arguments") or {})
            reply = observation.tool_result if observation.ok else observation.error
            results.append(words_of(json.dumps(reply, ensure_ascii=False, default=str)))
            wrote.append(bool(observation.state_diff))
        verdict = await client.verify(answer)
    return _Session(verdict.reward_type == "complete", results, wrote)


@asynccontextmanager
async def _loaded(
    sources: dict[str, Pack], candidates: dict[str, list[BlockedTask]], name: str, suffix: str
) -> AsyncIterator[None]:
    """Load the candidates as a pack of this name, until the block ends in whatever way."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), sources, candidates, suffix)
        try:
            pack = await asyncio.to_thread(launching.take_in, Path(folder), name)
            if lost := [one for one in pack.known if one not in pack.scenarios]:
                raise BadPack(f"The candidates of {', '.join(lost)} cannot be loaded.")
            for url in choosing.urls():
                await _served(url, sorted(pack.scenarios)[-1])
            yield
        finally:
            # also after Ctrl-C, which cancels this task
            _unload(name)


def _unload(name: str) -> None:
    """Unload the candidates and remove their rows: no episode is of this version."""
    if (loaded_folder() / name).is_symlink():
        launching.take_out(name)
    shutil.rmtree(loaded_folder() / VERSIONS / name, ignore_errors=True)


async def _served(url: str, scenario: str) -> None:
    """Wait until an environment server has the pack that was loaded last."""
    ends = time.monotonic() + APPEARS_S
    while True:
        try:
            async with EnvironmentClient(url) as client:
                await client.reset(scenario=scenario, task_idx=0)
                return
        except ResetFailed as unknown:
            if time.monotonic() > ends:
                raise NoServer(f"The environment server does not serve the candidates: {unknown}") from unknown
            await asyncio.sleep(0.5)


def write(folder: Path, sources: dict[str, Pack], tasks: Mapping[str, Sequence[BlockedTask]], suffix: str) -> None:
    """Write the tasks as a pack: each scenario's world under its name with the suffix."""
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {file: [] for file in FILES}
    for name, made_of_it in sorted(tasks.items()):
        if not made_of_it:
            continue
        new, goals = f"{name}{suffix}", [one.text for one in made_of_it]
        for kind, file in SCENARIO_FILES.items():
            row = sources[name].row(kind, name)
            if row is None:
                continue
            more = {"tasks": goals} if kind == "tasks" else {}
            lines[file].append(_line({**row, "name" if kind == "scenario" else "scenario": new, **more}))
        for idx, task in enumerate(made_of_it):
            for file, row in task.rows.items():
                lines[file].append(_line({"scenario": new, "task_idx": idx, **row}))
    for file, written in lines.items():
        (folder / file).write_text("".join(written), encoding="utf-8", newline="\n")


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
