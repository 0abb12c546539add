"""What reward profiles pay the episodes of ended runs is stored."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0023_words_not_joined"), ("runs", "0007_probes_health")]

    operations = [
        migrations.AddField(
            model_name="plan",
            name="paid_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.CreateModel(
            name="ShapedReward",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("profile", models.CharField(max_length=40)),
                ("reference", models.FloatField(null=True)),
                ("total", models.FloatField(null=True)),
                ("pattern", models.CharField(blank=True, max_length=40)),
                ("flags", models.JSONField(default=list)),
                ("components", models.JSONField(default=dict)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "episode",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="episodes.episode",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("episode", "profile", "reference"), name="paid_once_by_reference", nulls_distinct=False
                    )
                ],
            },
        ),
    ]
