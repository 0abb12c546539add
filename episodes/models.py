"""Rows about what happened: runs, episodes, their steps and outcomes.

Owns what a row may contain and facts about one row. Leaves every change to `recording.py`. Steps and outcomes are
append-only: saving an existing one raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from textwrap import shorten
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, FloatField, Func, Q, Value
from django.db.models.functions import Cast, Coalesce, Extract, Length
from django.urls import reverse

from awmclient.schema import AT_WORK_STATES, LIVE_STATES
from awmenv.health import Health
from awmenv.offers import OF_ENVIRONMENT
from people.models import IdField, JsonText, Project, shown
from people.states import Move


class EpisodeState(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    WAITING = "waiting", "Waiting"
    PARKED = "parked", "Parked"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


_EPISODES = "episodes.record"
EPISODE_MOVES = (
    Move("", "running", f"{_EPISODES}.recording.start_episode", "may_record"),
    Move("", "queued", f"{_EPISODES}.recording.start_episode", "may_record"),
    Move("", "queued", f"{_EPISODES}.queueing.queue_many", "may_launch"),
    Move("", "queued", f"{_EPISODES}.branching.fork", "may_launch"),
    Move("", "finished", f"{_EPISODES}.admitting.admit", "may_launch"),
    Move("", "failed", f"{_EPISODES}.admitting.admit", "may_launch"),
    Move("", "cancelled", f"{_EPISODES}.admitting.admit", "may_launch"),
    Move("queued", "running", f"{_EPISODES}.recording.begin", "rollouts worker"),
    Move("queued", "running", f"{_EPISODES}.appending.append_together", "may_record"),
    Move("parked", "waiting", f"{_EPISODES}.appending.append_together", "may_record"),
    Move("queued running parked", "waiting", f"{_EPISODES}.ask_steps.open_ask_step", "may_record"),
    Move("running", "waiting", f"{_EPISODES}.ask_steps.note_waiting", "rollouts worker"),
    Move("waiting", "running", f"{_EPISODES}.ask_steps.close_ask_step", "the end of its last open ask"),
    Move("parked", "queued", f"{_EPISODES}.ask_steps.close_ask_step", "the end of its last open ask"),
    Move("waiting", "running", "runs.play.person.say", "who acts in it"),
    Move("parked", "queued", "runs.play.person.say", "who acts in it"),
    Move("parked", "queued", "runs.play.person.give_up_forgotten", "sweep"),
    Move("running", "waiting", f"{_EPISODES}.ask_steps.reword_ask_step", "a withdrawn answer"),
    Move("queued", "parked", f"{_EPISODES}.ask_steps.reword_ask_step", "a withdrawn answer"),
    Move("waiting", "parked", f"{_EPISODES}.recording.park", "its loop"),
    Move("running waiting", "queued", f"{_EPISODES}.recording.lose_silent", "sweep"),
    Move("running waiting", "queued", f"{_EPISODES}.recording.lose_of_worker", "rollouts worker, at its start"),
    Move("running waiting", "failed", f"{_EPISODES}.recording.lose_silent", "sweep"),
    Move("running waiting", "failed", f"{_EPISODES}.recording.lose_of_worker", "rollouts worker, at its start"),
    Move("failed", "running", f"{_EPISODES}.appending.reopen_or_refuse", "its loop, after a lost heartbeat"),
    Move("queued running waiting parked", "finished", f"{_EPISODES}.recording.finish", "may_record"),
    Move("queued running waiting parked", "failed", f"{_EPISODES}.recording.finish", "may_record"),
    Move("queued running waiting parked", "failed", f"{_EPISODES}.recording.fail", "rollouts worker"),
    Move("queued running waiting parked", "cancelled", f"{_EPISODES}.recording.cancel", "may_launch"),
    Move("queued", "cancelled", f"{_EPISODES}.queueing.cancel_unbegun", "may_launch"),
)
"""Every change of an episode's state."""


