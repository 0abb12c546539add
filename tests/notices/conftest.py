"""What tests of notifications share: asks to be told of, and a product that may reach its own network."""

import pytest

from notices.record import subscriptions
from tests.asking import asked, models
from tests.notices.receivers import receiver

__all__ = ["asked", "models"]


@pytest.fixture
def private(settings):
    """The product may reach its own network, as a self-hoster allows it."""
    settings.AWMWEB_NOTICES_PRIVATE = True


@pytest.fixture
def there(private):
    """A web server that keeps what it is posted."""
    with receiver() as one:
        yield one


@pytest.fixture
def bell(edo):
    """Edo hears of asks by his open pages."""
    return subscriptions.subscribe(edo, "browser")
