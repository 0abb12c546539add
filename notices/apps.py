"""The notices app: registers that whoever leaves a project hears nothing more of it."""

from __future__ import annotations

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    name = "notices"

    def ready(self) -> None:
        from notices import subscriptions
        from people import members

        members.on_leave(subscriptions.forget)
