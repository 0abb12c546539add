"""A product that several files of this folder share."""

from pathlib import Path

import pytest

from tests.conftest import kept
from tests.running import Product, product


@pytest.fixture(scope="module")
def two_webs(request: pytest.FixtureRequest) -> Product:
    """Two web processes behind one port; the files that ask for it stand beside each other."""
    return kept(request, product(AWMWEB_WEB_PROCESSES="2"), lambda file: Path(file).parts[1] == "product")
