"""Review queues with their rules, reviews and slots, and what reviewers give: verdicts, and answers on pairs."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Exists, OuterRef, Q

from episodes.models import AppendOnly, Episode
from people.models import IdField, JsonText, Project
from people.slots import Slot, SlotState
from reviews.models.labels import Authored

LEASE_S = 900
"""How long a claim of a review lasts, unless its queue says otherwise."""


class QueueKind(models.TextChoices):
    VERDICT = "verdict", "Verdicts on episodes"
    PAIRWISE = "pairwise", "Pairs of episodes"


class ReviewQueue(models.Model):
    """Episodes, or pairs of them, to be reviewed under one set of rules. `schemas` pins the label schemas by id.
    `instructions` are Markdown for its reviewers; the audit trail has a line for each change. `alike` counts the pairs
    that the newest fill left out because their sides are the same."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="review_queues")
    name = models.CharField(max_length=120)
    kind = models.CharField(
        max_length=8, choices=QueueKind.choices, default=QueueKind.VERDICT, db_default=QueueKind.VERDICT
    )
    instructions = models.TextField(blank=True, default="", db_default="")
    reviews_required = models.SmallIntegerField(default=1)
    is_blind = models.BooleanField(default=True)
    lease_s = models.IntegerField(default=LEASE_S)
    gold_share = models.FloatField(default=0.0)
    rubric = models.JSONField(default=list, blank=True)
    failure_types = models.JSONField(default=list, blank=True)
    schemas = models.JSONField(default=list, blank=True)
    seed = models.IntegerField(default=1)
    author = models.CharField(max_length=160, blank=True)
    alike = models.IntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="one_review_queue_per_name"),
            # `create_queue` refuses the same bounds first, in words that a reader of the form understands
            models.CheckConstraint(
                condition=Q(reviews_required__gte=1, reviews_required__lte=20), name="reviews_required_in_range"
            ),
            models.CheckConstraint(condition=Q(gold_share__gte=0, gold_share__lte=0.5), name="gold_share_in_range"),
            models.CheckConstraint(condition=Q(lease_s__gte=60, lease_s__lte=86400), name="review_lease_in_range"),
            models.CheckConstraint(condition=Q(kind__in=QueueKind.values), name="review_queue_kind_known"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_pairwise(self) -> bool:
        return self.kind == QueueKind.PAIRWISE


class QueueRule(models.Model):
    """One version of the rule by which a queue fills itself: a share of the finished episodes that match a filter,
    drawn by their IDs. `author_key` names who made it: it adds only what they can see."""

    id = IdField()
    queue = models.ForeignKey(ReviewQueue, on_delete=models.CASCADE, related_name="rules")
    number = models.SmallIntegerField()
    filter = models.JSONField(default=dict)
    view = models.CharField(max_length=120, blank=True)
    share = models.FloatField()
    annotators = models.SmallIntegerField(default=1)
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=400, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "number"], name="one_queue_rule_per_number"),
            models.UniqueConstraint(fields=["queue"], condition=Q(ended_at=None), name="one_queue_rule_in_force"),
            models.CheckConstraint(condition=Q(share__gt=0, share__lte=1), name="queue_rule_share_in_range"),
            models.CheckConstraint(
                condition=Q(annotators__gte=1, annotators__lte=20), name="queue_rule_annotators_in_range"
            ),
        ]

    def __str__(self) -> str:
        return f"rule {self.number}"


class VerdictDecision(models.TextChoices):
    ACCEPT = "accept", "Accept"
    REJECT = "reject", "Reject"


class Review(models.Model):
    """One episode in a queue, or a pair with `other`, by ID. `worth` ranks it; a row of the seeded sample is kept apart
    for honest rates; a gold one has a known answer. `rule` added it, unless a person did."""

    id = IdField()
    queue = models.ForeignKey(ReviewQueue, on_delete=models.CASCADE, related_name="reviews")
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="reviews")
    other = models.ForeignKey(Episode, null=True, blank=True, on_delete=models.CASCADE, related_name="paired_reviews")
    rule = models.ForeignKey(QueueRule, null=True, blank=True, on_delete=models.SET_NULL, related_name="reviews")
    worth = models.FloatField(default=0.0)
    reason = models.CharField(max_length=40, blank=True)
    in_sample = models.BooleanField(default=False)
    gold = models.CharField(max_length=6, choices=VerdictDecision.choices, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        # filling twice, or from two pages, adds an episode or a pair once
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "episode"], condition=Q(other=None), name="one_review_per_queue_and_episode"
            ),
            models.UniqueConstraint(fields=["queue", "episode", "other"], name="one_review_per_queue_and_pair"),
            models.CheckConstraint(condition=Q(gold__in=["", *VerdictDecision.values]), name="gold_known"),
        ]

    def __str__(self) -> str:
        return f"review {self.pk}"

    def get_absolute_url(self) -> str:
        return f"/reviews/{self.pk}/"

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """The IDs of its one or two episodes."""
        return (self.episode_id,) if self.other_id is None else (self.episode_id, self.other_id)

    @property
    def required(self) -> int:
        """How many reviews it needs: as many as its rule says, else as its queue."""
        return self.queue.reviews_required if self.rule is None else self.rule.annotators


