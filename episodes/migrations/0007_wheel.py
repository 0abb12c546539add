import django.db.models.deletion
from django.db import migrations, models

import people.models


class Migration(migrations.Migration):
    dependencies = [
        ("episodes", "0006_fork_correction"),
    ]

    operations = [
        migrations.AddField(
            model_name="episode",
            name="assisted",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="episode",
            name="limits",
            field=people.models.JsonText(
                blank=True, db_default=models.Value("{}", output_field=models.TextField()), default=dict
            ),
        ),
        migrations.AddField(
            model_name="episode",
            name="steered",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name="Wheel",
            fields=[
                (
                    "episode",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="wheel",
                        serialize=False,
                        to="episodes.episode",
                    ),
                ),
                ("holder", models.CharField(blank=True, max_length=160)),
                ("holder_name", models.CharField(blank=True, max_length=160)),
                ("lease_token", models.CharField(blank=True, max_length=64)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("taken_at", models.DateTimeField(blank=True, null=True)),
                ("used_at", models.DateTimeField(blank=True, null=True)),
                ("acted", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="WheelOrder",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("nonce", models.CharField(max_length=200)),
                ("said", people.models.JsonText()),
                ("author", models.CharField(max_length=160)),
                ("author_key", models.CharField(max_length=160)),
                ("acted_by", models.CharField(max_length=40)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "episode",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="orders",
                        to="episodes.episode",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("episode", "nonce"), name="wheel_order_once")],
            },
        ),
    ]
