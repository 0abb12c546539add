"""The packs a server was started with, as one shelf: which pack holds a scenario, what is listed, what the Task API
tells.

Called by `environment` and `app`. Reading only; `awmenv.packs` owns the format.
"""

import asyncio
import bisect
import functools
import itertools
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from awmenv.errors import UnknownScenario
from awmenv.models import normalise_name
from awmenv.packs import Pack, Scenario, load_pack
from awmenv.server.strict import clean

SPLIT = "all"


class Library:
    """Scenarios by name over all packs; the first pack that has a name keeps it."""

    def __init__(self, folders: Iterable[Path | str], cache: Path | None = None) -> None:
        self.packs = [load_pack(folder, cache=cache) for folder in folders]
        self._by_name: dict[str, Pack] = {}
        for pack in self.packs:
            for name in pack.scenarios:
                self._by_name.setdefault(name, pack)
        self._names = sorted(self._by_name)
        self._ends = list(itertools.accumulate(self.scenario(name).task_count for name in self._names))

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
        """Read off the loop, because a real row may be large."""
        return await asyncio.to_thread(self.find(name).tasks, name)

    @property
    def task_count(self) -> int:
        return self._ends[-1] if self._ends else 0

    def place(self, index: int) -> tuple[str, int]:
        """Scenario and number of one entry of the Task API; raises IndexError outside."""
        if not 0 <= index < self.task_count:
            raise IndexError(index)
        place = bisect.bisect_right(self._ends, index)
        return self._names[place], index - (self._ends[place - 1] if place else 0)

    async def task(self, index: int) -> dict[str, Any]:
        """One entry of the Task API; raises IndexError outside."""
        name, task_idx = self.place(index)
        return self._entry(index, name, task_idx, (await self.tasks(name))[task_idx])

    async def entries(self, start: int | None, stop: int | None) -> AsyncIterator[dict[str, Any]]:
        """The entries of a range in order; each scenario's row is read once, and nobody waits for all of them."""
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
