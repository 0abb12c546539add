"""Branches of episodes, continued ones, and orders of a person at the wheel."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.urls import reverse

from episodes.models.episodes import Episode
from episodes.models.kinds import Knowledge
from episodes.models.steps import AppendOnly
from people.models import IdField, JsonText, Project


class Fork(models.Model):
    """A question about one step of an episode: what if it had been another? Its branches are the answer.

    `change` holds one of `call`, `advice`, `words`, `ask` and `policy`, or nothing; `erased` names one that was erased
    with the words of its author. `tokens` is what all branches together can use; 0 sets no limit. `grade` is how the
    world was restored when the fork was made. `correction` is the ID of the reviewer's correction whose action is the
    change, or empty."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="forks")
    parent = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="forks")
    seq = models.IntegerField()
    change = JsonText(default=dict, blank=True)
    tries = models.IntegerField()
    tokens = models.BigIntegerField(default=0)
    knowledge = models.CharField(max_length=13, choices=Knowledge.choices)
    grade = models.CharField(max_length=8)
    correction = models.CharField(max_length=40, blank=True, default="", db_default="")
    created_by = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(tries__gte=1, tokens__gte=0, seq__gte=1), name="fork_numbers_positive"),
        ]

    def __str__(self) -> str:
        return f"fork at step {self.seq}"

    def get_absolute_url(self) -> str:
        return reverse("fork", args=[self.pk])


class Continuation(models.Model):
    """An episode of an external loop that goes on from the prompt of another one, before its step `seq`.

    It is no branch: nothing was restored, it has no control, and its steps are its own."""

    episode = models.OneToOneField(Episode, on_delete=models.CASCADE, primary_key=True, related_name="continuation")
    parent = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="continuations")
    seq = models.IntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(seq__gte=1), name="continuation_seq_positive")]

    def __str__(self) -> str:
        return f"continued from step {self.seq} of {self.parent_id}"


class Wheel(models.Model):
    """Who steers a live episode, by a lease that ends by itself. Each claim gets a new token."""

    episode = models.OneToOneField(Episode, primary_key=True, on_delete=models.CASCADE, related_name="wheel")
    holder = models.CharField(max_length=160, blank=True)
    holder_name = models.CharField(max_length=160, blank=True)
    lease_token = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    returned_token = models.CharField(max_length=64, blank=True, default="", db_default="")
    """The last token with which the wheel was handed back: its repeat succeeds."""
    taken_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)
    """When its holder took it or last ordered something."""
    acted = models.BigIntegerField(default=0)
    """The last order that the loop has carried out."""
    sent = models.BigIntegerField(default=0, db_default=0)
    """The last order that was given to the loop: from then on it cannot be undone."""

    def __str__(self) -> str:
        return f"wheel of {self.episode_id}"

    def is_held(self, now: datetime) -> bool:
        return self.lease_token != "" and self.lease_until is not None and self.lease_until > now


class WheelOrder(AppendOnly):
    """What a person at the wheel has the loop do: a call of a tool, or words to the agent.

    Its key is its number on the wire: one sequence for all, so that an order of a branch comes after those whose steps
    it has copied. `acted_by` is the opaque ID of the person, which the step carries."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="orders", db_index=False)
    nonce = models.CharField(max_length=200)
    said = JsonText()
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    acted_by = models.CharField(max_length=40)
    at = models.DateTimeField(auto_now_add=True)
    held_until = models.DateTimeField(null=True, blank=True)
    """Until when it is not given to the loop, so that it can be undone; empty if it is given immediately."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["episode", "nonce"], name="wheel_order_once"),
        ]

    def __str__(self) -> str:
        return f"order {self.pk} of {self.episode_id}"


class UndoneOrder(AppendOnly):
    """An order that its person undid before it was given to the loop. It is never carried out."""

    order = models.OneToOneField(WheelOrder, primary_key=True, on_delete=models.CASCADE, related_name="undone")
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"undone order {self.order_id}"
