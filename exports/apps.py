"""The exports app: registers which rows of exports a repaired verifier changes, and the rows of a dataset."""

from __future__ import annotations

from django.apps import AppConfig


class ExportsConfig(AppConfig):
    name = "exports"

    def ready(self) -> None:
        """Import the modules that need models; Django allows that only now."""
        from curriculum.show import rounds
        from episodes.record import rejudging
        from exports.explain import errata, learned

        rejudging.on_reading(rejudging.EXPORT, errata.rows_of_exports)
        rounds.register(learned.rows_of)
