"""Addresses of the pages of runs."""

from __future__ import annotations

from django.urls import path

from runs import pages

urlpatterns = [
    path("runs/", pages.runs_page, name="runs"),
    path("runs/preview", pages.preview, name="run_preview"),
    path("runs/<str:pk>/", pages.run_page, name="run"),
    path("runs/<str:pk>/plan.yaml", pages.plan_file, name="run_plan"),
    path("runs/<str:pk>/costs", pages.costs, name="run_costs"),
    path("runs/<str:pk>/tables/<str:name>.csv", pages.table_file, name="run_table"),
    path("runs/<str:pk>/<str:name>", pages.command, name="run_command"),
]
