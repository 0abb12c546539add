"""Rows about asks: asks, assignments, advice, files, drafts, declines, and their history.

Owns what a row can contain and facts about one row. Leaves changes of an ask to `queue.py`, `advising.py` and
`closing.py`, of drafts to `desk.py`. Advice, declines and events are append-only; annotations are rows of `reviews`.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from awmclient.nouns.ask_kinds import ASK_KINDS
from awmclient.nouns.sources import SOURCES
from awmclient.schema import Advice as AdviceValue
from awmclient.schema import FileRef, ToolCall
from episodes.models import AppendOnly, Episode, Privilege
from experts.models.standing import StandingAnswer
from people.models import IdField, JsonText, Project, TokenUser
from people.slots import Slot, SlotState
from people.states import Move
from people.text.plain_text import clean

MODEL = "model:"
"""Prefix of the key of an actor that is a model."""
EARLIER = "advice:"
"""Prefix of an earlier answer as the source of a text."""
TOKEN = "token:"
"""Prefix of the key of an actor that is a program."""
PROGRAMS = (TokenUser.SCRIPT, TokenUser.MODEL)
ERASED = "erased"
"""The reason of an answer whose words were erased: it is never given again."""
CUT_OFF = "cancelled_in_hold"
"""The reason of an answer whose ask ended before it was sent."""
SIMULATED = "token:registry"
"""The author of answers of a simulated human, of which each is of its task's registry."""
TAGS = ("question_needed", "answerable", "asked_too_late")
"""Tags of a question, each set with one key; the annotation's text is yes, no, or empty."""
LATE = "late_advice"
NONCE_OF_PRESS = 150
"""As many characters of a nonce name one press that answers several asks."""
"""The label of an annotation that was sent as advice after the ask closed."""


def is_program(author_key: str, behind: str) -> bool:
    """Return whether a program sent an answer: by a token that no person uses, their own or the project's."""
    return behind in PROGRAMS or (author_key.startswith(TOKEN) and behind != TokenUser.PERSON)


def by_program(path: str = "") -> Q:
    """Filter as `is_program` says, to answers at this path of a query, such as `accepted__`."""
    old = Q(**{f"{path}author_key__startswith": TOKEN}) & ~Q(**{f"{path}behind": TokenUser.PERSON})
    return Q(**{f"{path}behind__in": PROGRAMS}) | old


class AskStatus(models.TextChoices):
    OPEN = "open", "Open"
    ANSWERED = "answered", "Answered"
    FELL_BACK = "fell_back", "Fell back"
    CANCELLED = "cancelled", "Cancelled"


