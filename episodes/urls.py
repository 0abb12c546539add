"""Addresses of the pages about episodes."""

from __future__ import annotations

from django.urls import path

from episodes import comparison, pages, views

urlpatterns = [
    path("episodes/", pages.episodes, name="episodes"),
    path("episodes/views", pages.save_view, name="save_episode_view"),
    path("episodes/views/<str:pk>/remove", pages.remove_view, name="remove_episode_view"),
    path("episodes/compare/", comparison.compare, name="compare_episodes"),
    path("episodes/selected", pages.selected, name="selected_episodes"),
    path("episodes/<str:pk>/", views.episode, name="episode"),
    path("episodes/<str:pk>/steps.html", views.step_fragments, name="step_fragments"),
    path("episodes/<str:pk>/find", views.find_in_episode, name="find_in_episode"),
    path("episodes/<str:pk>/replay/", views.replay, name="replay"),
    path("episodes/<str:pk>/briefing/<int:seq>", views.briefing_words, name="briefing_words"),
    path("episodes/<str:pk>/stop", views.stop_episode, name="stop_episode"),
    path("wall.html", views.wall_rows, name="wall_rows"),
    path("connect/", views.connect, name="connect"),
    path("connect/status", views.connect_status, name="connect_status"),
]
