"""Asks from before earlier answers were looked for get the marks by which they are found; the rule of `similar.py` as it
was then."""

import re
import zlib

from django.db import migrations

AT_ONCE = 1000


def mark(kind, value):
    return zlib.crc32(repr((kind, value)).encode()) - 2**31


def marks_of(question, scenario, task_idx, task):
    words = re.findall(r"\w+", question.casefold())
    pairs = zip(["", *words], words, strict=False) if len(words) < 3 else zip(words, words[1:], strict=False)
    places = [mark("task", (scenario, task_idx) if scenario and task_idx is not None else task)]
    places += [mark("scenario", scenario)] if scenario else []
    return [*places, *sorted({mark("words", pair) for pair in pairs})[:6]]


def fill(apps, schema_editor):
    asks = apps.get_model("experts", "Ask").objects.filter(marks=[]).select_related("episode").order_by("pk")
    asks = asks.only("question", "episode__scenario", "episode__task_idx", "episode__task")
    last = ""
    while some := list(asks.filter(pk__gt=last)[:AT_ONCE]):
        for ask in some:
            ask.marks = marks_of(ask.question, ask.episode.scenario, ask.episode.task_idx, ask.episode.task)
        asks.model.objects.bulk_update(some, ["marks"])
        last = some[-1].pk


class Migration(migrations.Migration):
    dependencies = [("experts", "0009_earlier_answers")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
