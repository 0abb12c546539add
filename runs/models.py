"""Rows about planned runs: the plan of a run, its arms, each planned try with its episode; campaigns of forks; and
probes of tasks.

Owns what a row may contain. Leaves changes to `planning.py` and `probing.py`. A run without a plan is a label for the
episodes of an external loop.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q, Value
from django.urls import reverse

from awmenv.health import Health
from episodes.models import AppendOnly, Episode, ExpertMode, Fork, Run
from people.models import IdField, JsonText, Project
from people.states import Move

INFRASTRUCTURE = ("model", "environment", "expert", "dashboard", "worker")
"""Faults that are no words of the policy. A retry replaces them, and a comparison leaves them out. The other one is
`policy`, which counts as not complete: see `awmclient/words/faults.py`."""


class PersonTurn(AppendOnly):
    """A turn of a person who acts for the agent of an episode: a call, an answer, or that they give up."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="person_turns")
    number = models.IntegerField()
    said = JsonText()
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["episode", "number"], name="one_turn_of_a_person")]

    def __str__(self) -> str:
        return f"turn {self.number} of {self.episode_id}"


class PlanState(models.TextChoices):
    PLANNED = "planned", "Planned"
    RUNNING = "running", "Running"
    PAUSED = "paused", "Paused"
    FINISHED = "finished", "Finished"
    CANCELLED = "cancelled", "Cancelled"


ENDED = {PlanState.FINISHED, PlanState.CANCELLED}


PLAN_MOVES = (
    Move("", "planned", "runs.launch.planning.launch", "may_launch"),
    Move("planned", "running", "runs.launch.planning.launch", "may_launch"),
    Move("planned paused", "running", "runs.launch.planning.resume", "may_launch"),
    Move("running", "paused", "runs.launch.planning.pause", "may_launch"),
    Move("planned running paused", "cancelled", "runs.launch.planning.cancel", "may_launch"),
    Move("running", "finished", "runs.launch.feeding.feed", "the outcome of its last episode"),
    Move("finished", "running", "runs.launch.planning.retry", "may_launch"),
    Move("finished", "running", "runs.launch.planning.add_seeds", "may_launch"),
)
"""Every change of a planned run's state."""


class Plan(models.Model):
    """What a run was launched to do. `document` is the typed plan as it was given, `digest` covers it.

    `waves` counts the times that seeds were planned: 1, and one more for each addition. `prices` are those of the
    models at the launch: a price that changes later changes no run. `server` is what the environment server of the plan
    said of itself then; empty for the built-in one. `paid_at` is when the shaped rewards of all its ended episodes were
    stored; more seeds make it older than `ended_at`. `claims` is what the run will say (`plan/claims.py`), and
    `claims_digest` covers it; both are empty for runs from before there were claims.
    """

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="plan")
    document = models.JSONField()
    digest = models.CharField(max_length=64)
    control = models.CharField(max_length=200)
    waves = models.SmallIntegerField(default=1)
    seeds = models.IntegerField()
    parallel = models.IntegerField()
    prices = models.JSONField(default=dict)
    server = models.JSONField(default=dict)
    claims = models.JSONField(default=dict, db_default=Value({}, models.JSONField()))
    claims_digest = models.CharField(max_length=64, default="", db_default="", blank=True)
    state = models.CharField(max_length=10, choices=PlanState.choices, default=PlanState.PLANNED)
    changed_by = models.CharField(max_length=160, blank=True)
    changed_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    paid_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(state__in=PlanState.values), name="plan_state_known")]

    def __str__(self) -> str:
        return self.run.name


class Arm(models.Model):
    """One condition of a run. `withdrawn_at` is when its gate was withdrawn, because the run said that it is worse:
    episodes that begin later have the plan's reminders in its place. `withdrawn` is that statement."""

    # the unique pair begins with the plan
    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="arms", db_index=False)
    name = models.CharField(max_length=200)
    place = models.SmallIntegerField()
    expert = models.CharField(max_length=8, choices=ExpertMode.choices, default=ExpertMode.OFF)
    policy = models.CharField(max_length=200)
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    withdrawn = models.TextField(blank=True, default="", db_default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["plan", "name"], name="arm_name_once")]
        ordering = ["place"]

    def __str__(self) -> str:
        return self.name


