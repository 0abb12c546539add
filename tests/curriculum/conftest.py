"""Fixtures of the curriculum's tests: a trainer and its tasks."""

from __future__ import annotations

import pytest

from curriculum import next_tasks
from episodes.record import pinning
from tests.curriculum.trainer import Trainer


@pytest.fixture
def train(project, monkeypatch):
    """A trainer in the lab, without the packs on disk."""
    monkeypatch.setattr(next_tasks.packs, "packs", lambda: [])
    return Trainer(project)


@pytest.fixture
def shop(ada):
    """Twelve tasks of a shop to train on, and two held out."""
    train = [f"shop/{number}" for number in range(12)]
    return pinning.pin(ada, "shop", unit="task", seed=1, train=train, val=["shop/12", "shop/13"])
