"""The formats by name: which episodes each needs, how its rows are made, and how they are written.

    columns         columns that all formats share
    raw             awmweb's own record
    conversational  whole conversations and single turns
    openai          OpenAI's fine-tuning rows
    preference      preference pairs and labels
    tokens          token ids with loss masks
    tasks           prompts and decisions to ask
    curriculum      tasks of a curriculum
    openenv         openenv's episode records
    atif            the ATIF interchange format
    inspect_log     samples of an Inspect log
    pictured        rows with pictures

Rooms of `exports` from `build` on import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from curriculum.rules.levels import VERSION as CURRICULUM
from exports.formats import (
    atif,
    conversational,
    curriculum,
    inspect_log,
    openai,
    openenv,
    pictured,
    preference,
    raw,
    tasks,
    tokens,
)
from exports.recipe import KINDS, FormatKind
from exports.record import LeftOut, Record
from exports.rules.leakage import Ground
from exports.rules.pairs import ShapedEpisode
from exports.rules.shaping import Shaped


@dataclass(frozen=True)
class ExportFormat:
    """One format. Exactly one of `of_episode` and `of_task` makes its rows.

    `of_episode` gets one shaped episode, `of_task` all shaped episodes of one task. `features` are the column types of
    a table, None where rows are no table. `tells` is false where rows hold steps and no conversation. `file` is the
    name of the data file where readers look for one, and `container` of the writer where rows do not stand as lines.
    `pictured` is the version of rows with pictures, "" where rows cannot have them.
    """

    kind: FormatKind
    version: str
    features: dict[str, Any] | None = None
    of_episode: Callable[[Record, Shaped, Ground], Iterator[dict[str, Any] | LeftOut]] | None = None
    of_task: Callable[[Sequence[ShapedEpisode], Ground], Iterator[dict[str, Any] | LeftOut]] | None = None
    tells: bool = True
    file: str = ""
    container: Literal["", "inspect"] = ""
    pictured: str = ""
    has_pictures: bool = False

    def with_pictures(self) -> ExportFormat:
        """Return the format with rows that have pictures."""
        features = pictured.features_of(self.features or {})
        return replace(self, version=self.pictured, features=features, has_pictures=True)


FORMATS: dict[str, ExportFormat] = {
    "sft": ExportFormat(
        KINDS["sft"],
        conversational.SFT,
        conversational.SFT_FEATURES,
        of_episode=conversational.sft,
        pictured="awmweb.sft/7",
    ),
    "steps": ExportFormat(
        KINDS["steps"],
        conversational.STEPS,
        conversational.STEPS_FEATURES,
        of_episode=conversational.steps,
        pictured="awmweb.steps/5",
    ),
    "tokens": ExportFormat(KINDS["tokens"], tokens.VERSION, tokens.FEATURES, of_episode=tokens.rows),
    "dpo": ExportFormat(
        KINDS["dpo"], preference.DPO, preference.DPO_FEATURES, of_task=preference.dpo, pictured="awmweb.pref/7"
    ),
    "kto": ExportFormat(
        KINDS["kto"], preference.KTO, preference.KTO_FEATURES, of_task=preference.kto, pictured="awmweb.kto/5"
    ),
    "openai": ExportFormat(KINDS["openai"], openai.VERSION, of_episode=openai.rows),
    "prompts": ExportFormat(
        KINDS["prompts"], tasks.PROMPTS, tasks.PROMPTS_FEATURES, of_episode=tasks.prompts, pictured="awmweb.prompts/2"
    ),
    "curriculum": ExportFormat(
        KINDS["curriculum"], CURRICULUM, curriculum.FEATURES, of_episode=curriculum.rows, tells=False
    ),
    "ask_decision": ExportFormat(
        KINDS["ask_decision"], tasks.ASKING, tasks.ASKING_FEATURES, of_episode=tasks.ask_decision
    ),
    "atif": ExportFormat(KINDS["atif"], atif.VERSION, of_episode=atif.rows),
    "inspect": ExportFormat(KINDS["inspect"], inspect_log.VERSION, of_episode=inspect_log.rows, container="inspect"),
    "openenv": ExportFormat(KINDS["openenv"], openenv.VERSION, of_episode=openenv.rows, file="results.jsonl"),
    "raw": ExportFormat(KINDS["raw"], raw.VERSION, of_episode=raw.rows, tells=False),
}
