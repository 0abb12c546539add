"""Makes every Django process send its tasks through our Celery app; `shared_task` looks for whichever app exists."""

from django.apps import AppConfig

from awmweb.celery import app

__all__ = ["AwmwebConfig", "app"]


class AwmwebConfig(AppConfig):
    """The wiring has no models; it is an app for its commands' sake."""

    name = "awmweb"
