"""Live hints of notifications: what one person's open pages hear alone, and the call for somebody who sends.

Publishes through `episodes.events`, the only publisher.
"""

from __future__ import annotations

from episodes import events
from people import jobs


def person_topic(project_id: str, key: str) -> str:
    """Return what the open pages of one person hear alone."""
    return f"person:{project_id}:{key}"


def tell_person(project_id: str, key: str, notice: events.Frame) -> None:
    events.publish(person_topic(project_id, key), {"type": "notice", **notice})


def call_sender() -> None:
    """Wake the worker that sends; a call that is lost costs the time until the next sweep."""
    jobs.call_after_commit("notices.tasks.send")
