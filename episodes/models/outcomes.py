"""Outcomes of verifiers, their repaired versions, what these changed, and replays."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from awmclient.schema import NOT_COUNTED
from awmenv.health import Health
from awmenv.offers import OF_ENVIRONMENT
from episodes.models.episodes import Episode, Run
from episodes.models.kinds import RUN_HERE, EpisodeState, Origin
from episodes.models.steps import AppendOnly
from people.models import IdField, JsonText, Project

COMPLETE = "complete"


def found_here(outcome: str = "", episode: str = "episode__") -> Q:
    """Return the condition of outcomes that awmweb's own worker got: from a verifier, or from an environment that has
    none and reports its own. What an external loop or a file reports is not among them. The arguments are the paths to
    the outcome and to its episode."""
    of_environment = Q(**{f"{outcome}source": "reported", f"{episode}origin__in": RUN_HERE})
    return Q(**{f"{outcome}source": "verifier"}) | of_environment


def counted_as(state: str, fault: str, reward_type: str | None = None, assisted: bool = False) -> bool | None:
    """Return whether an episode counts as complete or as not complete, in a run as on *Metrics*; None if it counts as
    neither, or is open."""
    if assisted:
        return None
    if state == EpisodeState.FAILED:
        return False if fault == "policy" else None
    if state != EpisodeState.FINISHED or reward_type is None or reward_type in NOT_COUNTED:
        return None
    return reward_type == COMPLETE


class OutcomeQuerySet(models.QuerySet["VerifierOutcome"]):
    def verdicts(self) -> OutcomeQuerySet:
        """Return the outcomes that count in rates: without those that a server, verifier, judge or filter ended
        (`NOT_COUNTED`), of assisted episodes, and of those that continue another one's prompt."""
        return self.unaided().found_here().exclude(reward_type__in=NOT_COUNTED)

    def found_here(self) -> OutcomeQuerySet:
        """Return those that awmweb's own worker got; see the function of this name."""
        return self.filter(found_here())

    def counted(self) -> OutcomeQuerySet:
        """Return those of counted episodes; see `CountedEpisodes`."""
        return self.exclude(episode__origin=Origin.BRANCH)

    def unaided(self) -> OutcomeQuerySet:
        """Return those that are their policy's alone: no person took part in the play, and it continues no other
        episode's steps. A branch does, beside others of the same root."""
        alone = Q(episode__knowledge="") | Q(episode__origin=Origin.BRANCH)
        return self.filter(alone, episode__assisted=False)


class VerifierOutcome(AppendOnly):
    """The outcome of the verifier, one per episode and version of its verifier. `reported` ones come from an external
    loop, a file, or an environment without a verifier, and are kept apart; the environment server's statement about
    `session` proves `attested` ones.

    The one that counts has the source `verifier`: that of the newest repaired verifier in force that found another
    outcome, else the first one. `record/rejudging.py` sets those before it aside as `superseded`; nothing else of an
    outcome ever changes. `version` is null for the pack's own verifier.

    `health` is the check of the verifier, `partial` the build report of a partial scenario; both are empty if unknown.
    """

    class Source(models.TextChoices):
        VERIFIER = "verifier", "Verifier"
        ATTESTED = "attested", "Attested"
        REPORTED = "reported", "Reported"
        SUPERSEDED = "superseded", "Superseded"

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="outcomes")
    source = models.CharField(max_length=10, choices=Source.choices)
    version = models.ForeignKey(
        "VerifierVersion", null=True, blank=True, on_delete=models.CASCADE, related_name="outcomes"
    )
    reward_type = models.CharField(max_length=200)
    reward = models.FloatField(null=True, blank=True)
    details = JsonText(default=dict, blank=True)
    state_diff = JsonText(default=dict, blank=True)
    tier = models.CharField(max_length=40, blank=True)
    health = JsonText(default=dict, blank=True)
    partial = JsonText(default=dict, blank=True)
    session = models.CharField(max_length=64, null=True, blank=True, unique=True)  # noqa: DJ001  null: not attested
    at = models.DateTimeField(auto_now_add=True)

    objects = OutcomeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["episode", "source"], condition=~Q(source="superseded"), name="one_outcome_per_source"
            ),
            models.UniqueConstraint(
                fields=["episode", "version"],
                condition=Q(source__in=["verifier", "superseded"]),
                nulls_distinct=False,
                name="one_outcome_per_version",
            ),
            models.CheckConstraint(
                condition=Q(source__in=["verifier", "attested", "reported", "superseded"]),
                name="outcome_source_known",
            ),
        ]
        indexes = [models.Index(fields=["-at"], name="outcome_newest_first")]

    def __str__(self) -> str:
        return self.reward_type

    @property
    def by_environment(self) -> bool:
        """Whether it came with the environment's own last step: there was no verifier."""
        return isinstance(self.details, dict) and self.details.get("mode") == OF_ENVIRONMENT

    @property
    def checked(self) -> Health | None:
        """Return the check of the verifier."""
        return Health.from_wire(self.health)


