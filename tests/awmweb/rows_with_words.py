"""A row of any model, with a word in each text that it can hold."""

from __future__ import annotations

import datetime

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.utils import timezone

from people.models import IdField, JsonText, new_id

SAID = {
    "episodes.VerifierVersion": {"number": 2},
    "notices.Delivery": {"state": "sent", "ended_at": timezone.now},
    "people.ApiToken": {"scope": "read"},
    "people.Hold": {"subject": "", "released_at": timezone.now},
    "runs.Briefing": {"privilege": "blind", "sources": list},
}
"""What checks of the database ask for in a row."""


class Filler:
    """Makes rows of models, and the rows that they refer to, which have another word."""

    def __init__(self, **known):
        self.known = known
        """Rows by the name of their model, which are referred to."""

    def row(self, model, word, **given):
        """Store a row with a word in each text. The first one of a model is what others refer to."""
        number = model._base_manager.count() + 1
        fields = {**SAID.get(model._meta.label, {}), **given}
        made = {
            field.name: self._value(field, word, number)
            for field in model._meta.concrete_fields
            if field.name not in fields and not isinstance(field, models.AutoField)
        }
        made |= {name: one() if callable(one) else one for name, one in fields.items()}
        (row,) = model._base_manager.bulk_create([model(**made)])
        self.known.setdefault(model.__name__, row)
        return row

    def _value(self, field, word, number):
        if field.is_relation:
            return self._referred(field)
        if isinstance(field, SearchVectorField):
            return None
        if field.choices:
            return field.choices[0][0]
        if isinstance(field, IdField):
            return new_id()
        if isinstance(field, ArrayField):
            return []
        if isinstance(field, JsonText | models.JSONField):
            return {f"{word} {number}": [word]}
        if isinstance(field, models.CharField | models.TextField):
            room = field.max_length or 1000
            return f"{word} {number}"[:room] if room > 12 else field.get_default()
        return self._plain(field, number, word)

    def _plain(self, field, number, word):
        if isinstance(field, models.BinaryField):
            return word.encode()
        if isinstance(field, models.DateTimeField):
            return None if field.null else timezone.now()
        if isinstance(field, models.DurationField):
            return datetime.timedelta()
        if field.null or field.has_default():
            return field.get_default()
        return False if isinstance(field, models.BooleanField) else number

    def _referred(self, field):
        name = field.related_model.__name__
        if name not in self.known and not field.null:
            self.known[name] = self.row(field.related_model, "wombat")
        return self.known.get(name) if not field.null or name in ("Project", "Episode", "Ask") else None
