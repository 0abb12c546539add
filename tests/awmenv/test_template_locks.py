"""Locks of scenario templates end with their callers: a record can name any start of a world."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

from awmenv.server.session import scenario
from awmenv.server.session.scenario import ScenarioPool


class Zygote:
    """Loads nothing: the pool's bookkeeping alone is looked at."""

    def __init__(self, *given, **more):
        self.tier = "none"


async def test_lock_of_each_start_ends_with_its_callers(monkeypatch, tmp_path):
    monkeypatch.setattr(scenario, "ZygoteClient", Zygote)
    settings = SimpleNamespace(declared_tier="none", template_hours=1, warm_scenarios=1000)
    pool = ScenarioPool(settings, SimpleNamespace(fresh=lambda name: tmp_path, uid=0))
    loads = []

    async def load(pack, name, key, clock=None):
        loads.append(clock)
        await asyncio.sleep(0)
        return SimpleNamespace(key=key, clock=clock, made_at=time.monotonic(), retired=False, live=0, used_at=0.0)

    monkeypatch.setattr(pool, "_load", load)
    monkeypatch.setattr(pool, "_usable", lambda template: True)
    pack = SimpleNamespace(digests={"desk": "d"})
    twice = [pool.template(pack, "desk", clock) for clock in range(200) for _ in range(2)]
    await asyncio.gather(*twice)
    assert loads == list(range(200)), "the second caller of a start waits for the first"
    assert len(pool._locks) == 0
