"""Steps and events of an episode. They are append-only: saving an existing one raises."""

from __future__ import annotations

import json
from typing import Any

from django.db import models
from django.db.models import F, Q

from episodes.models.episodes import Episode
from episodes.models.kinds import StepKind
from people.models import shown


class AppendOnly(models.Model):
    """A row that is written once."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        # an `update()` does not come through here; docs/architecture.md lists the modules that use one
        if not self._state.adding:
            raise TypeError(f"a {type(self).__name__.lower()} is only ever added")
        super().save(*args, **kwargs)


class Step(AppendOnly):
    """One ordered entry of an episode.

    `body` is the step as it was sent, JSON with ASCII escapes, so that every string survives (U+0000 and lone
    surrogates, which no text column of PostgreSQL takes). `cut` is the short form of a large one (see `truncation.py`).
    The unique pair finds an episode's steps: the foreign key needs no index of its own.
    """

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="steps", db_index=False)
    seq = models.IntegerField()
    kind = models.CharField(max_length=12, choices=StepKind.choices)
    body = models.TextField()
    cut = models.TextField(null=True)  # noqa: DJ001  null: small enough to go whole through sockets
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["episode", "seq"], name="step_seq_unique"),
            models.CheckConstraint(condition=Q(kind__in=StepKind.values), name="step_kind_known"),
            models.CheckConstraint(condition=Q(seq__gte=1), name="step_seq_from_one"),
        ]
        ordering = [F("episode"), F("seq")]

    def __str__(self) -> str:
        return f"step {self.seq}"

    def wire(self) -> dict[str, Any]:
        """Return the step as it crosses a process."""
        step: dict[str, Any] = json.loads(self.body)
        step.setdefault("at", self.at.isoformat().replace("+00:00", "Z"))
        return step

    def shown(self) -> dict[str, Any]:
        """Return the step for a page."""
        return shown(self.wire())  # type: ignore[no-any-return]


class EpisodeEvent(AppendOnly):
    """What happened to an episode beside its steps: started, waiting, lost, reopened, ended; who and why."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    verb = models.CharField(max_length=30)
    actor = models.CharField(max_length=160, blank=True)
    reason = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.verb
