"""Rows about what happened: runs, episodes, their steps and outcomes. Django finds its models here.

    kinds     states, origins and kinds; table of states
    episodes  runs and episodes
    steps     steps and events, append-only
    outcomes  outcomes, repaired verifiers, errata, replays
    pictures  pictures of steps, and their episodes
    branches  forks, continued episodes, the wheel
    found     what lists and search keep; saved views
    splits    tasks to train on and hold out

Every change of a row is made in `episodes.record`.
"""

from episodes.models.branches import Continuation, Fork, UndoneOrder, Wheel, WheelOrder
from episodes.models.episodes import AGAIN, LAST, SORTED_BY, CountedEpisodes, Episode, EpisodeQuerySet, Run
from episodes.models.found import EpisodeFacts, EpisodeWords, SavedView, SearchMark, StepWords
from episodes.models.kinds import (
    ENDED_STATES,
    EPISODE_MOVES,
    EXPERT_WORDS,
    RUN_HERE,
    BranchArm,
    EpisodeState,
    ExpertMode,
    Knowledge,
    Origin,
    Privilege,
    StepKind,
)
from episodes.models.outcomes import (
    COMPLETE,
    Certificate,
    Erratum,
    OutcomeHold,
    OutcomeQuerySet,
    RejudgedEpisode,
    Rejudging,
    VerifierOutcome,
    VerifierVersion,
    counted_as,
    found_here,
)
from episodes.models.pictures import Picture, PictureUse
from episodes.models.splits import Split, SplitTask
from episodes.models.steps import AppendOnly, EpisodeEvent, Step

__all__ = [
    "COMPLETE",
    "AGAIN",
    "AppendOnly",
    "BranchArm",
    "Certificate",
    "Continuation",
    "CountedEpisodes",
    "ENDED_STATES",
    "EPISODE_MOVES",
    "Episode",
    "EpisodeEvent",
    "EpisodeFacts",
    "EpisodeQuerySet",
    "EpisodeState",
    "EpisodeWords",
    "Erratum",
    "EXPERT_WORDS",
    "ExpertMode",
    "Fork",
    "Knowledge",
    "LAST",
    "Origin",
    "OutcomeHold",
    "OutcomeQuerySet",
    "Picture",
    "PictureUse",
    "Privilege",
    "RUN_HERE",
    "RejudgedEpisode",
    "Rejudging",
    "Run",
    "SORTED_BY",
    "SavedView",
    "SearchMark",
    "Split",
    "SplitTask",
    "Step",
    "StepKind",
    "StepWords",
    "UndoneOrder",
    "VerifierOutcome",
    "VerifierVersion",
    "Wheel",
    "WheelOrder",
    "counted_as",
    "found_here",
]
