from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, FloatField, Func, Q, Value
from django.db.models.functions import Cast, Length

# with one letter more: an ask in an arm without an expert
REST = Func(F("strip"), Value("ruweqolafdcn"), Value(""), function="translate")


class Migration(migrations.Migration):
    # built while episodes are written: a project can have millions
    atomic = False
    dependencies = [("episodes", "0018_pictures")]
    operations = [
        AddIndexConcurrently(
            "episode",
            models.Index(
                F("project"),
                Cast(Length("strip") - Length(REST), FloatField()),
                F("created_at"),
                F("id"),
                condition=Q(state__in=("finished", "failed", "cancelled")),
                name="ended_by_actions",
            ),
        ),
        RemoveIndexConcurrently("episode", "ended_by_length"),
    ]
