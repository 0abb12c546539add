"""The experts app. Registers its hooks: an ending episode closes its asks, a removed person's claims are released, and
asks can be the subject of notifications."""

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
        members.on_leave(queue.release_all_of)
        subjects.register(notifications.AskKind())
