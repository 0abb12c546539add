"""Writes: take the names of an account's personal tokens out of rows, and out of the tokens.

Tokens sign what they do with their name. It is a word of the person, unlike the person's own name, which stays.
"""

from __future__ import annotations

import functools
from collections import Counter

from django.apps import apps
from django.contrib.auth.models import User
from django.db.models import CharField, Model, Q, Value
from django.db.models.functions import Replace

from awmweb.erasing.names import NAMELESS, SIGNS, AccountNames, signatures_of
from awmweb.erasing.written import KEYED, QUOTED, SIGNED, WORD
from people.models import ApiToken, AuditEntry, Project

LABEL = "{}: names of tokens"


def erase(project: Project, user: User, names: AccountNames, counts: Counter[str]) -> None:
    """1. in rows with the key of a token, 2. in rows that have its name alone, 3. in quotations, 4. in the tokens."""
    tokens = ApiToken.objects.filter(project=project, issued_by=user, personal=True)
    keys = [f"token:{pk}" for pk in tokens.values_list("pk", flat=True)]
    alone = [name for name in names.own if name in names.tokens]
    for model, of in [*KEYED, *((model, "holder") for model in _signed() if "holder_name" in _signed()[model])]:
        key, name = ("holder", "holder_name") if of == "holder" else (f"{of}_key", of)
        _rename(model, name, Q(**{f"{key}__in": keys}), counts)
    for model, fields in _signed().items():
        for name in fields if alone else ():
            _rename(model, name, Q(**{f"{name}__in": alone, _way(model): project}), counts)
    for name in alone:
        for model, field, path in QUOTED:
            rows = model._default_manager.filter(**{f"{field}__contains": name, path: project})
            counts[LABEL.format(model._meta.label)] += rows.update(
                **{field: Replace(field, Value(name), Value(NAMELESS))}
            )
    for by, nameless in signatures_of(project, user, names).items():
        rows = AuditEntry.objects.filter(project=project, actor=by)
        counts[LABEL.format("people.AuditEntry")] += rows.update(actor=nameless)
    called = [name for name in tokens.exclude(name=WORD).values_list("name", flat=True) if SIGNS.format(name) in alone]
    about = AuditEntry.objects.filter(project=project, target__in=called)
    counts[LABEL.format("people.AuditEntry")] += about.update(target=WORD)
    counts["people.ApiToken: names"] += tokens.exclude(name=WORD).update(name=WORD)


def _rename(model: type[Model], name: str, rows: Q, counts: Counter[str]) -> None:
    signed = model._base_manager.filter(rows, **{f"{name}__startswith": SIGNS.format("")}).exclude(**{name: NAMELESS})
    counts[LABEL.format(model._meta.label)] += signed.update(**{name: NAMELESS})


@functools.cache
def _signed() -> dict[type[Model], list[str]]:
    """Return the fields that have the name of who did something, by their model."""
    texts = {
        model: [one.name for one in model._meta.concrete_fields if isinstance(one, CharField) and not one.choices]
        for model in apps.get_models()
    }
    return {model: kept for model, names in texts.items() if (kept := [one for one in names if one in SIGNED])}


@functools.cache
def _way(model: type[Model]) -> str:
    """Return the shortest way of references from a model to its project."""
    ways: list[tuple[type[Model], str]] = [(model, "")]
    for of, way in ways:
        if of is Project:
            return way.removesuffix("__")
        links = [one for one in of._meta.concrete_fields if one.is_relation and one.related_model not in dict(ways)]
        ways += [(one.related_model, f"{way}{one.name}__") for one in links]  # type: ignore[misc]
    raise LookupError(f"{model._meta.label} belongs to no project")
