"""What people decided on approvals that need several of them.

Owns what a row can contain. Leaves counting to `record/counting.py`.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from experts.models.asks import Advice, Ask


class QuorumDecision(models.Model):
    """One person's decision on an approval that needs several. Only the row of an edit or a withdrawal changes: it
    counts no longer."""

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="decisions")
    advice = models.OneToOneField(Advice, on_delete=models.CASCADE, related_name="+")
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    verdict = models.CharField(max_length=7, choices=[(one, one) for one in ("approve", "edit", "reject")])
    calls_digest = models.CharField(max_length=64)
    """Equal where the same calls run with the same arguments."""
    counts = models.BooleanField(default=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["ask", "author_key"], condition=Q(counts=True), name="one_counted_decision_per_person"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.author}"
