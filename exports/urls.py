"""Addresses of the pages of exports."""

from __future__ import annotations

from django.urls import path, re_path

from exports.pages import exports

urlpatterns = [
    path("exports/", exports.export_page, name="exports"),
    path("exports/preview", exports.export_preview, name="export_preview"),
    path("exports/recipe", exports.load_recipe, name="load_recipe"),
    path("exports/<str:pk>/", exports.export_detail, name="export"),
    path("exports/<str:pk>/compare", exports.compare, name="compare_exports"),
    path("exports/<str:pk>/push", exports.push, name="push_export"),
    path("exports/<str:pk>/download", exports.download, name="download_export"),
    re_path(r"^exports/(?P<pk>[^/]+)/(?P<command>cancel|delete|again)$", exports.command, name="export_command"),
]
