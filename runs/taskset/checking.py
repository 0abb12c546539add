"""Test runs of packs in a process with the environment's sandbox, because neither the SQL nor the Python of a pack runs
here.

Owns starting that process without secrets in its environment, and reading its lines. Leaves the checks to
`awmenv.server.session.checkup`, their wording to `awmenv.health`. Called by the commands that load and check packs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from awmclient.words import listening
from awmenv.errors import PackError
from awmenv.health import Health
from awmenv.models import MAX_NOTE, BuildReport, one_line
from awmenv.packs import SCRIPTS_FILE, Pack, load_pack
from episodes.stored.packs import packs
from runs.errors import BadPack, DatabasesUnchecked, VerifiersUnchecked

# names that hold no secret; those that begin with AWMENV_ belong to the environment server
PLAIN = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "VIRTUAL_ENV"}


@dataclass(frozen=True)
class Checked:
    """One task's verifiers, and the progress of the check."""

    pack: str
    scenario: str
    task_idx: int
    health: Health
    done: int
    total: int


def packs_named(names: Sequence[str]) -> list[Pack]:
    """Return the packs of these names, or all, loaded again, so that the caller can add to their reports. A path names
    a folder of rows that is not loaded yet."""
    by_name = {pack.name: pack for pack in packs()}
    unknown = sorted(name for name in set(names) - set(by_name) if not Path(name).is_dir())
    if unknown:
        raise BadPack(
            f"There is no pack or folder named {', '.join(unknown)}; loaded packs: {', '.join(sorted(by_name))}."
        )
    try:
        return [
            load_pack(by_name[name].link, cache=settings.VAR / "cache") if name in by_name else load_pack(name)
            for name in names or sorted(by_name)
        ]
    except PackError as error:
        raise BadPack(str(error)) from error


def databases(chosen: Sequence[Pack]) -> Iterator[tuple[int, int]]:
    """Build every scenario's database, and fill each pack's report: yields (done, total) after each.

    Raises `DatabasesUnchecked`.

    """
    by_name = {pack.folder.name: pack for pack in chosen}
    with _process([pack.folder for pack in chosen], "--databases") as lines:
        # -1: no line arrived at all
        total, done, last = -1, 0, ""
        for line in lines:
            row = _object(line)
            if row is None:
                last = line
            elif "databases" in row:
                total = int(row["databases"])
            else:
                done += 1
                _note_database(by_name[row["pack"]], row)
                yield done, total
        # a process that is killed ends without a line for the rest
        if done != total:
            raise DatabasesUnchecked(f"{done} of {max(total, 0)} databases were built. {last.strip()}".strip())


def note_databases(chosen: Sequence[Pack]) -> None:
    """Build the databases, and store the results for loaded packs. Raises `DatabasesUnchecked`."""
    for _progress in databases(chosen):
        continue
    for pack in chosen:
        pack.keep_builds(settings.VAR / "cache")


def _note_database(pack: Pack, row: dict[str, Any]) -> None:
    built = BuildReport.from_wire(row.get("database"))
    if built is not None:
        pack.note_build(row["scenario"], built, playable=row.get("playable") is True)
        _note_app(pack, row)
    else:
        reason = f"its SQL was not checked: {row.get('unchecked', 'no reason')}"
        pack.report.remark("warning", "sql_unchecked", reason, scenario=row["scenario"])


def _note_app(pack: Pack, row: dict[str, Any]) -> None:
    """Note an app that does not load, and calls and expressions of scripts that cannot work."""
    scenario, tools = row["scenario"], row.get("tools")
    if "app" in row:
        reason = one_line(f"its app does not load: {row['app']}", MAX_NOTE)
        pack.known[scenario].problems.append(reason)
        pack.report.remark("error", "bad_app", reason, scenario=scenario)
    for task_idx in range(pack.scenario(scenario).task_count) if isinstance(tools, list) else ():
        for name, script in pack.scripts(scenario, task_idx).items():
            for problem in dict.fromkeys(_problems(script, set(tools or ()))):
                where = f"task {task_idx}, script {name}: {problem}"
                pack.report.remark("error", "bad_script", where, file=SCRIPTS_FILE, scenario=scenario)


def _problems(turns: Any, tools: set[str]) -> Iterator[str]:
    """Yield what cannot work in the turns of a script, also in those after an ask."""
    for turn in turns if isinstance(turns, list) else []:
        if not isinstance(turn, dict):
            yield "a turn is not an object"
            continue
        call, listen = turn.get("call"), turn.get("listen")
        if call is not None and (not isinstance(call, dict) or call.get("name") not in tools):
            yield f"the scenario has no tool {call.get('name') if isinstance(call, dict) else call}"
        for name, pattern in listen.items() if isinstance(listen, dict) else ():
            try:
                listening.compiled(str(pattern))
            except listening.BadPattern as error:
                yield f"listen.{name}: {error}"
        for inner in ("advised", "unadvised", "after"):
            yield from _problems(turn.get(inner), tools)


def verifiers(chosen: Sequence[Pack], *, judge: bool = False, guesses: bool = False) -> Iterator[Checked]:
    """Yield every task when it is checked, filling each pack's report; with `guesses` answers without work are tried,
    which takes several times as long. Raises `VerifiersUnchecked`."""
    by_name = {pack.folder.name: pack for pack in chosen}
    options = [*(["--judge"] if judge else []), *(["--guesses"] if guesses else [])]
    with _process([pack.folder for pack in chosen], *options) as lines:
        total, done, last = 0, 0, ""
        for line in lines:
            row = _object(line)
            last = line if row is None else last
            total = int((row or {}).get("tasks", total))
            if row is not None and ("tools" in row or "app" in row):
                _note_app(by_name[row["pack"]], row)
            health = Health.from_wire((row or {}).get("health"))
            if row is not None and health is not None:
                done += 1
                by_name[row["pack"]].report.health[row["scenario"], row["task_idx"]] = health
                yield Checked(by_name[row["pack"]].name, row["scenario"], row["task_idx"], health, done, total)
        if done < total or not total:
            raise VerifiersUnchecked(f"{done} of {total} tasks were checked. {last.strip()}".strip())


@contextmanager
def _process(folders: Sequence[Path], *options: str) -> Iterator[Iterator[str]]:
    command = [sys.executable, "-m", "awmenv.server.checkpack", *options]
    command += [part for folder in folders for part in ("--packs", str(folder))]
    environment = {name: value for name, value in os.environ.items() if name in PLAIN or name.startswith("AWMENV_")}
    environment.setdefault("AWMENV_CACHE_DIR", str(settings.VAR / "cache"))
    with subprocess.Popen(
        command,
        cwd=settings.BASE_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # the last line that is no JSON is the reason, wherever it was printed
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            # the caller can stop reading early
            process.terminate()


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
