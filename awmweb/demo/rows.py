"""The rows of the recorded demo: which they are, and how they become lines of a file and rows again.

Owns the file's form: one line about the recording, then one for each row with its model and its fields. A loaded row
gets an ID of its own, and times that end now. Like a restored backup, rows are stored as they were recorded: the rules
of the apps were asked at the recording.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.models import AutoField, Model
from django.utils import timezone

from people.models import IdField, Project, new_id

FILE = Path(__file__).with_name("recorded.jsonl.xz")
ARMS, TRAINING = "demo/arms", "demo/training"
KEYS = (ARMS, TRAINING)
"""The keys of its runs."""
QUEUE = "demo: check the verifier"
TABLES = {
    "episodes.Run": "key__in",
    "runs.Plan": "run__key__in",
    "runs.Arm": "plan__run__key__in",
    "episodes.Episode": "run__key__in",
    "episodes.Step": "episode__run__key__in",
    "episodes.VerifierOutcome": "episode__run__key__in",
    "episodes.EpisodeEvent": "episode__run__key__in",
    "runs.PlannedTry": "plan__run__key__in",
    "runs.ShapedReward": "episode__run__key__in",
    "experts.Ask": "episode__run__key__in",
    "experts.Advice": "ask__episode__run__key__in",
    "experts.Assignment": "ask__episode__run__key__in",
    "experts.AskEvent": "ask__episode__run__key__in",
    "curriculum.TrainingStep": "run__key__in",
    "curriculum.LevelOpened": "run__key__in",
    "reviews.ReviewQueue": "reviews__episode__run__key__in",
    "reviews.Review": "episode__run__key__in",
    "reviews.ReviewSlot": "review__episode__run__key__in",
    "reviews.Verdict": "episode__run__key__in",
    "reviews.Disagreement": "verdict__episode__run__key__in",
}
"""Models in the order of loading, each with its way to the key of a run. All other rows are made from these."""
_ID = re.compile(r"(?<![0-9a-z])[0-9a-z]{20}(?![0-9a-z])")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")


def write(project: Project, file: Path, since: datetime, people: Mapping[str, str]) -> int:
    """Write the demo of a project and return the number of rows. `people` has the keys of those who took part, each
    with the key that the file has for it."""
    ids, lines = [project.pk], []
    for label, path in TABLES.items():
        for row in apps.get_model(label)._default_manager.filter(**{path: KEYS}).order_by("pk").distinct():
            if isinstance(row._meta.pk, IdField):
                ids.append(row.pk)
            fields = {field.attname: field.value_from_object(row) for field in row._meta.concrete_fields}
            lines.append(json.dumps([label, fields], default=datetime.isoformat, sort_keys=True))
    about = {"since": since.isoformat(), "until": timezone.now().isoformat(), "ids": ids}
    text = "\n".join([json.dumps(about), *lines])
    for key, name in people.items():
        text = text.replace(f'"{key}"', f'"{name}"')
    file.write_bytes(lzma.compress(text.encode(), preset=9))
    return len(lines)


def insert(project: Project, file: Path = FILE) -> dict[str, int]:
    """Store the rows of the file in a project, in the caller's transaction; return how many there are of each model."""
    head, _, text = lzma.decompress(file.read_bytes()).decode().partition("\n")
    stored: dict[str, int] = {}
    numbers: dict[str, dict[int, int]] = {}
    lines = map(json.loads, _moved(project, json.loads(head), text).split("\n"))
    for label, group in groupby(lines, lambda line: str(line[0])):
        model, rows = apps.get_model(label), [fields for _, fields in group]
        if isinstance(model._meta.pk, AutoField):
            numbers[label] = _number(model, rows)
        for field in model._meta.concrete_fields:
            new_keys = numbers.get(field.related_model._meta.label, {}) if field.related_model else {}
            for row in rows if new_keys else ():
                row[field.attname] = new_keys[row[field.attname]]
        _copy(model, rows)
        stored[label] = len(rows)
    return stored


def _moved(project: Project, about: Mapping[str, Any], text: str) -> str:
    """Return the text with new IDs, and with times of the recording moved so that it ended now."""
    first, *others = about["ids"]
    ids = {first: project.pk} | {one: new_id() for one in others}
    since, until = (datetime.fromisoformat(about[name]) for name in ("since", "until"))
    later = timezone.now() - until

    def moved(match: re.Match[str]) -> str:
        at = datetime.fromisoformat(match[0])
        return (at + later).isoformat().replace("+00:00", "Z") if at >= since else match[0]

    return _TIME.sub(moved, _ID.sub(lambda match: ids.get(match[0], match[0]), text))


def _number(model: type[Model], rows: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Give rows the next numbers of their table; return the new number of each old one."""
    with connection.cursor() as cursor:
        # One query reserves all numbers, and the sequence continues after them.
        sequence = f"SELECT nextval(pg_get_serial_sequence('{model._meta.db_table}', 'id')) FROM generate_series(1, %s)"
        cursor.execute(sequence, [len(rows)])
        made = {row["id"]: number for row, (number,) in zip(rows, cursor.fetchall(), strict=True)}
    for row in rows:
        row["id"] = made[row["id"]]
    return made


def _copy(model: type[Model], rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows without the times of now that `bulk_create` sets. A field that is newer than the file gets its
    default."""
    fields = model._meta.concrete_fields
    columns = ", ".join(f'"{field.column}"' for field in fields)
    with connection.cursor() as cursor, cursor.copy(f"COPY {model._meta.db_table} ({columns}) FROM STDIN") as copy:
        for row in rows:
            values = (field.to_python(row.get(field.attname, field.get_default())) for field in fields)
            prepared = zip(fields, values, strict=True)
            copy.write_row([field.get_db_prep_save(value, connection) for field, value in prepared])


def erase(model: type[Model], keys: Iterable[Any]) -> dict[str, set[Any]]:
    """Delete rows with everything that belongs to them, in the caller's transaction, and return the keys by model.

    Answers and their asks point at each other, which `QuerySet.delete` refuses. The database checks references at the
    commit, so the order does not matter.
    """
    waiting, done = [(model, set(keys))], set[tuple[str, Any]]()
    while waiting:
        of, pks = waiting.pop()
        fresh = {key for key in pks if (of._meta.label, key) not in done}
        if not fresh:
            continue
        done |= {(of._meta.label, key) for key in fresh}
        links: Sequence[Any] = of._meta.get_fields(include_hidden=True)
        for link in links:
            if not link.auto_created or link.concrete or link.many_to_many:
                continue
            child, name = link.related_model, link.field.attname
            pointing = child._base_manager.filter(**{f"{link.field.name}__in": fresh})
            if link.on_delete.__name__ == "SET_NULL":
                pointing.update(**{name: None})
            else:
                waiting.append((child, set(pointing.values_list("pk", flat=True))))
        of._base_manager.filter(pk__in=fresh)._raw_delete("default")
    deleted: dict[str, set[Any]] = {}
    for label, key in done:
        deleted.setdefault(label, set()).add(key)
    return deleted