class ExpertMode(models.TextChoices):
    """Which help an episode is offered, the least first. Of a run: the most that an agent's token may give it."""

    OFF = "off", "Off"
    PLAIN = "plain", "Plain"
    INFORMED = "informed", "Informed"

    @classmethod
    def most(cls, modes: Iterable[str]) -> str:
        return max(modes, key=cls.values.index, default=cls.OFF)


class Privilege(models.TextChoices):
    """Whether someone could read the verifier when they answered, labeled or corrected."""

    BLIND = "blind", "Blind"
    SEES_VERIFIER = "sees_verifier", "Sees verifier"


class Origin(models.TextChoices):
    """Where an episode comes from. Set by the code that starts it, never by what a loop says about itself."""

    BUILTIN = "builtin", "Built-in"
    EXTERNAL = "external", "External"
    IMPORT = "import", "Imported"
    BRANCH = "branch", "Branch"


RUN_HERE = (Origin.BUILTIN, Origin.BRANCH)
"""Episodes that awmweb's own rollouts worker runs."""


class StepKind(models.TextChoices):
    MESSAGE = "message", "Message"
    TOOL_CALL = "tool_call", "Tool call"
    ACTION = "action", "Action"
    BRIEFING = "briefing", "Briefing"
    ASK = "ask", "Ask"
    NUDGE = "nudge", "Nudge"
    NOTE = "note", "Note"
    VERIFICATION = "verification", "Verification"


class Run(models.Model):
    """Episodes started together under one plan."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="runs")
    key = models.CharField(max_length=200, blank=True)
    name = models.CharField(max_length=200)
    arm = models.CharField(max_length=200, blank=True)
    policy = JsonText(default=dict, blank=True)
    metadata = JsonText(default=dict, blank=True)
    expert = models.CharField(max_length=8, choices=ExpertMode.choices, default=ExpertMode.PLAIN)
    created_by = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(expert__in=ExpertMode.values), name="run_expert_known"),
            # an empty key is none: runs without one are never repeats
            models.UniqueConstraint(fields=["project", "key"], condition=~Q(key=""), name="run_key_once"),
        ]
        indexes = [models.Index(fields=["project", "-created_at"], name="runs_newest")]

    def __str__(self) -> str:
        return self.name


# a rerun's key is this and the failed episode's ID: keys are unique, so two clicks make one rerun
AGAIN = "again/"


class EpisodeQuerySet(models.QuerySet["Episode"]):
    def live(self) -> EpisodeQuerySet:
        return self.filter(state__in=LIVE_STATES)

    def cut_off(self) -> EpisodeQuerySet:
        """Return the lost ones: their loops could reopen them."""
        # `cancel` sets a stop reason, after which the loop cannot reopen it
        return self.filter(state=EpisodeState.FAILED, fault="worker", stop_reason="")

    def silent_since(self, moment: datetime) -> EpisodeQuerySet:
        return self.filter(state__in=AT_WORK_STATES, heartbeat_at__lt=moment)


_EpisodeManager = models.Manager.from_queryset(EpisodeQuerySet)


class CountedEpisodes(_EpisodeManager["Episode"]):
    """The episodes that lists, rates, exports and the statistics of runs are made of: all but branches.

    A branch shares its first steps with its parent and was started because of how that one ended, so it is never an
    independent sample. Code about one episode, or about the work of the worker, uses `Episode.every`."""

    def get_queryset(self) -> EpisodeQuerySet:
        return EpisodeQuerySet(self.model, using=self._db).exclude(origin=Origin.BRANCH)


class BranchArm(models.TextChoices):
    """Which side of a comparison a branch is on."""

    TREATED = "treated", "Treated"
    CONTROL = "control", "Control"


class Knowledge(models.TextChoices):
    """What is known to those who shaped a branch, the least first. It only rises from a parent to its branches."""

    BLIND = "blind", "Blind"
    HINDSIGHT = "hindsight", "Hindsight"
    SEES_VERIFIER = "sees_verifier", "Sees verifier"

    @classmethod
    def most(cls, levels: Iterable[str]) -> str:
        return max((level for level in levels if level), key=cls.values.index, default=cls.BLIND)


ENDED_STATES = tuple(state for state in EpisodeState.values if state not in LIVE_STATES)
LAST = 1e15
"""The place of an episode without a value, away from zero: it comes last in both directions."""


def _marks(codes: str) -> Any:
    """Return the number of steps with one of these letters of `stored/strip.py`."""
    rest = Func(F("strip"), Value(codes), Value(""), function="translate")
    return Cast(Length("strip") - Length(rest), FloatField())


def _took(none: float) -> Any:
    """Return the seconds of an ended episode: those of a live one change between two pages."""
    return Coalesce(Cast(Extract(F("ended_at") - F("started_at"), "epoch"), FloatField()), Value(none))


SORTED_BY = {
    "length": _marks("ruweolafdcn"),
    "asks": _marks("olafdc"),
    "duration": _took(LAST),
    "-duration": _took(-LAST),
}
"""The values that lists of episodes are sorted by. Each has an index of ended episodes; live ones are few and change
with each step."""


TASK_WORDS = Func(
    *("key", "scenario", "task"),
    # cut, because PostgreSQL refuses more than 1 MB of words; as text, because parameters would match no index
    template="to_tsvector('simple', left(%(expressions)s, 20000))",
    arg_joiner=" || ' ' || ",
    output_field=SearchVectorField(),
)
"""The words of an episode's names and its task."""


