"""Reads: expert models whose last call got no answer, for those who run the installation.

A model that answered, but not as it was asked to, is none: its endpoint works. Registered with `people.operating`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings

from experts.models import ModelCall
from people.access import Actor
from people.operating import RECENT, Need

LOOK, EXPERT = "look", "expert"


def models(actor: Actor, now: datetime) -> Iterator[Need]:
    """Yield each configured model that did not answer when it was asked last, as expert and as second look."""
    calls = ModelCall.objects.filter(project=actor.project, at__gt=now - RECENT).order_by("-at", "-pk")
    for name, endpoint in settings.EXPERT_ENDPOINTS.items():
        # the one that is asked first has no name of its own
        model = endpoint.model if name == EXPERT else f"{name} ({endpoint.model})"
        mine = calls.filter(model_key=f"model:{name}")
        for rows, use in ((mine.exclude(purpose=LOOK), "Expert model"), (mine.filter(purpose=LOOK), "Second look by")):
            last = rows.only("fault", "tokens", "at").first()
            # a call that cost no tokens got no answer
            if last is not None and last.fault and not last.tokens:
                yield Need(f"{use} {model}", last.fault, last.at, "models")
