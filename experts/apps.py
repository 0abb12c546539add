"""The experts app: registers that an ending episode closes its asks in its own transaction."""

from __future__ import annotations

from django.apps import AppConfig


class ExpertsConfig(AppConfig):
    name = "experts"

    def ready(self) -> None:
        from episodes import recording
        from experts import closing, notices, queue
        from people import members

        recording.on_end(closing.cancel_of_episode)
        members.on_leave(queue.give_back)
        members.on_leave(notices.forget)