class Episode(models.Model):
    """The stored record of one rollout, from plan to end."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="episodes")
    key = models.CharField(max_length=200)
    # of the request that started it: the same key with another digest is a conflict
    body_digest = models.CharField(max_length=64)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="episodes")
    task = models.TextField()
    scenario = models.CharField(max_length=200, blank=True)
    task_idx = models.IntegerField(null=True, blank=True)
    scenario_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    """The version of its scenario: a digest of the scenario's rows in the pack; empty if unknown."""
    environment = models.CharField(max_length=200, default="awm")
    tools = JsonText(default=list, blank=True)
    partial = JsonText(default=dict, blank=True)
    arm = models.CharField(max_length=200, blank=True)
    seed = models.BigIntegerField(null=True, blank=True)
    split = models.CharField(max_length=200, blank=True)
    policy = JsonText(default=dict, blank=True)
    origin = models.CharField(max_length=8, choices=Origin.choices, default=Origin.EXTERNAL)
    policy_kind = models.CharField(max_length=40, blank=True)
    policy_name = models.CharField(max_length=200, blank=True)
    training_step = models.IntegerField(null=True, blank=True)
    checkpoint = models.CharField(max_length=200, blank=True)
    group_key = models.CharField(max_length=200, blank=True)
    expert = models.CharField(max_length=8, choices=ExpertMode.choices, default=ExpertMode.OFF)
    max_steps = models.IntegerField(null=True, blank=True)
    state = models.CharField(max_length=10, choices=EpisodeState.choices, default=EpisodeState.RUNNING)
    stop_reason = models.CharField(max_length=12, blank=True)
    fault = models.CharField(max_length=12, blank=True)
    fault_detail = models.TextField(blank=True)
    final_answer = JsonText(null=True, blank=True)  # noqa: DJ001  null: gave none; empty: gave an empty one
    # the last step that agents can read; the verifier's step has the next number
    last_seq = models.IntegerField(default=0)
    # one letter a step, so that lists of episodes read no steps
    strip = models.TextField(blank=True, default="")
    started_by = models.CharField(max_length=160, blank=True)
    token = models.CharField(max_length=40, blank=True)
    worker = models.CharField(max_length=200, blank=True)
    attempt = models.IntegerField(default=0)
    """How often a worker of awmweb began it; only the last attempt can write."""
    attempt_seq = models.IntegerField(default=0)
    """The last step when this attempt began."""
    idle_attempts = models.SmallIntegerField(default=0)
    """Attempts in a row that were lost without a new step."""
    parked_at = models.DateTimeField(null=True, blank=True)
    """Since when it waits, or waited, without a process; cleared when an attempt begins."""
    world = JsonText(default=dict, blank=True)
    """How its recorded world began (`awmenv.server.session.marks.WorldStart`), and `final`, the digest of its last
    database; empty if it cannot be made again."""
    fork = models.ForeignKey("Fork", null=True, blank=True, on_delete=models.CASCADE, related_name="branches")
    """What it is a branch of. It holds its parent's first steps, so it is deleted with it."""
    branch_arm = models.CharField(max_length=8, choices=BranchArm.choices, blank=True, default="", db_default="")
    branch_seq = models.IntegerField(null=True, blank=True)
    """The first step that its parent does not have; those before are copies."""
    knowledge = models.CharField(max_length=13, choices=Knowledge.choices, blank=True, default="", db_default="")
    """What those knew who shaped a branch, or whose words an episode continues; empty for any other."""
    grade = models.CharField(max_length=8, blank=True, default="", db_default="")
    """How a branch's world was restored (`Certificate.Grade`); empty until its worker has done so."""
    assisted = models.BooleanField(default=False, db_default=False)
    """Whether a person took part in its play: drove it, or changed its limits. It never counts as its policy's."""
    steered = models.BooleanField(default=False, db_default=False)
    """Whether its loop has something to read from the people who steer it."""
    limits = JsonText(default=dict, db_default=Value("{}", output_field=models.TextField()), blank=True)
    """Limits that a person changed while it was live, by their names in `awmclient.rollout`."""
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    steps_erased_at = models.DateTimeField(null=True, blank=True)
    """When a retention rule took the words out of its steps; their numbers, kinds, tools and times are left."""

    objects = CountedEpisodes()
    every = EpisodeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "key"], name="episode_key_unique"),
            models.CheckConstraint(condition=Q(state__in=EpisodeState.values), name="episode_state_known"),
            models.CheckConstraint(condition=Q(expert__in=ExpertMode.values), name="episode_expert_known"),
            models.CheckConstraint(condition=Q(origin__in=Origin.values), name="episode_origin_known"),
            # joins from a run to its episodes use no manager
            models.CheckConstraint(condition=~Q(origin=Origin.BRANCH) | Q(run=None), name="branch_in_no_run"),
        ]
        indexes = [
            # with the ID, because a cursor needs one order for rows of one moment
            # of the counted ones, so that they are counted without their rows
            models.Index(
                fields=["project", "-created_at", "-id"], condition=~Q(origin=Origin.BRANCH), name="counted_newest"
            ),
            models.Index(fields=["project", "state", "-created_at"], name="episodes_by_state"),
            # the task last: it narrows the episodes of a scenario without their rows
            models.Index(
                fields=["project", "scenario", "-created_at", "-id", "task_idx"],
                condition=~Q(origin=Origin.BRANCH),
                name="counted_of_scenario",
            ),
            # a run's newest ones, and its counts without their rows
            models.Index(
                fields=["run", "-created_at", "-id"],
                include=["state", "training_step"],
                condition=~Q(origin=Origin.BRANCH),
                name="counted_of_run",
            ),
            models.Index(fields=["run"], condition=Q(state__in=LIVE_STATES), name="live_of_run"),
            # of ended ones: a live episode changes with each step, and would have its words read again each time
            GinIndex(TASK_WORDS, condition=Q(state__in=ENDED_STATES), name="words_of_tasks"),
            *(
                models.Index(
                    *(F("project"), value, F("created_at"), F("id")),
                    condition=Q(state__in=ENDED_STATES),
                    name=f"ended_by_{name}",
                )
                for name, value in zip(("length", "asks", "fastest", "slowest"), SORTED_BY.values(), strict=True)
            ),
            # the sweep asks for silent ones in all projects
            models.Index(fields=["state", "heartbeat_at"], name="episodes_by_heartbeat"),
            # the page that connects an agent waits for its token's first episode
            models.Index(fields=["token", "-created_at"], name="episodes_by_token"),
            # the indexer looks for new episodes of all projects
            models.Index(fields=["created_at"], name="episodes_by_creation"),
            # those that a worker had begun before: few, while a run can have ten thousand that wait for their first
            models.Index(fields=["run"], condition=Q(state="queued", attempt__gt=0), name="episodes_queued_again"),
        ]

    def __str__(self) -> str:
        name = self.scenario or shorten(self.task, 40, placeholder="…")
        return name if self.task_idx is None else f"{name} / {self.task_idx}"

    def get_absolute_url(self) -> str:
        return reverse("episode", args=[self.pk])

    @property
    def is_live(self) -> bool:
        return self.state in LIVE_STATES

    @property
    def is_builtin(self) -> bool:
        """Run by awmweb's own rollouts worker, which also runs the verifier."""
        return self.origin in RUN_HERE

    @property
    def is_continued(self) -> bool:
        """Whether it goes on from another episode's prompt. The link goes with its parent, this does not."""
        return self.knowledge != "" and self.origin != Origin.BRANCH

    @property
    def is_branch(self) -> bool:
        return self.origin == Origin.BRANCH

    @property
    def root(self) -> Episode:
        """The episode at the top of a branch's tree, or the episode itself."""
        found = self
        while found.fork is not None:
            found = found.fork.parent
        return found

    @property
    def clocks(self) -> str:
        """Return *real* if its app read the machine's time, *recorded* if that of the record of its world."""
        return str(self.world.get("clocks", "recorded"))

    @property
    def is_cut_off(self) -> bool:
        """Its loop was not heard any more: it did not end by a word of its own."""
        return self.fault == "worker" and not self.stop_reason

    @property
    def again_key(self) -> str:
        """Return the key of the episode that reruns this one; there is at most one."""
        return f"{AGAIN}{self.pk}"


