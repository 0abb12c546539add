"""What the check of the starter pack reports: a process that runs every verifier, once for all commands of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from awmenv.health import Health
from awmenv.packs import Pack
from runs.taskset import checking

Reports = dict[str, dict[tuple[str, int], Health]]


@pytest.fixture(scope="module")
def reports() -> Reports:
    packs = checking.packs_named([])
    assert list(checking.verifiers(packs))
    return {pack.name: dict(pack.report.health) for pack in packs}


@pytest.fixture
def checked(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands find these reports in place of a check of their own."""

    def verifiers(packs: Sequence[Pack]) -> Iterator[object]:
        for pack in packs:
            pack.report.health.update(reports[pack.name])
        return iter(())

    monkeypatch.setattr(checking, "verifiers", verifiers)
