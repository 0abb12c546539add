"""The people app. Registers what needs an operator of the disk, of Valkey and of the sign-in provider."""

from __future__ import annotations

from django.apps import AppConfig


class PeopleConfig(AppConfig):
    name = "people"

    def ready(self) -> None:
        """Import the modules that need models; Django allows that only now."""
        from people import operating

        operating.register("disk", operating.of_disk)
        operating.register("valkey", operating.of_valkey)
