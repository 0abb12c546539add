"""What tests of the desk share."""

from tests.asking import asked, models

__all__ = ["asked", "models"]
