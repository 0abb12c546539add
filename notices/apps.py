"""The notices app. Registers that a person who leaves a project gets no more notifications about it, and which
channels need an operator."""

from __future__ import annotations

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    name = "notices"

    def ready(self) -> None:
        from notices import failing
        from notices.record import subscriptions
        from people import operating
        from people.record import members

        members.on_leave(subscriptions.forget)
        operating.register("channels", failing.channels)
