"""The server's packs: which pack has a scenario, what is listed, and the entries of the Task API.

Packs that are added to a watched folder while it runs are loaded. Called by `environment` and `app`. Reading only;
`awmenv.packs` owns the format.
"""

import asyncio
import bisect
import functools
import itertools
import logging
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from awmenv.errors import PackError, UnknownScenario
from awmenv.models import normalise_name
from awmenv.packs import Pack, Scenario, load_pack
from awmenv.server.strict import clean

log = logging.getLogger("awmenv")
SPLIT = "all"


class Library:
    """Scenarios by name over all packs; the first pack with a name keeps it."""

    def __init__(self, folders: Iterable[Path | str], cache: Path | None = None, watched: Iterable[Path] = ()) -> None:
        self.packs: list[Pack] = []
        self._cache = cache
        self._watched = tuple(watched)
        self._tried: set[Path] = set()
        self._by_name: dict[str, Pack] = {}
        self._names: list[str] = []
        self._ends: list[int] = []
        first = [load_pack(folder, cache=cache) for folder in folders]
        self._join([*first, *self._load(self._new())])

    def _new(self) -> list[Path]:
        """Return new folders of rows in the watched folders; `loadpack` renames whole ones into them."""
        found = (folder for root in self._watched for folder in root.glob("*/") if any(folder.glob("*.jsonl")))
        return sorted(folder for folder in found if folder not in self._tried)

    def _load(self, folders: Iterable[Path]) -> list[Pack]:
        """Load the packs. An unreadable one is logged once and does not stop the others."""
        packs = []
        for folder in folders:
            self._tried.add(folder)
            try:
                packs.append(load_pack(folder, cache=self._cache))
            except (PackError, OSError) as error:
                log.warning("%s is not loaded: %s", folder, error)
        return packs

    def _join(self, packs: list[Pack]) -> None:
        """Add new scenarios after the listed ones, whose numbers in the Task API do not change."""
        for pack in packs:
            for name in pack.scenarios:
                self._by_name.setdefault(name, pack)
        self.packs = [*self.packs, *packs]
        self._names += sorted(self._by_name.keys() - set(self._names))
        self._ends = list(itertools.accumulate(self.scenario(name).task_count for name in self._names))
        self.__dict__.pop("listed", None)

    async def take_in(self) -> list[str]:
        """Load packs that are new in the watched folders, and return their names."""
        if not self._watched or not (folders := await asyncio.to_thread(self._new)):
            return []
        packs = await asyncio.to_thread(self._load, folders)
        self._join(packs)
        return [pack.name for pack in packs]

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
        for name, entries in itertools.groupby(placed, key=lambda one: one[1]):
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
