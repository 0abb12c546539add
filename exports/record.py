"""One ended episode as exports read it: a plain value, so that rules and formats need no database.

Owns its fields and facts about one record. `reading.py` makes records from rows; importers can make them from files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from awmclient.nouns.kinds import by_agent, is_ask, is_briefing, is_message, is_question
from awmclient.nouns.sources import source_of
from awmclient.schema import ToolSpec
from awmclient.words.conversation import PromptMessage, conversation
from episodes.quoting import texts


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """The outcome of an episode and its source."""

    reward_type: str
    reward: float | None
    word: str
    details: Mapping[str, Any] = field(default_factory=dict)
    passes_untouched: bool = False

    @property
    def is_complete(self) -> bool:
        return self.reward_type == "complete"


class Original(NamedTuple):
    """What rules compare and look up: the task and its place before redaction. No format writes it."""

    task: str
    scenario: str = ""
    task_idx: int | None = None
    scenario_digest: str = ""


# compared by identity, to tell "not given" from an empty task
_AS_SAID = Original("")


class NoRow(Exception):
    """A format can make no row of an episode; the text says why, in a fixed set of words."""


class StoredPicture(NamedTuple):
    """A picture that the record has: the file beside the rows, and its bytes."""

    path: str
    size: int


class LeftOut(NamedTuple):
    """A row that a format could not make, and why, as the manifest counts it."""

    reason: str


@dataclass
class Record:
    """An ended episode with its steps as they are sent between processes, without verifications.

    `results` holds every outcome by its source. `task_key` is `scenario/idx`, or a digest of the task's text. `ruling`
    is the fault that the verifier court found with the task, `verdict` the verdict of blind reviewers on the episode.
    `corrections` are those of reviewers without verifier access, each with seq, kind, name, arguments and text. `forks`
    are those that show a difference, each with seq, change and the numbers of a `PinnedFork`. A branch has the ID of
    its `root`, the first step of its own, and what was known to those who shaped it.

    """

    id: str
    project: str
    task: str
    task_key: str
    state: str
    steps: list[dict[str, Any]]
    results: dict[str, EpisodeResult] = field(default_factory=dict)
    scenario: str = ""
    task_idx: int | None = None
    scenario_digest: str = ""
    environment: str = "awm"
    tools: list[dict[str, Any]] = field(default_factory=list)
    run: str = ""
    run_id: str = ""
    arm: str = ""
    seed: int | None = None
    split: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    policy_kind: str = ""
    policy_name: str = ""
    ruling: str = ""
    verdict: str = ""
    corrections: Sequence[Mapping[str, Any]] = ()
    forks: Sequence[Mapping[str, Any]] = ()
    compared: Sequence[Sequence[Any]] = ()
    """Of each pair with another episode: its ID, votes for this one, for the other, and for neither of them."""
    root: str = ""
    branch_seq: int | None = None
    knowledge: str = ""
    training_step: int | None = None
    checkpoint: str = ""
    group_key: str = ""
    expert: str = "off"
    origin: str = "external"
    is_evaluation: bool = False
    is_partial: bool = False
    assisted: bool = False
    is_erased: bool = False
    """Whether a retention rule took the words out of its steps."""
    """Whether a person at the wheel took part in its play, or changed its limits."""
    stop_reason: str = ""
    fault: str = ""
    final_answer: str | None = None
    started_at: str = ""
    ended_at: str = ""
    tags: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    pictures: Mapping[str, StoredPicture] = field(default_factory=dict)
    """Those of its steps by digest. A part that only says a digest has none."""
    not_for_training: str = ""
    """The rule that excludes it from training. Only formats that report have such an episode, with this mark."""
    original: Original = _AS_SAID

    def __post_init__(self) -> None:
        if self.original is _AS_SAID:
            self.original = Original(self.task, self.scenario, self.task_idx, self.scenario_digest)

    @cached_property
    def said(self) -> list[PromptMessage]:
        """Return the conversation that the agent read; it starts with the task if the loop recorded no user message."""
        turns = conversation(self.steps)
        if not any(one.message["role"] == "user" and one.part == "prompt" for one in turns):
            place = next((i for i, one in enumerate(turns) if one.message["role"] != "system"), len(turns))
            turns[place:place] = conversation([{"kind": "message", "role": "user", "content": self.task}])
        return turns

    @cached_property
    def specs(self) -> list[ToolSpec]:
        """The tools that the environment listed, as the loop recorded them."""
        return [ToolSpec.model_validate(tool) for tool in self.tools]

    def before_the_agent(self) -> Record:
        """Return the record with its prompt alone, for rows about the task: what an agent said is no fact about it."""
        prompt = itertools.takewhile(lambda step: not by_agent(step), self.steps)
        steps = [step for step in prompt if is_message(step)]
        own = {part["blob"] for step in steps for part in step.get("pictures") or ()}
        pictures = {digest: stored for digest, stored in self.pictures.items() if digest in own}
        return replace(self, steps=steps, final_answer=None, pictures=pictures)

    @property
    def beside(self) -> Iterator[str]:
        """Yield the texts beside the conversation that formats write."""
        changes = [one["change"] for one in self.forks]
        yield from texts(
            [self.tools, self.policy, self.corrections, changes, [dict(one) for one in self.tags.values()]]
        )
        yield from (self.run, self.arm, self.checkpoint, self.group_key, self.environment, self.split)
        yield from (self.policy_kind, self.policy_name, *(one.reward_type for one in self.results.values()))

    @property
    def is_continued(self) -> bool:
        """Return whether it goes on from another episode's prompt, as `Episode.is_continued`."""
        return self.knowledge != "" and self.origin != "branch"

    @property
    def asks(self) -> list[dict[str, Any]]:
        """Return the agent's own questions: approvals that a gate asked for are not among them."""
        return [step for step in self.steps if is_question(step)]

    @cached_property
    def advice(self) -> list[Mapping[str, Any]]:
        """Return the advice of all asks; an ask that fell back without advice has none."""
        answers = (step.get("advice") for step in self.steps if is_ask(step))
        return [one for one in answers if isinstance(one, Mapping) and source_of(one).is_answer]

    @property
    def briefings(self) -> list[dict[str, Any]]:
        return [step for step in self.steps if is_briefing(step)]

    @property
    def is_informed(self) -> bool:
        """Return whether the author of any advice or briefing knew the verifier or outcomes, as recorded. So may a
        person who acted in an episode whose experts can read the verifier."""
        if self.assisted and self.expert == "informed":
            return True
        return any(one.get("privilege") == "sees_verifier" for one in (*self.advice, *self.briefings))
