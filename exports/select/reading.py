"""Reads: the episodes of a snapshot as records, in batches.

Owns three queries per batch: the episodes, their outcomes, their steps. Redacts what a recipe hides (secrets, names of
people) before a rule or a format sees it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, cast

from django.db import connection

from awmclient.nouns.pictures import pictures_of
from awmclient.nouns.sources import source_of
from awmenv.health import Health
from episodes.models import Episode, Fork, Picture, PictureUse, Run
from episodes.stored import outcomes as kept
from episodes.stored.entries import read_all
from episodes.stored.splits import task_key
from exports.record import EpisodeResult, Original, Record, StoredPicture
from exports.rules.redaction import Redactor
from exports.select.selecting import SnapshotEntry
from people.access import opaque
from people.models import Project
from reviews.models import Annotation, Correction

STEPS_PER_BATCH, EPISODES_PER_BATCH = 5_000, 500
TEXT_PER_GROUP = 64 << 10
"""Steps are redacted and parsed in groups of about this many characters: for small steps the overhead of a call costs
more than its work."""
_SAME = ("state", "task_idx", "seed", "training_step", "expert", "origin", "stop_reason", "fault", "assisted")
"""Columns whose values are numbers or awmweb's own words."""
_WRITTEN = (
    *("scenario", "scenario_digest", "environment", "arm", "split"),
    *("policy_kind", "policy_name", "checkpoint", "group_key"),
)
"""Columns that a loop fills with a text."""
_OPAQUE = re.compile(r"person-[0-9a-f]{12}")
_TIMES = ("created_at", "started_at", "ended_at")
_COLUMNS = (
    *_SAME,
    *_WRITTEN,
    "id",
    "run_id",
    "task",
    "final_answer",
    "tools",
    "policy",
    "partial",
    "steps_erased_at",
    *_TIMES,
)
_OF_BRANCHES = ("fork_id", "branch_seq", "knowledge")
IMAGES = "images"
"""The folder of pictures, beside the file of rows."""
# episodes of a run share their tools, so few lists are in use at a time
_TOOLS_KEPT = 256
_STEPS = """
    -- only up to the step that the snapshot names: later steps must not change the dataset
    SELECT s.episode_id, s.body, to_char(s.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') FROM episodes_step s
    -- two arrays, joined by position
    JOIN unnest(%s::text[], %s::int[]) AS wanted(episode_id, last_seq) USING (episode_id)
    WHERE s.seq <= wanted.last_seq AND s.kind <> 'verification' ORDER BY s.episode_id, s.seq
"""
# stored text is ASCII, so its bytes are its characters
_SIZES = "SELECT episode_id, sum(octet_length(body)) FROM episodes_step WHERE episode_id = ANY(%s) GROUP BY episode_id"


def sizes_of(episodes: Sequence[str]) -> dict[str, int]:
    """Return the characters of each episode's steps, which the database knows without reading them."""
    with connection.cursor() as cursor:
        cursor.execute(_SIZES, [list(episodes)])
        return {episode: int(size) for episode, size in cursor.fetchall()}


def batches(entries: Iterable[SnapshotEntry]) -> Iterator[list[SnapshotEntry]]:
    """Cut a snapshot into batches of bounded size."""
    batch: list[SnapshotEntry] = []
    steps = 0
    for entry in entries:
        # an episode of many steps is a batch of its own
        if batch and (steps + entry.last_seq > STEPS_PER_BATCH or len(batch) >= EPISODES_PER_BATCH):
            yield batch
            batch, steps = [], 0
        batch.append(entry)
        steps += entry.last_seq
    if batch:
        yield batch


