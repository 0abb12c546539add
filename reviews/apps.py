"""The reviews app: registers the release of a removed member's reviews, the withholding of outcomes by role, comments
as a subject of notifications, and verdicts and labels as filters of episodes, and verdicts as a column."""

from __future__ import annotations

from django.apps import AppConfig


class ReviewsConfig(AppConfig):
    name = "reviews"

    def ready(self) -> None:
        # imported here, because models cannot be imported before all apps are loaded
        from episodes.find import columns, sorting
        from episodes.find import narrowing as filters_of_episodes
        from notices import subjects
        from people.record import members
        from reviews import notifications
        from reviews.record import assigning, withholding
        from reviews.visible import narrowing

        members.on_leave(assigning.release_all_of)
        members.on_role(withholding.follow_role)
        subjects.register(notifications.CommentKind())
        columns.register("verdict", narrowing.verdicts_in)
        sorting.register("verdict", narrowing.by_verdict)
        filters_of_episodes.register(narrowing.ReviewFilters())
