"""The people app."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings


class PeopleConfig(AppConfig):
    name = "people"

    def ready(self) -> None:
        from people.cursors import BindingCursor

        settings.DATABASES["default"]["OPTIONS"]["cursor_factory"] = BindingCursor
