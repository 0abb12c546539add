"""`python -m awmenv.server.checkpack --packs DIR [--packs DIR]`: the health of every verifier, as JSON lines.

The first line has the number of tasks, each further one the result of one of them. Earlier results for the same content
are read from the records of `AWMENV_CACHE_DIR`, so a stopped pass continues. With `--judge` the configured judge rules
on evidence without a verdict. With `--guesses` answers that show no work are tried.
`--databases` builds the database of each scenario and loads its app instead, and reports the result.
Called by `manage.py loadpack` and `checkpack` as a separate process: it has no secret but the judge's key, and code of
packs, SQL included, runs in its sandboxed children only.
"""

import argparse
import asyncio
import dataclasses
import json
import logging
import signal
import sys
from pathlib import Path
from typing import Any

from awmenv.errors import AwmenvError
from awmenv.health import Health
from awmenv.packs import Pack
from awmenv.server import logs
from awmenv.server.session.checkup import Checkup
from awmenv.server.session.shared import World
from awmenv.server.settings import BadSetting, Settings


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m awmenv.server.checkpack", description="Check verifiers of packs.")
    parser.add_argument("--packs", action="append", metavar="DIR", required=True)
    parser.add_argument("--judge", action="store_true", help="let the judge rule on SQL evidence")
    parser.add_argument("--guesses", action="store_true", help="try answers that show no work")
    parser.add_argument("--databases", action="store_true", help="only build the databases")
    options = parser.parse_args(arguments)
    logs.install(logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        packs = tuple(Path(folder) for folder in options.packs)
        world = World(dataclasses.replace(Settings.from_environment(), packs=packs))
    except (BadSetting, AwmenvError) as error:
        print(f"checkpack: {logs.shown(str(error))}", file=sys.stderr)
        return 2
    try:
        world.start()
        world.verifiers.require_tier()
        asyncio.run(_build(world) if options.databases else _check(world, options.judge, options.guesses))
    except AwmenvError as error:
        print(f"checkpack: {logs.shown(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        world.stop()
    return 0


async def _build(world: World) -> None:
    settings = world.settings
    checkup = Checkup(
        world.scenarios,
        world.verifiers,
        settings.cache_dir,
        workers=world.workers,
        at_a_time=settings.verifier_slots,
    )
    work = [(pack, name) for pack in world.library.packs for name in pack.scenarios]
    _say({"databases": len(work)})
    slots = asyncio.Semaphore(settings.verifier_slots)
    async with asyncio.TaskGroup() as group:
        for pack, name in work:
            group.create_task(_database(world, checkup, pack, name, slots))


async def _database(world: World, checkup: Checkup, pack: Pack, name: str, slots: asyncio.Semaphore) -> None:
    """Build one scenario's database and load its app. A failure does not stop the others."""
    async with slots:  # an app is loaded with its database, so that both together keep to the memory of the slots
        try:
            built = await checkup.database(pack, name)
            playable = built.is_playable(world.settings.partial)
            app = await _app(world, pack, name) if playable else {}
            report: dict[str, Any] = {"database": built.wire(), "playable": playable, **app}
        except (AwmenvError, OSError) as error:
            report = {"unchecked": str(error)}
    _say({"pack": pack.name, "scenario": name, **report})


async def _check(world: World, with_judge: bool, guesses: bool) -> None:
    settings = world.settings
    judge = settings.judge if with_judge else None
    checkup = Checkup(
        world.scenarios,
        world.verifiers,
        settings.cache_dir,
        workers=world.workers,
        at_a_time=settings.verifier_slots,
        judge=judge,
        guesses=guesses,
    )
    work = [(pack, name) for pack in world.library.packs for name in pack.scenarios]
    _say({"tasks": sum(pack.scenario(name).task_count for pack, name in work)})
    slots = asyncio.Semaphore(settings.verifier_slots)
    async with asyncio.TaskGroup() as group:
        for pack, name in work:
            group.create_task(_scenario(world, checkup, pack, name, slots))


async def _app(world: World, pack: Pack, name: str) -> dict[str, Any]:
    """Return the names of the app's tools, or why it does not load."""
    try:
        return {"tools": sorted((await world.scenarios.template(pack, name)).tools.names)}
    except AwmenvError as error:
        return {"app": str(error)}


async def _scenario(world: World, checkup: Checkup, pack: Pack, name: str, slots: asyncio.Semaphore) -> None:
    """Check one scenario: its verifiers, and its app if its database builds. A failure does not stop the others."""
    tasks = range(pack.scenario(name).task_count)
    async with slots:
        try:
            by_task = await checkup.of(pack, name, tasks)
            app = await _app(world, pack, name) if any(not one.unchecked for one in by_task.values()) else {}
        except (AwmenvError, OSError) as error:
            by_task, app = dict.fromkeys(tasks, Health(unchecked=str(error))), {}
    if app:
        _say({"pack": pack.name, "scenario": name, **app})
    for task_idx in tasks:
        _say({"pack": pack.name, "scenario": name, "task_idx": task_idx, "health": by_task[task_idx].wire()})


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
