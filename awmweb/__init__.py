"""How the house is wired together: settings, urls, asgi, celery. No rules live here."""

from awmweb.celery import app as celery_app

__all__ = ["celery_app"]
