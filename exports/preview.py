"""Reads: what a recipe would give, from the newest episodes that match, without writing anything.

Owns how many episodes are looked at. The counts are of those alone and are shown with their number; a build counts all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from exports.building import Row, Walk
from exports.formats import FORMATS
from exports.ground import ground_for
from exports.reading import Reader, batches
from exports.recipe import Recipe
from exports.redaction import Redactor
from exports.selecting import selected, snapshot
from people.access import Actor

EPISODES, STEPS, ROWS = 60, 2_000, 10
COUNTED = 100_000
"""Matching episodes are counted up to here; a page need not know more."""
TEXT = 1_200


@dataclass(frozen=True)
class Turn:
    """One message of a shown row: who speaks, what, and whether a trainer learns it."""

    role: str
    text: str
    learned: bool


@dataclass(frozen=True)
class Shown:
    """One row as the page draws it: turns where the format holds messages, else its JSON."""

    episode: str
    turns: list[Turn]
    text: str = ""


@dataclass(frozen=True)
class Preview:
    """What the newest `looked_at` of `matching` episodes give. `left_out` holds reasons and counts, most first."""

    matching: int
    looked_at: int
    used: int
    rows: int
    left_out: list[tuple[str, int]]
    rows_left_out: list[tuple[str, int]]
    redacted: list[tuple[str, int]]
    shown: list[Shown]

    @property
    def is_whole(self) -> bool:
        return self.looked_at == self.matching


def preview(actor: Actor, recipe: Recipe) -> Preview:
    """Return what the recipe gives for the newest matching episodes. Raises `Invalid` for an unknown filter value."""
    matching = selected(actor, recipe)
    newest = list(matching.order_by("-created_at").values_list("pk", "last_seq").distinct()[:EPISODES])
    chosen: list[str] = []
    steps = 0
    for pk, last_seq in newest:
        steps += last_seq
        if chosen and steps > STEPS:
            break
        chosen.append(pk)
    entries = list(snapshot(matching.filter(pk__in=chosen)))
    redactor = Redactor(recipe, salt=actor.project.pk)
    reader = Reader(actor.project, redactor, authors=recipe.authors)
    walk = Walk(FORMATS[recipe.format], ground_for(actor.project, recipe))
    rows = list(walk.rows(record for batch in batches(entries) for record in reader.read(batch)))
    counts = walk.counts
    return Preview(
        matching=matching.values("pk").distinct()[:COUNTED].count(),
        looked_at=len(chosen),
        used=counts.used,
        rows=counts.rows,
        left_out=counts.left_out.most_common(),
        rows_left_out=counts.rows_left_out.most_common(),
        redacted=redactor.counts.most_common(),
        shown=[_shown(row) for row in islice(rows, ROWS)],
    )


def _shown(row: Row) -> Shown:
    value = row.value
    if "messages" in value:
        return Shown(row.episode, _turns(value["messages"], _losses(value)))
    if "agent" in value:
        return Shown(row.episode, [turn for step in value["steps"] for turn in _of_step(step)])
    if "prompt" in value:
        prompt = value["prompt"]
        turns = _turns(prompt, [0] * len(prompt))
        for name in ("completion", "chosen", "rejected"):
            label = {"chosen": "chosen", "rejected": "rejected"}.get(name, "")
            turns += _turns(value.get(name, []), [int(name != "rejected")] * len(value.get(name, [])), label)
        return Shown(row.episode, turns)
    return Shown(row.episode, [], _cut(json.dumps(value, indent=2, ensure_ascii=False)))


def _losses(value: Mapping[str, Any]) -> list[int]:
    """Which messages are learned, wherever the format says so."""
    stated = value.get("loss") or value.get("extra", {}).get("loss")
    if stated:
        return list(stated)
    return [int(one.get("weight", one.get("metadata", {}).get("loss", 0))) for one in value["messages"]]


def _of_step(step: Mapping[str, Any]) -> Iterator[Turn]:
    """A step of an ATIF trajectory: what was said and called, and what came back."""
    calls = [f"{call['function_name']} {_json(call['arguments'])}" for call in step.get("tool_calls", ())]
    said = "\n".join(part for part in (step["message"], *calls) if part)
    yield Turn(step["source"], _cut(said), bool(step["extra"]["awm"]["loss"]))
    for result in step.get("observation", {"results": ()})["results"]:
        yield Turn("tool", _cut(result["content"]), False)


def _turns(messages: Sequence[Mapping[str, Any]], losses: Sequence[int], label: str = "") -> list[Turn]:
    return [Turn(label or str(one["role"]), _text(one), bool(loss)) for one, loss in zip(messages, losses, strict=True)]


def _text(message: Mapping[str, Any]) -> str:
    calls = [_called(call) for call in message.get("tool_calls", ())]
    return _cut("\n".join(part for part in (str(message.get("content") or ""), *calls) if part))


def _called(call: Mapping[str, Any]) -> str:
    """A call as OpenAI writes it, or as Inspect does."""
    function = call["function"] if isinstance(call["function"], Mapping) else {**call, "name": call["function"]}
    return f"{function['name']} {_json(function['arguments'])}"


def _json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}… {len(text) - TEXT:,} more characters"
