"""The episodes app."""

from __future__ import annotations

from django.apps import AppConfig


class EpisodesConfig(AppConfig):
    name = "episodes"

    def ready(self) -> None:
        """Import the modules that need models; Django allows that only now."""
        from episodes.record import recording
        from people.record import projects

        projects.before_archive(recording.refuse_archive)
