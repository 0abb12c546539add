"""Tokens of the product in which the frameworks' agents are recorded."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def agent_token(house):
    return house.token("agent")


@pytest.fixture(scope="module")
def expert_token(house):
    return house.token("expert")
