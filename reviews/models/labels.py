"""Annotations, the label schemas that they follow, and corrections: append-only, a change of mind is a new row that
supersedes the one before."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from episodes.models import AppendOnly, Episode, Privilege
from people.models import IdField, JsonText, Project

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
