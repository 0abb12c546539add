"""Addresses of the pages of exports."""

from __future__ import annotations

from django.urls import path, re_path

from exports import pages

urlpatterns = [
    path("exports/", pages.export_page, name="exports"),
    path("exports/preview", pages.export_preview, name="export_preview"),
    path("exports/<str:pk>/", pages.one, name="export"),
    path("exports/<str:pk>/download", pages.download, name="download_export"),
    re_path(r"^exports/(?P<pk>[^/]+)/(?P<command>cancel|delete|again)$", pages.command, name="export_command"),
]
