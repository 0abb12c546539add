"""Makes every Django process send its tasks through our Celery app; `shared_task` uses the current app."""

from django.apps import AppConfig

from awmweb.celery import app

__all__ = ["AwmwebConfig", "app"]


class AwmwebConfig(AppConfig):
    """The project as an app: it has no models, only commands."""

    name = "awmweb"
