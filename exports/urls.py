"""Addresses of the pages of exports."""

from __future__ import annotations

from django.urls import path, re_path

from exports import pages

urlpatterns = [
    path("exports/", pages.export_page, name="exports"),
    path("exports/preview", pages.export_preview, name="export_preview"),
    path("exports/recipe", pages.load_recipe, name="load_recipe"),
    path("exports/<str:pk>/", pages.one, name="export"),
    path("exports/<str:pk>/compare", pages.compare, name="compare_exports"),
    path("exports/<str:pk>/push", pages.push, name="push_export"),
    path("exports/<str:pk>/download", pages.download, name="download_export"),
    re_path(r"^exports/(?P<pk>[^/]+)/(?P<command>cancel|delete|again)$", pages.command, name="export_command"),
]
