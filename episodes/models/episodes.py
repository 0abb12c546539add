"""Runs and episodes: what a row may contain, and facts about one."""

from __future__ import annotations

from datetime import datetime
from textwrap import shorten
from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, FloatField, Func, Q, Value
from django.db.models.functions import Cast, Coalesce, Extract, Length
from django.urls import reverse

from awmclient.schema import AT_WORK_STATES, LIVE_STATES
from episodes.models.kinds import ENDED_STATES, RUN_HERE, BranchArm, EpisodeState, ExpertMode, Knowledge, Origin
from people.models import IdField, JsonText, Project, long_ago


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
        return self.filter(long_ago("heartbeat_at", moment), state__in=AT_WORK_STATES)


_EpisodeManager = models.Manager.from_queryset(EpisodeQuerySet)


class CountedEpisodes(_EpisodeManager["Episode"]):
    """The episodes that lists, rates, exports and the statistics of runs are made of: all but branches.

    A branch shares its first steps with its parent and was started because of how that one ended, so it is never an
    independent sample. Code about one episode, or about the work of the worker, uses `Episode.every`."""

    def get_queryset(self) -> EpisodeQuerySet:
        return EpisodeQuerySet(self.model, using=self._db).exclude(origin=Origin.BRANCH)


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
    "length": _marks("ruweqolafdcn"),
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
                for name, value in zip(("actions", "asks", "fastest", "slowest"), SORTED_BY.values(), strict=True)
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
        top = self
        while top.fork is not None:
            top = top.fork.parent
        return top

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
