"""Celery: ask the sign-in provider about those signed in. Loaded only with `AWMWEB_OIDC_ISSUER` (`CELERY_IMPORTS`)."""

from __future__ import annotations

from celery import shared_task

from people.record import following


@shared_task(name="people.watching.check")
def check() -> None:
    following.check_due()
