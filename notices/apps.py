"""The notices app. Registers that a person who leaves a project gets no more notifications about it."""

from __future__ import annotations

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    name = "notices"

    def ready(self) -> None:
        from notices import subscriptions
        from people.record import members

        members.on_leave(subscriptions.forget)
