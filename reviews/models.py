"""Rows about what people, models and programs say of an episode after it happened.

Owns what a row may contain and facts about one row. Leaves changes to `annotating.py`, `schemas.py`, `correcting.py`,
`assigning.py`, `deciding.py` and `court.py`. Annotations, corrections, verdicts and rulings are append-only: a change
of mind is a new row that supersedes the one before.
"""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from episodes.models import AppendOnly, Episode, Privilege
from people.models import IdField, JsonText, Project
from people.slots import Slot, SlotState

AUTHOR_KINDS = [("human", "Human"), ("model", "Model"), ("code", "Code")]
# up to eleven buttons, as for 0 to 10; a wider scale is a field for a number
SCALE_MAX = 10
COMMENT = "comment"
"""The label of a comment: the only label that an author can set more than once at one place."""


class Authored(AppendOnly):
    """A row that a person or program wrote once, with the privilege they had."""

    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    author_kind = models.CharField(max_length=5, choices=AUTHOR_KINDS)
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True


class SchemaKind(models.TextChoices):
    SINGLE = "single", "One of several"
    MULTI = "multi", "Any of several"
    SCORE = "score", "Score"
    TEXT = "text", "Text"

    @property
    def has_options(self) -> bool:
        return self in (SchemaKind.SINGLE, SchemaKind.MULTI)

    @property
    def is_counted(self) -> bool:
        """Whether values are few enough to filter and compare by; what people write freely is not."""
        return self is not SchemaKind.TEXT

    @classmethod
    def counted(cls) -> list[SchemaKind]:
        return [kind for kind in cls if kind.is_counted]


class LabelSchema(models.Model):
    """One version of a question that reviewers answer about a step or an episode.

    `options` holds, for single and multi, `{"value", "label", "key"}` each; for a score `{"low", "high"}` once. A
    version never changes; editing ends it and adds the next, so that an older label stays readable.
    """

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="label_schemas")
    name = models.CharField(max_length=60)
    version = models.IntegerField()
    title = models.CharField(max_length=120)
    kind = models.CharField(max_length=6, choices=SchemaKind.choices)
    options = models.JSONField(default=list)
    author = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name", "version"], name="one_schema_per_version"),
            # versions stay as rows; only one of a name can be set on steps
            models.UniqueConstraint(
                fields=["project", "name"], condition=Q(ended_at__isnull=True), name="one_current_schema"
            ),
            models.CheckConstraint(condition=Q(kind__in=SchemaKind.values), name="schema_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def lines(self) -> str:
        """The options as a form takes them."""
        return "\n".join(one["label"] for one in self.options if "label" in one)

    @property
    def scale(self) -> list[int]:
        """The numbers of a score that are few enough for a button each; empty for wide or broken ones."""
        # 0.5 is no whole number, so that other kinds have no buttons
        low, high = (self.options[0][name] for name in ("low", "high")) if self.kind == SchemaKind.SCORE else (0.5, 0.5)
        whole = int(low) == low and int(high) == high and high - low <= SCALE_MAX
        return list(range(int(low), int(high) + 1)) if whole else []


class Annotation(Authored):
    """A label or comment on a whole episode, on a step, or on a JSON path or a text range within it.

    `schema` pins the version of the label's schema. A withdrawn row takes back the one that it supersedes.
    """

    id = IdField()
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="annotations")
    seq = models.IntegerField(null=True, blank=True)
    # one step can have several questions, each with labels of its own
    ask_id = models.CharField(max_length=40, blank=True, default="")
    label = models.CharField(max_length=60)
    text = JsonText(blank=True)
    path = models.CharField(max_length=500, blank=True, default="")
    start = models.IntegerField(null=True, blank=True)
    end = models.IntegerField(null=True, blank=True)
    # a label keeps its version, without which its value has no meaning
    schema = models.ForeignKey(LabelSchema, null=True, blank=True, on_delete=models.PROTECT, related_name="annotations")
    # one-to-one: a second tab that rewords the same row is refused by the database as well
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )
    withdrawn = models.BooleanField(default=False)

    where, quote = "", ""
    """Of a part of a step, once `places.tell` read it: which one, in words, and what is written there."""

    class Meta:
        indexes = [models.Index(fields=["episode", "seq"], name="annotations_of_step")]
        constraints = [
            # half-open, in code points; an empty range is refused
            models.CheckConstraint(
                condition=Q(start__isnull=True, end__isnull=True) | Q(start__gte=0, end__gt=models.F("start")),
                name="annotation_range_forwards",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label} by {self.author}"

    @property
    def words(self) -> str:
        """The value as pages print it."""
        value = self.text
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

    @property
    def chosen(self) -> str:
        """The values, one a line."""
        value = self.text
        return "\n".join(map(str, value)) if isinstance(value, list) else str(value)

    def earlier(self) -> list[str]:
        """Return the IDs of the rows that this one supersedes, through all its rewordings."""
        # a chain has no loop: a row can only supersede one that is older
        ids, row = [], self
        while row.supersedes is not None:
            row = row.supersedes
            ids.append(row.pk)
        return ids

    def newest(self) -> Annotation:
        """Return the current version of this row: itself, or the last of those that supersede it."""
        row = self
        # one query per rewording, because the chain has no column for its first row
        while (
            later := Annotation.objects.filter(supersedes=row).select_related("episode__project").first()
        ) is not None:
            row = later
        return row


class Mention(models.Model):
    """A person named in a comment. `seen_at` is when they first opened the comment."""

    annotation = models.ForeignKey(Annotation, on_delete=models.CASCADE, related_name="mentions")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mentions")
    at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # an edited comment is another row, so a person has one mention for each version
        constraints = [models.UniqueConstraint(fields=["annotation", "user"], name="one_mention_each")]
        indexes = [models.Index(fields=["user", "-at"], name="mentions_newest")]

    def __str__(self) -> str:
        return f"mention of {self.user}"


class CorrectionKind(models.TextChoices):
    CALL = "call", "Another call"
    MESSAGE = "message", "Another message"
    ASK = "ask", "Ask here"
    NO_ASK = "no_ask", "Should not have asked"


class Correction(Authored):
    """The action that the agent should have taken at a step; the newest of a reviewer counts, unless it withdraws.
    Unverified: no environment has executed it."""

    id = IdField()
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="corrections")
    seq = models.IntegerField()
    kind = models.CharField(max_length=7, choices=CorrectionKind.choices)
    name = JsonText(blank=True, default="")
    arguments = JsonText(default=dict, blank=True)
    text = JsonText(blank=True, default="")
    why = JsonText(blank=True, default="")
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )
    withdrawn = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=CorrectionKind.values), name="correction_kind_known"),
            # only the first of a chain has no predecessor, so two tabs cannot start two chains
            models.UniqueConstraint(
                fields=["episode", "seq", "author_key"],
                condition=Q(supersedes__isnull=True),
                name="one_correction_chain_per_reviewer",
            ),
        ]

    def __str__(self) -> str:
        return f"correction by {self.author}"