class Reader:
    """A reader of records of one project. `redactor` removes secrets; without `authors` people have opaque IDs."""

    def __init__(self, project: Project, redactor: Redactor, *, authors: bool) -> None:
        self._project, self._redactor, self._authors = project, redactor, authors
        self._tools: dict[str, list[Any]] = {}

    def read(self, batch: Sequence[SnapshotEntry]) -> list[Record]:
        """Return the records of these entries, in their order; episodes that were deleted since are missing."""
        ids = [entry.episode for entry in batch]
        # named tuples: creating model instances would take a sixth of an export's time
        episodes = Episode.every.filter(pk__in=ids, project=self._project).values_list(
            *_COLUMNS, *_OF_BRANCHES, named=True
        )
        rows = {row.id: row for row in episodes}
        runs = Run.objects.in_bulk({row.run_id for row in rows.values() if row.run_id})
        untouched = {entry.episode for entry in batch if entry.unchanged}
        results = self._results([pk for entry in batch for pk in entry.outcomes], untouched)
        tags = self._tags([pk for entry in batch for pk in entry.tags])
        corrections = Correction.objects.in_bulk([pk for entry in batch for pk in entry.corrections])
        steps, named = self._steps(batch)
        pictures = _stored(named)
        forks = Fork.objects.in_bulk([one.fork for entry in batch for one in entry.forks])
        roots = _roots({row.id: row.fork_id for row in rows.values() if row.fork_id})
        return [
            replace(
                self._record(
                    rows[entry.episode], runs, entry, steps, results, tags, self._corrected(entry, corrections)
                ),
                forks=self._forked(entry, forks),
                pictures=pictures.get(entry.episode, {}),
                compared=entry.compared,
                root=roots.get(entry.episode, ""),
            )
            for entry in batch
            if entry.episode in rows
        ]

    def _steps(self, batch: Sequence[SnapshotEntry]) -> tuple[dict[str, list[dict[str, Any]]], dict[str, set[str]]]:
        """Return the steps by episode, and the digests of pictures that they name."""
        by_episode: dict[str, list[dict[str, Any]]] = {}
        named: dict[str, set[str]] = {}
        with connection.cursor() as cursor:
            cursor.execute(_STEPS, [[entry.episode for entry in batch], [entry.last_seq for entry in batch]])
            for rows in _together(cursor.fetchall()):
                # redacted as text before it is parsed, so that no nested name is missed
                steps = read_all(self._redactor.redact_all([body for _, body, _ in rows]))
                for step, (episode, body, at) in zip(steps, rows, strict=True):
                    if '"blob"' in body:
                        named.setdefault(episode, set()).update(one["blob"] for one in pictures_of(step))
                    if "at" not in step:
                        step["at"] = at.removesuffix(".000000") + "Z"
                    if not self._authors:
                        _hide_author(step, self._project.pk)
                    by_episode.setdefault(episode, []).append(step)
        return by_episode, named

    def _results(self, outcomes: Sequence[int], untouched: Collection[str]) -> dict[str, dict[str, EpisodeResult]]:
        """Return the outcomes by episode and source. One without a check of its own has that of its task."""
        by_episode: dict[str, dict[str, EpisodeResult]] = {}
        columns = ("episode_id", "source", "reward_type", "reward", "details", "health")
        for episode, source, reward_type, reward, details, health in kept.named(outcomes).values_list(*columns):
            # a snapshot from before the repair of a verifier pins the outcome that counted then
            word = "verified" if source in ("verifier", "superseded") else source
            check = Health.from_wire(health)
            is_checked = check is not None and not check.unchecked
            passes = check.passes_unchanged if check is not None and is_checked else episode in untouched
            by_episode.setdefault(episode, {})[word] = EpisodeResult(
                self._redactor.redact(reward_type), reward, word, self._redactor.redact_value(details), passes
            )
        return by_episode

    def _tags(self, tags: Sequence[str]) -> dict[str, dict[int, dict[str, str]]]:
        """Return the labels that people gave questions, by episode, step and label."""
        by_episode: dict[str, dict[int, dict[str, str]]] = {}
        for row in Annotation.objects.filter(pk__in=tags) if tags else ():
            by_episode.setdefault(row.episode_id, {}).setdefault(row.seq or 0, {})[row.label] = row.text
        return by_episode

    def _hidden_tags(self, tags: Mapping[int, dict[str, str]]) -> dict[int, dict[str, str]]:
        return {seq: {label: self._redactor.redact(text) for label, text in said.items()} for seq, said in tags.items()}

    def _corrected(self, entry: SnapshotEntry, corrections: Mapping[str, Correction]) -> list[dict[str, Any]]:
        """Return the corrections of an entry as values, redacted as the recipe says."""
        names = ("seq", "kind", "name", "arguments", "text")
        rows = [
            {name: getattr(corrections[pk], name) for name in names} for pk in entry.corrections if pk in corrections
        ]
        return [self._redactor.redact_value(one) for one in rows]

    def _forked(self, entry: SnapshotEntry, forks: Mapping[str, Fork]) -> list[dict[str, Any]]:
        """Return the forks of an entry as values, their changes redacted as the recipe says."""
        there = [(one, forks[one.fork]) for one in entry.forks if one.fork in forks]
        return [
            {**pinned._asdict(), "seq": fork.seq, "change": self._redactor.redact_value(fork.change)}
            for pinned, fork in there
        ]

    def _hidden_tools(self, tools: Any) -> list[Any]:
        """Return a list of tools without secrets; episodes with the same list share one."""
        if not isinstance(tools, list):
            return []
        text = json.dumps(tools)
        if text not in self._tools:
            # a simple bound: what is still in use is added again
            if len(self._tools) >= _TOOLS_KEPT:
                self._tools.clear()
            self._tools[text] = self._redactor.redact_value(tools)
        return self._tools[text]

    def _record(
        self,
        row: Any,
        runs: dict[str, Run],
        entry: SnapshotEntry,
        steps: dict[str, list[dict[str, Any]]],
        results: dict[str, dict[str, EpisodeResult]],
        tags: dict[str, dict[int, dict[str, str]]],
        corrections: list[dict[str, Any]],
    ) -> Record:
        run = runs.get(row.run_id or "")
        answer = row.final_answer if isinstance(row.final_answer, str) else None
        written = [getattr(row, name) for name in _WRITTEN]
        name, task, final_answer, *written = self._redactor.redact_texts(
            [run.name if run is not None else "", row.task, answer or "", *written]
        )
        return Record(
            id=row.id,
            project=self._project.slug,
            task=task,
            task_key=task_key(row.scenario, row.task_idx, row.task),
            steps=steps.get(row.id, []),
            results=results.get(row.id, {}),
            ruling=entry.ruling,
            verdict=entry.verdict,
            corrections=corrections,
            tools=self._hidden_tools(row.tools),
            run=name,
            run_id=run.pk if run is not None else "",
            policy=self._redactor.redact_value(row.policy) if isinstance(row.policy, dict) else {},
            is_evaluation=run is not None and bool(run.metadata.get("evaluation")),
            is_partial=bool(row.partial),
            is_erased=row.steps_erased_at is not None,
            final_answer=final_answer if answer is not None else None,
            # an imported episode was created long after it ran
            started_at=_stamp(row.started_at or row.created_at),
            ended_at=_stamp(row.ended_at),
            tags=self._hidden_tags(tags.get(row.id, {})),
            branch_seq=row.branch_seq,
            knowledge=row.knowledge,
            original=Original(row.task, row.scenario, row.task_idx, row.scenario_digest),
            **{name: getattr(row, name) for name in _SAME},
            **cast("dict[str, Any]", dict(zip(_WRITTEN, written, strict=True))),
        )


