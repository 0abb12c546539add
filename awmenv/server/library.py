"""The packs a server was started with, as one shelf: which pack holds a scenario, what is listed, what the Task API
tells.

Called by `environment` and `app`. Reading only; `awmenv.packs` owns the format.
"""

import asyncio
import bisect
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from awmenv.errors import UnknownScenario
from awmenv.models import normalise_name
from awmenv.packs import Pack, Scenario, load_pack

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

    def listed(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "description": self.scenario(name).description, "num_tasks": self.scenario(name).task_count}
            for name in self._names
        ]

    async def tasks(self, name: str) -> list[str]:
        """Read off the loop, because a real row may be large."""
        return await asyncio.to_thread(self.find(name).tasks, name)

    @property
    def task_count(self) -> int:
        return self._ends[-1] if self._ends else 0

    def task(self, index: int) -> dict[str, Any]:
        """One entry of the Task API; raises IndexError outside."""
        if not 0 <= index < self.task_count:
            raise IndexError(index)
        place = bisect.bisect_right(self._ends, index)
        name, pack = self._names[place], self.find(self._names[place])
        task_idx = index - (self._ends[place - 1] if place else 0)
        return {
            "id": f"{name}/{task_idx}",
            "index": index,
            "scenario": name,
            "task_idx": task_idx,
            "task": pack.tasks(name)[task_idx],
            "has_verifier": pack.has_verifier(name, task_idx),
        }
