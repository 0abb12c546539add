"""Reads: the rows that a recipe would give, without writing anything.

Owns how many episodes are read: all, if they are few, else the newest of those whose outcome the format can use. The
others give no row, and the database counts them. If all that can give rows were read, the counts are those of a build.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from episodes.models import Episode
from episodes.visible import visibility
from exports.assembly.building import DatasetRow, Walk
from exports.assembly.datasets import format_of
from exports.errors import PatternTooSlow
from exports.recipe import Recipe
from exports.record import Record
from exports.rules.redaction import Redactor
from exports.select import curricula
from exports.select.curricula import TaskReader
from exports.select.ground import ground_for, load
from exports.select.reading import Reader, sizes_of
from exports.select.selecting import SnapshotEntry, entries_of, selected, usable
from people.access import Actor
from people.errors import Invalid

if TYPE_CHECKING:
    from exports.rules.tokenizing import LocalTokenizer

EPISODES, STEPS, ROWS = 60, 2_000, 10
TEXT_MAX, PREVIEW_S, TOGETHER = 16_000_000, 4.0, 5
"""Characters of steps and seconds that a preview reads, and episodes that are read together: the web process waits."""
COUNTED = 100_000
"""Matching episodes are counted up to this number, which is enough for a page."""
TEXT, PIECES = 1_200, 200


@dataclass(frozen=True)
class ShownMessage:
    """One message of a shown row: its role, its text, and whether a trainer learns it."""

    role: str
    text: str
    learned: bool


@dataclass(frozen=True)
class ShownRow:
    """One row as the page draws it: turns if the format holds messages, else its JSON. With a chat template it is text
    in pieces, each with whether a trainer learns it; `problem` says why there is none."""

    episode: str
    turns: list[ShownMessage]
    text: str = ""
    pieces: Sequence[tuple[str, bool]] = ()
    problem: str = ""


@dataclass(frozen=True)
class Preview:
    """The rows of the newest `looked_at` of `usable` episodes: those of the `matching` ones that may give rows, or all
    of them if they are few. `left_out` holds reasons and counts, most frequent first."""

    matching: int
    usable: int
    looked_at: int
    used: int
    rows: int
    left_out: list[tuple[str, int]]
    rows_left_out: list[tuple[str, int]]
    redacted: list[tuple[str, int]]
    shown: list[ShownRow]

    @property
    def is_whole(self) -> bool:
        """Whether a build of these episodes gives just these rows."""
        return self.looked_at == self.usable


def preview(actor: Actor, recipe: Recipe, template: str = "") -> Preview:
    """Return the rows of a recipe for matching episodes, rendered with the chat template of a tokenizer.

    Raises:
        Invalid: a filter has an unknown value.
        BadRecipe: there is no such tokenizer, or its template cannot be used.
        PatternTooSlow: the recipe's patterns take too long on the first episodes.

    """
    name = template or recipe.tokenizer
    # first: an unknown tokenizer is refused before episodes are read
    tokenizer = load(name) if name else None
    entries, looked_at, may_give, matching = _newest(actor, recipe)
    until = time.monotonic() + PREVIEW_S
    redactor = Redactor(recipe, salt=actor.project.pk, until=until)
    reader = curricula.reader_for(actor.project, recipe, redactor)
    format_ = format_of(recipe, any(entry.has_pictures for entry in entries))
    walk = Walk(format_, ground_for(actor.project, recipe))
    timed = _Timed(reader, entries, until)
    rows = list(walk.rows(timed.records()))
    counts, looked_at = walk.counts, timed.read if timed.was_stopped else looked_at
    marks = sum(map(walk.marks_of, rows), Counter[str]())
    return Preview(
        matching=matching,
        usable=may_give,
        looked_at=looked_at,
        used=counts.used,
        rows=counts.rows,
        left_out=counts.left_out.most_common(),
        rows_left_out=counts.rows_left_out.most_common(),
        # a mark that an agent wrote itself is no redaction
        redacted=[one for one in marks.most_common() if redactor.counts[one[0]]],
        shown=[_drawn(row, tokenizer) for row in islice(rows, ROWS)],
    )


class _Timed:
    """The records of a preview, until its time is over; `read` counts the episodes."""

    def __init__(self, reader: Reader | TaskReader, entries: Sequence[SnapshotEntry], until: float) -> None:
        self._reader, self._entries, self._until = reader, entries, until
        self.read, self.was_stopped = 0, False

    def records(self) -> Iterator[Record]:
        for start in range(0, len(self._entries), TOGETHER):
            try:
                batch = self._reader.read(self._entries[start : start + TOGETHER])
            except PatternTooSlow:
                self.was_stopped = True
                # nothing was read, so there is nothing to show
                if not self.read:
                    raise
                return
            for record in batch:
                # at least one episode is shown, however slow it is
                if self.read and time.monotonic() > self._until:
                    self.was_stopped = True
                    return
                self.read += 1
                yield record


def _newest(actor: Actor, recipe: Recipe) -> tuple[list[SnapshotEntry], int, int, int]:
    """Return what is looked at, how many episodes that is, of how many that may give rows, and how many match; of a
    curriculum, all its tasks."""
    if recipe.kind.is_curriculum:
        # weights and rates of tasks reveal outcomes
        visibility.refuse_while_blind(actor)
        tasks = list(curricula.entries(actor.project, recipe))
        return tasks, len(tasks), len(tasks), len(tasks)
    matching = selected(actor, recipe)
    rows, everything = matching, _count(matching)
    chosen = _first(rows)
    # not all can be read, so only those that may give rows are
    if len(chosen) < everything:
        rows = usable(matching, recipe)
        chosen = _first(rows)
    # from `matching`: the join of `usable` with outcomes can repeat episodes
    entries = list(entries_of(actor.project, recipe, matching.filter(pk__in=chosen)))
    return entries, len(chosen), everything if rows is matching else _count(rows), everything


def _first(rows: QuerySet[Episode]) -> list[str]:
    """Return the newest episodes, as many as a page can read. Raises `Invalid` if the newest alone is too large."""
    # an episode with two outcomes is joined twice
    newest = list(rows.order_by("-created_at").values_list("pk", "last_seq").distinct()[:EPISODES])
    sizes, chosen = sizes_of([pk for pk, _ in newest]), list[str]()
    steps = text = 0
    for pk, last_seq in newest:
        steps, text = steps + last_seq, text + sizes.get(pk, 0)
        # one episode of many steps is still shown, unless its text is too long
        if (chosen and steps > STEPS) or text > TEXT_MAX:
            break
        chosen.append(pk)
    if newest and not chosen:
        raise Invalid(
            f"The newest episode has more than {TEXT_MAX:,} characters, too many for a preview. A build takes it."
        )
    return chosen


def _count(rows: QuerySet[Episode]) -> int:
    # PostgreSQL stops counting at the limit
    return rows.values("pk").distinct()[:COUNTED].count()


def _drawn(row: DatasetRow, tokenizer: LocalTokenizer | None) -> ShownRow:
    if tokenizer is None:
        return _shown(row)
    value = row.value
    if "input_ids" in value:
        pieces = tokenizer.pieces_of_tokens(value["input_ids"], value["labels"])
        return ShownRow(row.episode, [], pieces=_cut_pieces(pieces))
    conversation = _conversation(value)
    if conversation is None:
        return replace(_shown(row), problem="Rows of this format are not rendered with chat templates.")
    messages, losses = conversation
    # `openenv` has its tools in `extra`
    tools = value.get("tools") or value.get("extra", {}).get("tools") or []
    thoughts = value.get("reasoning_loss")
    rendered = tokenizer.pieces(
        [_with_objects(one) for one in messages], tools, losses, thoughts if isinstance(thoughts, list) else None
    )
    if rendered is None:
        return replace(_shown(row), problem="The chat template does not mark each turn of the assistant once.")
    return ShownRow(row.episode, [], pieces=_cut_pieces(rendered))


def _conversation(value: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[int]] | None:
    """Return the messages that a trainer would render, with their loss; for a pair, the chosen side."""
    # a sample of Inspect has scores, and messages of another form
    if "messages" in value and "scores" not in value:
        return value["messages"], _losses(value)
    if "prompt" in value:
        turn = value.get("completion") or value.get("chosen") or []
        return [*value["prompt"], *turn], [0] * len(value["prompt"]) + [1] * len(turn)
    return None


def _with_objects(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message with arguments as objects, as templates expect them."""
    calls = [{**call, "function": _with_object(call["function"])} for call in message.get("tool_calls") or ()]
    words = {**message, "content": _words(message["content"])}
    return {**words, "tool_calls": calls} if calls else words


