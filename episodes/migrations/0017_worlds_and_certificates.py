import people.models
from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    dependencies = [("episodes", "0016_parked")]

    operations = [
        migrations.AddField(
            model_name="episode",
            name="world",
            field=people.models.JsonText(blank=True, default=dict),
        ),
        migrations.CreateModel(
            name="Certificate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("scenario", models.CharField(max_length=200)),
                ("task_idx", models.IntegerField(null=True)),
                ("source", models.CharField(choices=[("episode", "Episode"), ("oracle", "Oracle")], max_length=8)),
                (
                    "grade",
                    models.CharField(
                        choices=[("exact", "Exact"), ("content", "Same rows"), ("refused", "Differs")], max_length=8
                    ),
                ),
                ("calls", models.IntegerField()),
                ("checked", models.IntegerField()),
                ("difference", models.TextField(blank=True)),
                ("differs_at", models.IntegerField(null=True)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "episode",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="certificates",
                        to="episodes.episode",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["scenario", "task_idx", "-at"], name="certificates_of_task")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("grade__in", ["exact", "content", "refused"])),
                        name="certificate_grade_known",
                    )
                ],
            },
        ),
    ]
