"""Pages as a person gets them in a test: signed in by the session, without a browser."""

from __future__ import annotations

from django.test import Client

from people.access import Actor


def as_person(actor: Actor, **options: object) -> Client:
    """A client signed in as this person."""
    client = Client(**options)
    client.force_login(actor.user)
    return client
