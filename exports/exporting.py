"""Writes: select -> rows -> file -> manifest with checksum, counts and reasons.

Owns the walk over the selected episodes, one at a time, so that memory stays flat. Leaves rows to `formats`, refusals
to `leakage`. The same rows of the database give the same bytes: sorted keys, order by episode id, no clock.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from django.db.models import QuerySet

from awmclient.schema import SCHEMA_VERSION, Trajectory
from episodes import trajectory
from episodes.models import Episode
from exports.errors import UnknownFormat
from exports.formats import sft
from exports.leakage import reason_against
from people.access import Actor, may_export, scoped
from people.errors import Invalid

FILTERS = frozenset({"run", "scenario", "task_idx", "arm", "split", "expert", "id", "group_key"})
PARTIAL = "partial"
"""The filter that takes episodes of partial scenarios, too, as `include`; without it they are left out."""


@dataclass(frozen=True)
class Format:
    rows: Callable[[Trajectory], Iterator[dict[str, Any]]]
    features: dict[str, Any]
    version: str


FORMATS = {"sft": Format(sft.rows, sft.FEATURES, sft.SCHEMA_VERSION)}


@dataclass
class Manifest:
    """What an export holds and what it left out, by reason."""

    format: str
    version: str
    filters: dict[str, str]
    features: dict[str, Any]
    episodes: int = 0
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    sha256: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "schema_version": self.version,
            "trajectory_version": SCHEMA_VERSION,
            "filters": dict(sorted(self.filters.items())),
            "episodes": self.episodes,
            "rows": self.rows,
            "left_out": dict(sorted(self.left_out.items())),
            "sha256": self.sha256,
            "features": self.features,
        }


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise UnknownFormat(f"Format must be one of {', '.join(sorted(FORMATS))}.")
    return FORMATS[name]


def selected(actor: Actor, filters: dict[str, str]) -> QuerySet[Episode]:
    """The episodes of this project that have ended and pass the filters, in stable order."""
    may_export(actor)
    known = FILTERS | {PARTIAL}
    unknown = set(filters) - known
    if unknown:
        raise Invalid(f"Unknown filter {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}.")
    if filters.get(PARTIAL, "include") != "include":
        raise Invalid("partial must be include; without it, episodes of partial scenarios are left out.")
    task_idx = filters.get("task_idx", "0")
    if not task_idx.isdecimal() or len(task_idx) > 9:
        raise Invalid("task_idx must be a whole number.")
    rows = Episode.objects.select_related("project").exclude(state__in=("queued", "running", "waiting"))
    wanted = {name: value for name, value in filters.items() if name in FILTERS}
    return scoped(rows, actor.project).filter(**wanted).order_by("pk")


def lines(actor: Actor, name: str, filters: dict[str, str], manifest: Manifest) -> Iterator[bytes]:
    """The export's lines as they are made; `manifest` is complete when the last one is out."""
    shape, digest = format_named(name), hashlib.sha256()
    for episode in selected(actor, filters).iterator(chunk_size=50):
        manifest.episodes += 1
        if episode.partial and PARTIAL not in filters:
            manifest.left_out["partial_scenario"] += 1
            continue
        for row in _rows(shape, trajectory.build(episode), manifest):
            line = json.dumps(row, sort_keys=True, ensure_ascii=True).encode() + b"\n"
            digest.update(line)
            manifest.rows += 1
            yield line
    manifest.sha256 = digest.hexdigest()


def _rows(shape: Format, one: Trajectory, manifest: Manifest) -> list[dict[str, Any]]:
    reason = reason_against(one)
    rows = [_readable(row) for row in shape.rows(one)] if reason is None else []
    if not rows:
        manifest.left_out[reason or "no_conversation"] += 1
    return rows


def _readable(value: Any) -> Any:
    """Lone surrogates are no UTF-8 and U+0000 ends a string for many readers: both become question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\x00", "?")
    if isinstance(value, dict):
        return {_readable(name): _readable(inner) for name, inner in value.items()}
    return [_readable(inner) for inner in value] if isinstance(value, list) else value


def new_manifest(name: str, filters: dict[str, str]) -> Manifest:
    shape = format_named(name)
    return Manifest(name, shape.version, filters, shape.features)


def write(actor: Actor, name: str, filters: dict[str, str], out: BinaryIO) -> Manifest:
    manifest = new_manifest(name, filters)
    for line in lines(actor, name, filters, manifest):
        out.write(line)
    return manifest
