"""Rows about projects, memberships, tokens, sign-in links and the audit trail.

Owns what a row can contain and facts about one row. Leaves changes to `members.py` and rights to `access.py`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Q, Value
from django.utils import timezone

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    # fields are generic to the type checker alone
    TextOfId = models.CharField[str, str]

    class TextOfJson(models.TextField[Any, Any]):
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any
else:
    TextOfId, TextOfJson = models.CharField, models.TextField

# Base 32 without i, l, o and u; digits come before letters, so that IDs sort by their time.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SHIFTS = range(95, -1, -5)


def new_id() -> str:
    """Return a 20-character ID that sorts by its creation time in milliseconds. The second half is random."""
    return _as_id(int(time.time() * 1000), secrets.randbits(55))


def first_id(moment: datetime) -> str:
    """Return the lowest ID that `new_id` can make at this moment."""
    return _as_id(int(moment.timestamp() * 1000), 0)


def _as_id(milliseconds: int, rest: int) -> str:
    value = milliseconds << 55 | rest
    return "".join([_ALPHABET[value >> shift & 31] for shift in _SHIFTS])


def is_id(text: str) -> bool:
    """Return whether `new_id` can have made a text."""
    return len(text) == len(_SHIFTS) and not set(text) - set(_ALPHABET)


class IdField(TextOfId):
    """Primary key made by `new_id`."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.update(max_length=40, primary_key=True, default=new_id, editable=False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]


_EMPTY: dict[str, Callable[[], Any]] = {"[]": list, "{}": dict}


class JsonText(TextOfJson):
    """Any JSON value as ASCII text. Agents send U+0000 and lone surrogates, which neither `jsonb` nor `text` takes."""

    def from_db_value(self, value: str | None, expression: object, connection: object) -> Any:
        if value is None:
            return None
        if value in _EMPTY:  # most are, and pages and exports read thousands of them
            return _EMPTY[value]()
        return json.loads(value)

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value)

    def to_python(self, value: Any) -> Any:
        return value


def shown(value: Any) -> Any:
    """Return a JSON value fit for a page. Lone surrogates cannot be written as UTF-8 and become question marks."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    return json.loads(text)


class Role(models.TextChoices):
    ADMIN = "admin", "Admin"
    RESEARCHER = "researcher", "Researcher"
    EXPERT = "expert", "Expert"
    REVIEWER = "reviewer", "Reviewer"
    VIEWER = "viewer", "Viewer"


class TokenScope(models.TextChoices):
    """What a token can do. The first three are the finest; `agent` and `expert` are sets of them."""

    READ = "read", "Read"
    WRITE = "write", "Write"
    ANSWER = "answer", "Answer"
    REVIEW = "review", "Review"
    EXPORT = "export", "Export"
    LAUNCH = "launch", "Launch"
    METRICS = "metrics", "Metrics"
    AGENT = "agent", "Agent"
    EXPERT = "expert", "Expert"


SCOPE_SETS: dict[str, frozenset[str]] = {
    "agent": frozenset({"read", "write"}),
    "expert": frozenset({"read", "answer"}),
    # no one reviews, exports or launches what they cannot read
    **{name: frozenset({"read", name}) for name in ("review", "export", "launch")},
}


_ONE_SCOPE = f"({'|'.join(TokenScope.values)})"
SCOPES_KNOWN = f"^{_ONE_SCOPE}( {_ONE_SCOPE})*$"


@functools.cache
def granted(scope: str) -> frozenset[str]:
    """Return the finest scopes that the words of a token's scope add up to."""
    return frozenset[str]().union(*(SCOPE_SETS.get(word, {word}) for word in scope.split()))


class Project(models.Model):
    """The boundary between groups of people: every other row belongs to one project."""

    id = IdField()
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    """An archived project is read-only and hidden from the project switcher until an admin restores it."""
    real_clocks = models.BooleanField(default=False)
    """Apps of its new episodes read the machine's time, not the recorded clock of their world."""

    def __str__(self) -> str:
        return self.slug


AHEAD = timedelta(hours=1)
"""So far ahead is no clock that works: a later time is from a machine whose clock was wrong, such as before its NTP."""


def long_ago(column: str, moment: datetime) -> Q:
    """Filter to times before a moment, and to those of a clock that was ahead: they would hold work up until then."""
    return Q(**{f"{column}__lt": moment}) | Q(**{f"{column}__gt": timezone.now() + AHEAD})


def unheard_since(moment: datetime) -> Q:
    """Filter to rows without a working worker: never started, or without a heartbeat since then."""
    return Q(heartbeat_at=None) | long_ago("heartbeat_at", moment)


