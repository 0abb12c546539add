"""The curriculum app."""

from __future__ import annotations

from django.apps import AppConfig


class CurriculumConfig(AppConfig):
    name = "curriculum"
