"""The runs app: calls a rollouts worker for parked episodes whose ask is closed. Registers a
column of the list of episodes."""

from __future__ import annotations

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"

    def ready(self) -> None:
        """Import the modules that need models; Django allows that only now."""
        from episodes.find import columns
        from episodes.record import recording
        from runs.launch import feeding, launching
        from runs.plan import spending

        recording.on_queued(lambda episode_id: launching.wake_worker(episode_id))
        recording.on_end(feeding.episode_ended)
        columns.register("tokens", spending.tokens_in)
