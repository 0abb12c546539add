"""The formats by name, and the trajectories of a file: file -> `schema.Trajectory`, without writing anything.

A format recognises its rows and reads one; `containers.py` cuts the file into rows.

    found       what a reader returns
    containers  rows of a file
    unpacking   members of a ZIP
    doubled     names that an object repeats
    open_calls  which call a result answers
    messages    chat messages as steps
    own         awmweb's own formats
    chats       lists of chat messages
    calls       lists of actions
    tau2        simulations of tau2-bench
    sessions    sessions of coding agents
    harbor      trials of Harbor
    wire        fields of protobuf, counted before it is parsed
    otlp        spans of OpenTelemetry
    said        messages of a model's span
    trace_calls what spans say of a call
    traces      traces
    settled     a trace as what is stored of it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from awmclient.schema import EpisodeStart, Trajectory
from imports.readers import calls, chats, doubled, harbor, own, sessions, tau2, traces
from imports.readers.containers import rows
from imports.readers.found import NoPictures, PictureSource, RowWithFiles, TrajectoryDraft, UnreadableRow
from imports.readers.unpacking import LINE_MAX
from imports.readers.unpacking import BadFile as BadFile
from people.errors import BadJson, words_of

HEADS = ("eval", "info")
"""Names under which every row of an Inspect log, and of a result file of tau2-bench, has the same head of its file."""
Gather = Callable[[Iterable[Mapping[str, Any]]], Iterator[tuple[str, dict[str, Any]]]]


@dataclass(frozen=True)
class ImportFormat:
    """One format: its name for people, whether a row has it, and its reader. With `gather`, an episode is made of many
    rows of the file."""

    title: str
    knows: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], TrajectoryDraft], Trajectory]
    gather: Gather | None = None


# The order counts for `recognize`: rows of `sft` have messages, too, and `openai` takes any row that has some.
FORMATS: dict[str, ImportFormat] = {
    "raw": ImportFormat("awmweb record", own.knows_record, own.read_record),
    "sft": ImportFormat("awmweb SFT rows", own.knows_sft, own.read_sft),
    "atif": ImportFormat("ATIF v1.0 to v1.8", calls.knows_atif, calls.read_atif),
    "inspect": ImportFormat("Inspect log", chats.knows_inspect, chats.read_inspect),
    "openenv": ImportFormat("OpenEnv results.jsonl", chats.knows_openenv, chats.read_openenv),
    "tau_bench": ImportFormat("tau-bench results", chats.knows_tau, chats.read_tau),
    "tau2": ImportFormat("tau2-bench results", tau2.knows_tau2, tau2.read_tau2),
    "swe_agent": ImportFormat("SWE-agent .traj", calls.knows_swe, calls.read_swe),
    "awm": ImportFormat("AWM trajectory.json", calls.knows_awm, calls.read_awm),
    "harbor": ImportFormat("Harbor trials", harbor.knows_harbor, harbor.read_harbor),
    "otlp": ImportFormat("OTLP traces", traces.knows_otlp, traces.read_otlp, traces.gather_otlp),
    "claude-code": ImportFormat(
        "Claude Code session", sessions.knows_claude, sessions.read_claude, sessions.gather_session
    ),
    "codex": ImportFormat("Codex session", sessions.knows_codex, sessions.read_codex, sessions.gather_session),
    "openai": ImportFormat("OpenAI-style messages", chats.knows_openai, chats.read_openai),
}


@dataclass(frozen=True)
class FoundTrajectory:
    """One row of a file: its trajectory with the start of its episode and the losses, or the reason for its refusal.

    `digest` is that of the original row, so that it stays the same when a reader supports more fields; the episode's
    key contains it. `behind` counts the bytes of the file that were read.

    """

    place: str
    behind: int
    format: str = ""
    trajectory: Trajectory | None = None
    start: EpisodeStart | None = None
    digest: str = ""
    lost: Mapping[str, int] = field(default_factory=dict)
    refusal: str = ""


def read(path: Path, format_name: str = "", pictures: PictureSource | None = None) -> Iterator[FoundTrajectory]:
    """Yield every row of a file. Without `format_name` the first row that a format recognizes decides for all, and
    without `pictures` those in the rows count as lost.

    Raises:
        BadFile: no row can be read at all.

    """
    name = format_name
    file_rows, digests = rows(path), RowDigests()
    pictures = pictures or NoPictures()
    for place, value, behind, dropped in file_rows:
        if isinstance(value, UnreadableRow):
            yield FoundTrajectory(place, behind, refusal=str(value))
        elif not isinstance(value, dict):
            yield FoundTrajectory(place, behind, refusal="It is not a JSON object.")
        elif not (name := name or recognize(value)):
            yield FoundTrajectory(place, behind, refusal=f"Unknown format. Use one of {', '.join(FORMATS)}.")
        elif FORMATS[name].gather is not None:
            yield from _read_gathered(name, chain([(place, value, behind, dropped)], file_rows), pictures)
        elif not FORMATS[name].knows(value):
            yield FoundTrajectory(place, behind, name, refusal=f"It is not {FORMATS[name].title}.")
        else:
            yield _read_known(name, place, value, behind, dropped, digests, pictures)


def recognize(row: Mapping[str, Any]) -> str:
    """Return the name of the format that recognizes this row, or ""."""
    return next((name for name, one in FORMATS.items() if one.knows(row)), "")


class RowDigests:
    """Digests of the rows of one file. A head that all rows share is written once: it can be as large as the file."""

    def __init__(self) -> None:
        self._head: Any = None
        self._begun = hashlib.sha256()

    def of(self, row: Mapping[str, Any]) -> str:
        """Return the digest of a row. Names are sorted: a row whose names come in another order is the same episode."""
        head = next((name for name in HEADS if name in row), None)
        if head is None or head != min(row):
            return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
        if row[head] is not self._head:
            begun = json.dumps({head: row[head]}, sort_keys=True)
            self._head, self._begun = row[head], hashlib.sha256(begun[:-1].encode())
        rest = json.dumps({name: value for name, value in row.items() if name != head}, sort_keys=True)
        whole = self._begun.copy()
        # what a writer puts between two names
        whole.update(f", {rest[1:]}".encode() if len(row) > 1 else b"}")
        return whole.hexdigest()


def _read_gathered(
    name: str, file_rows: Iterable[tuple[str, Any, int, int]], pictures: PictureSource
) -> Iterator[FoundTrajectory]:
    """Read a file whose rows together are one episode or several. An unreadable row refuses the file; all rows stay in
    memory, so the file is bounded like one row."""
    how = FORMATS[name]
    kept: list[Mapping[str, Any]] = []
    last = lost = refused = 0
    for place, value, behind, dropped in file_rows:
        last, lost = behind, lost + dropped
        if behind > LINE_MAX:
            raise BadFile(f"A file of {how.title} has at most {LINE_MAX // 1024**2} MB.")
        if isinstance(value, UnreadableRow) or not isinstance(value, dict):
            why = str(value) if isinstance(value, UnreadableRow) else "It is not a JSON object."
            refused += 1
            yield FoundTrajectory(place, behind, name, refusal=why)
        elif not kept and not how.knows(value):
            refused += 1
            yield FoundTrajectory(place, behind, name, refusal=f"It is not {how.title}.")
        else:
            kept.append(value)
    if kept and not refused and how.gather is not None:
        try:
            for place, row in how.gather(kept):
                yield _read_known(name, place, row, last, lost, RowDigests(), pictures)
                lost = 0
        except BadJson as error:
            yield FoundTrajectory("file", last, name, refusal=error.message)


def _read_known(
    name: str,
    place: str,
    row: dict[str, Any],
    behind: int,
    dropped: int,
    digests: RowDigests,
    pictures: PictureSource,
) -> FoundTrajectory:
    draft = TrajectoryDraft(pictures=pictures, beside=row.beside if isinstance(row, RowWithFiles) else None)
    draft.lose(doubled.LOST, dropped)
    try:
        trajectory = FORMATS[name].read(row, draft)
        digest = digests.of(row)
        start = start_of(trajectory, f"import/{digest}")
    except UnreadableRow as error:
        return FoundTrajectory(place, behind, name, refusal=str(error))
    except ValidationError as error:
        return FoundTrajectory(place, behind, name, refusal=first_words(error))
    return FoundTrajectory(place, behind, name, trajectory, start, digest, dict(draft.lost))


def start_of(trajectory: Trajectory, key: str) -> EpisodeStart:
    """Return the start of the episode for a trajectory, within the bounds of every episode. Its tools were checked when
    they were read."""
    same = ("task", "scenario", "task_idx", "scenario_digest", "environment", "arm", "seed", "split", "policy")
    more = ("training_step", "checkpoint", "group_key", "expert")
    values = {name: getattr(trajectory, name) for name in (*same, *more)}
    start = EpisodeStart.model_validate(
        {"key": key, **{name: value for name, value in values.items() if value not in (None, "")}}
    )
    start.tools = trajectory.tools
    return start


def first_words(error: ValidationError) -> str:
    """Return the type checker's first message without the value, which is untrusted text."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(str(part)[:60] for part in first['loc'])}: {words_of(first)}"[:500]
