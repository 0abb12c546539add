"""Addresses of the pages of runs."""

from __future__ import annotations

from django.urls import path

from runs.pages import briefings, campaigns, forks, playing, runs, tables, verifiers, wheel

urlpatterns = [
    path("episodes/<str:pk>/replay/tables", tables.tables_at, name="tables_at"),
    path("episodes/<str:pk>/fork", forks.fork_form, name="fork_form"),
    path("episodes/<str:pk>/proof", forks.proof, name="proof"),
    path("episodes/<str:pk>/tree", forks.tree_page, name="tree"),
    path("episodes/<str:pk>/wheel", wheel.wheel_page, name="wheel"),
    path("forks/<str:pk>/", forks.fork_page, name="fork"),
    path("campaigns/", campaigns.campaigns_page, name="campaigns"),
    path("campaigns/<str:pk>/", campaigns.campaign_page, name="campaign"),
    path("campaigns/<str:pk>/cancel", campaigns.cancel, name="campaign_cancel"),
    path("episodes/<str:pk>/play", playing.play_page, name="play_episode"),
    path("runs/", runs.runs_page, name="runs"),
    path("runs/preview", runs.preview, name="run_preview"),
    path("briefings/", briefings.briefings_page, name="briefings"),
    path("briefings/<str:scenario>/<int:task_idx>/", briefings.briefing_page, name="briefing"),
    path("verifiers/<str:scenario>/<int:task_idx>/", verifiers.verifier_page, name="verifier"),
    path("runs/<str:pk>/", runs.run_page, name="run"),
    path("runs/<str:pk>/play", playing.play_next, name="run_play"),
    path("runs/<str:pk>/plan.yaml", runs.plan_file, name="run_plan"),
    path("runs/<str:pk>/costs", runs.costs, name="run_costs"),
    path("runs/<str:pk>/tables/<str:name>.csv", runs.table_file, name="run_table"),
    path("runs/<str:pk>/charts/rewards", runs.reward_charts, name="run_rewards"),
    path("runs/<str:pk>/<str:name>", runs.command, name="run_command"),
]
