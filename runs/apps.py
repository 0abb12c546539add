"""The runs app: calls a rollouts worker for episodes that have been parked and have their answer."""

from __future__ import annotations

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"

    def ready(self) -> None:
        """Import what needs models; they can be imported only now."""
        from episodes.record import recording
        from runs.launch import feeding, launching

        recording.on_queued(lambda episode_id: launching.wake_worker(episode_id))
        recording.on_end(feeding.episode_ended)
