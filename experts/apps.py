"""The experts app. Registers its hooks: an ending episode closes its asks, a removed person's claims are released, a
model looks at answers before they leave, and asks can be the subject of notifications and a column of the list of
episodes."""

from __future__ import annotations

from django.apps import AppConfig


class ExpertsConfig(AppConfig):
    name = "experts"

    def ready(self) -> None:
        from episodes.find import columns, sorting
        from episodes.record import ending
        from experts import endings, looking, notifications
        from experts.find import failing, unstaffed
        from experts.record import advising, closing, queue
        from notices import subjects
        from people import operating
        from people.record import members

        ending.on_end(closing.cancel_of_episode)
        members.on_leave(queue.release_all_of)
        advising.on_leaving(looking.overruled)
        columns.register("waited", endings.waited_in)
        sorting.register("waited", endings.by_wait)
        subjects.register(notifications.AskKind())
        operating.register("expert models", failing.models)
        operating.register("skills", unstaffed.skills)
