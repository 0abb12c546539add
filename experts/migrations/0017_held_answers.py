"""An answer of a person is held for a few seconds, in which it can be undone; a desk says how long."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("experts", "0016_standing_answers_without_further_arguments")]
    operations = [
        migrations.AddField("desk", "undo_s", models.IntegerField(blank=True, null=True)),
        migrations.AddField(
            "ask",
            "held",
            models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="experts.advice",
            ),
        ),
        migrations.AddField("ask", "held_until", models.DateTimeField(blank=True, null=True)),
        migrations.AddConstraint(
            "ask",
            models.CheckConstraint(
                condition=Q(held__isnull=True, held_until__isnull=True)
                | Q(held__isnull=False, held_until__isnull=False),
                name="held_answer_has_its_end",
            ),
        ),
        migrations.AddIndex(
            "ask",
            models.Index(fields=["held_until"], condition=Q(held_until__isnull=False), name="asks_held"),
        ),
    ]
