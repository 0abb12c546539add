"""States, origins and kinds, with the table of every change of an episode's state."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import models

from awmclient.schema import LIVE_STATES
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
    Move("running waiting", "queued", f"{_EPISODES}.ending.lose_silent", "sweep"),
    Move("running waiting", "queued", f"{_EPISODES}.ending.lose_of_worker", "rollouts worker, at its start"),
    Move("running waiting", "failed", f"{_EPISODES}.ending.lose_silent", "sweep"),
    Move("running waiting", "failed", f"{_EPISODES}.ending.lose_of_worker", "rollouts worker, at its start"),
    Move("failed", "running", f"{_EPISODES}.appending.reopen_or_refuse", "its loop, after a lost heartbeat"),
    Move("queued running waiting parked", "finished", f"{_EPISODES}.ending.finish", "may_record"),
    Move("queued running waiting parked", "failed", f"{_EPISODES}.ending.finish", "may_record"),
    Move("queued running waiting parked", "failed", f"{_EPISODES}.ending.fail", "rollouts worker"),
    Move("queued running waiting parked", "cancelled", f"{_EPISODES}.ending.cancel", "may_launch"),
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


EXPERT_WORDS = {ExpertMode.OFF: "baseline", ExpertMode.PLAIN: "expert", ExpertMode.INFORMED: "informed expert"}
"""What pages call an arm of each mode. The modes are names on the wire."""


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
