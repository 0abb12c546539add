"""A product that several files of this folder share."""

from collections.abc import Iterator

import pytest

from tests.running import Product, product


@pytest.fixture(scope="session")
def two_webs() -> Iterator[Product]:
    """Two web processes behind one port. `tests/conftest.py` keeps the files together that ask for it."""
    with product(AWMWEB_WEB_PROCESSES="2") as running:
        yield running
