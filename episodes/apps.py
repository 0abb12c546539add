"""The episodes app."""

from __future__ import annotations

from django.apps import AppConfig


class EpisodesConfig(AppConfig):
    name = "episodes"