LEASE_S = 900
"""How long a claim of a review lasts, unless its queue says otherwise."""


class QueueKind(models.TextChoices):
    VERDICT = "verdict", "Verdicts on episodes"
    PAIRWISE = "pairwise", "Pairs of episodes"


class ReviewQueue(models.Model):
    """Episodes, or pairs of them, to be reviewed under one set of rules. `schemas` pins the label schemas by id.
    `instructions` are Markdown for its reviewers; the audit trail has a line for each change."""

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


class Choice(models.TextChoices):
    """What a person prefers of the two episodes of a pair, by the order of its row."""

    FIRST = "first", "The first"
    SECOND = "second", "The second"
    EQUAL = "equal", "Equal"
    NEITHER = "neither", "Neither"


class Preferences(models.QuerySet["Preference"]):
    def counted(self) -> Self:
        """Select the answer of each reviewer on each pair, without late ones and those that were taken back."""
        return self.filter(is_late=False, superseded_by__isnull=True, withdrawn=False)


class Preference(Authored):
    """A reviewer's answer on a pair: `choice` on the whole, `answers` by question of the rubric. `is_swapped`: the
    second episode was shown as A. One that was undone is superseded by a withdrawn row."""

    id = IdField()
    review = models.ForeignKey(Review, on_delete=models.CASCADE, related_name="preferences")
    choice = models.CharField(max_length=7, choices=Choice.choices)
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
            models.CheckConstraint(condition=Q(choice__in=Choice.values), name="preference_choice_known"),
        ]
        indexes = [models.Index(fields=["review", "author_key"], name="preferences_of_review")]

    def __str__(self) -> str:
        return f"{self.choice} by {self.author}"


class Explanation(models.TextChoices):
    VERIFIER_WRONG = "verifier_wrong", "The verifier is wrong"
    I_WAS_WRONG = "i_was_wrong", "I was wrong"
    TASK_AMBIGUOUS = "task_ambiguous", "The task is ambiguous"


class Disagreement(AppendOnly):
    """A reviewer's explanation of a verdict that differs from the verifier's outcome."""

    verdict = models.OneToOneField(Verdict, on_delete=models.CASCADE, related_name="disagreement")
    explanation = models.CharField(max_length=14, choices=Explanation.choices)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.explanation


class CourtCase(models.Model):
    """A task whose verifier or text someone doubts. Open until a ruling is newer than the last doubt."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="court_cases")
    task_key = models.CharField(max_length=300)
    scenario = models.CharField(max_length=200, blank=True)
    task_idx = models.IntegerField(null=True, blank=True)
    doubted_at = models.DateTimeField()
    ruled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "task_key"], name="one_court_case_per_task")]

    def __str__(self) -> str:
        return self.task_key

    @property
    def is_open(self) -> bool:
        # a doubt after the ruling opens the case again
        return self.ruled_at is None or self.ruled_at < self.doubted_at


class Word(models.TextChoices):
    """The possible rulings of the court on a verifier or a task."""

    SOUND = "sound", "The verifier is right"
    BROKEN = "broken", "The verifier is broken"
    TOO_STRICT = "too_strict", "The verifier is too strict"
    TOO_LENIENT = "too_lenient", "The verifier is too lenient"
    IMPOSSIBLE = "impossible", "The task is impossible"
    TRIVIAL = "trivial", "The task is trivial"
    AMBIGUOUS = "ambiguous", "The task is ambiguous"


class Ruling(Authored):
    """The court's decision on a task. It is shown beside outcomes and changes none; the newest of a case counts."""

    id = IdField()
    case = models.ForeignKey(CourtCase, on_delete=models.CASCADE, related_name="rulings")
    word = models.CharField(max_length=11, choices=Word.choices)
    reason = JsonText()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(word__in=Word.values), name="ruling_word_known")]

    def __str__(self) -> str:
        return self.word