class MembershipQuerySet(models.QuerySet["Membership"]):
    def in_force(self, now: datetime) -> MembershipQuerySet:
        """Filter to memberships by which people can sign in: not ended, and of an account that is not closed."""
        return self.filter(Q(ends_at__isnull=True) | Q(ends_at__gt=now), user__is_active=True)

    def current(self, now: datetime) -> MembershipQuerySet:
        """Filter to memberships by which people act, over any way in: in force, and not refused by the provider."""
        return self.in_force(now).filter(suspended_at=None)


class Membership(models.Model):
    """One person's role in one project, perhaps with an end.

    A session must hold `entry` to act by it. Links hand it out, and new rights create another one, which ends earlier
    sessions.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=12, choices=Role.choices)
    skills = models.JSONField(default=list, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    entry = models.CharField(max_length=40, default=new_id, editable=False, db_index=True)
    from_provider = models.BooleanField(default=False, db_default=False)
    """Given by the groups of a sign-in provider, which then also takes it away."""
    suspended_at = models.DateTimeField(null=True, blank=True)
    """When the sign-in provider refused its person, who acts by it again from their next sign-in."""

    objects = MembershipQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="one_membership_per_person"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"

    def is_current(self, now: datetime) -> bool:
        """Return whether its person can sign in."""
        return self.ends_at is None or self.ends_at > now


class TokenUser(models.TextChoices):
    """Who uses a token, as its issuer says: their answers are stored and exported as such."""

    SCRIPT = "script", "A program"
    PERSON = "person", "A person"
    MODEL = "model", "A model"


class ApiToken(models.Model):
    """A hashed bearer token. Each is an actor of its own, so that its actions are attributed to it."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=120)
    scope = models.CharField(max_length=60)
    """One or more of `TokenScope`, with spaces between."""
    behind = models.CharField(
        max_length=8, choices=TokenUser.choices, default=TokenUser.SCRIPT, db_default=TokenUser.SCRIPT
    )
    digest = models.CharField(max_length=64, unique=True)
    issued_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    personal = models.BooleanField(default=False, db_default=False)
    """Works only while `issued_by` is a member of the project; others belong to the project."""

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(scope__regex=SCOPES_KNOWN), name="token_scope_known")]

    def __str__(self) -> str:
        return f"{self.name} ({self.scope})"

    @property
    def grants(self) -> list[str]:
        """Its finest scopes, in the order of `TokenScope`."""
        return [name for name in TokenScope.values if name in granted(self.scope)]

    @property
    def includes(self) -> str:
        """Its finest scopes for a page; empty if its words are these already."""
        return "" if set(self.grants) == set(self.scope.split()) else ", ".join(self.grants)

    def is_current(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.ends_at is None or self.ends_at > now)

    @functools.cached_property
    def owner(self) -> Membership | None:
        """The membership by which a personal token works, read once for each token that is read. None for a token of
        the project, and for one whose person is no member anymore."""
        if not self.personal or self.issued_by_id is None:
            return None
        mine = Membership.objects.current(timezone.now()).filter(project=self.project_id, user=self.issued_by_id)
        return mine.select_related("user").first()

    def has_owner(self) -> bool:
        """Return whether the person behind a personal token is still a member; true for a token of the project."""
        return not self.personal or self.owner is not None


class ProviderTicket(models.Model):
    """By what a sign-in provider is asked again about a person: its token, sealed. Deleted when it refuses them."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="ticket")
    sealed = models.TextField()
    is_refresh = models.BooleanField()
    subject = models.CharField(max_length=191, default="", db_default="")
    """Whom its answers must be about; empty in a ticket from before this was kept."""
    checked_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"ticket of {self.user}"


class LoginLink(models.Model):
    """A link that signs one person in, once, until its end.

    It opens the memberships whose entries it holds, and no other of that account.
    """

    digest = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    issued_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="links_issued"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    opens = models.JSONField(default=list)
    ends_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"link for {self.user}"


class AuditEntry(models.Model):
    """Who did what to which object, when and why. Append-only."""

    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="audit")
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=160)
    verb = models.CharField(max_length=60)
    target = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-at"], name="audit_by_project")]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.target}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("an audit entry is only ever added")
        super().save(*args, **kwargs)

    @property
    def words(self) -> str:
        return verb_in_words(self.verb)

    @property
    def target_id(self) -> str:
        """The object's ID, if it has no other name."""
        return self.target if re.fullmatch(r"[0-9][0-9a-z]{19}", self.target) else ""