class VerifierVersion(AppendOnly):
    """A repaired verifier of a task, in one project, and never over an earlier one. The pack's own is number 1 and has
    no row. `in_force_at` is set once it has judged the stored episodes and failed on none; then it judges new ones."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="verifier_versions")
    scenario = models.CharField(max_length=200)
    task_idx = models.IntegerField()
    number = models.IntegerField()
    code = JsonText()
    sha256 = models.CharField(max_length=64)
    scenario_digest = models.CharField(max_length=64, blank=True)
    """The version of the scenario that it was written for."""
    reason = JsonText()
    created_by = models.CharField(max_length=160)
    created_at = models.DateTimeField(auto_now_add=True)
    in_force_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "scenario", "task_idx", "number"], name="one_verifier_version_per_number"
            ),
            models.CheckConstraint(condition=Q(number__gte=2), name="verifier_version_after_the_packs"),
        ]

    def __str__(self) -> str:
        return f"version {self.number}"


class Rejudging(models.Model):
    """One pass over the stored episodes of a task, by a repaired verifier or, without `version`, by the pack's own.

    It is live until `ended_at`. `problem` says why it had no effect."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="rejudgings")
    scenario = models.CharField(max_length=200)
    task_idx = models.IntegerField()
    version = models.ForeignKey(
        VerifierVersion, null=True, blank=True, on_delete=models.CASCADE, related_name="rejudgings"
    )
    problem = models.TextField(blank=True)
    created_by = models.CharField(max_length=160)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            # two passes at a time would each take what they read for what counts
            models.UniqueConstraint(
                fields=["project", "scenario", "task_idx"],
                condition=Q(ended_at__isnull=True),
                name="one_rejudging_at_a_time",
            ),
        ]
        indexes = [models.Index(fields=["project", "scenario", "task_idx", "-created_at"], name="rejudgings_of_task")]

    def __str__(self) -> str:
        return f"{self.scenario}/{self.task_idx} by {self.version or 'the verifier of the pack'}"


class RejudgedEpisode(AppendOnly):
    """What a pass found for one episode, beside the outcome that counted before. `details` is what the verifier said.

    An episode is *kept*, *changed*, *lost* (its world is not restorable) or *failed* (the verifier raised an error)."""

    class Result(models.TextChoices):
        KEPT = "kept", "Kept"
        CHANGED = "changed", "Changed"
        LOST = "lost", "Not restorable"
        FAILED = "failed", "Verifier failed"

    rejudging = models.ForeignKey(Rejudging, on_delete=models.CASCADE, related_name="episodes")
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="rejudged")
    result = models.CharField(max_length=7, choices=Result.choices)
    grade = models.CharField(max_length=8, blank=True)
    before = models.CharField(max_length=200)
    after = models.CharField(max_length=200, blank=True)
    reward = models.FloatField(null=True, blank=True)
    details = JsonText(default=dict, blank=True)
    why = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rejudging", "episode"], name="one_rejudgment_per_pass"),
            models.CheckConstraint(
                condition=Q(result__in=["kept", "changed", "lost", "failed"]), name="rejudged_result_known"
            ),
        ]

    def __str__(self) -> str:
        return self.result


class Erratum(AppendOnly):
    """What a repaired verifier changed in the numbers of a run or campaign, or in the rows of an export: before, after,
    and by which pass. Exactly one of `run`, `export` and `campaign` is set; the latter two are IDs."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="errata")
    rejudging = models.ForeignKey(Rejudging, on_delete=models.CASCADE, related_name="errata")
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="errata")
    export = models.CharField(max_length=40, blank=True)
    campaign = models.CharField(max_length=40, blank=True, default="", db_default="")
    before = JsonText()
    after = JsonText()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "errata"
        constraints = [
            models.UniqueConstraint(
                fields=["rejudging", "run", "export", "campaign"], nulls_distinct=False, name="one_erratum_a_subject"
            ),
            models.CheckConstraint(
                condition=Q(run__isnull=False, export="", campaign="")
                | Q(~Q(export=""), run__isnull=True, campaign="")
                | Q(~Q(campaign=""), run__isnull=True, export=""),
                name="erratum_of_one_subject",
            ),
        ]
        indexes = [
            models.Index(fields=["export"], condition=~Q(export=""), name="errata_of_export"),
            models.Index(fields=["campaign"], condition=~Q(campaign=""), name="errata_of_campaign"),
        ]

    def __str__(self) -> str:
        return f"erratum of {self.run_id or self.export or self.campaign}"


class OutcomeHold(models.Model):
    """While a reviewer has to judge an episode blind, no outcome of it is shown to them. Written by `reviews`; `by` is
    the review that asks for it. Whether an actor sees an outcome is answered by `visibility.py` alone."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="holds")
    actor_key = models.CharField(max_length=160)
    by = models.CharField(max_length=40)
    since = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["actor_key", "episode", "by"], name="one_hold_per_review")]

    def __str__(self) -> str:
        return f"hold of {self.actor_key}"


class Certificate(AppendOnly):
    """The result of a replay: of an episode's recorded calls, or of a task's oracle that was run for this."""

    class Grade(models.TextChoices):
        EXACT = "exact", "Exact"
        CONTENT = "content", "Same rows"
        DATABASE = "database", "Put back"
        REFUSED = "refused", "Differs"

    class Source(models.TextChoices):
        EPISODE = "episode", "Episode"
        ORACLE = "oracle", "Oracle"

    # null: the task's oracle ran for this, without an episode
    episode = models.ForeignKey(Episode, null=True, on_delete=models.CASCADE, related_name="certificates")
    scenario = models.CharField(max_length=200)
    task_idx = models.IntegerField(null=True)
    scenario_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    source = models.CharField(max_length=8, choices=Source.choices)
    grade = models.CharField(max_length=8, choices=Grade.choices)
    calls = models.IntegerField()
    checked = models.IntegerField()
    difference = models.TextField(blank=True)
    differs_at = models.IntegerField(null=True)
    """The step of the first difference; of an oracle, its call."""
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(grade__in=["exact", "content", "database", "refused"]), name="certificate_grade_known"
            ),
        ]
        indexes = [models.Index(fields=["scenario", "task_idx", "-at"], name="certificates_of_task")]

    def __str__(self) -> str:
        return self.grade

    @property
    def clocks(self) -> str:
        """Return which clocks the world had; those of an oracle's are recorded."""
        return self.episode.clocks if self.episode is not None else "recorded"
