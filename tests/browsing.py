"""Pages as a person gets them in a test: signed in by the session, without a browser."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from django.http import HttpResponseBase
from django.test import Client

from people.access import SESSION_ENTRIES, Actor
from people.record.members import issue_login_link

PART = re.compile(
    r"/(steps\.html|wall\.html|similar|verifier|model-draft|tables|status|costs|preview|log|views|replies/|find|ahead)$"
    r"|/(reviews/said|briefing)/\w+/?$|/charts/rewards$|/asks/\w+/next$"
)
IN_PROJECT = re.compile(r"/projects/[-\w]+/")


class Browser(Client):
    """A client that opens an address without a project as browsers do: at the same address in its project."""

    def get(self, path: str, *args: Any, **more: Any) -> Any:
        if PART.search(path.partition("?")[0]) and "headers" not in more:
            more["headers"] = {"Accept": "text/html", "HX-Request": "true"}  # as the scripts of its page fetch it
        answer = super().get(path, *args, **more)
        there = urlsplit(str(answer.headers.get("Location", "")))
        plain = unquote(IN_PROJECT.sub("/", there.path))
        if plain == there.path or plain != answer.request["PATH_INFO"]:
            return answer
        return super().get(there.geturl(), **{name: value for name, value in more.items() if name != "data"})


def as_person(actor: Actor, **options: object) -> Client:
    """A client signed in as this person."""
    client = Browser(**options)
    client.force_login(actor.person)
    session = client.session
    session[SESSION_ENTRIES] = [one.entry for one in actor.person.memberships.all()]
    session.save()
    return client


def link_of(actor: Actor) -> str:
    """The secret of a link that opens everything this account may."""
    return issue_login_link(list(actor.person.memberships.all()))


class Html(str):
    """The text of a page without white space beside tags, which templates use for their own layout."""

    def __contains__(self, wanted: object) -> bool:
        return isinstance(wanted, str) and squeezed(wanted) in str(self)


def squeezed(text: str) -> str:
    return re.sub(r"\s*(<[^>]*?)\s*(>)\s*", r"\1\2", " ".join(text.split()))


def html(response: HttpResponseBase) -> Html:
    """Return what a page says; `in` and patterns need not know how its template is laid out."""
    return Html(squeezed(response.content.decode()))
