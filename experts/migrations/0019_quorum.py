"""Approvals that need several people: how many, of which role, what they decided, and the project's rules."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experts", "0018_options_of_calls")]
    operations = [
        migrations.AddField("ask", "quorum_of", models.SmallIntegerField(db_default=1, default=1)),
        migrations.AddField(
            "ask", "quorum_role", models.CharField(blank=True, db_default="", default="", max_length=12)
        ),
        migrations.AddField("desk", "quorum", models.TextField(blank=True, db_default="", default="")),
        migrations.CreateModel(
            "QuorumDecision",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("author", models.CharField(max_length=160)),
                ("author_key", models.CharField(max_length=160)),
                (
                    "verdict",
                    models.CharField(
                        choices=[("approve", "approve"), ("edit", "edit"), ("reject", "reject")], max_length=7
                    ),
                ),
                ("calls_digest", models.CharField(max_length=64)),
                ("counts", models.BooleanField(default=True)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "advice",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="experts.advice"
                    ),
                ),
                (
                    "ask",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="decisions", to="experts.ask"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("counts", True)),
                        fields=("ask", "author_key"),
                        name="one_counted_decision_per_person",
                    )
                ]
            },
        ),
    ]
