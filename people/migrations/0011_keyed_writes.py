import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0010_kinds_of_retention_are_registered")]

    operations = [
        migrations.CreateModel(
            name="KeyedWrite",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sender", models.CharField(max_length=160)),
                ("key_digest", models.CharField(max_length=64)),
                ("call", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField(default=0)),
                ("answer", models.TextField(default="")),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="keyed_writes", to="people.project"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "sender", "key_digest"), name="one_call_under_a_key")
                ]
            },
        )
    ]
