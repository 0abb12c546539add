"""The process that checks packs, without a new interpreter for each check."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from runs.taskset import checking
from tests import nursery
from tests.warm import CAN_FORK, Warm

WARM = Warm("awmenv.server.checkpack")


@pytest.fixture(autouse=CAN_FORK)
def warm_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork what the commands of a test start; `manage.py` in a process of its own starts an interpreter as ever."""

    def started(command, **how):
        assert command[1:3] == ["-m", "awmenv.server.checkpack"], command
        return WARM.start(*command[3:], environment=how["env"], nursery=[nursery.line()])

    kept = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE", "STDOUT")}
    monkeypatch.setattr(checking, "subprocess", SimpleNamespace(Popen=started, **kept))