class ReviewSlot(Slot):
    """One of the reviews that an item needs. `queue`, `worth` and `is_gold` are copies, so that a pull is one scan."""

    id = IdField()
    review = models.ForeignKey(Review, on_delete=models.CASCADE, related_name="slots")
    number = models.SmallIntegerField()
    queue = models.ForeignKey(ReviewQueue, on_delete=models.CASCADE, related_name="slots")
    worth = models.FloatField(default=0.0)
    is_gold = models.BooleanField(default=False)
    submitted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            # the order of a pull: free ones of a queue by falling worth
            models.Index(fields=["queue", "state", "-worth"], name="review_slots_in_turn"),
            models.Index(fields=["holder"], condition=Q(state="claimed"), name="review_slots_held"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["review", "number"], name="one_review_slot_per_number"),
            # a person who holds two slots of one review could give two independent verdicts; free slots are no one's
            models.UniqueConstraint(fields=["review", "holder"], condition=~Q(holder=""), name="never_two_slots_each"),
            models.CheckConstraint(condition=Q(state__in=SlotState.values), name="review_slot_state_known"),
        ]

    def __str__(self) -> str:
        return f"slot {self.number} of {self.review_id}"


class ReviewDecline(AppendOnly):
    """A reviewer's decline of one episode; the others can still review it."""

    review = models.ForeignKey(Review, on_delete=models.CASCADE, related_name="declines")
    author_key = models.CharField(max_length=160)
    author = models.CharField(max_length=160)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["review", "author_key"], name="one_review_decline_each")]

    def __str__(self) -> str:
        return f"{self.author} declined"


class Confidence(models.TextChoices):
    HIGH = "high", "High"
    MEDIUM = "medium", "Medium"
    LOW = "low", "Low"


class Verdicts(models.QuerySet["Verdict"]):
    def counted(self) -> Self:
        """Select the newest verdict of each reviewer on each review, without late ones."""
        # a superseded verdict has a successor, and a chain has one end
        return self.filter(is_late=False, superseded_by__isnull=True)

    def as_given(self) -> Self:
        """Select the first verdict of each reviewer on each review, without late ones: they change it with the outcome
        in sight."""
        return self.filter(is_late=False, supersedes__isnull=True)


class Verdict(Authored):
    """A reviewer's decision on a whole episode. `is_blind`: the outcome was withheld from them from claim to verdict. A
    late one, sent without the lease, is kept and counts nowhere. A changed one supersedes the one before."""

    id = IdField()
    review = models.ForeignKey(Review, on_delete=models.CASCADE, related_name="verdicts")
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="review_verdicts")
    decision = models.CharField(max_length=6, choices=VerdictDecision.choices)
    failure_type = models.CharField(max_length=60, blank=True)
    rubric = models.JSONField(default=dict, blank=True)
    # empty: they did not say
    confidence = models.CharField(max_length=6, choices=Confidence.choices, blank=True, default="")
    note = JsonText(blank=True, default="")
    is_blind = models.BooleanField(default=True)
    is_late = models.BooleanField(default=False)
    adjudicates = models.BooleanField(default=False)
    # made by the form: the same form sent twice is one verdict
    nonce = models.CharField(max_length=200, blank=True)
    took_s = models.FloatField(null=True, blank=True)
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )

    objects = Verdicts.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["review", "author_key"],
                # late verdicts and changes are further rows of the same person
                condition=Q(is_late=False, supersedes__isnull=True),
                name="one_verdict_per_reviewer",
            ),
            models.CheckConstraint(condition=Q(decision__in=VerdictDecision.values), name="verdict_decision_known"),
        ]
        indexes = [models.Index(fields=["episode"], name="verdicts_of_episode")]

    def __str__(self) -> str:
        return f"{self.decision} by {self.author}"


class Preferred(models.TextChoices):
    """What a person prefers of the two episodes of a pair, by the order of its row."""

    FIRST = "first", "The first"
    SECOND = "second", "The second"
    EQUAL = "equal", "Equal"
    NEITHER = "neither", "Neither"


class Preferences(models.QuerySet["Preference"]):
    def counted(self) -> Self:
        """Select the answer of each reviewer on each pair, without late ones and those that were undone."""
        return self.filter(is_late=False, superseded_by__isnull=True, withdrawn=False)

    def as_given(self) -> Self:
        """Select the first answer of each reviewer who has one now on a pair: another can be given with those of others
        in sight."""
        now = Preference.objects.counted().filter(review=OuterRef("review"), author_key=OuterRef("author_key"))
        return self.filter(Exists(now), is_late=False, supersedes__isnull=True)


class Preference(Authored):
    """A reviewer's answer on a pair: `choice` on the whole, `answers` by question of the rubric. `is_swapped`: the
    second episode was shown as A. One that was undone is superseded by a withdrawn row."""

    id = IdField()
    review = models.ForeignKey(Review, on_delete=models.CASCADE, related_name="preferences")
    choice = models.CharField(max_length=7, choices=Preferred.choices)
    answers = models.JSONField(default=dict, blank=True)
    is_swapped = models.BooleanField(default=False)
    is_blind = models.BooleanField(default=True)
    is_late = models.BooleanField(default=False)
    nonce = models.CharField(max_length=200, blank=True)
    took_s = models.FloatField(null=True, blank=True)
    withdrawn = models.BooleanField(default=False)
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )

    objects = Preferences.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(choice__in=Preferred.values), name="preference_choice_known"),
            # an undo and the answer after it are further rows of one chain
            models.UniqueConstraint(
                fields=["review", "author_key"],
                condition=Q(is_late=False, supersedes__isnull=True),
                name="one_preference_chain_per_reviewer",
            ),
        ]
        indexes = [models.Index(fields=["review", "author_key"], name="preferences_of_review")]

    def __str__(self) -> str:
        return f"{self.choice} by {self.author}"
