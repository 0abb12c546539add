"""The server's packs: which pack has a scenario, what is listed, and the entries of the Task API.

Packs that are added to a watched folder, replaced or removed while it runs are taken in. Called by `environment` and
`app`. Reading only;
`awmenv.packs` owns the format.
"""

import asyncio
import bisect
import functools
import itertools
import logging
from collections.abc import AsyncIterator, Hashable, Iterable
from pathlib import Path
from typing import Any

from awmenv.errors import PackError, UnknownScenario
from awmenv.models import normalise_name
from awmenv.packs import Pack, Scenario, load_pack, state_of
from awmenv.server.strict import clean

log = logging.getLogger("awmenv")
SPLIT = "all"


class Library:
    """Scenarios by name over all packs. A name belongs to one pack: the one that had it first."""

    def __init__(self, folders: Iterable[Path | str], cache: Path | None = None, watched: Iterable[Path] = ()) -> None:
        self.packs: list[Pack] = []
        self._cache = cache
        self._watched = tuple(watched)
        self._seen: dict[Path, Hashable] = {}
        self._loaded: dict[Path, Pack] = {}
        self._by_name: dict[str, Pack] = {}
        self._names: list[str] = []
        self._ends: list[int] = []
        self._given = [load_pack(folder, cache=cache) for folder in folders]
        self._taking_in = asyncio.Lock()
        self._load(self._look())
        self._join()

    def _look(self) -> dict[Path, Hashable]:
        """Return the folders of rows in the watched folders, each with a value that changes with its version.

        `loadpack` puts a whole version there, or replaces one, in one step.
        """
        folders = [folder for root in self._watched for folder in root.glob("*/") if any(folder.glob("*.jsonl"))]
        return {folder: (folder.resolve(), state_of(folder)) for folder in sorted(folders)}

    def _load(self, versions: dict[Path, Hashable]) -> list[str]:
        """Load the new versions and forget the unloaded packs; return the names of both.

        An unreadable pack is logged once and does not stop the others.
        """
        changed = [folder for folder in self._seen if folder not in versions]
        for folder in changed:
            self._loaded.pop(folder, None)
        for folder, version in versions.items():
            if self._seen.get(folder) == version:
                continue
            changed.append(folder)
            try:
                self._loaded[folder] = load_pack(folder, cache=self._cache)
            except (PackError, OSError) as error:
                self._loaded.pop(folder, None)
                log.warning("%s is not loaded: %s", folder, error)
        self._seen = versions
        return [folder.name for folder in changed]

    def _join(self) -> None:
        """Give each scenario to the pack that has it. New ones follow the listed ones in the Task API."""
        before = {name: pack.name for name, pack in self._by_name.items()}
        self.packs = [*self._given, *(self._loaded[folder] for folder in sorted(self._loaded))]
        self._by_name, holders = {}, dict[str, list[Pack]]()
        for pack in self.packs:
            for name in pack.scenarios:
                holders.setdefault(name, []).append(pack)
        for name, held in holders.items():
            owner = self._by_name[name] = next((one for one in held if one.name == before.get(name)), held[0])
            for other in held:
                if other is not owner:
                    log.warning("scenario %s of pack %s is left out: pack %s has it", name, other.name, owner.name)
        self._names = [name for name in self._names if name in self._by_name]
        self._names += sorted(self._by_name.keys() - set(self._names))
        self._ends = list(itertools.accumulate(self.scenario(name).task_count for name in self._names))
        # The cached list is made again at its next use.
        self.__dict__.pop("listed", None)

    async def take_in(self) -> list[str]:
        """Load packs that are new or replaced in the watched folders, and forget unloaded ones; return their names."""
        if not self._watched:
            return []
        async with self._taking_in:
            if (versions := await asyncio.to_thread(self._look)) == self._seen:
                return []
            changed = await asyncio.to_thread(self._load, versions)
            self._join()
        for name in changed:
            log.info("pack %s is loaded, %d scenarios in all", name, len(self.listed))
        return changed

    async def find_new(self, name: str) -> Pack:
        """Return the pack of a scenario, also of one that was loaded a moment ago: its episodes do not wait for the
        next look at the folders. Raises `UnknownScenario`."""
        try:
            return self.find(name)
        except UnknownScenario:
            await self.take_in()
            return self.find(name)

    def find(self, name: str) -> Pack:
        key = normalise_name(name)
        if key in self._by_name:
            return self._by_name[key]
        for pack in self.packs:
            if key in pack.rejected:
                raise UnknownScenario(
                    f"Scenario '{name}' was rejected at load: {'; '.join(pack.rejected[key].problems)}"
                )
        raise UnknownScenario(f"Scenario '{name}' not found")

    def scenario(self, name: str) -> Scenario:
        return self.find(name).scenario(name)

    @functools.cached_property
    def listed(self) -> list[dict[str, Any]]:
        """Every scenario with its description."""
        return [
            {
                "name": name,
                "description": clean(self.scenario(name).description),
                "num_tasks": self.scenario(name).task_count,
            }
            for name in self._names
        ]

    async def tasks(self, name: str) -> list[str]:
        """Return the tasks, read off the loop, because a real row can be large."""
        return await asyncio.to_thread(self.find(name).tasks, name)

    @property
    def task_count(self) -> int:
        return self._ends[-1] if self._ends else 0

    def place(self, index: int) -> tuple[str, int]:
        """Return scenario and number of one entry of the Task API; raises IndexError outside."""
        if not 0 <= index < self.task_count:
            raise IndexError(index)
        place = bisect.bisect_right(self._ends, index)
        return self._names[place], index - (self._ends[place - 1] if place else 0)

    async def task(self, index: int) -> dict[str, Any]:
        """Return one entry of the Task API; raises IndexError outside."""
        name, task_idx = self.place(index)
        return self._entry(index, name, task_idx, (await self.tasks(name))[task_idx])

    async def entries(self, start: int | None, stop: int | None) -> AsyncIterator[dict[str, Any]]:
        """Yield a range of entries in order. Each scenario's row is read once, without blocking until all are read."""
        chosen = range(self.task_count)[slice(start, stop)]
        placed = ((index, *self.place(index)) for index in chosen)
        for name, entries in itertools.groupby(placed, key=lambda place: place[1]):
            texts = await self.tasks(name)
            for index, _, task_idx in entries:
                yield self._entry(index, name, task_idx, texts[task_idx])

    def _entry(self, index: int, name: str, task_idx: int, text: str) -> dict[str, Any]:
        return {
            "id": f"{name}/{task_idx}",
            "index": index,
            "scenario": name,
            "task_idx": task_idx,
            "task": clean(text),
            "has_verifier": self.find(name).has_verifier(name, task_idx),
        }
