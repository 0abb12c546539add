"""Addresses of the pages of runs."""

from __future__ import annotations

from django.urls import path

from runs import briefing_pages, pages, table_pages

urlpatterns = [
    path("episodes/<str:pk>/replay/tables", table_pages.tables_at, name="tables_at"),
    path("runs/", pages.runs_page, name="runs"),
    path("runs/preview", pages.preview, name="run_preview"),
    path("briefings/", briefing_pages.briefings_page, name="briefings"),
    path("briefings/<str:scenario>/<int:task_idx>/", briefing_pages.briefing_page, name="briefing"),
    path("runs/<str:pk>/", pages.run_page, name="run"),
    path("runs/<str:pk>/plan.yaml", pages.plan_file, name="run_plan"),
    path("runs/<str:pk>/costs", pages.costs, name="run_costs"),
    path("runs/<str:pk>/tables/<str:name>.csv", pages.table_file, name="run_table"),
    path("runs/<str:pk>/charts/rewards", pages.reward_charts, name="run_rewards"),
    path("runs/<str:pk>/<str:name>", pages.command, name="run_command"),
]
