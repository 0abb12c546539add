"""Addresses of the curriculum's page."""

from __future__ import annotations

from django.urls import path

from curriculum import pages

urlpatterns = [
    path("curriculum/", pages.curriculum_page, name="curriculum"),
    path("curriculum/training.csv", pages.series_file, name="training_csv"),
    path("curriculum/training.tfevents", pages.events_file, name="training_events"),
    path("curriculum/turns.jsonl", pages.turns_file, name="training_turns"),
    path("curriculum/decide", pages.decide, name="curriculum_decide"),
    path("curriculum/decisions/<str:pk>/undo", pages.undo, name="curriculum_undo"),
]
