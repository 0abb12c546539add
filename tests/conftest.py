"""Fixtures that every package's tests share."""

from collections.abc import Iterator

import pytest

from tests.house import django_db_modify_db_settings, house_servers
from tests.people_by_name import ada, edo, elsewhere, max_, project, rita
from tests.running import Product, product

LONG_FIRST = ["chaos", "product", "browser", "runs", "awmweb", "awmenv", "packs_starter"]
"""Folders whose tests start servers, those with the longest tests first."""

TOGETHER = {
    "desk": [
        f"tests/browser/test_{name}.py"
        for name in ("answering", "calling_people", "catch_up", "exports", "long_episode", "two_at_the_queue")
    ],
    "two_webs": ["tests/product/test_mcp.py", "tests/product/test_streaming.py"],
}
"""Files by the product that they share beside `house`: one process makes them all, and begins with them."""
GROUPS = {file: group for group, files in TOGETHER.items() for file in files}

__all__ = ["ada", "django_db_modify_db_settings", "edo", "elsewhere", "house_servers", "max_", "project", "rita"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: a process is given its next file while two tests are left of the one before, so that long
    files of one test each, at the end, would all go to the same one.
    """
    order = {name: number for number, name in enumerate(LONG_FIRST)}

    def place(item: pytest.Item) -> tuple[bool, bool, int]:
        apart = item.nodeid.split("::")[0] not in GROUPS
        return item.get_closest_marker("long") is None, apart, order.get(item.path.parent.name, len(order))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With `--dist loadfile` a file's tests stay in one process, and so do the files that share a product."""
    from xdist.scheduler import LoadFileScheduling  # the environments of trainers and frameworks do without

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return GROUPS.get(file, file)

    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def house() -> Iterator[Product]:
    """One running product for all tests that may share it; without the demo run.

    A loop that is silent for 12 s is lost: soon enough to wait for, and longer than a busy machine takes between two
    requests of a test.
    """
    with product(AWMWEB_HEARTBEAT_S="12") as running:
        yield running
