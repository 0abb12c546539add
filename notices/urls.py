"""Addresses of the page Notifications and of the service worker."""

from __future__ import annotations

from django.urls import path

from notices import pages

urlpatterns = [
    path("notifications/", pages.page, name="notices"),
    path("notifications/on", pages.switch_on, name="notices_on"),
    path("notifications/log", pages.log, name="notices_log"),
    path("notifications/quiet", pages.quiet, name="notices_quiet"),
    path("notifications/slack-channels", pages.add_slack_channel, name="slack_channel_add"),
    path("notifications/slack-channels/<str:pk>/<str:command>", pages.slack_channel, name="slack_channel"),
    path("notifications/<str:pk>/<str:command>", pages.command, name="notice_command"),
    path("sw.js", pages.service_worker, name="service_worker"),
]
