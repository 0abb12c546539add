"""Tokens of the product in which the frameworks' agents are recorded."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def agent_token(house):
    return house.token("agent")


@pytest.fixture(scope="session")
def expert_token(house):
    return house.token("expert")