ASK_MOVES = (
    Move("", "open", "experts.record.opening.open_ask", "may_record"),
    Move("open", "answered", "experts.record.opening.open_ask", "may_record, from the cache"),
    Move("open", "answered", "experts.record.opening.open_ask", "may_record, by a standing answer"),
    Move("open", "answered", "experts.record.opening.open_ask", "may_record, by its task's registry"),
    Move("open", "answered", "experts.record.standing_answers.give", "may_advise"),
    Move("open", "answered", "experts.record.advising.answer", "may_advise"),
    Move("open", "answered", "experts.record.advising.answer_group", "may_advise"),
    Move("open", "answered", "experts.record.closing.close_if_due", "any reader, after the hold of its answer"),
    Move("open", "fell_back", "experts.record.opening.open_ask", "may_record, if no expert can take it"),
    Move("open", "fell_back", "experts.record.queue.decline", "may_advise"),
    Move("open", "fell_back", "experts.record.queue.decline_unclaimed", "may_advise"),
    Move("open", "fell_back", "experts.record.advising.answer", "may_advise, after the deadline"),
    Move("open", "fell_back", "experts.record.closing.close_if_due", "any reader, after the deadline"),
    Move("open", "cancelled", "experts.record.closing.cancel", "may_record"),
    Move("open", "cancelled", "experts.record.closing.cancel_of_episode", "the end of its episode"),
    Move("answered", "open", "experts.record.advising.withdraw", "may_advise"),
    Move("cancelled", "open", "experts.record.opening.reopen", "may_record, for its MCP session"),
)
"""Every change of an ask's status."""
ASSIGNMENT_MOVES = (
    Move("", "queued", "experts.record.opening.open_ask", "may_record"),
    Move("queued", "claimed", "experts.record.queue.claim", "may_advise"),
    Move("queued", "claimed", "experts.record.queue.claim_for_model", "worker"),
    Move("queued", "claimed", "experts.record.advising.answer_group", "may_advise"),
    Move("claimed", "queued", "experts.record.queue.release", "may_advise"),
    Move("claimed", "queued", "experts.record.queue.decline", "may_advise"),
    Move("claimed", "queued", "experts.record.queue.decline_unclaimed", "may_advise"),
    Move("claimed", "queued", "experts.record.queue.escalate", "may_advise"),
    Move("claimed", "queued", "experts.record.queue.transfer", "may_set_desk"),
    Move("claimed", "queued", "experts.record.queue.release_all_of", "the end of a membership"),
    Move("queued claimed", "submitted", "experts.record.closing.close", "the end of its ask"),
    Move("queued claimed submitted", "void", "experts.record.closing.close", "the end of its ask"),
    Move("claimed", "submitted", "experts.record.advising.answer", "may_advise"),
    Move("claimed", "queued", "experts.record.advising.answer", "may_advise, while it needs more people"),
    Move("submitted", "queued", "experts.record.closing.close_if_due", "any reader, while it needs more people"),
    Move("submitted", "claimed", "experts.record.advising.withdraw", "may_advise"),
    Move("void", "claimed", "experts.record.opening.reopen", "its ask is asked again"),
    Move("void", "queued", "experts.record.opening.reopen", "its ask is asked again"),
)
"""Every change of the slot of work on an ask. A lease that ends changes no state: the slot can be claimed again."""


class Tier(models.TextChoices):
    """Who answers now. The plan of an ask is a list of tiers; each move along it is an escalation with its reason."""

    CACHE = "cache", "Cache"
    LLM = "llm", "Model"
    PEOPLE = "people", "People"
    SENIOR = "senior", "Senior"


BEFORE_PEOPLE = (Tier.PEOPLE, Tier.SENIOR)
"""The tiers at which people and scripts can claim an ask."""


class AskQuerySet(models.QuerySet["Ask"]):
    def open(self) -> AskQuerySet:
        return self.filter(status=AskStatus.OPEN)

    def due(self, now: datetime) -> AskQuerySet:
        """Return open asks past their deadline, or past the hold of their answer."""
        return self.open().filter(Q(deadline_at__lte=now) | Q(held_until__lte=now))

    def to_take(self, now: datetime) -> AskQuerySet:
        """Return asks that are open, at people's tiers, and unclaimed."""
        # a lease that has ended changes no state
        open_to_all = Q(assignment__state=SlotState.QUEUED) | Q(assignment__lease_until__lte=now)
        return self.open().filter(open_to_all, tier__in=BEFORE_PEOPLE, deadline_at__gt=now)

    def in_turn(self) -> AskQuerySet:
        """Return the queue's order: nearest deadline first, then priority."""
        return self.order_by("deadline_at", F("priority").desc(), "pk")


