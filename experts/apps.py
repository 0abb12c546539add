"""The experts app: registers that an ending episode closes its asks in its own transaction, that who leaves gives back
what they hold, and asks as a subject of notifications."""

from __future__ import annotations

from django.apps import AppConfig


class ExpertsConfig(AppConfig):
    name = "experts"

    def ready(self) -> None:
        from episodes.record import recording
        from experts import closing, notifications, queue
        from notices import subjects
        from people import members

        recording.on_end(closing.cancel_of_episode)
        members.on_leave(queue.give_back)
        subjects.register(notifications.AskKind())
