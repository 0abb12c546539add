"""Writes: how many requests each model server answers at a time, where it says so.

That is the limit of episodes that ask it, unless the settings have one (`limits.model_limits`). A server is looked at
before a run starts, while one runs, and by *Test endpoint*. Leaves what it is asked to `awmclient.choosing.testing`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from awmclient.choosing import testing
from awmclient.choosing.chat import EndpointConfig
from runs.launch import feeding
from runs.models import Arm, ModelSlots, PlanState
from runs.plan import limits

log = logging.getLogger(__name__)
FRESH = timedelta(minutes=5)
"""How long a server's word holds: it can be started again with other slots."""
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def look(names: Iterable[str]) -> None:
    """Look at the servers of these models that have no limit in the settings, all at the same time, unless their word
    is fresh."""
    asked = {
        endpoint.base_url: endpoint
        for name in names
        if name not in settings.AGENT_LIMITS and (endpoint := settings.AGENT_ENDPOINTS.get(name))
    }
    if not asked:
        return
    fresh = ModelSlots.objects.filter(address__in=asked, looked_at__gt=timezone.now() - FRESH)
    for address in fresh.values_list("address", flat=True):
        del asked[address]
    for endpoint, slots in async_to_sync(_slots)(list(asked.values())):
        note(endpoint, slots)


async def _slots(endpoints: list[EndpointConfig]) -> list[tuple[EndpointConfig, int | None]]:
    slots = await asyncio.gather(*map(testing.slots_of, endpoints))
    return list(zip(endpoints, slots, strict=True))


@transaction.atomic
def note(endpoint: EndpointConfig, slots: int | None) -> None:
    """Keep what a server said of its slots. While it does not respond (None), its last word holds."""
    before = ModelSlots.objects.filter(address=endpoint.base_url).first()
    if slots is None:
        slots = before.slots if before else 0
    about = {"slots": slots, "looked_at": timezone.now()}
    ModelSlots.objects.update_or_create(address=endpoint.base_url, defaults=about)
    if slots != (before.slots if before else 0):
        log.info("the server of model %s has %s slots", endpoint.model, slots or "an unknown number of")
        transaction.on_commit(feeding.feed_all)


def look_soon(name: str) -> None:
    """Look at the server of a model as soon as a run asks it: it may have been started again."""
    if endpoint := settings.AGENT_ENDPOINTS.get(name):
        ModelSlots.objects.filter(address=endpoint.base_url).update(looked_at=LONG_AGO)


def look_again() -> None:
    """Look at the servers that running runs ask, and let go of those that the settings name no more."""
    ModelSlots.objects.exclude(address__in={one.base_url for one in settings.AGENT_ENDPOINTS.values()}).delete()
    policies = Arm.objects.filter(plan__state=PlanState.RUNNING).values_list("policy", flat=True).distinct()
    look(map(limits.endpoint_of, policies))