class Ask(models.Model):
    """One question of one episode."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="asks")
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="asks")
    key = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64)
    seq = models.IntegerField()
    question = JsonText()
    context = JsonText(null=True, blank=True)
    status = models.CharField(max_length=10, choices=AskStatus.choices, default=AskStatus.OPEN)
    reason = models.CharField(max_length=40, blank=True)
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    priority = models.IntegerField(default=0)
    skills = JsonText(default=list, blank=True)
    group_key = models.CharField(max_length=200, blank=True)
    group = models.CharField(max_length=40, blank=True)
    marks = ArrayField(models.IntegerField(), default=list, blank=True)
    tiers = models.JSONField(default=list)
    tier = models.CharField(max_length=6, choices=Tier.choices, default=Tier.PEOPLE)
    tier_reason = models.CharField(max_length=40, blank=True)
    handed_to = models.CharField(max_length=160, blank=True, default="", db_default="")
    handed_to_name = models.CharField(max_length=160, blank=True, default="", db_default="")
    chance = models.FloatField(default=1.0)
    expected_wait_s = models.FloatField(null=True, blank=True)
    draft_at = models.DateTimeField(null=True, blank=True)
    draft_hint = models.TextField(blank=True)
    deadline_at = models.DateTimeField()
    human_deadline_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    consumed_at = models.DateTimeField(null=True, blank=True)
    kind = models.CharField(
        max_length=8,
        choices=[(name, kind.label) for name, kind in ASK_KINDS.items()],
        default="question",
        db_default="question",
    )
    typed = JsonText(null=True, blank=True)
    """What it wants, as `awmclient.nouns.typed.TypedAsk`; none for a question."""
    calls_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    """Of an approval: equal where tools, arguments and verifier access are, see `rules/risk.py`; the queue shows such
    asks as one row."""
    pictures_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    """Of the pictures of its question, in order; empty without one. Asks with other pictures are other questions."""
    quorum_of = models.SmallIntegerField(default=1, db_default=1)
    """How many different people approve the same calls before it is approved."""
    quorum_role = models.CharField(max_length=12, blank=True, default="", db_default="")
    """The role that each of them has; empty for any who can answer."""
    blocker = models.CharField(max_length=60, blank=True, default="", db_default="")
    """The blocker of its task's registry that its question matched as it opened; empty if none. No agent sees it."""
    thread = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="continued_by")
    # what an agent got cannot be deleted before its ask
    accepted = models.OneToOneField("Advice", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    held = models.OneToOneField("Advice", null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    """The answer of an open ask that its author can undo until `held_until`; no agent sees it before."""
    held_until = models.DateTimeField(null=True, blank=True)

    objects = AskQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["episode", "key"], name="ask_key_unique"),
            models.UniqueConstraint(fields=["episode", "seq"], name="ask_seq_unique"),
            models.CheckConstraint(condition=Q(status__in=AskStatus.values), name="ask_status_known"),
            models.CheckConstraint(condition=Q(privilege__in=Privilege.values), name="ask_privilege_known"),
            models.CheckConstraint(condition=Q(tier__in=Tier.values), name="ask_tier_known"),
            # an answered or fallen ask without a row of advice would leave its agent without a reply
            models.CheckConstraint(
                condition=~Q(status__in=["answered", "fell_back"]) | Q(accepted__isnull=False),
                name="closed_ask_has_advice",
            ),
            models.CheckConstraint(
                condition=Q(held__isnull=True, held_until__isnull=True)
                | Q(held__isnull=False, held_until__isnull=False),
                name="held_answer_has_its_end",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "status", "deadline_at"], name="asks_in_turn"),
            models.Index(fields=["project", "-created_at"], name="asks_newest"),
            models.Index(fields=["status", "deadline_at"], name="asks_due"),
            # partial: closed asks, nearly all of them, are in none of these lists
            models.Index(fields=["tier", "created_at"], condition=Q(status="open"), name="asks_of_tier"),
            models.Index(fields=["draft_at"], condition=Q(status="open"), name="asks_wanting_draft"),
            models.Index(fields=["held_until"], condition=Q(held_until__isnull=False), name="asks_held"),
            # only answered asks can help with another one
            GinIndex(fields=["marks"], condition=Q(status="answered"), name="asks_alike"),
        ]

    def __str__(self) -> str:
        return f"ask {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.status == AskStatus.OPEN

    def is_due(self, now: datetime) -> bool:
        """Return whether any reader ends it now, as `AskQuerySet.due`."""
        return self.is_open and (self.deadline_at <= now or (self.held_until is not None and self.held_until <= now))

    def taken_by(self, now: datetime) -> tuple[str, datetime] | None:
        """Return who has an open ask, by a claim or an answer that is held, and until when at most."""
        if not self.is_open:
            return None
        slot = self.assignment
        if self.held_id is not None:
            return slot.holder_name, self.deadline_at
        return (slot.holder_name, slot.lease_until) if slot.is_held(now) and slot.lease_until is not None else None

    @property
    def is_final(self) -> bool:
        """Whether its answer can no longer change. An agent acts on a decision as soon as it has it, and confirms it
        once the call was made."""
        return self.consumed_at is not None or (self.typed is not None and self.delivered_at is not None)

    def asked_with(self, model_key: str) -> tuple[str, dict[str, Any] | None]:
        """Return name and options with which a model gave its answer or draft: those of its last call without a
        fault. Versions that did not store them leave them empty."""
        calls = self.model_calls.filter(model_key=model_key, purpose__in=("answer", "draft"), fault="")
        return calls.order_by("-pk").values_list("model", "options").first() or ("", None)

    @property
    def progress(self) -> str:
        """Who of the people that it needs has approved: "1 of 2 approved: Edo". Empty where it needs one."""
        if self.quorum_of < 2:
            return ""
        counted = self.decisions.filter(counts=True).exclude(verdict="reject").order_by("pk")
        names = [clean(name) for name in counted.values_list("author", flat=True)]
        by = f": {', '.join(names)}" if names else ""
        return f"{self.progress_in_numbers(len(names))}{by}"

    def progress_in_numbers(self, approved: int) -> str:
        return f"{approved} of {self.quorum_of} approved"

    @property
    def run_key(self) -> str:
        """The unit of fairness: the run, or the episode of an agent without a run."""
        return self.episode.run_id or self.episode_id


