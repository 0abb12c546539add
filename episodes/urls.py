"""Addresses of the pages about episodes."""

from __future__ import annotations

from django.urls import path

from episodes.pages import comparing, many, one, picture

urlpatterns = [
    path("episodes/", many.episodes, name="episodes"),
    path("episodes/views", many.save_view, name="save_episode_view"),
    path("episodes/views/<str:pk>/remove", many.remove_view, name="remove_episode_view"),
    path("episodes/compare/", comparing.compare, name="compare_episodes"),
    path("episodes/selected", many.selected, name="selected_episodes"),
    path("episodes/<str:pk>/", one.episode, name="episode"),
    path("episodes/<str:pk>/steps.html", one.step_fragments, name="step_fragments"),
    path("episodes/<str:pk>/find", one.find_in_episode, name="find_in_episode"),
    path("episodes/<str:pk>/replay/", one.replay, name="replay"),
    path("episodes/<str:pk>/briefing/<int:seq>", one.briefing_words, name="briefing_words"),
    path("episodes/<str:pk>/pictures/<str:digest>", picture.picture, name="picture"),
    path("episodes/<str:pk>/stop", one.stop_episode, name="stop_episode"),
    path("wall.html", one.live_rows, name="wall_rows"),
    path("connect/", one.connect, name="connect"),
    path("connect/status", one.connect_status, name="connect_status"),
]
