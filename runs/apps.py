"""The runs app: calls a rollouts worker for parked episodes whose ask is closed. Registers a
column of the list of episodes, and which numbers of runs and campaigns a repaired verifier changes."""

from __future__ import annotations

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"

    def ready(self) -> None:
        """Import the modules that need models; Django allows that only now."""
        from episodes.find import columns
        from episodes.record import ending, recording, rejudging
        from people import operating
        from runs.launch import feeding, launching, paying
        from runs.plan import spending
        from runs.show import errata, failing

        recording.on_queued(lambda episode_id: launching.wake_worker(episode_id))
        ending.on_end(feeding.episode_ended)
        rejudging.on_change(paying.forget)
        rejudging.on_reading(rejudging.RUN, errata.numbers_of_runs)
        rejudging.on_reading(rejudging.CAMPAIGN, errata.numbers_of_campaigns)
        columns.register("tokens", spending.tokens_in)
        operating.register("agent models", failing.models)
        operating.register("environment servers", failing.servers)
        operating.register("judge", failing.judge)
