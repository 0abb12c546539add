import django.db.models.deletion
from django.db import migrations, models

import people.models


class Migration(migrations.Migration):
    dependencies = [("experts", "0006_calls_of_runs")]

    operations = [
        migrations.CreateModel(
            name="Attachment",
            fields=[
                (
                    "id",
                    people.models.IdField(
                        default=people.models.new_id,
                        editable=False,
                        max_length=40,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("side", models.CharField(choices=[("ask", "Ask"), ("answer", "Answer")], max_length=6)),
                ("uploader_key", models.CharField(max_length=160)),
                ("name", models.CharField(max_length=200)),
                ("media_type", models.CharField(max_length=40)),
                ("size", models.IntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("data", models.BinaryField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "advice",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="files",
                        to="experts.advice",
                    ),
                ),
                (
                    "ask",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="files", to="experts.ask"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("side__in", ["ask", "answer"])), name="attachment_side_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("side", "answer"), ("advice__isnull", True), _connector="OR"),
                        name="advice_has_answer_files",
                    ),
                ],
            },
        ),
    ]
