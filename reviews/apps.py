"""The reviews app: registers that who leaves gives back the reviews they hold, and comments as a subject of
notifications."""

from __future__ import annotations

from django.apps import AppConfig


class ReviewsConfig(AppConfig):
    name = "reviews"

    def ready(self) -> None:
        from notices import subjects
        from people import members
        from reviews import assigning, notifications

        members.on_leave(assigning.give_back)
        subjects.register(notifications.CommentKind())