def _stored(named: Mapping[str, set[str]]) -> dict[str, dict[str, StoredPicture]]:
    """Return the pictures that steps name, by episode and digest: those that were uploaded for their episode alone, so
    that a digest in a result brings in none of another one."""
    if not named:
        return {}
    uses = PictureUse.objects.filter(episode__in=list(named), picture__sha256__in=list(set().union(*named.values())))
    columns = ("episode_id", "picture__sha256", "picture__media_type", "picture__size")
    by_episode: dict[str, dict[str, StoredPicture]] = {}
    for episode, digest, media_type, size in uses.values_list(*columns):
        if digest in named[episode]:
            path = f"{IMAGES}/{digest}.{media_type.removeprefix('image/')}"
            by_episode.setdefault(episode, {})[digest] = StoredPicture(path, size)
    return by_episode


def bytes_of(project: Project, path: str) -> bytes | None:
    """Return the bytes of a picture by its path beside the rows; None if its last episode was erased meanwhile."""
    rows = Picture.objects.filter(project=project, sha256=PurePosixPath(path).stem).values_list("data", flat=True)
    data = rows.first()
    return bytes(data) if data is not None else None


def _roots(forks: Mapping[str, str]) -> dict[str, str]:
    """Return the root of each branch, given its fork."""
    roots: dict[str, str] = {}
    level = dict(forks)
    while level:
        parents = dict(Fork.objects.filter(pk__in=level.values()).values_list("pk", "parent_id"))
        roots |= {branch: parents[fork] for branch, fork in level.items() if fork in parents}
        rows = Episode.every.filter(pk__in=parents.values(), fork__isnull=False).values_list("pk", "fork_id")
        above = {pk: str(fork) for pk, fork in rows}
        level = {branch: above[roots[branch]] for branch in level if branch in roots and roots[branch] in above}
    return roots


def _stamp(moment: datetime | None) -> str:
    return moment.isoformat().replace("+00:00", "Z") if moment is not None else ""


def _together(rows: Iterable[tuple[str, str, str]]) -> Iterator[list[tuple[str, str, str]]]:
    """Split steps into groups of bounded text; a group can end within an episode."""
    group: list[tuple[str, str, str]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row[1])
        if size >= TEXT_PER_GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def _hide_author(step: dict[str, Any], project_id: str) -> None:
    advice = {"ask": step.get("advice"), "briefing": step}.get(step["kind"])
    # the name of a model identifies no person
    if isinstance(advice, dict) and advice.get("author") and not source_of(advice).is_model:
        advice["author"] = opaque(project_id, advice["author"])
    for row in (advice.get("decided") if isinstance(advice, dict) else None) or []:
        row["by"] = opaque(project_id, row["by"])
    # awmweb's own loop records an opaque ID; another can write a name
    if (actor := step.get("acted_by")) and _OPAQUE.fullmatch(actor) is None:
        step["acted_by"] = opaque(project_id, actor)
