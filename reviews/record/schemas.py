"""Writes: label schemas of a project, in immutable versions; and whether a value fits one.

Called by the labels page, `annotating.py` and `assigning.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeGuard

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from people.access import Actor, is_id, may_set_reviews, scoped
from people.errors import Invalid, NotFound
from people.models import Project
from people.record.audit import record
from reviews.errors import SchemaEnded
from reviews.models import LabelSchema, QueueKind, ReviewQueue, SchemaKind

OPTIONS_MAX = 30
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,59}")


def of_project(project: Project) -> QuerySet[LabelSchema]:
    """Return the current versions."""
    return scoped(LabelSchema.objects.filter(ended_at__isnull=True), project).order_by("created_at", "pk")


def retired(project: Project) -> list[LabelSchema]:
    """Return the last versions of labels without a current one, by title."""
    current = of_project(project).values("name")
    rows = scoped(LabelSchema.objects.exclude(name__in=current), project).order_by("name", "-version").distinct("name")
    return sorted(rows, key=lambda schema: schema.title)


def version_of(project: Project, pk: str) -> LabelSchema:
    """Return a label's current version by its ID. Raises `NotFound`, and `SchemaEnded` once there is a newer one."""
    schema = scoped(LabelSchema.objects.filter(pk=pk), project).first() if is_id(pk) else None
    if schema is None:
        raise NotFound
    if schema.ended_at is not None:
        raise SchemaEnded(ended_words(schema))
    return schema


def ended_words(schema: LabelSchema) -> str:
    """Return why a version that ended takes no label."""
    later = scoped(LabelSchema.objects.filter(name=schema.name, version__gt=schema.version), schema.project)
    why = f"has a newer version than {schema.version}" if later.exists() else "was retired"
    return f"{schema.title} {why}. Nothing was saved."


def retire(actor: Actor, name: str) -> LabelSchema:
    """End a label without a next version. Labels that were set stay and are found; queues that ask for it go on."""
    may_set_reviews(actor)
    with transaction.atomic():
        current = scoped(LabelSchema.objects.filter(name=name, ended_at=None), actor.project)
        schema = current.select_for_update().first() if is_id(name) else None
        if schema is None:
            raise NotFound
        current.update(ended_at=timezone.now())
        record(actor, "label.retired", schema.pk, f"{name}, version {schema.version}")
        return schema


def define(actor: Actor, name: str, title: str, kind: str, options: Sequence[Any]) -> LabelSchema:
    """Add a label schema, or the next version of one; an unchanged definition is the same version."""
    may_set_reviews(actor)
    if not _NAME.fullmatch(name):
        raise Invalid("A label name must be 1 to 60 lowercase letters, digits, - or _, starting with a letter.")
    if kind not in SchemaKind.values:
        raise Invalid(f"Unknown kind: {kind}. Use one of {', '.join(SchemaKind.values)}.")
    title, options = title.strip()[:120] or name, _options(kind, options)
    with transaction.atomic():
        # two definitions at the same moment get consecutive versions
        Project.objects.select_for_update(no_key=True).get(pk=actor.project.pk)
        versions = scoped(LabelSchema.objects.filter(name=name), actor.project).order_by("-version")
        last = versions.first()
        if last is not None and last.ended_at is None:
            if (last.title, last.kind, last.options) == (title, kind, options):
                return last
            versions.filter(pk=last.pk).update(ended_at=timezone.now())
        made = LabelSchema.objects.create(
            project=actor.project,
            name=name,
            version=last.version + 1 if last else 1,
            title=title,
            kind=kind,
            options=options,
            author=actor.name,
        )
        _reach_queues(made)
        record(actor, "label.defined", made.pk, f"{name}, version {made.version}")
        return made