def _with_object(function: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = function["arguments"]
    # `openai` has arguments as text, which several templates would encode again
    return {**function, "arguments": json.loads(arguments)} if isinstance(arguments, str) else function


def _cut_pieces(pieces: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return the pieces, long ones cut, and only the first pieces of a very long row."""
    return [(_cut(text), learned) for text, learned in pieces[:PIECES]]


def _shown(row: DatasetRow) -> ShownRow:
    value = row.value
    if "messages" in value:
        return ShownRow(row.episode, _turns(value["messages"], _losses(value)))
    if "agent" in value:
        return ShownRow(row.episode, [turn for step in value["steps"] for turn in _of_step(step)])
    if "prompt" in value:
        prompt = value["prompt"]
        turns = _turns(prompt, [0] * len(prompt))
        for name in ("completion", "chosen", "rejected"):
            label = {"chosen": "chosen", "rejected": "rejected"}.get(name, "")
            turns += _turns(value.get(name, []), [int(name != "rejected")] * len(value.get(name, [])), label)
        return ShownRow(row.episode, turns)
    return ShownRow(row.episode, [], _cut(json.dumps(value, indent=2, ensure_ascii=False)))


def _losses(value: Mapping[str, Any]) -> list[int]:
    """Return which messages are learned, in whichever field the format stores it."""
    # `openenv` has losses in `extra`, `openai` in weights, `inspect` in metadata
    stated = value.get("loss") or value.get("extra", {}).get("loss")
    if stated:
        return list(stated)
    return [int(one.get("weight", one.get("metadata", {}).get("loss", 0))) for one in value["messages"]]


def _of_step(step: Mapping[str, Any]) -> Iterator[ShownMessage]:
    """Yield the turns of a step of an ATIF trajectory: its text, its calls and their results."""
    calls = [f"{call['function_name']} {_json(call['arguments'])}" for call in step.get("tool_calls", ())]
    text = "\n".join(part for part in (step["message"], *calls) if part)
    yield ShownMessage(step["source"], _cut(text), bool(step["extra"]["awm"]["loss"]))
    for result in step.get("observation", {"results": ()})["results"]:
        yield ShownMessage("tool", _cut(result["content"]), False)


def _turns(messages: Sequence[Mapping[str, Any]], losses: Sequence[int], label: str = "") -> list[ShownMessage]:
    return [
        ShownMessage(label or str(message["role"]), _message_text(message), bool(loss))
        for message, loss in zip(messages, losses, strict=True)
    ]


def _message_text(message: Mapping[str, Any]) -> str:
    calls = [_called(call) for call in message.get("tool_calls", ())]
    return _cut("\n".join(part for part in (_words(message.get("content") or ""), *calls) if part))


def _words(content: str | Sequence[Mapping[str, Any]]) -> str:
    """Return a message's text, with a word for each picture."""
    parts = [{"text": content}] if isinstance(content, str) else content
    return "\n".join(str(part.get("text", "[picture]")) for part in parts)


def _called(call: Mapping[str, Any]) -> str:
    """Return the text of a call in OpenAI's or Inspect's form."""
    function = call["function"] if isinstance(call["function"], Mapping) else {**call, "name": call["function"]}
    return f"{function['name']} {_json(function['arguments'])}"


def _json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[:TEXT]}… {len(text) - TEXT:,} more characters"