class Tombstone(models.Model):
    """What was erased, and what fell with it: counts by table, and the rows of datasets. None of the erased words.

    That of a rule is of one batch; its subject is the kind of the rule, and `about` has the rule and the IDs of what it
    erased.
    """

    class Kind(models.TextChoices):
        EPISODE = "episode", "Episode"
        PERSON = "person", "Person"
        RULE = "rule", "Rule"

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tombstones")
    kind = models.CharField(max_length=7, choices=Kind.choices)
    subject = models.CharField(max_length=160)
    key_digest = models.CharField(max_length=64, blank=True)
    """Of an episode's key, so that what comes again under it is known."""
    by = models.CharField(max_length=160)
    at = models.DateTimeField(auto_now_add=True)
    fell = JsonText(default=dict, blank=True)
    datasets = JsonText(default=list, blank=True)
    left = JsonText(default=list, blank=True)
    """What is out of reach, in words."""
    about = JsonText(default=dict, db_default=Value("{}", output_field=models.TextField()), blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["project", "key_digest"], name="tombstones_by_key"),
            models.Index(fields=["project", "-at"], condition=Q(kind="rule"), name="tombstones_of_rules"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["episode", "person", "rule"]), name="tombstone_kind_known")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class RetentionRule(models.Model):
    """After how many days something of a project is erased. Without a rule it is kept."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="retention_rules")
    kind = models.CharField(max_length=11)
    """One of `awmweb.retention.kinds`."""
    days = models.PositiveIntegerField()
    states = models.JSONField(default=list)
    """The states of what it erases, of those in which work on it has ended."""
    changed_by = models.CharField(max_length=160)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "kind"], name="one_retention_rule_per_kind"),
            models.CheckConstraint(condition=Q(days__gte=1), name="retention_after_a_day"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} after {self.days} days"


class Hold(models.Model):
    """A legal hold: what it covers is not erased, by a rule, a command or a page, until it is released.

    `subject` is the ID of an episode or of a saved view. `query` is a copy of the filters of the view: a change of the
    view later does not change the hold.
    """

    class Place(models.TextChoices):
        PROJECT = "project", "Project"
        EPISODE = "episode", "Episode"
        VIEW = "view", "Saved view"

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="legal_holds")
    place = models.CharField(max_length=7, choices=Place.choices)
    subject = models.CharField(max_length=40, blank=True)
    name = models.CharField(max_length=160, blank=True)
    """Of the saved view, as it was."""
    query = models.TextField(blank=True)
    reason = models.TextField()
    placed_by = models.CharField(max_length=160)
    placed_at = models.DateTimeField(auto_now_add=True)
    released_by = models.CharField(max_length=160, blank=True)
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(place__in=["project", "episode", "view"]), name="hold_place_known"),
            models.CheckConstraint(condition=Q(place="project") ^ ~Q(subject=""), name="hold_has_its_subject"),
        ]
        indexes = [models.Index(fields=["project"], condition=Q(released_at=None), name="holds_in_force")]

    def __str__(self) -> str:
        return {"project": "the project", "episode": f"episode {self.subject}"}.get(self.place, f"view {self.name}")


class KeyedWrite(models.Model):
    """A call of the API that its sender made under a key, and what it answered. An empty answer was erased."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="keyed_writes")
    sender = models.CharField(max_length=160)
    key_digest = models.CharField(max_length=64)
    call = models.CharField(max_length=64)
    """A digest of its path and body."""
    status = models.PositiveSmallIntegerField(default=0)
    answer = models.TextField(default="")
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "sender", "key_digest"], name="one_call_under_a_key")]

    def __str__(self) -> str:
        return f"a call of {self.sender}"


def digest_of(key: str) -> str:
    """Return what a tombstone or a keyed write keeps of a key, which is a text of its sender."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


_PAST = {"given": "gave", "undone": "undid", "written": "wrote", "rerun": "reran"}
_SENTENCES = {
    "desk.changed": "changed routing",
    "episode.limits": "changed limits of episode",
    "run.seeds_added": "added seeds to run",
}


def verb_in_words(verb: str) -> str:
    """Return a stored verb as pages show it, in the past tense: "export.requested" is "requested export"."""
    what, _, done = verb.partition(".")
    return _SENTENCES.get(verb) or (f"{_PAST.get(done, done)} {what}".replace("_", " ") if done else verb)


def display_name(user: User) -> str:
    """Return a person's name for pages and exports."""
    return user.get_full_name() or user.get_username()
