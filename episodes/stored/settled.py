"""Reads: episodes that have ended for good: their verifier has run, or will not run."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet

from awmclient.schema import (
    LIVE_STATES,
)
from episodes.models import (
    RUN_HERE,
    Episode,
    EpisodeEvent,
    EpisodeState,
    VerifierOutcome,
)

NOT_VERIFIED, NOT_ATTESTED, NO_SERVER = "not verified", "not attested", "no environment server"
"""Verbs of the history that say what did not come."""


def unverified() -> QuerySet[Episode]:
    """Return finished built-in episodes without an outcome or a reason for none: their worker was lost in between."""
    finished = Episode.every.filter(state=EpisodeState.FINISHED, origin__in=RUN_HERE)
    reports = EpisodeEvent.objects.filter(episode=OuterRef("pk"), verb=NOT_VERIFIED)
    # of an episode that ran here, a reported outcome is that of its environment
    here = (VerifierOutcome.Source.VERIFIER, VerifierOutcome.Source.REPORTED)
    judged = VerifierOutcome.objects.filter(episode=OuterRef("pk"), source__in=here)
    return finished.filter(~Exists(reports), ~Exists(judged))


def settled() -> QuerySet[Episode]:
    """Return episodes that have ended and whose verifier has run or will not run."""
    waits = unverified().filter(pk=OuterRef("pk"), fault="")
    return Episode.every.exclude(state__in=LIVE_STATES).exclude(Exists(waits))
