"""Writes: which agent models take no request now. No episode is started for one of them until it answers again.

An episode that asks a model notes its refusals, and the answer after them; `look_again` looks at a model that no
episode asks any more. Leaves waiting within a turn to `awmclient.choosing.chat`, and what can start to `limits.py`.
"""

from __future__ import annotations

import logging
from functools import partial

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction

from episodes.models import Episode
from people.text.plain_text import storable
from runs.launch import feeding, launching, slots
from runs.models import ModelOutage, PlannedTry
from runs.plan import limits

log = logging.getLogger(__name__)
REFUSED = 2
"""Refusals of one turn in a row, after which a model has an outage: hosted ones often refuse a single request."""


class Noting:
    """Notes of one episode about its model's server: `refused` for each refusal, and with "" for the answer after."""

    def __init__(self, name: str) -> None:
        self._name, self._refusals = name, 0

    def refused(self, reason: str) -> None:
        self._refusals = self._refusals + 1 if reason else 0
        if not reason:
            end(self._name)
        elif self._refusals >= REFUSED:
            begin(self._name, reason)


def begin(name: str, reason: str) -> None:
    """Note that a model takes no request now."""
    words = storable(reason)
    _, is_new = ModelOutage.objects.update_or_create(name=name, defaults={"reason": words})
    if is_new:
        log.warning("model %s takes no request: %s", name, words)


@transaction.atomic
def end(name: str) -> None:
    """Note that a model answers, and call for the episodes that wait for it."""
    if ModelOutage.objects.filter(name=name).delete()[0]:
        log.warning("model %s answers again", name)
        slots.look_soon(name)
        transaction.on_commit(feeding.feed_all)


def look_again() -> None:
    """Look at each model with an outage, with one request; the answer ends its outage. So does another configuration
    that names it no more."""
    for name in ModelOutage.objects.values_list("name", flat=True):
        endpoint = settings.AGENT_ENDPOINTS.get(name)
        if endpoint is None or not async_to_sync(endpoint.away)():
            end(name)


@transaction.atomic
def put_back(episode: Episode) -> bool:
    """Return whether the model of a queued episode does not respond; if so, it has no call for now.

    A planned one that no attempt has begun leaves its place to other arms. Any other is called for again later.
    """
    name = limits.endpoint_in(episode.policy)
    if not name or not ModelOutage.objects.filter(name=name).exists():
        return False
    if PlannedTry.objects.filter(episode=episode.pk, begun_at=None).update(called_at=None):
        transaction.on_commit(partial(feeding.feed, str(episode.run_id)))
    else:
        transaction.on_commit(partial(launching.wake_again, episode))
    return True