class Fork(models.Model):
    """A question about one step of an episode: what if it had been another? Its branches are the answer.

    `change` holds one of `call`, `advice`, `words`, `ask` and `policy`, or nothing; `erased` names one that was erased
    with the words of its author. `tokens` is what all branches
    together can use; 0 sets no limit. `grade` is how the world was restored when the fork was made. `correction` is the
    ID of the reviewer's correction whose action is the change, or empty."""

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


class AppendOnly(models.Model):
    """A row that is written once."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        # an `update()` does not come through here: `ask_steps.py` uses one for its two exceptions
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


class OutcomeQuerySet(models.QuerySet["VerifierOutcome"]):
    def verdicts(self) -> OutcomeQuerySet:
        """Return the outcomes that count in rates: without those of a failed verifier or judge, of assisted
        episodes, and of those that continue another one's prompt."""
        return self.unaided().filter(source="verifier").exclude(reward_type="judge_error")

    def counted(self) -> OutcomeQuerySet:
        """Return those of counted episodes; see `CountedEpisodes`."""
        return self.exclude(episode__origin=Origin.BRANCH)

    def unaided(self) -> OutcomeQuerySet:
        """Return those that are their policy's alone: no person took part in the play, and it continues no other
        episode's steps. A branch does, beside others of the same root."""
        alone = Q(episode__knowledge="") | Q(episode__origin=Origin.BRANCH)
        return self.filter(alone, episode__assisted=False)