class Assignment(Slot):
    """The slot of work on an ask."""

    id = IdField()
    ask = models.OneToOneField(Ask, on_delete=models.CASCADE, related_name="assignment")

    class Meta:
        indexes = [models.Index(fields=["holder"], condition=Q(state="claimed"), name="assignments_held")]
        constraints = [models.CheckConstraint(condition=Q(state__in=SlotState.values), name="assignment_state_known")]

    def __str__(self) -> str:
        return f"assignment of {self.ask_id}"


class Advice(AppendOnly):
    """An answer to an ask, with its source. Late and alternative answers are stored beside the accepted one."""

    id = IdField()
    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="advice")
    text = JsonText()
    tool_calls = JsonText(null=True, blank=True)
    decision = JsonText(null=True, blank=True)
    """The typed answer, as `awmclient.nouns.typed.Decision`."""
    by = models.CharField(max_length=8, blank=True, default="", db_default="")
    """Who decided a typed ask: person, model, standing or timeout."""
    standing = models.ForeignKey(
        StandingAnswer, null=True, blank=True, on_delete=models.SET_NULL, related_name="decided"
    )
    source = models.CharField(max_length=8, choices=[(name, kind.label) for name, kind in SOURCES.items()])
    author = models.CharField(max_length=160, blank=True)
    author_key = models.CharField(max_length=160, blank=True)
    behind = models.CharField(max_length=8, blank=True, default="", db_default="")
    """Who used the token that sent it: person, script or model; empty without a token."""
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    nonce = models.CharField(max_length=200, blank=True)
    late = models.BooleanField(default=False)
    reason = models.CharField(max_length=40, blank=True)
    confidence = models.FloatField(null=True, blank=True)
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="amended_by"
    )
    drafted_by = models.CharField(max_length=160, blank=True)
    draft_kept = models.FloatField(null=True, blank=True)
    taken_from = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="taken_up_by")
    taken_kept = models.FloatField(null=True, blank=True)
    took_s = models.FloatField(null=True, blank=True)
    overruled = models.TextField(blank=True, default="", db_default="")
    """The model and its reason, where a second look returned the answer and its author sent it anyway. For people."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # a text refused without its lease can be sent again after a new claim
            models.UniqueConstraint(
                fields=["ask", "author_key", "nonce", "late"], condition=~Q(nonce=""), name="one_advice_per_nonce"
            ),
            models.CheckConstraint(condition=~Q(source="fallback") | Q(text=""), name="fallback_has_no_text"),
        ]

    def __str__(self) -> str:
        return f"advice by {self.author or self.source}"

    @property
    def is_by_script(self) -> bool:
        """Whether it was sent with a token, by a program.

        The wire's word for the source is `human` all the same, since it is not one of our models; `behind` says more.
        """
        return SOURCES[self.source].is_human and is_program(self.author_key, self.behind)

    @cached_property
    def file_refs(self) -> list[FileRef]:
        """The files of a stored answer; read once, since it gets none later."""
        return [one.ref() for one in self.files.listed()]

    def value(self) -> AdviceValue:
        """Return the advice as it crosses a process."""
        model, options = self.ask.asked_with(self.author_key) if SOURCES[self.source].is_model else ("", None)
        return AdviceValue(
            text=self.text,
            source=self.source,
            author=self.author or None,
            behind=self.behind or None,
            privilege=self.privilege,
            tool_calls=[ToolCall.model_validate(call) for call in self.tool_calls] if self.tool_calls else None,
            reason=self.reason or None,
            files=self.file_refs or None,
            decision=self.decision,
            by=self.by or None,
            model=model or None,
            options=options,
        )


class AttachmentQuerySet(models.QuerySet["Attachment"]):
    def listed(self) -> AttachmentQuerySet:
        """Return files in the order they were attached, without their bytes."""
        return self.defer("data").order_by("created_at", "pk")


class Attachment(models.Model):
    """A picture or file of a question, or of an answer. One of an answer has no `advice` until that is accepted."""

    id = IdField()
    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="files")
    advice = models.ForeignKey(Advice, null=True, blank=True, on_delete=models.CASCADE, related_name="files")
    side = models.CharField(max_length=6, choices=[("ask", "Ask"), ("answer", "Answer")])
    uploader_key = models.CharField(max_length=160)
    name = models.CharField(max_length=200)
    media_type = models.CharField(max_length=40)
    size = models.IntegerField()
    sha256 = models.CharField(max_length=64)
    data = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    objects = AttachmentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(side__in=["ask", "answer"]), name="attachment_side_known"),
            models.CheckConstraint(condition=Q(side="answer") | Q(advice__isnull=True), name="advice_has_answer_files"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_picture(self) -> bool:
        return self.media_type.startswith("image/")

    def ref(self) -> FileRef:
        """Return the reference that agents and records hold."""
        return FileRef(id=self.pk, name=self.name, media_type=self.media_type, size=self.size, sha256=self.sha256)


class Draft(models.Model):
    """An unsent text: what a person is typing, or what a model prepared.

    One for each author of an ask, saved in place. A model's draft has no text while the model is working.
    """

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="drafts")
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    text = JsonText(null=True, blank=True)
    tool_calls = JsonText(null=True, blank=True)
    decision = JsonText(null=True, blank=True)
    confidence = models.FloatField(null=True, blank=True)
    privilege = models.CharField(max_length=14, choices=Privilege.choices, default=Privilege.BLIND)
    failed = models.BooleanField(default=False)
    drafted_by = models.CharField(max_length=160, blank=True)
    version = models.IntegerField(default=1)
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["ask", "author_key"], name="one_draft_per_author")]

    def __str__(self) -> str:
        return f"draft by {self.author}"

    @property
    def is_ready(self) -> bool:
        return not self.failed and (self.text is not None)


class Decline(AppendOnly):
    """One expert declining one ask; the others can still claim it."""

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="declines")
    author_key = models.CharField(max_length=160)
    author = models.CharField(max_length=160)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["ask", "author_key"], name="one_decline_per_expert")]

    def __str__(self) -> str:
        return f"{self.author} passed"


class AskEvent(AppendOnly):
    """Every transition of an ask: who, when, why."""

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    verb = models.CharField(max_length=30)
    actor = models.CharField(max_length=160, blank=True)
    actor_key = models.CharField(max_length=160, blank=True, default="", db_default="")
    """Empty for awmweb's own, and for entries of versions that had none."""
    reason = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.verb
