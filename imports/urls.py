"""Addresses of the pages of imports."""

from __future__ import annotations

from django.urls import path

from imports import pages

urlpatterns = [
    path("imports/", pages.imports_page, name="imports"),
    path("imports/<str:pk>/", pages.import_detail, name="import"),
]
