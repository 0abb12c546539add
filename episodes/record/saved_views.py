"""Writes: saved views of the list of episodes."""

from __future__ import annotations

from episodes.models import SavedView
from people.access import may_launch, may_read
from people.record.saved_views import SavedViews

EPISODE_VIEWS = SavedViews(SavedView.objects.all, may_save=may_read, may_direct=may_launch)
