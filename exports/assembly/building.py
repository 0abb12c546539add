"""Turns a snapshot into rows: batch by batch, task by task, each row with the reason it was selected.

Owns the order of rules and formats, the check for repeated rows, and the counts. Reads nothing and writes no file
itself: `reading.py` provides records, `datasets.py` writes rows. The same snapshot and recipe give the same rows.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from episodes.quoting import texts
from exports.formats import ExportFormat, pictured
from exports.record import LeftOut, NoRow, Record, StoredPicture
from exports.rules.leakage import (
    Ground,
    Rule,
    held_out_text,
    reason_against,
    result_of,
    rules_of,
    texts_of,
    verifier_text,
)
from exports.rules.pairs import ShapedEpisode
from exports.rules.redaction import marks_in
from exports.rules.shaping import Shaped, after_branch, shape
from exports.writers import jsonl

# all episodes of a task are in memory together
LARGEST_TASK = 2_000
"""Episodes of one task that are compared with each other. Further ones are left out and counted."""
_QUOTABLE = (
    *("steps", "final_answer", "tools", "policy"),
    *("run", "arm", "checkpoint", "group_key", "policy_kind", "policy_name", "environment", "split"),
)
"""Fields that can quote a verifier. Formats that report have them without its words."""


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """One row: its line, the record it comes from, and a key that stays when its content changes."""

    value: dict[str, Any]
    line: bytes
    episode: str
    key: str
    digest: str
    pictures: Sequence[StoredPicture] = ()


@dataclass
class BuildCounts:
    """Counts of one walk: episodes, rows, and what was left out, by reason.

    `excluded` holds the reason of each episode that gave no row.

    """

    episodes: int = 0
    used: int = 0
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    rows_left_out: Counter[str] = field(default_factory=Counter)
    excluded: list[tuple[str, str]] = field(default_factory=list)

    def leave_out(self, record: Record, reason: str) -> None:
        self.left_out[reason] += 1
        self.excluded.append((record.id, reason))


class Walk:
    """The rows of one recipe. `seen` holds the digests of rows in earlier parts."""

    def __init__(self, format_: ExportFormat, ground: Ground) -> None:
        self.format, self.ground = format_, ground
        self.counts = BuildCounts()
        self.seen: set[int] = set()
        # an episode and its branches are of one task, so they are in one part
        self._roots: set[str] = set()
        self._rules = _rules(format_, ground)

    def rows(self, records: Iterable[Record]) -> Iterator[DatasetRow]:
        """Yield the rows of these records. Records of one task must come together."""
        if self.format.of_task is None:
            for record in records:
                yield from self._of_episode(record)
            return
        # `groupby` joins neighbors only; the snapshot is in the order of tasks
        for _, group in groupby(records, key=lambda record: record.task_key):
            yield from self._of_task(list(group))

    def marks_of(self, row: DatasetRow) -> Counter[str]:
        """Return how many places of a row are redacted, by kind, also where its text is there as token IDs."""
        marks = marks_in(row.line)
        if self.ground.tokenizer is not None and "input_ids" in row.value:
            marks += marks_in(self.ground.tokenizer.text_of(row.value["input_ids"]).encode())
        return marks

    def _of_episode(self, record: Record) -> Iterator[DatasetRow]:
        passed = self._shaped(record)
        if passed is None:
            return
        record, shaped = passed
        root = record.root or record.id
        if root in self._roots:
            self.counts.leave_out(record, "one_per_root")
            return
        assert self.format.of_episode is not None
        # compared below: an episode whose rows all repeat others is a duplicate
        repeats, why = self.counts.rows_left_out["duplicate"], "no_row"
        try:
            made = list(self._kept(self.format.of_episode(record, shaped, self.ground), lambda _row: record.id))
        except NoRow as reason:
            made, why = [], f"no_row: {reason}"
        if made and "branches" in self.ground.recipe.include:
            self._roots.add(root)
        self._note(record, bool(made), "duplicate" if self.counts.rows_left_out["duplicate"] > repeats else why)
        yield from made

    def _of_task(self, records: Sequence[Record]) -> Iterator[DatasetRow]:
        episodes: list[ShapedEpisode] = []
        for record in records:
            passed = self._shaped(record)
            if passed is not None and len(episodes) >= LARGEST_TASK:
                self.counts.leave_out(record, "too_many_of_task")
            elif passed is not None:
                _, shaped = passed
                result = result_of(record, self.ground)
                is_complete = result is not None and result.is_complete
                # the bad side, though the verifier found it complete
                is_rejected = is_complete and record.verdict == "reject"
                episodes.append(ShapedEpisode(record, shaped, is_complete and not is_rejected, is_rejected))
        assert self.format.of_task is not None
        made = list(self._kept(self.format.of_task(episodes, self.ground), lambda row: str(row["episode_id"])))
        # a pair uses both of its episodes
        used = {row.episode for row in made} | {str(row.value.get("rejected_episode_id", "")) for row in made}
        for episode in episodes:
            self._note(episode.record, episode.record.id in used, "no_row")
        yield from made

    def _quoted(self, record: Record, shaped: Shaped) -> str:
        turns, messages = [line.said for line in shaped.lines], shaped.messages
        reason = verifier_text(record, turns, messages, self.ground.verifier_of(record))
        return reason or held_out_text(record, texts_of(messages), self.ground.tasks) or ""

    def _mark(self, record: Record) -> str:
        """Return the rule that a report's texts break: also a note, which no conversation has."""
        return held_out_text(record, texts([record.steps, record.final_answer]), self.ground.tasks) or ""

    def _unquoted(self, record: Record) -> Record:
        """Return the record without words of its verifier, and with the mark that it had some."""
        verifier = self.ground.verifier_of(record)
        written = [record.steps, record.final_answer, list(record.beside)]
        if not verifier or not verifier.may_be_in(jsonl.text(written).decode()):
            return record
        if not any(True for part in (*record.steps, *written[1:]) for _ in verifier.pieces_in(part)):
            return record
        messages = [one.message for one in record.said]
        quoted = verifier_text(record, record.said, messages, verifier) or ""
        if not quoted and not verifier.quotation_in([record.steps, record.final_answer]):
            return record
        cleaned = {name: verifier.without(getattr(record, name)) for name in _QUOTABLE}
        # a loop writes the type of an outcome that it reports itself
        results = {
            word: replace(outcome, reward_type=verifier.without(outcome.reward_type))
            for word, outcome in record.results.items()
        }
        return replace(record, **cleaned, results=results, not_for_training=quoted)

    def _shaped(self, record: Record) -> tuple[Record, Shaped] | None:
        """Return a record with its lines, unless a rule keeps it out. A format that reports keeps and marks it, without
        the words of its verifier."""
        self.counts.episodes += 1
        if self.format.kind.needs == "tasks":
            record = record.before_the_agent()
        reason = reason_against(record, self.ground, self._rules)
        shaped, recipe, reports = Shaped(), self.ground.recipe, not self.format.kind.trains
        # the reason becomes a mark, and the episode stays
        if reports:
            record = self._unquoted(record)
            reason = reason or record.not_for_training or self._mark(record)
            record.not_for_training, reason = reason, None
        if reason is None and self.format.tells:
            ungrounded = "ungrounded" in recipe.include
            choice = recipe.reasoning_choice
            is_prompt = self.format.kind.needs == "tasks"
            holds_all = reports or is_prompt
            shaped = shape(record, recipe.advice, keep_ungrounded=ungrounded, reports=holds_all, reasoning=choice)
            shaped = shaped if reports else after_branch(record, shaped)
            reason = shaped.reason or ("" if reports else self._quoted(record, shaped))
        if reason:
            self.counts.leave_out(record, reason)
            return None
        # last: rules read texts
        return record, pictured.with_pictures(record, shaped) if self.format.has_pictures else shaped

    def _note(self, record: Record, is_used: bool, otherwise: str) -> None:
        if is_used:
            self.counts.used += 1
        else:
            self.counts.leave_out(record, otherwise)

    def _kept(
        self, values: Iterable[dict[str, Any] | LeftOut], episode_of: Callable[[dict[str, Any]], str]
    ) -> Iterator[DatasetRow]:
        """Yield the rows with their lines, without rows whose content repeats an earlier row unless the recipe keeps
        those."""
        keep_repeats = "duplicates" in self.ground.recipe.include or not self.format.kind.trains
        for number, value in enumerate(values):
            if isinstance(value, LeftOut):
                self.counts.rows_left_out[value.reason] += 1
                continue
            pictures: Sequence[StoredPicture] = ()
            if self.format.has_pictures:
                value, pictures = pictured.as_row(value, self.format.version)
                size = sum(one.size for one in pictures)
                if self.ground.recipe.parquet and size > pictured.PARQUET_ROW_BYTES:
                    self.counts.rows_left_out["pictures_too_large"] += 1
                    continue
            line = jsonl.line(value)
            # rows of OpenAI have no field for a digest
            digest = _digest(value) or hashlib.sha256(line).hexdigest()
            # 64 bits: among ten million rows, two different ones collide with a chance of 3 in a million
            mark = int(digest[:16], 16)
            if mark in self.seen and not keep_repeats:
                self.counts.rows_left_out["duplicate"] += 1
                continue
            self.seen.add(mark)
            self.counts.rows += 1
            episode = episode_of(value)
            # the step of a turn, or the position of the row
            yield DatasetRow(value, line, episode, f"{episode}/{value.get('seq', number)}", digest, pictures)


def _digest(value: dict[str, Any]) -> str:
    """Return the digest of a row's content. External formats keep awmweb's own fields in one place."""
    holders = (value, value.get("extra"), value.get("metadata"))
    return next(
        (str(one["content_sha256"]) for one in holders if isinstance(one, dict) and "content_sha256" in one), ""
    )


def _rules(format_: ExportFormat, ground: Ground) -> tuple[Rule, ...]:
    # formats that report mark episodes that are not complete
    rules = rules_of(ground.recipe, needs_complete=format_.kind.needs == "complete" or not format_.kind.trains)
    if format_.kind.needs not in ("tasks", "curriculum"):
        return rules
    # a prompt needs no result, so only rules about its task hold
    about_tasks = {"branch", "held_out", "near_held_out", "evaluation", "control_tools", "pictures"}
    return tuple(rule for rule in rules if rule.__name__ in about_tasks)
