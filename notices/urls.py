"""Addresses of the page Notifications and of the service worker."""

from __future__ import annotations

from django.urls import path

from notices import pages

urlpatterns = [
    path("notices/", pages.page, name="notices"),
    path("notices/on", pages.switch_on, name="notices_on"),
    path("notices/log", pages.log, name="notices_log"),
    path("notices/quiet", pages.quiet, name="notices_quiet"),
    path("notices/<str:pk>/<str:command>", pages.command, name="notice_command"),
    path("sw.js", pages.service_worker, name="service_worker"),
]
