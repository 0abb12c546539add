"""Live hints of notifications: the topic of one person's open pages, and the call of the sender.

Publishes through `episodes.events`, the only publisher.
"""

from __future__ import annotations

from episodes import events
from people.record import jobs


def person_topic(project_id: str, key: str) -> str:
    """Return the topic that only one person's open pages subscribe to."""
    return f"person:{project_id}:{key}"


def tell_person(project_id: str, key: str, notice: events.Frame) -> None:
    events.publish(person_topic(project_id, key), {"type": "notice", **notice})


def call_sender() -> None:
    """Wake the worker that sends; a call that is lost costs the time until the next sweep."""
    jobs.call_after_commit("notices.tasks.send")