def _reach_queues(made: LabelSchema) -> None:
    """Let open queues ask for a label that they have no version of. Those that have one stay with it: under another
    version two reviewers would answer different questions."""
    versions = LabelSchema.objects.filter(project=made.project_id, name=made.name).values_list("pk", flat=True)
    open_ones = ReviewQueue.objects.filter(project=made.project_id, closed_at=None, kind=QueueKind.VERDICT)
    for queue in open_ones.select_for_update(no_key=True).order_by("pk"):
        if not set(queue.schemas) & {*versions}:
            queue.schemas = [*queue.schemas, made.pk]
            queue.save(update_fields=["schemas"])


def asked_in(project: Project) -> dict[str, list[str]]:
    """Return the names of the open queues that ask for each version of a label, by its ID."""
    queues: dict[str, list[str]] = {}
    open_ones = scoped(ReviewQueue.objects.filter(closed_at=None), project)
    for name, pinned in open_ones.order_by("name").values_list("name", "schemas"):
        for pk in pinned:
            queues.setdefault(pk, []).append(name)
    return queues


def _options(kind: str, options: Sequence[Any]) -> list[dict[str, Any]]:
    """Return options in their stored form; each gets a key from 1 to 9 unless it names one."""
    if kind == SchemaKind.TEXT:
        return []
    if kind == SchemaKind.SCORE:
        low, high = _bounds(options)
        return [{"low": low, "high": high}]
    if not 2 <= len(options) <= OPTIONS_MAX:
        raise Invalid(f"A label needs 2 to {OPTIONS_MAX} options.")
    stored = [_option(one, number) for number, one in enumerate(options, 1)]
    for name in ("value", "key"):
        texts = [one[name] for one in stored if one[name]]
        if len(set(texts)) < len(texts):
            raise Invalid(f"Two options have the same {name}.")
    return stored


def _option(option: Any, number: int) -> dict[str, str]:
    fields = option if isinstance(option, dict) else {"label": option}
    label = str(fields.get("label") or fields.get("value") or "").strip()[:120]
    value = str(fields.get("value") or re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_"))
    # one key of the keyboard for each; from the tenth option on none
    key = str(fields.get("key", number if number < 10 else ""))
    if not _NAME.fullmatch(value) or len(key) > 1:
        raise Invalid(f"Option {number} needs a label with a letter first, and a key of one character.")
    return {"value": value, "label": label or value, "key": key}


def _bounds(options: Sequence[Any]) -> tuple[float, float]:
    bounds = options[0] if options and isinstance(options[0], dict) else {"low": 1, "high": 5}
    low, high = bounds.get("low"), bounds.get("high")
    if not _is_number(low) or not _is_number(high) or not low < high:
        raise Invalid("A score needs a low and a higher high.")
    return low, high


def _is_number(value: Any) -> TypeGuard[float]:
    # true and false are numbers to Python
    return isinstance(value, int | float) and not isinstance(value, bool)


def checked(schema: LabelSchema, value: Any) -> Any:
    """Return the value in its stored form. Raises `Invalid`, which names the values that the schema takes."""
    choices = [one["value"] for one in schema.options if "value" in one]
    if schema.kind == SchemaKind.SINGLE:
        if value not in choices:
            raise Invalid(f"{schema.title} takes one of {', '.join(choices)}.")
        return value
    if schema.kind == SchemaKind.MULTI:
        chosen = value if isinstance(value, list) else []
        if not isinstance(value, list) or any(one not in choices for one in chosen):
            raise Invalid(f"{schema.title} takes a list of {', '.join(choices)}.")
        # in the order of the options, so that equal choices are equal values
        return [one for one in choices if one in chosen]
    if schema.kind == SchemaKind.SCORE:
        low, high = schema.options[0]["low"], schema.options[0]["high"]
        # `True` is an int in Python, and no score
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise Invalid(f"{schema.title} takes a number from {low:g} to {high:g}.")
        return value
    if not isinstance(value, str) or not value.strip():
        raise Invalid(f"{schema.title} takes a text.")
    return value
