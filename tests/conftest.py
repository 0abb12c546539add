"""Fixtures that every package's tests share."""

from collections.abc import Iterator

import pytest

from tests.house import django_db_modify_db_settings, house_servers
from tests.people_by_name import ada, edo, elsewhere, max_, project, rita
from tests.running import Product, product

LONG_FIRST = ["chaos", "product", "browser", "runs", "awmweb", "awmenv", "packs_starter"]
"""Folders whose tests start servers, those with the longest tests first."""

__all__ = ["ada", "django_db_modify_db_settings", "edo", "elsewhere", "house_servers", "max_", "project", "rita"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: a process is given its next file while two tests are left of the one before, so that long
    files of one test each, at the end, would all go to the same one.
    """
    order = {name: number for number, name in enumerate(LONG_FIRST)}
    items.sort(key=lambda item: (item.get_closest_marker("long") is None, order.get(item.path.parent.name, len(order))))


@pytest.fixture(scope="session")
def house() -> Iterator[Product]:
    """One running product for all tests that may share it; without the demo run.

    A loop that is silent for 12 s is lost: soon enough to wait for, and longer than a busy machine takes between two
    requests of a test.
    """
    with product(AWMWEB_HEARTBEAT_S="12") as running:
        yield running