class VerifierOutcome(AppendOnly):
    """The outcome of the verifier, one per episode and version of its verifier. `reported` ones come from the loop and
    are kept apart; the environment server's statement about `session` proves `attested` ones.

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
    """What a repaired verifier changed in the numbers of a run, or in the rows of an export: before, after, and by
    which pass. Exactly one of `run` and `export`, the ID of an export, is set."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="errata")
    rejudging = models.ForeignKey(Rejudging, on_delete=models.CASCADE, related_name="errata")
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="errata")
    export = models.CharField(max_length=40, blank=True)
    before = JsonText()
    after = JsonText()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "errata"
        constraints = [
            models.UniqueConstraint(
                fields=["rejudging", "run", "export"], nulls_distinct=False, name="one_erratum_per_subject"
            ),
            models.CheckConstraint(condition=Q(run__isnull=True) ^ Q(export=""), name="erratum_of_a_run_or_an_export"),
        ]
        indexes = [models.Index(fields=["export"], condition=~Q(export=""), name="errata_of_export")]

    def __str__(self) -> str:
        return f"erratum of {self.run_id or self.export}"


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


class EpisodeEvent(AppendOnly):
    """What happened to an episode beside its steps: started, waiting, lost, reopened, ended; who and why."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    verb = models.CharField(max_length=30)
    actor = models.CharField(max_length=160, blank=True)
    reason = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.verb


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


class EpisodeFacts(models.Model):
    """What filters ask of an episode and only its steps tell, up to `read_seq`. `done` once it has ended and was read
    to its end. `waiting` are asks that were open when they were read, and are read again. Words of steps up to
    `joined_seq` are in `EpisodeWords` as well."""

    episode = models.OneToOneField(Episode, primary_key=True, on_delete=models.CASCADE, related_name="facts")
    read_seq = models.IntegerField(default=0)
    joined_seq = models.IntegerField(default=0)
    done = models.BooleanField(default=False)
    errors = models.IntegerField(default=0)
    asks = models.IntegerField(default=0)
    tools = ArrayField(models.CharField(max_length=200), default=list, blank=True)
    answered = ArrayField(models.CharField(max_length=20), default=list, blank=True)
    waiting = ArrayField(models.IntegerField(), default=list, blank=True)

    class Meta:
        indexes = [
            # partial: at any time few episodes are unread
            models.Index(fields=["done"], condition=Q(done=False), name="facts_to_read"),
            models.Index(fields=["episode"], condition=Q(joined_seq__lt=F("read_seq")), name="facts_to_join"),
            GinIndex(fields=["tools"], name="facts_by_tool"),
        ]

    def __str__(self) -> str:
        return f"{self.episode_id} up to {self.read_seq}"


class StepWords(models.Model):
    """The words by which a step is found; never one of the verifier's."""

    step = models.OneToOneField(Step, primary_key=True, on_delete=models.CASCADE, related_name="words")
    # no index of its own: `words_by_episode` begins with the episode
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.IntegerField()
    words = SearchVectorField()

    class Meta:
        indexes = [
            GinIndex(fields=["words"], name="words_of_steps"),
            models.Index(fields=["episode", "seq"], name="words_by_episode"),
        ]

    def __str__(self) -> str:
        return f"words of step {self.seq}"


