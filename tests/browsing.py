"""Pages as a person gets them in a test: signed in by the session, without a browser."""

from __future__ import annotations

import re

from django.http import HttpResponseBase
from django.test import Client

from people.access import Actor


def as_person(actor: Actor, **options: object) -> Client:
    """A client signed in as this person."""
    client = Client(**options)
    client.force_login(actor.user)
    return client


class Html(str):
    """The text of a page without white space beside tags, which templates use for their own layout."""

    def __contains__(self, wanted: object) -> bool:
        return isinstance(wanted, str) and squeezed(wanted) in str(self)


def squeezed(text: str) -> str:
    return re.sub(r"\s*(<[^>]*?)\s*(>)\s*", r"\1\2", " ".join(text.split()))


def html(response: HttpResponseBase) -> Html:
    """Return what a page says; `in` and patterns need not know how its template is laid out."""
    return Html(squeezed(response.content.decode()))
