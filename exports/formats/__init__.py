"""The formats by name: which episodes each needs, how its rows are made, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from curriculum.rules.levels import VERSION as CURRICULUM
from exports.formats import (
    atif,
    conversational,
    curriculum,
    inspect_log,
    openai,
    openenv,
    preference,
    raw,
    tasks,
    tokens,
)
from exports.record import Record
from exports.rules.leakage import Ground
from exports.rules.pairs import Episode
from exports.rules.shaping import Shaped

Needs = Literal["complete", "both", "tasks", "curriculum"]
"""Complete episodes; episodes with any outcome; tasks, whatever the outcome of their episodes; or the tasks of a
curriculum, without episodes."""


@dataclass(frozen=True)
class Format:
    """One format. Exactly one of `of_episode` and `of_task` makes its rows.

    `of_episode` gets one shaped episode, `of_task` all shaped episodes of one task. `features` are the column types of
    a table, None if rows are no table. `trains` is false for files that people and viewers read. `tells` is false if
    rows hold steps and no conversation. `file` is the name of the data file if readers expect a fixed one, and
    `container` that of the writer if rows are not lines.

    """

    version: str
    title: str
    needs: Needs
    features: dict[str, Any] | None = None
    of_episode: Callable[[Record, Shaped, Ground], Iterator[dict[str, Any]]] | None = None
    of_task: Callable[[Sequence[Episode], Ground], Iterator[dict[str, Any]]] | None = None
    trains: bool = True
    tells: bool = True
    file: str = ""
    container: Literal["", "inspect"] = ""


FORMATS: dict[str, Format] = {
    "sft": Format(
        conversational.SFT,
        "SFT: conversations with tools",
        "complete",
        conversational.SFT_FEATURES,
        of_episode=conversational.sft,
    ),
    "steps": Format(
        conversational.STEPS,
        "SFT by turn: prompt and completion",
        "complete",
        conversational.STEPS_FEATURES,
        of_episode=conversational.steps,
    ),
    "tokens": Format(
        tokens.VERSION, "SFT as token IDs of a local tokenizer", "complete", tokens.FEATURES, of_episode=tokens.rows
    ),
    "dpo": Format(
        preference.DPO, "DPO: pairs of single actions", "both", preference.DPO_FEATURES, of_task=preference.dpo
    ),
    "kto": Format(
        preference.KTO, "KTO: single actions with a label", "both", preference.KTO_FEATURES, of_task=preference.kto
    ),
    "openai": Format(openai.VERSION, "OpenAI fine-tuning", "complete", of_episode=openai.rows),
    "prompts": Format(
        tasks.PROMPTS, "Prompts to run (GRPO)", "tasks", tasks.PROMPTS_FEATURES, of_episode=tasks.prompts
    ),
    "curriculum": Format(
        *(CURRICULUM, "Curriculum: tasks with level and weight", "curriculum", curriculum.FEATURES),
        of_episode=curriculum.rows,
        tells=False,
    ),
    "ask_decision": Format(
        tasks.ASKING, "When to ask: one row per turn", "both", tasks.ASKING_FEATURES, of_episode=tasks.ask_decision
    ),
    "atif": Format(atif.VERSION, "ATIF trajectories", "complete", of_episode=atif.rows),
    "inspect": Format(
        *(inspect_log.VERSION, "Inspect log", "both"), of_episode=inspect_log.rows, trains=False, container="inspect"
    ),
    "openenv": Format(
        openenv.VERSION, "OpenEnv episode records", "complete", of_episode=openenv.rows, file="results.jsonl"
    ),
    "raw": Format(raw.VERSION, "Raw record", "complete", of_episode=raw.rows, trains=False, tells=False),
}