class EpisodeWords(models.Model):
    """The words of many steps of an episode, without their places: a frequent word has an entry here for each of its
    episodes, and not for each of its steps."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="+")
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="words_of_episodes")]

    def __str__(self) -> str:
        return f"words of {self.episode_id}"


class SearchMark(models.Model):
    """One row: every step that was committed before `read_until` can be found; `swept_at` is the last look at all
    episodes."""

    read_until = models.DateTimeField()
    swept_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.read_until.isoformat()


class SavedView(models.Model):
    """Filters of the list of episodes under a name, for its author or for everyone in the project."""

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="episode_views")
    author_key = models.CharField(max_length=60)
    author = models.CharField(max_length=160)
    name = models.CharField(max_length=60)
    query = models.TextField()
    shared = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "author_key", "name"], name="one_episode_view_per_name")
        ]

    def __str__(self) -> str:
        return self.name


class Split(models.Model):
    """A pinned list of tasks to train on and tasks to hold out. Never changed once written; `digest` covers the lists.

    `unit` says what was kept together: whole scenarios, or single tasks. `about` holds the filters that made it.
    """

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="splits")
    name = models.CharField(max_length=200)
    unit = models.CharField(
        max_length=8, choices=[("scenario", "Scenario"), ("task", "Task"), ("instance", "Instance")]
    )
    seed = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    about = models.JSONField(default=dict, blank=True)
    created_by = models.CharField(max_length=160, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_split_per_name")]

    def __str__(self) -> str:
        return self.name


class SplitTask(models.Model):
    """One task of a split: its key (`scenario/idx`) and its side."""

    # no index of its own: the unique pair begins with the split
    split = models.ForeignKey(Split, on_delete=models.CASCADE, related_name="tasks", db_index=False)
    task = models.CharField(max_length=300)
    side = models.CharField(max_length=5, choices=[("train", "Train"), ("val", "Held out")])

    class Meta:
        constraints = [models.UniqueConstraint(fields=["split", "task"], name="one_side_per_task")]
        indexes = [models.Index(fields=["task"], name="splits_of_task")]

    def __str__(self) -> str:
        return f"{self.task} {self.side}"
