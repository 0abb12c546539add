"""Fixtures that every package's tests share."""

from collections.abc import Iterator

import pytest

from tests.house import django_db_modify_db_settings, house_servers
from tests.people_by_name import ada, edo, elsewhere, max_, project, rita
from tests.running import Product, product

__all__ = ["ada", "django_db_modify_db_settings", "edo", "elsewhere", "house_servers", "max_", "project", "rita"]


@pytest.fixture(scope="session")
def house() -> Iterator[Product]:
    """One running product for all tests that may share it; without the demo run."""
    with product(AWMWEB_HEARTBEAT_S="5") as running:
        yield running