class Briefing(AppendOnly):
    """Advice for the agents of a task from before they begin.

    Without a run it is a person's: the newest one of a task is given in runs that start later. With a run it was
    distilled for one of its arms, once; an empty `text` says that there is none, and `reason` why. `sources` are ids of
    the earlier episodes that it is from.
    """

    class Source(models.TextChoices):
        HUMAN = "human", "Human"
        LLM = "llm", "Model"

    id = IdField()
    # the index of briefings begins with the project
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="briefings", db_index=False)
    scenario = models.CharField(max_length=200)
    task_idx = models.IntegerField()
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.CASCADE, related_name="briefings")
    arm = models.CharField(max_length=200, blank=True)
    text = models.TextField(blank=True)
    reason = models.TextField(blank=True)
    source = models.CharField(max_length=5, choices=Source.choices)
    author = models.CharField(max_length=160)
    privilege = models.CharField(max_length=13)
    sources = models.JSONField(default=list)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "arm", "scenario", "task_idx"], condition=Q(run__isnull=False), name="distilled_once"
            ),
            models.CheckConstraint(condition=Q(source__in=["human", "llm"]), name="briefing_source_known"),
            models.CheckConstraint(
                condition=Q(privilege__in=["blind", "sees_verifier"]), name="briefing_privilege_known"
            ),
            models.CheckConstraint(condition=~Q(text="") | ~Q(reason=""), name="briefing_or_reason"),
        ]
        indexes = [models.Index(fields=["project", "scenario", "task_idx", "-at"], name="briefings_of_task")]

    def __str__(self) -> str:
        return f"briefing of {self.task}"

    @property
    def task(self) -> str:
        return f"{self.scenario}/{self.task_idx}"

    @property
    def sees_verifier(self) -> bool:
        return self.privilege == "sees_verifier"


class PlannedTry(models.Model):
    """One cell of the plan: a task under an arm with a seed, and the episode that counts for it.

    `position` is the task's place in the shuffled order; `called_at` says that a worker was called for the episode,
    `begun_at` that one has begun it: the episode's own state decides, and this saves reading it;
    `tries` how many episodes there were: a retry after an infrastructure failure replaces the one that counts.
    `offered` is what the arm's draw came to, with the `chance` that it had; both are None where the arm draws nothing.
    `briefing` is what its agent reads before it begins, the same for all seeds.
    """

    # the unique cell begins with the plan
    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="tries", db_index=False)
    arm = models.ForeignKey(Arm, on_delete=models.CASCADE, related_name="+", db_index=False)
    scenario = models.CharField(max_length=200)
    task_idx = models.IntegerField()
    seed = models.IntegerField()
    wave = models.SmallIntegerField(default=0)
    position = models.IntegerField()
    episode = models.OneToOneField(Episode, on_delete=models.CASCADE, related_name="planned")
    tries = models.SmallIntegerField(default=1)
    called_at = models.DateTimeField(null=True, blank=True)
    begun_at = models.DateTimeField(null=True, blank=True)
    offered = models.BooleanField(null=True, blank=True)
    chance = models.FloatField(null=True, blank=True)
    briefing = models.ForeignKey(Briefing, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["plan", "arm", "scenario", "task_idx", "seed"], name="planned_once"),
            models.CheckConstraint(
                condition=Q(offered=None, chance=None)
                # the bounds of `offers.CHANCES`
                | Q(offered__isnull=False, chance__isnull=False, chance__gte=0.1, chance__lte=0.9),
                name="offer_has_its_chance",
            ),
        ]
        indexes = [
            models.Index(fields=["plan", "wave", "position"], name="tries_in_order"),
            # partial: shrinks as a run goes on, while `feed` asks it for the next ones again and again
            models.Index(fields=["plan", "wave", "position"], condition=Q(called_at=None), name="tries_uncalled"),
            # partial: a run has few calls that no worker has taken, and `limits.LOADS` reads these first
            models.Index(fields=["plan"], condition=Q(called_at__isnull=False, begun_at=None), name="tries_called"),
        ]

    def __str__(self) -> str:
        return f"{self.task} seed {self.seed}"

    @property
    def task(self) -> str:
        return f"{self.scenario}/{self.task_idx}"


class Probe(AppendOnly):
    """What cheap attempts at a task of a pack came to, and the verifier that judged them (SHA-256 of its code form).

    `attempts` holds `{"outcome", "calls"}` by name: `empty`, `echo_task` and `read_only`; `health` is the server's
    check of the verifier on the unmodified database, empty if it reported none. The newest row of a task counts while
    its verifier is the one that the pack holds.
    """

    class State(models.TextChoices):
        CLEAN = "clean", "Clean"
        TRIVIAL = "trivial", "Passes without work"
        ANSWER_ONLY = "answer_only", "Passes on an answer alone"
        UNVERIFIABLE = "unverifiable", "Verifier does not run"
        ERROR = "error", "Could not be probed"

    scenario = models.CharField(max_length=200)
    task_idx = models.IntegerField()
    verifier = models.CharField(max_length=64, blank=True)
    scenario_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    server = models.CharField(max_length=60, blank=True)
    state = models.CharField(max_length=12, choices=State.choices)
    attempts = models.JSONField(default=dict)
    health = JsonText(default=dict, blank=True)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["clean", "trivial", "answer_only", "unverifiable", "error"]),
                name="probe_state_known",
            ),
        ]
        indexes = [models.Index(fields=["scenario", "task_idx", "-at"], name="probes_of_task")]

    def __str__(self) -> str:
        return f"{self.task} {self.state}"

    @property
    def task(self) -> str:
        return f"{self.scenario}/{self.task_idx}"

    @property
    def checked(self) -> Health | None:
        return Health.from_wire(self.health) if self.health else None


class ShapedReward(AppendOnly):
    """What a reward profile pays an episode of a run that has ended, part by part (see `rewards/`).

    `total` is None for an excluded outcome. `reference` is the median of calls and asks that the profile was given,
    None where the task has too few complete episodes: seeds that are added later can change it, and the episode then
    gets another row.
    """

    # the unique triple begins with the episode
    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="+", db_index=False)
    profile = models.CharField(max_length=40)
    reference = models.FloatField(null=True)
    total = models.FloatField(null=True)
    pattern = models.CharField(max_length=40, blank=True)
    flags = models.JSONField(default=list)
    components = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            # a missing reference is a value here: otherwise each call would pay such an episode again
            models.UniqueConstraint(
                fields=["episode", "profile", "reference"], nulls_distinct=False, name="paid_once_by_reference"
            )
        ]

    def __str__(self) -> str:
        return f"{self.profile} {self.total}"


class ModelOutage(models.Model):
    """An agent model whose server takes no request now, by its name in the settings, with why in the server's words.

    Queued episodes wait for it. The row goes with the first answer: of an episode that is still asking, or of a look.
    """

    name = models.CharField(max_length=200, primary_key=True)
    reason = models.TextField()
    since = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class ModelSlots(models.Model):
    """How many requests the server of an agent model answers at a time, as it said itself; 0 where it does not say."""

    address = models.CharField(max_length=2000, primary_key=True)
    slots = models.IntegerField()
    looked_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.address}: {self.slots}"


class Campaign(models.Model):
    """The same change in many ended episodes: each root is forked, at its first error or at several times of it.

    `query` chose the roots, `matched` of which there were and `chosen` of which were taken; `view` is the name of the
    saved view that it came from. `points` are shares of the turns in percent, empty for the first error. `change` holds
    the value of its `kind`. `tokens` is what all branches can use, 0 for no limit. `worked_at` is when a worker last
    made forks, `made_at` when there were no more to make."""

    class Place(models.TextChoices):
        ERROR = "error", "At the first error"
        TIMES = "times", "At several times"

    class Kind(models.TextChoices):
        WORDS = "words", "Words to the agent"
        ASK = "ask", "Ask there"
        POLICY = "policy", "Another model"

    id = IdField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="campaigns")
    name = models.CharField(max_length=100)
    view = models.CharField(max_length=60, blank=True)
    query = models.TextField()
    place = models.CharField(max_length=5, choices=Place.choices)
    points = models.JSONField(default=list, blank=True)
    kind = models.CharField(max_length=6, choices=Kind.choices)
    change = JsonText(default=dict)
    tries = models.IntegerField()
    tokens = models.BigIntegerField(default=0)
    matched = models.IntegerField()
    chosen = models.IntegerField()
    author = models.CharField(max_length=160)
    author_key = models.CharField(max_length=160)
    created_at = models.DateTimeField(auto_now_add=True)
    worked_at = models.DateTimeField(auto_now_add=True)
    made_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(place__in=["error", "times"]), name="campaign_place_known"),
            models.CheckConstraint(condition=Q(kind__in=["words", "ask", "policy"]), name="campaign_kind_known"),
            models.CheckConstraint(condition=Q(tries__gte=1, tokens__gte=0), name="campaign_numbers_positive"),
        ]
        # partial: the sweep asks for the few that a worker is at
        indexes = [
            models.Index(fields=["worked_at"], condition=Q(made_at=None, cancelled_at=None), name="campaigns_at_work")
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("campaign", args=[self.pk])


class CampaignPoint(models.Model):
    """One place of one root: its fork once that is made, or the `reason` why it is left out. Places in the same turn
    share a fork. `share` is the place in percent, 0 for the first error; `seq` the first step of its turn, 0 if the
    root has no such place."""

    # the unique triple begins with the campaign
    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="campaign_points", db_index=False)
    root = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="+")
    share = models.SmallIntegerField()
    seq = models.IntegerField(default=0)
    fork = models.ForeignKey(Fork, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["campaign", "root", "share"], name="campaign_point_once"),
            models.CheckConstraint(condition=Q(fork=None) | Q(reason=""), name="campaign_fork_or_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.root_id} at {self.share}%"
